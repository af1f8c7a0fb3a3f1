"""How much of what is sent arrives: by distance, or over the ways of TR 38.901 between sites and devices; what neighbours add.

What is drawn of a place stays: the line of sight and shadowing of a site are fields over the plane (fedloom.radio.fields), keyed
by the seed and the site; whether a device is in a building, how deep and behind which wall is keyed by the device. So a device
that walks sees one map, two devices that are near each other see nearly the same of it, both directions of a link are alike, and
redrawing links redraws fading alone. Fields of different sites, and those with a line of sight, without, and into buildings, are
independent of each other. S sites, K devices, D coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom._random import normal_of, stream, uniform_of
from fedloom.fleet.settings.links import DeviceEdge, EdgeLink, HopLink, PeerLink, RadioLink
from fedloom.fleet.settings.path_loss import FreeSpaceLoss, LogDistanceLoss, Tr38901Loss
from fedloom.radio import penetration, tr38901

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Field = Callable[[str, Mask], Array]
Loss = LogDistanceLoss | FreeSpaceLoss | Tr38901Loss
SiteWaves = Callable[[str, int], radio.Waves]

STATES = ("sight", "los", "nlos", "indoor")  # fields of a site: who sees it, and shadowing of each kind
_PAIRS = 256  # rows of devices at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Paths:
    """Of links between sites and devices (S, K), or of one site (K,), or between devices (K, K): power gains for one antenna of
    the receiver; which have a line of sight, None if that is not known; and watt of neighbouring cells at the receiver, one
    number or in a shape that broadcasts."""

    gain: Array
    line_of_sight: Mask | None = None
    interference_w: float | Array = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Surroundings:
    """seed: of all maps. indoor (K,): which devices are in buildings, if that is known."""

    seed: int
    indoor: Mask | None = None


def distance_gain(loss: Loss, distance_m: Array) -> Array:
    """Of the path, in the shape of the distances, for those that know nothing but these."""
    if isinstance(loss, Tr38901Loss):
        raise ValueError(
            "tr38901 goes by the places of both ends, not by their distance alone; use log-distance or free-space"
        )
    if isinstance(loss, LogDistanceLoss):
        loss_db = radio.log_distance_loss_db(
            distance_m, loss.intercept_db, loss.slope_db, loss.reference_m, loss.floor_m
        )
        return radio.db_to_ratio(-loss_db)
    return radio.free_space_gain(distance_m, loss.carrier_hz, loss.exponent, loss.gain_tx, loss.gain_rx, loss.floor_m)


class Survey:
    """Paths between cells (N, D) and devices (K, D), for every kind of loss that is asked for. What was found of a place is kept:
    a device that stands where it stood when it was last asked for is not looked at again."""

    def __init__(self, cell_m: Array, around: Surroundings) -> None:
        self._cell_m, self._around = cell_m, around
        self._last: dict[Tr38901Loss, tuple[Array, Paths]] = {}
        self._waves: dict[Tr38901Loss, SiteWaves] = {}

    def paths(self, loss: Loss, device_m: Array, distance_m: Array) -> Paths:
        """(N, K) of devices at device_m (K, D), distance_m (N, K) from the cells."""
        if not isinstance(loss, Tr38901Loss):
            return Paths(gain=distance_gain(loss, distance_m))
        waves = self._waves.setdefault(loss, cache(partial(_site_waves, loss, "cell", self._around.seed)))
        if loss not in self._last:
            found = _tr38901_paths(loss, "cell", self._cell_m, device_m, self._around, waves)
        else:
            stood_m, found = self._last[loss]
            moved = np.flatnonzero((stood_m != device_m).any(axis=1))
            if len(moved):
                new = _tr38901_paths(loss, "cell", self._cell_m, device_m[moved], self._around, waves, moved)
                gain, sees = found.gain.copy(), np.array(found.line_of_sight)
                gain[:, moved], sees[:, moved] = new.gain, new.line_of_sight
                found = Paths(gain=gain, line_of_sight=sees)
        self._last[loss] = device_m, found
        return found


def edge_paths(
    links: DeviceEdge,
    device_m: Array,
    distance_m: Array,
    home: NDArray[np.int64],
    power_w: Array | None,
    survey: Survey,
) -> tuple[Paths | None, Paths | None]:
    """Up and down between cells and devices, distance_m (N, K) apart; None for a link that is no radio. home (K,): a device's
    cell, below 0 if it takes no part. power_w (K,): of each device, in place of the link's."""

    def paths(link: EdgeLink) -> Paths | None:
        return survey.paths(link.path_loss, device_m, distance_m) if isinstance(link, RadioLink) else None

    up, down = paths(links.up), paths(links.down)
    if up is not None and isinstance(links.up, RadioLink) and links.up.interference is not None:
        own_w = links.up.power_w if power_w is None else power_w
        heard_w = radio.from_other_devices_w(own_w, up.gain, home, links.up.interference.load)
        up = replace(up, interference_w=heard_w[:, None])
    if down is not None and isinstance(links.down, RadioLink) and links.down.interference is not None:
        heard_w = radio.from_other_cells_w(links.down.power_w, down.gain, links.down.interference.load)
        down = replace(down, interference_w=heard_w)
    return up, down


