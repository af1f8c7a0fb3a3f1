"""All parts that methods are made of, in one place."""

from fedloom.coding import Coding as Coding
from fedloom.methods.method import Allotment as Allotment
from fedloom.methods.method import Allotting as Allotting
from fedloom.methods.method import Group as Group
from fedloom.methods.method import Grouping as Grouping
from fedloom.methods.method import Local as Local
from fedloom.methods.method import Method as Method
from fedloom.methods.method import Start as Start
from fedloom.methods.method import Waiting as Waiting
from fedloom.mixing.merges import ByRows as ByRows
from fedloom.mixing.merges import CloudByRows as CloudByRows
from fedloom.mixing.merges import CloudLinear as CloudLinear
from fedloom.mixing.merges import Linear as Linear
from fedloom.mixing.merges import Rows as Rows
from fedloom.mixing.merges import WeighCloud as WeighCloud
from fedloom.protocol import Async as Async
from fedloom.protocol import Barrier as Barrier
from fedloom.protocol import Immediate as Immediate
from fedloom.protocol import NoCloud as NoCloud
from fedloom.protocol import Rounds as Rounds
from fedloom.protocol import TimeBox as TimeBox
