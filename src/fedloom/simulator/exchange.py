"""What it costs to move one model between clients, aggregators and the cloud, for one topology of one cloud round."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Link, Snapshot
from fedloom.grouping import Topology
from fedloom.simulator.ledger import NOBODY, Bill, Ledger, Shares

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Share = Callable[[Floats, Floats], Floats]

KEPT_SENDERS = 200_000  # of whom something is kept, in all
OF_ENTRY = 200  # senders that an entry counts for besides: the memory of its own

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """What was found for clients that are sent together: mostly the same ones are, round after round. If they are too many, it is
    forgotten and begun anew."""

    def __init__(self) -> None:
        self._found: dict[K, V] = {}
        self._n = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K, n_senders: int, find: Callable[[], V]) -> V:
        if key not in self._found:
            self._n += n_senders + OF_ENTRY
            if self._n > KEPT_SENDERS:
                self._found, self._n = {}, n_senders + OF_ENTRY
            self._found[key] = find()
        return self._found[key]


@dataclass(frozen=True, eq=False)
class Links:
    """The single links of a hop, L of them, sorted by sender: who sends (client, or aggregator), the aggregator the link
    belongs to, whose air it takes (a cell, head or server), seconds on air and joules. Where one transmission serves
    several links, each of them has its seconds, and an equal part of its joules."""

    sender: Ints
    aggregator: Ints
    air: Ints
    seconds: Floats
    joules: Floats
    first: Ints
    """(senders + 1,) where the links of a sender begin."""

    def of(self, who: Ints) -> tuple[Ints, Ints]:
        """Links (l,) of the senders `who` (m,), and to which of these each belongs (l,), 0..m-1."""
        count = self.first[who + 1] - self.first[who]
        owner = np.repeat(np.arange(len(who)), count)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        return self.first[who][owner] + rank, owner

    @cached_property
    def of_sender(self) -> list[list[tuple[int, int, float]]]:
        """Of each sender, its links: aggregator, air, seconds."""
        links = list(zip(self.aggregator.tolist(), self.air.tolist(), self.seconds.tolist()))
        first = self.first.tolist()
        return [links[a:b] for a, b in pairwise(first)]


@dataclass(frozen=True, eq=False)
class Leg:
    """One hop of a way. Per client (or aggregator): links that carry the model, transmissions (fewer than links where
    one is heard by several receivers), seconds on air and joules; and each link by itself. broadcast: an aggregator sends once
    for all who listen, so long that the slowest hears it. once_in (K,): where a client sends once for all its links, the cell in
    whose air it does; the others listen in."""

    hop: str
    links: Ints
    sent: Ints
    seconds: Floats
    joules: Floats
    single: Links | None = None
    broadcast: bool = False
    once_in: Ints | None = None


class Load(NamedTuple):
    """What m senders send of a message where it is not just the whole of it once: `messages` (m,) that are begun; how many times
    the whole of it is on air in all, what is sent again and parts included (m,); and how many times it is relayed (m,)."""

    messages: Ints
    on_air: Floats
    relayed: Floats


@dataclass(frozen=True, eq=False)
class Way:
    """How a model travels for each of a number of clients (or aggregators): seconds until it is there, and the legs."""

    direction: str
    seconds: Floats
    legs: tuple[Leg, ...]
    _kept: Kept[tuple[bytes, int, bool], list[Bill]] = field(default_factory=Kept, init=False, repr=False)

    def book(self, ledger: Ledger, who: Ints, n_bytes: int, a_model: bool = True) -> None:
        """Enter the messages of `who` (m,) into the ledger; those that are no model are not counted as links, and belong to
        no aggregator."""
        ledger.pay(self.bills(who, n_bytes, a_model))

    def bills(self, who: Ints, n_bytes: int, a_model: bool = True) -> list[Bill]:
        """Of every leg that carries something."""
        key = (who.tobytes(), n_bytes, a_model)
        return self._kept.get(key, len(who), lambda: self._bills(who, n_bytes, a_model, _whole(len(who))))

    def bills_of(self, who: Ints, n_bytes: int, load: Load) -> list[Bill]:
        """The same of models that are broken off or sent again. What is broadcast is sent once, whoever hears it."""
        return self._bills(who, n_bytes, True, load)

    def _bills(self, who: Ints, n_bytes: int, a_model: bool, load: Load) -> list[Bill]:
        bill_of = [self._cast_bill if leg.broadcast else self._bill for leg in self.legs]
        bills = [make(leg, who, n_bytes, a_model, load) for make, leg in zip(bill_of, self.legs)]
        return [bill for bill in bills if bill is not None]

    def carried(self, who: Ints) -> NDArray[np.bool_]:
        """(m,) whether anything is sent for `who` (m,): a head needs no link to itself."""
        return np.asarray(self.legs[0].links[who] > 0)

    def wires_s(self, who: Ints) -> Floats:
        """Seconds (m,) of the way that are not on air."""
        return sum((leg.seconds[who] for leg in self.legs if leg.hop == "edge_cloud"), np.zeros(len(who)))

    def _bill(self, leg: Leg, who: Ints, n_bytes: int, a_model: bool, load: Load) -> Bill | None:
        links = leg.links[who] * load.messages
        if not links.any():
            return None
        times = load.relayed if leg.hop == "edge_cloud" else load.on_air
        sent = leg.sent[who] * np.rint(n_bytes * times).astype(np.int64)
        seconds, energy_j = leg.seconds[who] * times, float((leg.joules[who] * times).sum())
        total, airtime_s, shares = int(sent.sum()), float(seconds.sum()), None
        if not a_model:
            nobody = np.array([NOBODY])
            shares = Shares.of(nobody, n_bytes=total, airtime_s=airtime_s, energy_j=energy_j)
        elif leg.single is not None:
            at, owner = leg.single.of(who)
            shares = Shares.of(
                leg.single.aggregator[at],
                n_links=load.messages[owner],
                n_bytes=_parts_of(sent, owner),
                airtime_s=seconds[owner] * _share(leg.single.seconds[at], owner),
                energy_j=leg.single.joules[at] * times[owner],
            )
        return Bill(
            hop=leg.hop,
            direction=self.direction,
            n_links=int(links.sum()) if a_model else 0,
            n_parties=int(np.count_nonzero(links)) if a_model else 0,
            n_bytes=total,
            airtime_s=airtime_s,
            energy_j=energy_j,
            shares=shares,
        )

    def _cast_bill(self, leg: Leg, who: Ints, n_bytes: int, a_model: bool, load: Load) -> Bill | None:
        """Of what each aggregator sends once for those of `who` that listen to it."""
        assert leg.single is not None and a_model
        at, owner = leg.single.of(who)
        sender, which = np.unique(leg.single.aggregator[at], return_inverse=True)
        if not len(sender):
            return None
        seconds, joules = np.zeros(len(sender)), np.zeros(len(sender))
        heard = np.isfinite(leg.single.seconds[at])  # a link that is down is not waited for
        np.maximum.at(seconds, which[heard], leg.single.seconds[at][heard])
        np.maximum.at(joules, which[heard], leg.single.joules[at][heard])
        n_links = np.bincount(which)
        return Bill(
            hop=leg.hop,
            direction=self.direction,
            n_links=len(at),
            n_parties=len(np.unique(owner)),
            n_bytes=len(sender) * n_bytes,
            airtime_s=float(seconds.sum()),
            energy_j=float(joules.sum()),
            shares=Shares.of(sender, n_links=n_links, n_bytes=n_bytes, airtime_s=seconds, energy_j=joules),
        )

    def arrivals(self, who: Ints, ready_s: Floats, share: Share | None) -> Floats:
        """When the messages of `who` (m,) are there that are ready to be sent at ready_s (m,).

        share: what sharing the air makes of messages that are ready at so many seconds and take so many each; it is asked
        for every cell (head, server) by itself, with all that is sent in its air, second and third links included. A
        message is there when its last link is done, and relayed then where it goes on.
        """
        if share is None or not self.legs:
            return np.asarray(ready_s + self.seconds[who])
        near, *relays = self.legs
        assert near.single is not None
        at, owner = near.single.of(who)
        done_s, air = ready_s.copy(), near.single.air[at]
        for cell in np.unique(air):
            here = air == cell
            finish_s = share(ready_s[owner[here]], near.single.seconds[at[here]])
            np.maximum.at(done_s, owner[here], finish_s)
        return np.asarray(sum((leg.seconds[who] for leg in relays), done_s))


def _whole(m: int) -> Load:
    """Of m messages that are sent once, as they are."""
    ones = np.ones(m)
    return Load(np.ones(m, dtype=np.int64), ones, ones)


def _parts_of(total: Ints, owner: Ints) -> Ints:
    """Whole numbers that add up to total (m,) over the links (l,) of each owner, as even as can be."""
    n = np.bincount(owner, minlength=len(total))[owner]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return np.asarray(total[owner] * (rank + 1) // n - total[owner] * rank // n)


def _share(seconds: Floats, owner: Ints) -> Floats:
    """Of each owner's seconds (l,), the part of each of its links, which add up to 1; even if they are all 0."""
    total = np.bincount(owner, weights=seconds)[owner]
    n = np.bincount(owner)[owner]
    return np.where(total > 0, seconds / np.where(total > 0, total, 1.0), 1.0 / n)


