"""The rules of a federation as machines without clock, I/O, models or random state: fed with events, they answer with actions."""

from fedloom.protocol.asynchronous import Async
from fedloom.protocol.barrier import Barrier
from fedloom.protocol.cloud import Cloud, CloudMode
from fedloom.protocol.device import Device, Devices
from fedloom.protocol.edge import Edge, EdgeMode
from fedloom.protocol.federation import Federation
from fedloom.protocol.flight import Flight
from fedloom.protocol.immediate import Immediate
from fedloom.protocol.no_cloud import NoCloud
from fedloom.protocol.roster import Roster
from fedloom.protocol.rounds import Rounds
from fedloom.protocol.terms import TIE, Attendance, Terms
from fedloom.protocol.time_box import TimeBox

__all__ = [
    "TIE",
    "Async",
    "Attendance",
    "Barrier",
    "Cloud",
    "CloudMode",
    "Device",
    "Devices",
    "Edge",
    "EdgeMode",
    "Federation",
    "Flight",
    "Immediate",
    "NoCloud",
    "Roster",
    "Rounds",
    "Terms",
    "TimeBox",
]
