"""What goes over the air: codecs that write rows as messages of known length, and read them again."""

from fedloom.coding.bfloat16 import BFloat16
from fedloom.coding.by_name import CODECS, codec
from fedloom.coding.difference import difference, restored
from fedloom.coding.feedback import with_feedback
from fedloom.coding.float16 import Float16
from fedloom.coding.float32 import Float32
from fedloom.coding.gaussian import Gaussian
from fedloom.coding.interface import Codec, Row, checked, floats_from, floats_to, opened
from fedloom.coding.masked import Masked, masked
from fedloom.coding.qsgd import QSGD
from fedloom.coding.randomk import RandomK
from fedloom.coding.sign import Sign
from fedloom.coding.topk import TopK
from fedloom.coding.ways import Coding

__all__ = [
    "CODECS",
    "QSGD",
    "BFloat16",
    "Codec",
    "Coding",
    "Float16",
    "Float32",
    "Gaussian",
    "Masked",
    "RandomK",
    "Row",
    "Sign",
    "TopK",
    "checked",
    "codec",
    "difference",
    "floats_from",
    "floats_to",
    "masked",
    "opened",
    "restored",
    "with_feedback",
]