@dataclass(frozen=True, eq=False)
class Exchange:
    """Ways of one model: client_down and client_up per client (K,), cloud_down and cloud_up per aggregator (N,).

    A client with several aggregators sends to all of them at once; it is done when the slowest link is.
    """

    client_down: Way
    client_up: Way
    cloud_down: Way
    cloud_up: Way


def exchange(
    snapshot: Snapshot,
    topology: Topology,
    bits: float,
    power_w: Floats | None = None,
    down_bits: float | None = None,
) -> Exchange:
    """Ways for models of `bits` bits. Clients that no aggregator covers cost nothing.

    power_w (N,): with what heads send to the cloud, if not as the link says. down_bits: of models that go down, if not as many.
    """
    size = {"up": bits, "down": bits if down_bits is None else down_bits}
    if power_w is not None and (topology.kind != "head" or snapshot.cloud_via_edge):
        raise ValueError(
            f"powers are chosen for heads that send to the cloud over a link of their own; got aggregators of kind "
            f"{topology.kind} and device_cloud via {'edge' if snapshot.cloud_via_edge else 'direct'}"
        )
    if topology.kind == "cloud":
        everyone = np.arange(topology.cover.shape[1])
        nothing_s = np.zeros(topology.n_aggregators)
        free = Way("up", nothing_s, ()), Way("down", nothing_s, ())
        used, own = np.asarray(topology.cover.any(axis=0)), topology.cover.argmax(axis=0)
        return Exchange(
            _to_cloud(snapshot, everyone, used, size["down"], "down", own),
            _to_cloud(snapshot, everyone, used, size["up"], "up", own),
            free[1],
            free[0],
        )
    edges = np.arange(topology.n_aggregators)
    if topology.kind == "edge":
        hop = "device_edge"
        links = {
            "up": snapshot.edge_up.pick(topology.host),
            "down": snapshot.edge_down.pick(topology.host),
        }
        own = np.zeros_like(topology.cover)
        backhaul = (("down", snapshot.backhaul_down), ("up", snapshot.backhaul_up))
        cloud = [
            _relay(way, "edge_cloud", link.pick(topology.host), np.ones(len(edges), np.bool_), size[way], edges)
            for way, link in backhaul
        ]
    else:
        hop = "device_head"
        down = snapshot.d2d.pick(topology.host)
        nothing = Link(
            fixed_s=np.zeros(down.rate_bit_s.shape), rate_bit_s=np.full(down.rate_bit_s.shape, np.inf), power_w=0.0
        )
        links = {
            "up": snapshot.d2d.back().pick(topology.host),
            "down": nothing if snapshot.head_broadcast_free else down,
        }
        own = topology.host[:, None] == np.arange(topology.cover.shape[1])[None, :]
        used = np.ones(topology.n_aggregators, np.bool_)
        cloud = [_to_cloud(snapshot, topology.host, used, size[d], d, edges) for d in ("down", "up")]
        if power_w is not None:
            sent = snapshot.cloud_up.pick(topology.host).sent_at(power_w)
            cloud[1] = _relay("up", "device_cloud", sent, used, size["up"], edges)
    cover = topology.cover & ~own  # a head needs no link to itself
    once = None
    if snapshot.uplink_once and topology.kind == "edge":
        once = Once(snapshot.uplink_overhead, _one_cell(snapshot.home, cover, topology.host))
    down_way = _way("down", hop, links["down"], cover, size["down"], topology.host)
    if snapshot.air.broadcasts(hop):
        down_way = replace(down_way, legs=tuple(replace(leg, broadcast=True) for leg in down_way.legs))
    return Exchange(down_way, _way("up", hop, links["up"], cover, size["up"], topology.host, once), *cloud)