def server_paths(link: HopLink, server_m: Array, device_m: Array, around: Surroundings) -> Paths | None:
    """(K,) between devices (K, D) and the server (D,); None if distances say it all."""
    if not isinstance(link, RadioLink) or not isinstance(link.path_loss, Tr38901Loss):
        return None
    loss = link.path_loss
    found = _tr38901_paths(
        loss, "server", server_m[None], device_m, around, partial(_site_waves, loss, "server", around.seed)
    )
    return Paths(gain=found.gain[0], line_of_sight=np.asarray(found.line_of_sight)[0])


def device_paths(link: PeerLink, device_m: Array, around: Surroundings) -> Paths | None:
    """(K, K) between devices (K, D), the same in both directions; None if distances say it all. Who is in a building has its wall
    in every link. The higher antenna is the site's. A device to itself: of no meaning."""
    if not isinstance(link, RadioLink) or not isinstance(link.path_loss, Tr38901Loss):
        return None
    loss, n = link.path_loss, len(device_m)
    gain, sees = np.empty((n, n)), np.empty((n, n), dtype=np.bool_)
    walls = _walls(loss, np.arange(n), around)
    height = _heights(device_m, loss.device_height_m, loss.constants.device_height_m)
    waves = {
        (state, half): radio.plane_waves(_correlation_m(loss, state), stream(around.seed, f"map d2d {state}", half))
        for state in STATES
        for half in (0, 1)
    }
    for first in range(0, n, _PAIRS):
        rows, rest = slice(first, first + _PAIRS), slice(first, n)
        apart = radio.distances(device_m[rows, :2], device_m[rest, :2])

        def field(state: str, some: Mask, rows: slice = rows, rest: slice = rest, apart: Array = apart) -> Array:
            pair, correlation_m = (waves[state, 0], waves[state, 1]), _correlation_m(loss, state)
            return radio.pair_field(*pair, correlation_m, device_m[rows, :2], device_m[rest, :2], apart)[some]

        both = Walls(
            indoor=walls.indoor[rows, None] | walls.indoor[rest],
            inside_m=walls.inside_m[rows, None] + walls.inside_m[rest],
            loss_db=walls.loss_db[rows, None] + walls.loss_db[rest],
        )
        ways = _ways(
            loss, apart, np.maximum.outer(height[rows], height[rest]), np.minimum.outer(height[rows], height[rest])
        )
        found = _paths(loss, ways, field, both)
        for out, values in ((gain, found.gain), (sees, found.line_of_sight)):
            out[rows, rest] = values
            out[rest, rows] = np.asarray(values).T
    return Paths(gain=gain, line_of_sight=sees)


@dataclass(frozen=True, kw_only=True, eq=False)
class Walls:
    """Of devices: which are in a building, how deep (0 outdoors), and what that costs in dB."""

    indoor: Mask
    inside_m: Array
    loss_db: Array


def _walls(loss: Tr38901Loss, device: NDArray[np.int64], around: Surroundings) -> Walls:
    """(n,) by the number of the device; TR 38.901, 7.4.3."""
    n, seed, most_m = len(device), around.seed, loss.constants.inside_m
    indoor = around.indoor[device] if around.indoor is not None else uniform_of(seed, "indoor", device) < loss.indoor
    if most_m == 0 or not indoor.any():
        return Walls(indoor=np.zeros(n, dtype=np.bool_), inside_m=np.zeros(n), loss_db=np.zeros(n))
    deep = penetration.inside_m(most_m, *(uniform_of(seed, "depth", device, draw) for draw in (0, 1)))
    lost = penetration.penetration_db(loss.penetration, loss.carrier_hz, deep, normal_of(seed, "wall", device))
    return Walls(indoor=indoor, inside_m=np.where(indoor, deep, 0.0), loss_db=np.where(indoor, lost, 0.0))


