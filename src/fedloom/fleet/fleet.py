"""A fleet: settings and a seed in, the state of devices, cells and links at any time out.

Every draw is keyed by the seed, its purpose and the round or tick, so a snapshot depends on nothing else: not on which
were asked for before, nor on which links were looked at.

Rounds are cloud rounds (0 is the first) or, for what is set to move or be redrawn every edge round, edge rounds
counted through the whole run: 1 is the first, 0 is before it. What changes with time is the same during a tick: tick i begins
at i tick_s seconds.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom._random import stream
from fedloom.fleet import cells, compute, hops, mobility, placement
from fedloom.fleet.settings.cells import Cells, GridCells, SingleCell
from fedloom.fleet.settings.compute import ComputeSettings, FixedLaw
from fedloom.fleet.settings.fleet import FleetSettings
from fedloom.fleet.settings.links import RadioLink
from fedloom.fleet.settings.mobility import MobilitySettings, When, is_walk
from fedloom.fleet.settings.placement import (
    CoordinatesPlacement,
    DiscPlacement,
    RectanglesPlacement,
    SquarePlacement,
    ThreeCellsPlacement,
)
from fedloom.fleet.snapshot import Link, Snapshot
from fedloom.fleet.waypoint import Waypoint
from fedloom.fleet.whereabouts import Hopping, Place, Placed, Walking, Whereabouts, read_only
from fedloom.radio import distances

Array = NDArray[np.float64]
Homes = NDArray[np.int64]
T = TypeVar("T")
A = TypeVar("A", bound=NDArray[Any])

MOST_TICKS = 10_000_000  # in a run: some walks are made tick by tick
TIE_S = 1e-9  # so close before a tick is in it

MOST_PEERS = 10_000  # devices with links to each other: 0.8 GB for each quantity

_HOPS = ("edge_up", "edge_down", "backhaul_up", "backhaul_down", "cloud_up", "cloud_down", "d2d")


class Fleet:
    """Use `Fleet.from_settings`, then `snapshot(cloud_round)`, or `snapshot(cloud_round, edge_round)`.

    >>> fleet = Fleet.from_settings(FleetSettings(n_devices=4), seed=1)
    >>> fleet.snapshot(0).edge_up.seconds(bits=1e6)
    array([[0.1, 0.1, 0.1, 0.1]])
    """

    def __init__(
        self,
        settings: FleetSettings,
        seed: int,
        *,
        position_m: Array,
        home: Homes,
        cell_m: Array,
        radius_m: Array,
        server_m: Array,
    ) -> None:
        self.settings = settings
        self.seed = seed
        self._cell_m, self._radius_m, self._server_m = _frozen(cell_m), _frozen(radius_m), _frozen(server_m)
        self._built: dict[str, tuple[Hashable, Any]] = {}
        self._where = _whereabouts(settings, seed, read_only(position_m, home), self._cell_m, self._radius_m)

    @classmethod
    def from_settings(cls, settings: FleetSettings, seed: int) -> "Fleet":
        """Place devices and cells and deal homes.

        Where the placement itself goes by cells (cells, three-cells) and homes are even, a device's home is
        the cell it was placed for: that is as even as can be.
        """
        centres, radius = _cells(settings.cells)
        positions, placed_for = _place(settings, centres, radius, stream(seed, "placement"))
        dimension = max(positions.shape[1], centres.shape[1], len(settings.server_m))
        position_m, cell_m = _with_height(positions, dimension), _with_height(centres, dimension)
        server_m = _with_height(np.array([settings.server_m], dtype=np.float64), dimension)[0]

        distance = distances(cell_m, position_m)  # (N, K)
        in_reach = cells.within(distance, radius)
        active = in_reach.any(axis=0)
        if (settings.uncovered == "error" and not is_walk(settings.mobility)) or not active.any():
            cells.check_covered(in_reach)
        home = np.full(len(position_m), -1, dtype=np.int64)
        if placed_for is not None and settings.homes == "even":
            home[active] = placed_for[active]
        else:
            home[active] = cells.deal_homes(
                in_reach[:, active],
                settings.homes,
                rng=stream(seed, "homes"),
                distance_m=distance[:, active],
            )
        return cls(
            settings,
            seed,
            position_m=position_m,
            home=home,
            cell_m=cell_m,
            radius_m=radius,
            server_m=server_m,
        )

    @property
    def n_devices(self) -> int:
        """K."""
        return self.settings.n_devices

    @property
    def n_cells(self) -> int:
        """N."""
        return len(self._radius_m)

    @property
    def moves(self) -> When:
        """When devices move."""
        return "never" if self.settings.mobility is None else self.settings.mobility.every

    @property
    def in_time(self) -> bool:
        """Something changes with time: a snapshot is that of a tick."""
        return "tick" in self._clocks

    @property
    def _clocks(self) -> tuple[When, When, When]:
        """When devices move, links are drawn and speeds are."""
        return self.moves, self.settings.redraw.links, self.settings.redraw.compute

    def tick_at(self, time_s: float) -> int:
        """The tick at a time; always 0 if nothing changes with time."""
        if not self.in_time:
            return 0
        if not 0 <= time_s <= MOST_TICKS * self.settings.tick_s:
            raise ValueError(
                f"time_s must be in 0..{MOST_TICKS * self.settings.tick_s:g}, which are {MOST_TICKS:,} ticks of "
                f"{self.settings.tick_s:g} s, got {time_s:g}; set a larger fleet.tick_s"
            )
        return int((time_s + TIE_S) // self.settings.tick_s)

    def snapshot(self, cloud_round: int, edge_round: int | None = None, time_s: float = 0.0) -> Snapshot:
        """The fleet in a cloud round (0 is the first), at a time; the same object as long as nothing changes.

        edge_round: counted through the whole run, 1 is the first and 0 before it. Needed from the second cloud round
        on if something moves or is redrawn every edge round, else of no effect. time_s: since the start of the run; what
        changes with time is that of the tick it is in.
        """
        _check.whole("cloud_round", cloud_round, least=0)
        _check.wholes(edge_round=edge_round, least=0)
        clocks = self._clocks
        if "edge-round" in clocks and edge_round is None and cloud_round > 0:
            raise ValueError(
                f"this fleet changes every edge round: expected edge_round, counted from the start of the run, "
                f"got only cloud_round {cloud_round}; pass snapshot(cloud_round, edge_round)"
            )
        now = {
            "never": 0,
            "cloud-round": cloud_round,
            "edge-round": edge_round or 0,
            "tick": self.tick_at(time_s),
        }
        t_move, t_links, t_compute = (now[clock] for clock in clocks)
        build = partial(self._build, t_move, t_links, t_compute)
        return self._reuse("snapshot", (t_move, t_links, t_compute), build)

    def homes_at(self, t: int) -> Homes:
        """Home cells (K,), -1 for a device that takes no part, in round t of those after which devices move.

        The homes of `snapshot` without drawing links: t is a cloud round, an edge round counted through the whole
        run (0: before the first), or a tick, as `moves` says.
        """
        _check.whole("t", t, least=0)
        return self._where.at(t)[1]

    def _build(self, t_move: int, t_links: int, t_compute: int) -> Snapshot:
        position_m, home = self._where.at(t_move)
        draw_links = partial(self._links, position_m, t_links)
        in_reach, hop = self._reuse("links", (t_move, t_links), draw_links)
        return Snapshot(
            position_m=position_m,
            cell_m=self._cell_m,
            radius_m=self._radius_m,
            server_m=self._server_m,
            active=_frozen(home >= 0),
            in_reach=in_reach,
            home=home,
            edge_up=hop["edge_up"],
            edge_down=hop["edge_down"],
            backhaul_up=hop["backhaul_up"],
            backhaul_down=hop["backhaul_down"],
            cloud_up=hop["cloud_up"],
            cloud_down=hop["cloud_down"],
            cloud_via_edge=self.settings.device_cloud.via == "edge",
            compute=self._reuse("compute", t_compute, partial(self._draw_compute, t_compute)),
            compute_settings=self._compute_settings,
            uplink_once=self.settings.device_edge.uplink == "once",
            uplink_overhead=self.settings.device_edge.overhead,
            head_broadcast_free=self.settings.head_broadcast == "free",
            cloud_noisy=self.settings.device_cloud.noisy,
            false_reports=self.settings.false_reports,
            air=self.settings.air,
            make_d2d=partial(self._d2d, position_m, t_move, t_links),
        )

    def _links(self, position_m: Array, t_links: int) -> tuple[NDArray[np.bool_], dict[str, Link]]:
        settings, power_w, up, down = (
            self.settings,
            self._own("power_w"),
            self._own("up_bit_s"),
            self._own("down_bit_s"),
        )
        to_cell = distances(self._cell_m, position_m)  # (N, K)
        in_reach = cells.within(to_cell, self._radius_m)
        cell_server = distances(self._cell_m, self._server_m[None])[:, 0]
        hop = {
            "edge_up": hops.hop(settings.device_edge.up, to_cell, self._rng("edge_up", t_links), power_w, up),
            "edge_down": hops.hop(settings.device_edge.down, to_cell, self._rng("edge_down", t_links), None, down),
            "backhaul_up": hops.hop(settings.edge_cloud.up, cell_server, self._rng("backhaul_up", t_links)),
            "backhaul_down": hops.hop(settings.edge_cloud.down, cell_server, self._rng("backhaul_down", t_links)),
            "cloud_up": hops.none(self.n_devices),
            "cloud_down": hops.none(self.n_devices),
        }
        for name in ("edge_up", "edge_down"):
            hop[name] = hops.only_in_reach(hop[name], in_reach)
        direct = settings.device_cloud
        if direct.via == "direct":
            to_server = distances(position_m, self._server_m[None])[:, 0]
            hop["cloud_up"] = hops.hop(direct.up, to_server, self._rng("cloud_up", t_links), power_w, up)
            hop["cloud_down"] = hops.hop(direct.down, to_server, self._rng("cloud_down", t_links), None, down)
        return _frozen(in_reach), hop

    def _d2d(self, position_m: Array, t_move: int, t_links: int) -> Link:
        link = self.settings.device_device
        if not isinstance(link, RadioLink):
            t_move = 0  # only radio links know where devices are
        if self.n_devices > MOST_PEERS:
            raise ValueError(
                f"links between all pairs of {self.n_devices:,} devices would take {8e-9 * self.n_devices**2:.0f} GB for each "
                f"quantity; clustering by links between devices works up to {MOST_PEERS:,} of them: use fewer devices, or a "
                f"method that groups by cells, such as hierfedavg or hhfl"
            )
        build = partial(hops.peers, link, position_m, self._rng("d2d", t_links), self._own("power_w"))
        return self._reuse("d2d", (t_move, t_links), build)

    def _own(self, name: str) -> Array | None:
        """(K,) what is known of each device."""
        devices = self.settings.devices
        value = None if devices is None else getattr(devices, name)
        return None if value is None else np.array(value, dtype=np.float64)

    @property
    def _compute_settings(self) -> ComputeSettings:
        """Of the speeds of each device where they are known."""
        settings, own = self.settings.compute, self.settings.devices
        if own is None or (own.steps_per_s is None and own.samples_per_s is None):
            return settings
        return ComputeSettings(
            law=FixedLaw(value=1.0),
            unit="steps-per-second" if own.steps_per_s is not None else "seconds-per-sample",
            power_w=settings.power_w,
            jitter_sigma=settings.jitter_sigma,
        )

    def _draw_compute(self, t_compute: int) -> Array:
        steps, samples = self._own("steps_per_s"), self._own("samples_per_s")
        if steps is not None or samples is not None:
            return _frozen(steps if steps is not None else 1 / np.asarray(samples))
        law = self.settings.compute.law
        return _frozen(compute.draw(law, self.n_devices, stream(self.seed, "compute", t_compute)))

    def _rng(self, hop: str, t_links: int) -> np.random.Generator:
        return stream(self.seed, "links", t_links, _HOPS.index(hop) + 1)

    def _reuse(self, name: str, key: Hashable, build: Callable[[], T]) -> T:
        """What `build` made when it was last called for this name, if the key is still the same."""
        if name not in self._built or self._built[name][0] != key:
            self._built[name] = (key, build())
        return cast(T, self._built[name][1])


def _whereabouts(settings: FleetSettings, seed: int, start: Place, cell_m: Array, radius_m: Array) -> Whereabouts:
    """How the devices of a fleet move."""
    moves, (position_m, _) = settings.mobility, start
    if moves is None:
        return Placed(start)
    if isinstance(moves, MobilitySettings):
        around = mobility.neighbours(moves.neighbours, cell_m)
        return Hopping(seed, start, cell_m, radius_m, mobility.transition(around, moves.p_stay))
    area_m = moves.area_m or placement.box(position_m[:, :2], cell_m[:, :2], radius_m)
    walk = Waypoint(seed, position_m[:, :2], area_m, moves.speed_m_s, moves.pause_s)
    return Walking(walk.at, settings.tick_s, position_m, cell_m, radius_m)


def _cells(settings: Cells) -> tuple[Array, Array]:
    """Centres (N, D) and radii (N,)."""
    radius: ArrayLike
    if isinstance(settings, SingleCell):
        centres, radius = np.array([settings.centre_m], dtype=np.float64), np.inf
    elif isinstance(settings, GridCells):
        centres = placement.cell_grid(settings.shape, settings.n, settings.spacing_m)
        radius = settings.resolved_radius_m
    else:
        centres, radius = np.array(settings.centres_m, dtype=np.float64), settings.radius_m
    return centres, cells.per_cell_radius(radius, len(centres))


def _place(
    settings: FleetSettings, centres: Array, radius: Array, rng: np.random.Generator
) -> tuple[Array, Homes | None]:
    """Positions (K, 2 or 3), and the cell each device was placed for if any."""
    place, n, n_cells = settings.placement, settings.n_devices, len(centres)
    if isinstance(place, DiscPlacement):
        return placement.disc(n, place.radius_m, rng, place.centre_m), None
    if isinstance(place, SquarePlacement):
        return placement.square(n, place.side_m, rng, place.centre_m), None
    if isinstance(place, RectanglesPlacement):
        return placement.rectangles(place.regions_m, place.counts, rng, place.z_m), None
    if isinstance(place, CoordinatesPlacement):
        return np.array(place.positions_m, dtype=np.float64), None
    ground = placement.radius_at(centres, radius, np.arange(n_cells), np.zeros(n_cells))
    if isinstance(place, ThreeCellsPlacement):
        wanted, home = placement.three_cells(place.exclusive, place.pair, place.triple, place.overlap)
        return placement.in_region(centres[:, :2], ground, wanted, rng), home
    counts = [n // n_cells + (cell < n % n_cells) for cell in range(n_cells)]
    return (
        placement.around_cells(centres[:, :2], ground, counts, rng),
        np.repeat(np.arange(n_cells), counts),
    )


def _with_height(points: Array, dimension: int) -> Array:
    """Points (.., 2 or 3) with `dimension` coordinates; those that had no height get 0."""
    return np.pad(points, ((0, 0), (0, dimension - points.shape[1])))


def _frozen(array: A) -> A:
    """A read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view
