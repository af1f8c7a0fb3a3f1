"""A network of its own for every node of a deployment on this machine, with links of given rates (Linux, root).

    root --- fl<pid> === up | hub: a bridge | p0 === net | cloud
                                            | p1 === net | device-0, ...

Every node is in a network namespace with one interface, `net`; cables (veth) lead to a bridge in a namespace of its own, and
one to the root namespace, from where the status is asked for. Addresses are of 198.18.0.0/15, which is set apart for benchmarks
and leads nowhere; there are no routes out. A sender's interface has a queue for every receiver with a rate of its own (tc, htb).

Names carry the process that made them and when it began, so that what a killed one has left is known and removed at the next
start; the nodes themselves end with it.
"""

import contextlib
import ctypes
import fcntl
import ipaddress
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Rates = dict[tuple[str, str], float]
PREFIX = "fedloom"
NAMED = Path("/run/netns")
LOCK = Path("/run/fedloom-networks.lock")
RANGE = ipaddress.ip_network("198.18.0.0/15")
EACH = 20  # bits of the prefix of one deployment's addresses: up to 4,000 nodes
PACKET = 1514
MTU = 1500
UNSHAPED_BIT_S = 1e11
CLONE_NEWNET = 0x40000000
_numbers = itertools.count()


class CannotShape(ValueError):
    """There is no way to make networks here; the message says what is missing."""


@dataclass(frozen=True)
class Network:
    """tag: of this deployment; nodes: in the order of their addresses; base: the first address."""

    tag: str
    nodes: tuple[str, ...]
    base: str

    def namespace(self, node: str) -> str:
        return f"{self.tag}-{node}"

    def address(self, node: str) -> str:
        return str(ipaddress.ip_address(self.base) + 2 + self.nodes.index(node))

    @property
    def hub(self) -> str:
        return f"{self.tag}-hub"

    @property
    def outside(self) -> str:
        """The interface in the root namespace."""
        _, pid, _, number = self.tag.split("-")
        return f"fl{pid}x{number}"


@contextlib.contextmanager
def network(nodes: Sequence[str]) -> Iterator[Network]:
    """A network of these nodes, gone when the context is; what killed processes have left is removed first."""
    check_means()
    remove_leftovers()
    with _locked():
        tag = f"{PREFIX}-{os.getpid()}-{_began(os.getpid())}-{next(_numbers)}"
        made = Network(tag, tuple(nodes), _free_base())
        try:
            _make(made)
        except BaseException:
            _remove(made)
            raise
    try:
        yield made
    finally:
        _remove(made)


def enter(namespace: str) -> None:
    """This process, if it has no other threads yet, is in a namespace from now on."""
    with (NAMED / namespace).open() as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter the network namespace {namespace}: {os.strerror(number)}")