class Once(NamedTuple):
    """One transmission for all links of a client. overhead: so many times as long if there are several; cell (K,): whose air."""

    overhead: float
    cell: Ints


def _one_cell(home: Ints, cover: NDArray[np.bool_], host: Ints) -> Ints:
    """The home cell of each client (K,) if it reports there, else the first that it reports to; cover (N, K), host (N,)."""
    at_home = cover & (host[:, None] == home[None, :])
    return np.asarray(host[np.where(at_home.any(axis=0), at_home.argmax(axis=0), cover.argmax(axis=0))])


def _way(
    direction: str, hop: str, link: Link, used: NDArray[np.bool_], bits: float, air: Ints, once: Once | None = None
) -> Way:
    """One hop; used (N, K): the links that carry the model; air (N,). Seconds are those of each client's slowest link.

    once: a client sends one time for all its links, so long that the slowest hears it.
    """
    client, aggregator = np.nonzero(used.T)
    link_s, link_j = (
        np.broadcast_to(values, used.shape)[aggregator, client] for values in (link.seconds(bits), link.energy_j(bits))
    )
    n_clients = used.shape[1]
    n_links = np.bincount(client, minlength=n_clients)
    seconds: Floats = np.zeros(n_clients)
    np.maximum.at(seconds, client, link_s)
    if once is not None:
        joules = np.zeros(n_clients)
        np.maximum.at(joules, client, link_j)
        if once.overhead != 1:
            seconds, joules = (np.where(n_links > 1, once.overhead * value, value) for value in (seconds, joules))
        on_air_s = seconds
        link_s, link_j = seconds[client], joules[client] / n_links[client]
    else:
        on_air_s, joules = np.zeros(n_clients), np.zeros(n_clients)
        np.add.at(on_air_s, client, link_s)
        np.add.at(joules, client, link_j)
    first = np.concatenate([[0], np.cumsum(n_links)])
    single = Links(client, aggregator, np.asarray(air)[aggregator], link_s, link_j, first)
    if once is None:
        return Way(direction, seconds, (Leg(hop, n_links, n_links, on_air_s, joules, single),))
    leg = Leg(hop, n_links, n_links.clip(max=1), on_air_s, joules, single, once_in=once.cell)
    return Way(direction, seconds, (leg,))


