"""Which head every device reports to, under fixed heads: psi made small by moves and swaps (DDC, eq. 17).

The published text leaves the solver open (it uses a commercial one). Ours: a start, then rounds of moves and swaps until
neither helps, then kicks: a few random pairs change places, the search goes on, and worse results are undone. A round first
prices all changes at once, then makes those that still help, one after the other, best first, each priced anew. Only
pairs of clusters of which one has changed since the last round are priced again. See `head_clusters` for the prices.

No guarantee: a single start may end several percent above the optimum, so small instances get several starts and kicks; `exact`
has solvers for them. U devices, k heads.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _blas, _check
from fedloom.grouping.head_clusters import Clustering
from fedloom.grouping.head_problem import HeadProblem, check_capacity
from fedloom.grouping.head_scores import HeadScores, head_scores, split_assignment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KICK_PAIRS = 3
START_NOISE = 0.5
SMALL = 1 << 14  # numbers in all rows up to which products are too small for several threads


@dataclass(frozen=True, kw_only=True, eq=False)
class Association:
    """heads (k,) rising, assign (U,): the head of each device, clusters: members of each head, rising; scores: see there."""

    heads: Ints
    assign: Ints
    clusters: list[Ints]
    scores: HeadScores


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard to look: starts, kicks after the best of them, and rounds of swaps in each descent (None: until none helps)."""

    n_starts: int
    n_kicks: int
    n_swap_rounds: int | None = None

    def __post_init__(self) -> None:
        _check.whole("n_starts", self.n_starts)
        _check.whole("n_kicks", self.n_kicks, least=0)
        _check.wholes(n_swap_rounds=self.n_swap_rounds, least=0)


def default_effort(n_devices: int) -> Effort:
    """By size, our choice: fractions of a second for hundreds of devices, seconds for thousands."""
    if n_devices <= 30:
        return Effort(n_starts=8, n_kicks=40)
    if n_devices <= 300:
        return Effort(n_starts=1, n_kicks=60)
    return Effort(n_starts=1, n_kicks=0)


def associate(
    problem: HeadProblem,
    heads: ArrayLike,
    *,
    start: ArrayLike | None = None,
    effort: Effort | None = None,
    rng: np.random.Generator,
) -> Association:
    """The head of each device for the given heads, with psi as small as the search finds it.

    start (U,): an assignment to these heads to begin with; the result is never worse. The first start is by regret, devices
    that would lose most by their second-nearest head choosing first; then random ones and regret on perturbed
    distances take turns. At alpha = 1, where distances do not count, starts are random.
    """
    columns = np.sort(problem.columns(heads))
    check_capacity(problem, columns)
    given = None if start is None else _given_start(problem, columns, start)
    with one_thread(problem):
        clustering = best_clustering(problem, columns, given, effort or default_effort(problem.n_devices), rng)
    return association_of(problem, clustering.assign)


def association_of(problem: HeadProblem, assign: ArrayLike) -> Association:
    """The record of an assignment (U,)."""
    heads, cluster, _ = split_assignment(problem, assign)
    clusters = [np.flatnonzero(cluster == c) for c in range(len(heads))]
    return Association(
        heads=heads, assign=heads[cluster], clusters=clusters, scores=head_scores(problem, heads[cluster])
    )


def move_changes(problem: HeadProblem, assign: ArrayLike) -> Floats:
    """What Psi changes by if device u moves to head n: (U, k), heads rising. Infinite where it may not, 0 where it is."""
    _, cluster, columns = split_assignment(problem, assign)
    clustering = Clustering(problem, columns, cluster)
    devices = np.arange(len(cluster))
    changes = clustering.price_joining(devices)[0] + clustering.leaving[:, None]
    changes[devices, cluster] = 0.0
    return changes


def swap_changes(problem: HeadProblem, assign: ArrayLike) -> Floats:
    """What Psi changes by if devices u and v swap heads: (U, U). Infinite for heads if they stay, 0 within a cluster."""
    _, cluster, columns = split_assignment(problem, assign)
    clustering = Clustering(problem, columns, cluster)
    gain = clustering.price_going()[:, cluster]  # (U, U): u goes to v's place
    weight = clustering.weight[clustering.size[cluster]]
    changes = gain + gain.T + 2 * (weight[:, None] + weight) * (1 - problem.rows @ problem.rows.T)
    changes[cluster[:, None] == cluster] = 0.0
    return changes