class Shaper:
    """Gives links their rates; only what has changed is told."""

    def __init__(self, made: Network) -> None:
        self._network = made
        self._rates: Rates = {}
        self._begun: set[str] = set()  # nodes whose interfaces have queues
        self._known: set[tuple[str, str]] = set()  # links that have a class

    def shape(self, rates: Rates) -> None:
        """Links get these rates, bit/s; those that are not named are not slowed."""
        wanted = {pair: rates.get(pair, UNSHAPED_BIT_S) for pair in {*self._rates, *rates}}
        changed = {pair: rate for pair, rate in wanted.items() if self._rates.get(pair) != rate}
        for sender in sorted({sender for sender, _ in changed}):
            mine = {receiver: rate for (s, receiver), rate in changed.items() if s == sender}
            self._tell(sender, mine)
        self._rates = wanted

    def carried(self) -> dict[str, int]:
        """Bytes that every node has sent so far, with the headers of TLS, TCP, IP and Ethernet."""
        found = {}
        for node in self._network.nodes:
            command = ["ip", "-n", self._network.namespace(node), "-s", "-j", "link", "show", "dev", "net"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[node] = int(json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"])
        return found

    def _tell(self, sender: str, rates: Mapping[str, float]) -> None:
        lines = []
        if sender not in self._begun:
            self._begun.add(sender)
            lines.append("qdisc replace dev net root handle 1: htb")
        for receiver, rate in rates.items():
            number = f"1:{self._network.nodes.index(receiver) + 2:x}"
            lines.append(f"class replace dev net parent 1: classid {number} {htb(rate)}")
            if (sender, receiver) not in self._known:
                self._known.add((sender, receiver))
                where = f"match ip dst {self._network.address(receiver)}/32"
                lines.append(f"filter add dev net parent 1: protocol ip prio 1 u32 {where} flowid {number}")
        _batch("tc", self._network.namespace(sender), lines)


def htb(rate_bit_s: float) -> str:
    """The class of a link of this rate. What may be sent at once is as little as two packets, or a millisecond's worth: more
    would make small models quicker than their link.

    >>> htb(1e6)
    'htb rate 1000000bit burst 3028b cburst 3028b quantum 1514'
    """
    burst = max(2 * PACKET, round(rate_bit_s / 8 / 1000))
    return f"htb rate {max(1000, round(rate_bit_s))}bit burst {burst}b cburst {burst}b quantum {PACKET}"


def check_means() -> None:
    """CannotShape if there is no root, no Linux, or no ip and tc."""
    if not sys.platform.startswith("linux"):
        raise CannotShape(f"networks of their own for nodes are made on Linux, and this is {sys.platform}")
    if os.geteuid() != 0:
        raise CannotShape("only root may make network namespaces; run it with sudo, or without --shape")
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        raise CannotShape(f"{' and '.join(missing)} missing here; as root: apt-get install iproute2 (or: make network)")


def why_not() -> str | None:
    """Why links cannot be shaped here, found out by trying; None if they can."""
    try:
        with network(("a", "b")) as made:
            Shaper(made).shape({("a", "b"): 1e6})
    except (CannotShape, OSError) as error:
        return str(error)
    return None


def remove_leftovers() -> list[str]:
    """Remove the networks of processes that are gone; their tags."""
    gone = sorted(tag for tag in _tags() if not _lives(tag))
    for tag in gone:
        _remove(Network(tag, (), ""))
    return gone


def _make(made: Network) -> None:
    prefix = EACH
    spaces = [made.hub, *(made.namespace(node) for node in made.nodes)]
    _batch("ip", None, [f"netns add {space}" for space in spaces])
    _batch("ip", made.hub, ["link add hub type bridge", "link set hub up", "link set lo up"])
    root = str(ipaddress.ip_address(made.base) + 1)
    _batch(
        "ip",
        None,
        [
            f"link add {made.outside} type veth peer name up netns {made.hub}",
            *(
                f"link add net netns {made.namespace(node)} mtu {MTU} type veth peer name p{i} netns {made.hub}"
                for i, node in enumerate(made.nodes)
            ),
            f"addr add {root}/{prefix} dev {made.outside}",
            f"link set {made.outside} up",
        ],
    )
    ports = ["up", *(f"p{i}" for i in range(len(made.nodes)))]
    _batch("ip", made.hub, [f"link set dev {port} master hub up" for port in ports])
    for node in made.nodes:
        lines = [
            "link set lo up",
            f"addr add {made.address(node)}/{prefix} dev net",
            "link set net gso_max_segs 1",  # one packet at a time, so that rates are kept for small models too
            "link set net up",
        ]
        _batch("ip", made.namespace(node), lines)


def _remove(made: Network) -> None:
    """The cable to the root namespace first, because the kernel takes its time over a namespace and what is in it."""
    names = [path.name for path in sorted(NAMED.glob(f"{made.tag}-*"))] if NAMED.exists() else []
    for words in (["link", "del", made.outside], *(["netns", "del", name] for name in names)):
        subprocess.run(["ip", *words], capture_output=True, check=False)


def _tags() -> set[str]:
    if not NAMED.exists():
        return set()
    parts = (path.name.split("-") for path in NAMED.glob(f"{PREFIX}-*-*-*-*"))
    return {"-".join(part[:4]) for part in parts if all(number.isdigit() for number in part[1:4])}


def _lives(tag: str) -> bool:
    """Whether the process that made it is still there, and not another that got its number."""
    _, pid, began, _ = tag.split("-")
    return _began(int(pid)) == began


def _began(pid: int) -> str | None:
    """When a process began, in ticks since the machine did; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()[19]


def _free_base() -> str:
    """The first address of a range that no interface of the root namespace is in."""
    used = subprocess.run(["ip", "-o", "-4", "addr", "show"], capture_output=True, text=True, check=False).stdout
    taken = {ipaddress.ip_address(w.split("/")[0]) for w in used.split() if w.count(".") == 3 and "/" in w}
    for part in RANGE.subnets(new_prefix=EACH):
        if not any(address in part for address in taken):
            return str(part.network_address)
    raise CannotShape(f"all ranges of {RANGE} are in use here; end other deployments with --shape first")


def _batch(program: str, namespace: str | None, lines: Sequence[str]) -> None:
    """Commands of ip or tc, one a line; OSError with what they say if one does not work."""
    command = [program, *([] if namespace is None else ["-n", namespace]), "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotShape(
            f"{program} could not: {done.stderr.strip()[:300]}; the kernel needs network namespaces, veth, bridge, "
            f"sch_htb and cls_u32, and iproute2 must be of their time"
        )


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
