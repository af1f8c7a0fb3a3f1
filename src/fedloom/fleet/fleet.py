"""A fleet: settings and a seed in, the state of devices, cells and links at any time out.

Every draw is keyed by the seed, its purpose and the round or tick, so a snapshot depends on nothing else: not on which
were asked for before, nor on which links were looked at.

Rounds are cloud rounds (0 is the first) or, for what is set to move or be redrawn every edge round, edge rounds
counted through the whole run: 1 is the first, 0 is before it. What changes with time is the same during a tick: tick i begins
at i tick_s seconds.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom._random import stream
from fedloom.fleet import cells, hops, placement, propagation
from fedloom.fleet.measured import Measured, homes, reached
from fedloom.fleet.settings.cells import Cells, GridCells, SingleCell
from fedloom.fleet.settings.fleet import FleetSettings
from fedloom.fleet.settings.links import RadioLink
from fedloom.fleet.settings.measured import TraceMobility
from fedloom.fleet.settings.mobility import When, is_walk
from fedloom.fleet.settings.placement import (
    CoordinatesPlacement,
    DiscPlacement,
    RectanglesPlacement,
    SquarePlacement,
    ThreeCellsPlacement,
)
from fedloom.fleet.snapshot import Link, Snapshot
from fedloom.fleet.speeds import Speeds
from fedloom.fleet.walks import paths, still_from_s, whereabouts
from fedloom.fleet.whereabouts import Place, read_only
from fedloom.radio import distances

Array = NDArray[np.float64]
Homes = NDArray[np.int64]
T = TypeVar("T")
A = TypeVar("A", bound=NDArray[Any])

MOST_TICKS = 10_000_000  # in a run: some walks are made tick by tick
MOST_EMPTY_TICKS = 100_000  # until somebody must be there
TIE_S = 1e-9  # so close before a tick is in it

MOST_PEERS = 10_000  # devices with links to each other: 0.8 GB for each quantity

_HOPS = ("edge_up", "edge_down", "backhaul_up", "backhaul_down", "cloud_up", "cloud_down", "d2d")


class Ticks(NamedTuple):
    """Rounds or ticks: of where devices are, of links, of speeds, of measured rates."""

    move: int
    links: int
    compute: int
    rates: int


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
        self._measured = Measured(settings.device_edge, len(cell_m))
        self._speeds = Speeds(settings, seed)
        self._survey = propagation.Survey(self._cell_m, self._around)
        start = read_only(position_m, home)
        self._where = whereabouts(settings, seed, start, self._cell_m, self._radius_m, self._survey)
        still_s = max(self._measured.still_from_s, still_from_s(settings))
        self._still_from = float(np.ceil(still_s / settings.tick_s))  # the first of the ticks that are the same

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

        if isinstance(settings.mobility, TraceMobility):
            position_m[:, :2] = paths(settings.mobility, position_m[:, :2]).at(0.0)
        distance = distances(cell_m, position_m)  # (N, K)
        in_reach = cells.within(distance, radius)
        ever = Measured(settings.device_edge, len(cell_m)).ever
        in_reach = in_reach if ever is None else in_reach & ever
        active = in_reach.any(axis=0)
        if ever is not None and not ever.any():
            raise ValueError(
                "all measured rates between devices and cells are 0, so nobody could train; give at least one that is above it"
            )
        if not is_walk(settings.mobility) and (settings.uncovered == "error" or not active.any()):
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
        return self.settings.in_time

    @property
    def stays(self) -> bool:
        """Nothing ever changes: all snapshots are the same."""
        return not self.in_time and set(self._clocks) == {"never"}

    @property
    def _clocks(self) -> tuple[When, When, When, When]:
        """When devices move, links are drawn, speeds are, and rates that were measured change."""
        redraw = self.settings.redraw
        compute = "tick" if self._speeds.in_time else redraw.compute
        return self.moves, redraw.links, compute, "tick" if self._measured.in_time else "never"

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
        when = Ticks(*(now[clock] for clock in clocks))
        return self._reuse("snapshot", when, partial(self._build, when))

    def homes_at(self, t: int) -> Homes:
        """Home cells (K,), -1 for a device that takes no part, in round t of those after which devices move.

        The homes of `snapshot` without drawing links: t is a cloud round, an edge round counted through the whole
        run (0: before the first), or a tick, as `moves` says.
        """
        _check.whole("t", t, least=0)
        return self._place(t, t if self.moves == "tick" else 0)[1]

    def somebody_s(self, time_s: float, *, later: bool = False) -> float:
        """When a device takes part: time_s itself, or the start of the first tick after it in which one does, infinite if none
        does for MOST_EMPTY_TICKS. later: of a later tick in any case."""
        first = self.tick_at(time_s) + later
        from_s = first * self.settings.tick_s if later else time_s
        return self.one_of_s(from_s, np.full(self.n_devices, from_s))

    def one_of_s(self, time_s: float, back_s: Array) -> float:
        """The same of devices that are not up before back_s (K,)."""
        if self.moves not in ("tick", "never"):  # where they are goes by rounds
            return max(time_s, float(back_s.min(initial=np.inf)))
        if not np.isfinite(back_s).any():
            return np.inf
        first = self.tick_at(time_s)
        for tick in range(first, int(min(first + MOST_EMPTY_TICKS, max(first, self._still_from) + 1))):
            ends_s = (tick + 1) * self.settings.tick_s if tick < self._still_from else np.inf
            there_s = np.maximum(back_s, max(time_s, tick * self.settings.tick_s))
            here = (self._home_in(tick) >= 0) & (there_s < ends_s)
            if here.any():
                return float(there_s[here].min())
        return np.inf

    def _home_in(self, tick: int) -> Homes:
        return self._place(tick if self.moves == "tick" else 0, tick)[1]

    def _place(self, t_move: int, t_rates: int) -> Place:
        """Where devices are, and in which cells."""
        position_m, home = self._where.at(t_move)
        up, down = self._measured.at(t_rates * self.settings.tick_s)
        if up is None and down is None:
            return position_m, home
        in_reach = cells.within(distances(self._cell_m, position_m), self._radius_m)
        return position_m, _frozen(homes(home, reached(in_reach, up, down), up, down))

    def _build(self, when: Ticks) -> Snapshot:
        t_move, t_links, t_compute, t_rates = when
        position_m, home = self._place(t_move, t_rates)
        draw_links = partial(self._links, position_m, home, t_links, t_rates)
        in_reach, hop = self._reuse("links", (t_move, t_links, t_rates), draw_links)
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
            compute=self._reuse("compute", t_compute, lambda: _frozen(self._speeds.at(t_compute))),
            compute_settings=self._speeds.settings,
            uplink_once=self.settings.device_edge.uplink == "once",
            uplink_overhead=self.settings.device_edge.overhead,
            head_broadcast_free=self.settings.head_broadcast == "free",
            cloud_noisy=self.settings.device_cloud.noisy,
            false_reports=self.settings.false_reports,
            air=self.settings.air,
            make_d2d=partial(self._d2d, position_m, t_move, t_links),
        )

    def _links(
        self, position_m: Array, home: Homes, t_links: int, t_rates: int
    ) -> tuple[NDArray[np.bool_], dict[str, Link]]:
        settings, power_w, up, down = (
            self.settings,
            self._own("power_w"),
            self._own("up_bit_s"),
            self._own("down_bit_s"),
        )
        to_cell = distances(self._cell_m, position_m)  # (N, K)
        measured = self._measured.at(t_rates * settings.tick_s)
        in_reach = reached(cells.within(to_cell, self._radius_m), *measured)
        edge, edge_up, edge_down = settings.device_edge, *(a if b is None else b for a, b in zip((up, down), measured))
        cell_server = distances(self._cell_m, self._server_m[None])[:, 0]
        ways_up, ways_down = propagation.edge_paths(edge, position_m, to_cell, home, power_w, self._survey)
        hop = {
            "edge_up": hops.hop(edge.up, to_cell, self._rng("edge_up", t_links), power_w, edge_up, ways_up),
            "edge_down": hops.hop(edge.down, to_cell, self._rng("edge_down", t_links), None, edge_down, ways_down),
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
            ways = [
                propagation.server_paths(way, self._server_m, position_m, self._around)
                for way in (direct.up, direct.down)
            ]
            hop["cloud_up"] = hops.hop(direct.up, to_server, self._rng("cloud_up", t_links), power_w, up, ways[0])
            hop["cloud_down"] = hops.hop(direct.down, to_server, self._rng("cloud_down", t_links), None, down, ways[1])
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

        def build() -> Link:
            paths = propagation.device_paths(link, position_m, self._around)
            return hops.peers(link, position_m, self._rng("d2d", t_links), self._own("power_w"), paths)

        return self._reuse("d2d", (t_move, t_links), build)

    @property
    def _around(self) -> propagation.Surroundings:
        indoor = self._own("indoor")
        return propagation.Surroundings(seed=self.seed, indoor=None if indoor is None else indoor > 0)

    def _own(self, name: str) -> Array | None:
        """(K,) what is known of each device."""
        devices = self.settings.devices
        value = None if devices is None else getattr(devices, name)
        return None if value is None else np.array(value, dtype=np.float64)

    def _rng(self, hop: str, t_links: int) -> np.random.Generator:
        return stream(self.seed, "links", t_links, _HOPS.index(hop) + 1)

    def _reuse(self, name: str, key: Hashable, build: Callable[[], T]) -> T:
        """What `build` made when it was last called for this name, if the key is still the same."""
        if name not in self._built or self._built[name][0] != key:
            self._built[name] = (key, build())
        return cast(T, self._built[name][1])


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