def _site_waves(loss: Tr38901Loss, kind: str, seed: int, state: str, site: int) -> radio.Waves:
    """The map of a state, of a site."""
    return radio.plane_waves(_correlation_m(loss, state), stream(seed, f"map {kind} {state}", site))


def _tr38901_paths(
    loss: Tr38901Loss,
    kind: str,
    site_m: Array,
    device_m: Array,
    around: Surroundings,
    waves: SiteWaves,
    who: NDArray[np.int64] | None = None,
) -> Paths:
    """(S, K). kind: of the sites, whose maps, `waves`, are not those of sites of another kind. who (K,): numbers of the devices,
    by default from 0 on."""
    device = np.arange(len(device_m)) if who is None else who
    walls = _walls(loss, device, around)
    site_height = _heights(site_m, loss.site_height_m, loss.constants.site_height_m)
    height = _heights(device_m, loss.device_height_m, loss.constants.device_height_m)
    ground = radio.distances(site_m[:, :2], device_m[:, :2])
    found = []
    for site in range(len(site_m)):
        ways = _ways(loss, ground[site], site_height[site], height)
        if loss.scenario == "uma" and (height >= 13).any():
            drawn = uniform_of(around.seed, f"environment {kind}", device, site)
            around_m = tr38901.environment_height_m(ground[site], height, drawn)
            ways = replace(ways, environment_m=around_m)

        def field(state: str, some: Mask, site: int = site) -> Array:
            return radio.field_at(waves(state, site), device_m[some, :2])

        found.append(_paths(loss, ways, field, walls))
    sees = np.stack([np.asarray(path.line_of_sight) for path in found])
    return Paths(gain=np.stack([path.gain for path in found]), line_of_sight=sees)


def _paths(loss: Tr38901Loss, ways: tr38901.Ways, field: Field, walls: Walls) -> Paths:
    """In the shape of the ways. field: values of the map of a state, for some of the ways."""
    from scipy.special import ndtr

    outside_m = np.maximum(np.asarray(ways.ground_m) - walls.inside_m, 0.0)
    everywhere = np.ones(outside_m.shape, dtype=np.bool_)
    if loss.line_of_sight == "drawn":
        likely = tr38901.line_of_sight_probability(loss.scenario, outside_m, ways.device_height_m)
        sees = ndtr(field("sight", everywhere)).reshape(outside_m.shape) <= likely
    else:
        sees = everywhere if loss.line_of_sight == "always" else ~everywhere
    lost_db = tr38901.loss_db(ways, sees) + walls.loss_db
    if loss.shadowing:
        std_db = tr38901.shadow_std_db(ways, sees, walls.indoor)
        outdoor = ~walls.indoor
        for state, some in (("los", sees & outdoor), ("nlos", ~sees & outdoor), ("indoor", walls.indoor)):
            if some.any():
                lost_db[some] += std_db[some] * field(state, some)
    return Paths(gain=radio.db_to_ratio(loss.antenna_gain_db - lost_db), line_of_sight=sees & ~walls.indoor)


def _ways(loss: Tr38901Loss, ground_m: Array, site_height_m: float | Array, device_height_m: Array) -> tr38901.Ways:
    return tr38901.Ways(
        scenario=loss.scenario,
        ground_m=ground_m,
        site_height_m=site_height_m,
        device_height_m=device_height_m,
        carrier_hz=loss.carrier_hz,
        street_m=loss.street_m,
        building_m=loss.building_m,
    )


def _heights(point_m: Array, chosen_m: float | None, usual_m: float) -> Array:
    """Of antennas at points (n, 2 or 3): the point's own unless it has none or 0."""
    other = usual_m if chosen_m is None else chosen_m
    own = point_m[:, 2] if point_m.shape[1] == 3 else np.zeros(len(point_m))
    return np.where(own == 0, other, own)


def _correlation_m(loss: Tr38901Loss, state: str) -> float:
    scenario = loss.constants
    return {
        "sight": scenario.sight_correlation_m,
        "los": scenario.los_correlation_m,
        "nlos": scenario.nlos_correlation_m,
        "indoor": scenario.indoor_correlation_m,
    }[state]
