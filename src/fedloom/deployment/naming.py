"""Names of nodes and of what they make. Everything that is made is named once and never changes, so that copies do no harm.

cloud, edge-3, device-7    nodes; a station is whoever merges: the cloud itself, an edge server, or a device that heads a cluster
m-12                       a model: made by a station's merge, or by the cloud
u-7-40, s-7-40             what client 7 has trained beginning with its local step 40, and the model it began with
c-7-40, r-7-40             the message that it sends of u-7-40 where models are coded, and what is left over of it
o-7-40                     the client's own states after that job, if the method has a client rule with state
f-2-7                      the feature of client 7 in the second collection
a-3-7                      what client 7 says in the third audit
"""

import re
from dataclasses import dataclass

CLOUD = "cloud"
ROLES = ("cloud", "edge", "device")
_NODE = re.compile(r"cloud|(edge|device)-(0|[1-9][0-9]{0,8})")
_VALUE = re.compile(r"m-[0-9]{1,15}|[uscro]-[0-9]{1,9}-[0-9]{1,15}|[fa]-[0-9]{1,9}-[0-9]{1,9}")


@dataclass(frozen=True)
class Identity:
    """Who speaks, as its certificate says."""

    role: str
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def identity_of(name: str) -> Identity:
    """The node of a name; ValueError if it is none.

    >>> identity_of("edge-3")
    Identity(role='edge', name='edge-3')
    """
    if not _NODE.fullmatch(name):
        raise ValueError(f"a node is called cloud, edge-N or device-N, got {name!r}")
    return Identity(name.split("-")[0], name)


def is_node(name: str) -> bool:
    return _NODE.fullmatch(name) is not None


def device(client: int) -> str:
    return f"device-{client}"


def client_of(node: str) -> int | None:
    """The client that a node trains for; None if it is no device."""
    return int(node.removeprefix("device-")) if node.startswith("device-") else None


def station(kind: str, host: int) -> str:
    """Where an aggregator lives: its topology's kind, and its host there."""
    return {"cloud": CLOUD, "edge": f"edge-{host}", "head": f"device-{host}"}[kind]


def aggregator(station_name: str) -> tuple[str, int]:
    """The kind of the aggregators that live at a station, and their host.

    >>> aggregator("device-7")
    ('head', 7)
    """
    role, number = station_name.split("-")
    return {"edge": "edge", "device": "head"}[role], int(number)


def model(number: int) -> str:
    return f"m-{number}"


def update(client: int, first_step: int) -> str:
    return f"u-{client}-{first_step}"


def begun(update_name: str) -> str:
    """The model that an update began with."""
    return f"s{update_name[1:]}"


def message(update_name: str) -> str:
    """What is sent of an update where it is coded."""
    return f"c{update_name[1:]}"


def left(update_name: str) -> str:
    """What its device keeps of that for its next message."""
    return f"r{update_name[1:]}"


def own(update_name: str) -> str:
    """The states that a client keeps after the job of an update."""
    return f"o{update_name[1:]}"


def feature(collection: int, client: int) -> str:
    return f"f-{collection}-{client}"


def word(audit: int, client: int) -> str:
    """What a client says in an audit."""
    return f"a-{audit}-{client}"


def is_value(name: str) -> bool:
    return _VALUE.fullmatch(name) is not None


def is_model(value: str) -> bool:
    return value.startswith("m-")


def owner(value: str) -> int | None:
    """The client that alone may send a value; None for models."""
    kind, *numbers = value.split("-")
    return None if kind == "m" else int(numbers[1] if kind in "fa" else numbers[0])


def first_step(value: str) -> int:
    """Of an update or the model it began with."""
    return int(value.split("-")[2])