def _relay(
    direction: str,
    hop: str,
    link: Link,
    used: NDArray[np.bool_],
    bits: float,
    aggregator: Ints,
    air: Ints | None = None,
) -> Way:
    """One link each (m,) for a sender that belongs to `aggregator` (m,); its air is one for all unless given (m,)."""
    seconds = np.where(used, link.seconds(bits), 0.0)
    joules = np.where(used, link.energy_j(bits), 0.0)
    at = np.flatnonzero(used)
    where = np.zeros(len(used), dtype=np.int64) if air is None else air
    first = np.concatenate([[0], np.cumsum(used)])
    n_links = used.astype(np.int64)
    single = Links(at, np.asarray(aggregator)[at], where[at], seconds[at], joules[at], first)
    return Way(direction, seconds, (Leg(hop, n_links, n_links, seconds, joules, single),))


def _to_cloud(
    snapshot: Snapshot, device: Ints, used: NDArray[np.bool_], bits: float, direction: str, aggregator: Ints
) -> Way:
    """Between devices (m,) and the cloud: over their own link, or relayed by the edge server of their home cell.
    aggregator (m,): who each of them reports for."""
    if not snapshot.cloud_via_edge:
        link = snapshot.cloud_up if direction == "up" else snapshot.cloud_down
        return _relay(direction, "device_cloud", link.pick(device), used, bits, aggregator)
    home = snapshot.home[device]
    near = snapshot.edge_up if direction == "up" else snapshot.edge_down
    far = snapshot.backhaul_up if direction == "up" else snapshot.backhaul_down
    first = _relay(direction, "device_edge", near.pick((home, device)), used, bits, aggregator, home)
    second = _relay(direction, "edge_cloud", far.pick(home), used, bits, aggregator)
    return Way(direction, first.seconds + second.seconds, first.legs + second.legs)
