"""What holds during one edge round: where clients are, whom they report to, and what links and computing cost."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.fleet import Snapshot
from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.protocol import Attendance
from fedloom.protocol import Federation as Machines
from fedloom.simulator.air import together_s, undisturbed
from fedloom.simulator.clock import Timepiece
from fedloom.simulator.exchange import Exchange, Kept, exchange
from fedloom.simulator.ledger import Bill, Note
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

KEPT_SCENES = 64  # aggregators may be so many edge rounds apart before scenes are made twice


@dataclass(frozen=True, eq=False)
class Extra:
    """What masks add to the work of m clients: seconds of computing (m,), seconds that they wait for messages (m,), and bills."""

    compute_s: Floats
    wait_s: Floats
    entries: list[Bill]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trip:
    """What m clients take that are sent together, seconds (m,): to fetch, to compute, to upload (the air for themselves), and
    until they are back. busy_s: of computing in all; entries: for the ledger. kinds: the different mixtures they start from,
    start (m,): which of these is a client's. extra: what of it is for masks, if updates are masked."""

    fetch_s: Floats
    compute_s: Floats
    upload_s: Floats
    takes_s: Floats
    busy_s: float
    entries: list[Bill | Note]
    kinds: Ints
    start: Ints
    extra: Extra | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene(Attendance):
    """Who is where, with what the simulator knows of it: K clients, N aggregators in pace groups.

    start_weights (kinds, N): the different rows of B, start_of (K,): which of them is a client's. noise_std: of the noise on
    every parameter of a model that reaches the cloud over a link of its own, if there is some: of heads (N,), or of clients
    (K,) that report to the cloud itself. trips: those that clients made in it, by clients and steps.
    """

    snapshot: Snapshot
    exchange: Exchange
    start_weights: Floats
    start_of: Ints
    noise_std: Floats | None = None
    trips: Kept[tuple[bytes, bytes], Trip] = field(default_factory=Kept, init=False, repr=False)

    @cached_property
    def undisturbed(self) -> frozenset[int]:
        """Groups whose clients have the bands in which they send for themselves."""
        return undisturbed(self.snapshot.air, self.exchange, self.group_of)

    @cached_property
    def mixtures(self) -> list[list[tuple[int, float]]]:
        """The different rows of B, as aggregators and their weights."""
        return [[(n, float(row[n])) for n in np.flatnonzero(row).tolist()] for row in self.start_weights]


def make_scene(
    snapshot: Snapshot,
    topology: Topology,
    groups: list[Ints],
    starts: Floats,
    bits: float,
    step_s: Floats,
    power_w: Floats | None = None,
    down_bits: float | None = None,
) -> Scene:
    """groups: the aggregators of each pace group; starts (K, N): B; bits: size of a model; power_w (N,): of heads that
    send to the cloud, if not as the link says; down_bits: size of a model that goes down, if it is another."""
    ways = exchange(snapshot, topology, bits, power_w, down_bits)
    group_of = np.full(topology.cover.shape[1], -1)
    for i, aggregators in enumerate(groups):
        group_of[topology.cover[aggregators].any(axis=0)] = i
    kinds, start_of = np.unique(starts, axis=0, return_inverse=True)
    return Scene(
        snapshot=snapshot,
        topology=topology,
        exchange=ways,
        step_s=step_s,
        link_s=ways.client_down.seconds + ways.client_up.seconds,
        together_s=together_s(snapshot.air, ways, step_s) if snapshot.air.is_shared else None,
        group_of=group_of,
        n_reached=topology.n_reached.clip(min=1),
        start_weights=kinds,
        start_of=start_of,
        noise_std=_noise_std(snapshot, topology, power_w),
    )