def best_clustering(
    problem: HeadProblem, columns: Ints, given: Ints | None, effort: Effort, rng: np.random.Generator
) -> "Clustering":
    """The best that starts and kicks find for heads at `columns` (k,); given (U,): clusters of one more, first start."""
    starts = [] if given is None else [Clustering(problem, columns, given)]
    starts += [Clustering(problem, columns, _start(problem, columns, i, rng)) for i in range(effort.n_starts)]
    for clustering in starts:
        clustering.descend(effort.n_swap_rounds)
    best = min(starts, key=lambda clustering: clustering.value)
    kick(best, effort, rng)
    return best


def kick(clustering: Clustering, effort: Effort, rng: np.random.Generator) -> None:
    """Exchange a few random pairs and descend again, `n_kicks` times; what ends worse is undone."""
    free = np.flatnonzero(clustering.free)
    if len(free) < 2 or len(clustering.columns) < 2:
        return
    for _ in range(effort.n_kicks):
        before, value = clustering.cluster.copy(), clustering.value
        for _ in range(KICK_PAIRS):
            pair = rng.choice(free, 2, replace=False)
            clustering.cluster[pair] = clustering.cluster[pair[::-1]]
        changed = np.zeros(len(clustering.columns), dtype=np.bool_)
        changed[clustering.cluster[clustering.cluster != before]] = True
        clustering.rebuild()
        clustering.descend(effort.n_swap_rounds, changed)
        if clustering.value > value:
            clustering.cluster = before
            clustering.rebuild()


def fill_by_regret(cost: Floats, cluster: Ints, room: Ints) -> Ints:
    """Clusters (U,) with everybody in one: devices without (-1) take the cheapest with room, those first that would lose
    most by their second choice. cost (U, k), room (k,): most devices in each, enough for all."""
    todo = np.flatnonzero(cluster < 0)
    left = room - np.bincount(cluster[cluster >= 0], minlength=len(room))
    price = cost[todo]
    first = price.argmin(axis=1)
    out = cluster.copy()
    if (np.bincount(first, minlength=len(room)) <= left).all():
        out[todo] = first
        return out
    ranked = np.partition(price, 1, axis=1)
    closed = np.where(left > 0, 0.0, np.inf)
    for i in np.argsort(ranked[:, 0] - ranked[:, 1], kind="stable").tolist():
        b = int((price[i] + closed).argmin())
        out[todo[i]] = b
        left[b] -= 1
        if not left[b]:
            closed[b] = np.inf
    return out


def one_thread(problem: HeadProblem) -> AbstractContextManager[None]:
    """Matrix products in one thread, where they might take several."""
    return nullcontext() if problem.rows.size < SMALL else _blas.one_thread()


def _start(problem: HeadProblem, columns: Ints, number: int, rng: np.random.Generator) -> Ints:
    """Clusters (U,) to start from: 0 by regret, odd ones random, even ones by regret on perturbed costs."""
    cost, room = problem.cost[:, columns], problem.capacity[columns]
    cluster = np.full(len(cost), -1)
    cluster[problem.candidates[columns]] = np.arange(len(columns))
    if number % 2 or not cost.any():
        left = np.minimum(room - 1, len(cost) - len(columns))
        todo = cluster < 0
        cluster[todo] = rng.permutation(np.repeat(np.arange(len(columns)), left))[: np.count_nonzero(todo)]
        return cluster
    return fill_by_regret(cost * (1 + START_NOISE * rng.uniform(size=cost.shape)) if number else cost, cluster, room)


def _given_start(problem: HeadProblem, columns: Ints, assign: ArrayLike) -> Ints:
    heads, cluster, own_columns = split_assignment(problem, assign)
    if not np.array_equal(own_columns, columns):
        raise ValueError(
            f"start must use exactly the heads {problem.candidates[columns].tolist()}, got {heads.tolist()}"
        )
    over = heads[np.bincount(cluster) > problem.capacity[columns]]
    if len(over):
        raise ValueError(f"start must keep to the capacities, but heads {over[:10].tolist()} have too many devices")
    return cluster
