"""Heads by data and distance (DDC, eq. 16 to 19) for a fleet that exists: its capacities, its candidates, of many a choice.

K devices, m points.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.grouping import Topology, View
from fedloom.grouping.exact import exact_heads
from fedloom.grouping.head_problem import HeadProblem, head_problem
from fedloom.grouping.head_selection import HeadSelection, select_heads
from fedloom.grouping.unit_gradients import RANK
from fedloom.methods.method import Group
from fedloom.planning.devices import Devices, check_room

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DATA_WEIGHT = 0.2  # alpha of a plan: balance where it costs little; papers use 0.5
MOST_CANDIDATES = 100  # that a search looks at if nothing else is asked for
MOST_EXACT = 12  # devices for which the best plan is proven in reasonable time


def heads_by_data_and_distance(
    devices: Devices,
    *,
    alpha: float | None,
    n_candidates: int | None,
    exact: bool,
    watch: Callable[[int, float], None] | None = None,
) -> Group:
    """Grouping by gradients and distance (DDC, eq. 16 to 19) with the capacities and candidates of a fleet.

    Likeness is the mean over devices, not over clusters as published: no few small clusters can make up for a large one.
    alpha: weight of data against distance, by default 0.2, or 0 if nothing is known of the data. exact: the proven best.
    watch: of the search, see `select_heads`.
    """

    def group(view: View, rng: np.random.Generator) -> Topology:
        problem = _problem(devices, alpha, n_candidates or (10 if exact else MOST_CANDIDATES), rng)
        if exact and devices.n > MOST_EXACT:
            raise ValueError(
                f"the best plan can be proven for at most {MOST_EXACT} devices, got {devices.n}; leave out --exact"
            )
        found = exact_heads(problem) if exact else _search(problem, rng, watch)
        notes = {
            "objective": found.scores.objective,
            "candidates": float(len(problem.candidates)),
            "alpha": problem.alpha,
        }
        return Topology.of_heads(found.clusters, found.heads, devices.n, notes)

    return group


def choose_candidates(devices: Devices, most: int, rng: np.random.Generator) -> Ints:
    """At most `most` devices that may be heads, rising: those nearest to the centres of as many parts of the fleet.

    More where that many have no room for everybody: a third more than those of the largest capacities that have.
    """
    allowed = np.flatnonzero(devices.candidate)
    check_room(devices)
    largest = np.sort(devices.capacity[allowed])[::-1]
    enough = int(np.searchsorted(largest.cumsum(), devices.n)) + 1
    most = min(len(allowed), max(most, -(-enough * 4 // 3)))
    if most == len(allowed):
        return allowed
    chosen = allowed[spread_over(devices.position_m[allowed], most, rng)]
    for k in allowed[np.argsort(-devices.capacity[allowed], kind="stable")].tolist():
        if devices.capacity[chosen].sum() >= devices.n:
            break
        chosen = np.union1d(chosen, [k])
    return np.sort(chosen)


def _problem(devices: Devices, alpha: float | None, n_candidates: int, rng: np.random.Generator) -> HeadProblem:
    directions = devices.directions
    if alpha is None:
        alpha = 0.0 if directions is None else DATA_WEIGHT
    if alpha > 0 and directions is None:
        raise ValueError(
            f"alpha {alpha:g} weighs the devices' data against distance, and nothing is known of the data: give gradients, or "
            "samples per class in columns label_<name>, or alpha 0"
        )
    if not devices.to_server_m.any():
        raise ValueError(
            "all devices stand where the server is, so that distances say nothing; give the server's position"
        )
    rank = None if directions is None or min(directions.shape) <= RANK else RANK
    return head_problem(
        devices.position_m,
        devices.server_m,
        directions,
        alpha=alpha,
        candidates=choose_candidates(devices, n_candidates, rng),
        capacity=devices.capacity,
        weighting="size",
        rank=rank,
        rng=rng,
    )


def _search(
    problem: HeadProblem, rng: np.random.Generator, watch: Callable[[int, float], None] | None
) -> HeadSelection:
    """The search for heads; where capacities differ also from the fewest heads that have room, and the better of both."""
    found = select_heads(problem, rng=rng, watch=watch)
    if len(set(problem.capacity.tolist())) == 1:
        return found
    largest = np.argsort(-problem.capacity, kind="stable")
    enough = int(np.searchsorted(problem.capacity[largest].cumsum(), problem.n_devices)) + 1
    other = select_heads(problem, start=problem.candidates[largest[:enough]], rng=rng, watch=watch)
    return min(found, other, key=lambda one: one.scores.objective)


def spread_over(points: Floats, n: int, rng: np.random.Generator) -> Ints:
    """n of the points (m, 2), rising: those nearest to the centres of k-means."""
    from sklearn.cluster import MiniBatchKMeans  # takes long to import

    centres = MiniBatchKMeans(n, n_init=1, random_state=int(rng.integers(2**31))).fit(points).cluster_centers_
    return np.sort(_nearest_each(centres, points))


def _nearest_each(centres: Floats, points: Floats) -> Ints:
    """(n,): for every centre (n, 2) in turn the nearest of the points (m, 2), m >= n, that no other has."""
    away = radio.distances(centres, points)  # (n, m)
    out = np.empty(len(centres), dtype=np.int64)
    for i in range(len(centres)):
        out[i] = int(away[i].argmin())
        away[:, out[i]] = np.inf
    return out