class Scenes:
    """The scenes of a run, by running edge round, from 1, and by the tick in which it is opened. now: the newest that anybody has
    opened; newest: its number.

    Clients may move between edge rounds or in time, busy or not, and groups may be in different ones. base: who aggregates with
    whom; lost: aggregators, by kind and host, to whom nobody can report now.
    """

    def __init__(self, method: Method, world: World, machines: Machines, clock: Timepiece) -> None:
        self._method, self._world, self._machines, self._clock = method, world, machines, clock
        self._kept: dict[tuple[int, int], Scene] = {}
        self._first_index = self.newest = self.cloud_round = 0
        self._first_s = 0.0
        self._home: Ints | None = None
        self.handovers = 0
        self.base: Topology
        self.lost: frozenset[tuple[str, int]] = frozenset()
        self.now: Scene

    def enter(self, index: int, time_s: float, power_w: Floats | None) -> Scene:
        """The first scene of a cloud round that begins at a time, with new links."""
        self._power_w = power_w
        self._kept, self._first_index, self._first_s = {}, index, time_s
        self.show(index, self._at(index, time_s))
        return self.now

    def again(self) -> Scene:
        """The newest scene with those who are lost now."""
        self._kept = {}
        self.now = self.at(self.newest)
        return self.now

    def present(self, topology: Topology, now: Snapshot) -> Topology:
        """A topology without aggregators that are lost, and with clients that are there."""
        hosts = [host for kind, host in sorted(self.lost) if kind == topology.kind]
        if hosts:
            topology = topology.without(np.array(hosts, dtype=np.int64))
        return topology.of_those(now.active, now.in_reach) if self._world.fleet.in_time else topology

    def topology_at(self, now: Snapshot) -> Topology:
        """Who reports to whom, at a moment of the fleet."""
        follow = self.base.follow and self._machines.roster.wander
        return self.present(self.base.at_home(now.home) if follow else self.base, now)

    @property
    def stays(self) -> bool:
        """Moves count from the next cloud round on: clients neither follow their homes nor report to the cloud itself."""
        in_rounds = self._method.cloud.waits or not self._world.fleet.in_time
        return self._machines.roster.wander and not self.base.follow and self.base.kind != "cloud" and in_rounds

    def show(self, index: int, scene: Scene) -> None:
        """The newest scene; counts the clients that have changed their homes."""
        self.now, self.newest = scene, index
        snapshot = scene.snapshot
        if self._home is not None:
            self.handovers += int(np.count_nonzero((snapshot.home != self._home) & snapshot.active & (self._home >= 0)))
        self._home = snapshot.home

    def at(self, index: int) -> Scene:
        """The scene of a running edge round that is opened now; the same object as long as nothing changes."""
        return self._at(index, self._clock.now_s)

    def _at(self, index: int, time_s: float) -> Scene:
        fleet = self._world.fleet
        if self.stays:
            index, time_s = self._first_index, self._first_s
        when = index, fleet.tick_at(time_s)
        if when not in self._kept:
            snapshot = fleet.snapshot(self.cloud_round, index, time_s)
            same = next((scene for scene in reversed(self._kept.values()) if scene.snapshot is snapshot), None)
            self._kept[when] = self._new(snapshot) if same is None else same
            if len(self._kept) > KEPT_SCENES:
                del self._kept[next(iter(self._kept))]
        return self._kept[when]

    def _new(self, snapshot: Snapshot) -> Scene:
        topology, world = self.topology_at(snapshot), self._world
        scene = make_scene(
            snapshot,
            topology,
            [edge.aggregators for edge in self._machines.edges],
            self._method.start.weights(topology),
            world.up_bits,
            world.step_s(snapshot),
            self._power_w,
            world.down_bits,
        )
        self._check_links(scene)
        return scene

    def _check_links(self, scene: Scene) -> None:
        g, method = self.cloud_round, self._method
        dead = np.flatnonzero(~np.isfinite(scene.link_s))
        if len(dead) and method.edge.box_s is None:
            raise ValueError(
                f"clients {dead.tolist()[:10]} have no usable link to their aggregator in cloud round {g + 1} (rate 0), "
                f"so {method.name} would wait for ever; repair the links, leave the clients out, or use a time box"
            )
        cloud_s = scene.exchange.cloud_down.seconds + scene.exchange.cloud_up.seconds
        cut_off = [n for e in self._machines.edges for n in e.aggregators.tolist() if not np.isfinite(cloud_s[n])]
        if cut_off and method.cloud.exists:
            raise ValueError(
                f"aggregators {cut_off[:10]} have no usable link to the cloud in cloud round {g + 1} (rate 0), so the "
                f"cloud would wait for ever; repair the links to the cloud"
            )


def _noise_std(snapshot: Snapshot, topology: Topology, power_w: Floats | None) -> Floats | None:
    if not snapshot.cloud_noisy or topology.kind == "edge":
        return None
    link = snapshot.cloud_up if topology.kind == "cloud" else snapshot.cloud_up.pick(topology.host)
    assert link.snr_per_w is not None  # the settings see to it
    return radio.noise_std(link.power_w if power_w is None else power_w, link.snr_per_w, 1.0)


def has_moved(before: Snapshot | None, now: Snapshot) -> bool:
    """Whether devices are elsewhere than before, in reach of others, or take part that did not."""
    return before is None or not (
        np.array_equal(before.home, now.home)
        and np.array_equal(before.in_reach, now.in_reach)
        and np.array_equal(before.active, now.active)
    )
