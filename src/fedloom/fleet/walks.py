"""From the settings of a fleet and a seed to where its devices are at any time."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import mobility, placement
from fedloom.fleet.gauss_markov import GaussMarkov
from fedloom.fleet.propagation import Survey
from fedloom.fleet.settings.fleet import FleetSettings
from fedloom.fleet.settings.measured import TraceMobility
from fedloom.fleet.settings.mobility import GaussMarkovMobility, MobilitySettings, WaypointMobility
from fedloom.fleet.trace import Paths
from fedloom.fleet.waypoint import Waypoint
from fedloom.fleet.whereabouts import Badness, Hopping, Place, Placed, Walking, Whereabouts
from fedloom.radio import ratio_to_db

Array = NDArray[np.float64]
Walk = Callable[[int], Array]


def whereabouts(
    settings: FleetSettings, seed: int, start: Place, cell_m: Array, radius_m: Array, survey: Survey
) -> Whereabouts:
    """How the devices of a fleet move that begins like this. survey: of how good its cells are."""
    moves, (position_m, _) = settings.mobility, start
    if moves is None:
        return Placed(start)
    if isinstance(moves, MobilitySettings):
        near = mobility.neighbours(moves.neighbours, cell_m)
        return Hopping(seed, start, cell_m, radius_m, mobility.transition(near, moves.p_stay))
    walk = _walk(moves, seed, settings.tick_s, position_m[:, :2], cell_m[:, :2], radius_m)
    return Walking(walk, position_m, cell_m, radius_m, _badness(settings, survey), _rule(settings))


def still_from_s(settings: FleetSettings) -> float:
    """From when on nobody moves any more, nor changes its cell; infinite if they always may. Moves by rounds do not count."""
    moves, rule = settings.mobility, settings.handover
    if moves is None or isinstance(moves, MobilitySettings):
        return 0.0
    if not isinstance(moves, TraceMobility):
        return np.inf
    last_s = max((times[-1] for times in moves.times_s if len(times)), default=0.0)
    return last_s if rule is None else last_s + rule.time_to_trigger_s + settings.tick_s


def paths(moves: TraceMobility, start_m: Array) -> Paths:
    """Of devices that would be at start_m (K, 2) without a trace."""
    return Paths(moves.times_s, moves.x_m, moves.y_m, start_m)


def _walk(
    moves: WaypointMobility | GaussMarkovMobility | TraceMobility,
    seed: int,
    tick_s: float,
    start_m: Array,
    cell_m: Array,
    radius_m: Array,
) -> Walk:
    """Metres (K, 2) in a tick."""
    if isinstance(moves, TraceMobility):
        traced = paths(moves, start_m)
        return lambda tick: traced.at(tick * tick_s)
    area_m = moves.area_m or placement.box(start_m, cell_m, radius_m)
    if isinstance(moves, GaussMarkovMobility):
        speeds = {"speed_m_s": moves.speed_m_s, "sigma_m_s": moves.sigma_m_s, "memory_s": moves.memory_s}
        return GaussMarkov(seed, start_m, area_m, tick_s, **speeds).at
    drawn = Waypoint(seed, start_m, area_m, moves.speed_m_s, moves.pause_s)
    return lambda tick: drawn.at(tick * tick_s)


def _badness(settings: FleetSettings, survey: Survey) -> Badness:
    """What makes a cell worse: metres, or dB of path loss, with its walls and shadows."""
    radio = settings.radio_to_cells
    if settings.handover is None or settings.handover.hysteresis_db is None or radio is None:
        return lambda position_m, distance_m: distance_m
    loss = radio.path_loss

    def lost_db(position_m: Array, distance_m: Array) -> Array:
        return -ratio_to_db(survey.paths(loss, position_m, distance_m).gain)

    return lost_db


def _rule(settings: FleetSettings) -> tuple[float, int] | None:
    """Margin, and the ticks for which a cell must have been better before."""
    rule = settings.handover
    if rule is None:
        return None
    margin = rule.hysteresis_m if rule.hysteresis_db is None else rule.hysteresis_db
    return margin or 0.0, int(np.ceil(rule.time_to_trigger_s / settings.tick_s - 1e-9))
