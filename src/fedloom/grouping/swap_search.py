"""Clusters by swap search: directions like everybody's, and short rounds (LTC, Algorithms 2 and 3).

A trial takes two clusters and lists every change that exchanges two of their members or moves one, as the sizes allow.
A change is valid if what gets worse is paid for by what gets better: for the metrics mu1, mu2 before and after, with the
relative changes r = mu'/mu - 1, there is an alpha > 0 with r1 <= alpha and r2 <= -z alpha, or the other way round, hence

    (r2 < 0 and z r1 + r2 <= 0)  or  (r1 < 0 and z r2 + r1 <= 0)                                   (`valid`)

    solution   (mu1, mu2) of clusters 1 and 2                                          z
    1.1        (theta_1 + theta_2, T_1 + T_2)                                          1.05
    1.2        (theta_c, T_c), to hold for both clusters, each with its own alpha      1.05
    2          (theta_1 + theta_2, theta_1 / T_1 + theta_2 / T_2)                      1.05
    3          (T_1 + T_2, theta_1 / T_1 + theta_2 / T_2)                              1.8

One of the valid changes is made, by chance as published or the best. By (1 + alpha)(1 - z alpha) < 1 for z >= 1 each lowers
mu1 mu2 of its pair; 1.2 lowers the product of theta_c T_c over all clusters and cannot run in circles. theta: see
`directions`, T: see `round_time`. K clients, N clusters.

Our choices, where the published text is silent: the size bounds, which apply to moves in both directions; "best", the smallest
r1 + r2, ties (1e-9) to the first in the list; and rounds longer than t_cap, which count as t_cap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.directions import Angle, Skew
from fedloom.grouping.local_search import (
    Change,
    Judge,
    check_clusters,
    check_count,
    local_search,
    random_clusters,
    trials_for,
)
from fedloom.grouping.round_time import RoundTimes, heads_and_times, round_matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

Z = {"1.1": 1.05, "1.2": 1.05, "2": 1.05, "3": 1.8}  # as published
METRICS = ("angle", "skew")
TOL = 1e-12  # smaller relative changes are rounding
LEAST = 1e-9  # by which something must get better in a search: small angles from a Gram matrix are no sharper


@dataclass(frozen=True, kw_only=True, eq=False)
class SwapResult:
    """clusters: N sorted arrays of clients. heads (N,), round_s (N,): eqs 4, 5, not capped. theta (N,): the direction
    metric, rad for "angle". accepted: the changes in order. n_trials: trials made, fewer than asked for if patience
    ended."""

    clusters: list[Ints]
    heads: Ints
    round_s: Floats
    theta: Floats
    accepted: list[Change]
    n_trials: int


def swap_search(
    features: ArrayLike,
    n_samples: ArrayLike,
    compute_s: ArrayLike,
    exchange_s: ArrayLike,
    *,
    n_clusters: int,
    size_min: int | None = None,
    size_max: int | None = None,
    n_trials: int | None = None,
    solution: str = "1.1",
    z: float | None = None,
    choice: str = "random",
    strict: bool = False,
    patience: int | None = None,
    start: Sequence[ArrayLike] | None = None,
    t_cap: float | None = None,
    metric: str = "angle",
    rng: np.random.Generator,
) -> SwapResult:
    """Clusters of similar direction as the whole and of short rounds.

    features (K, d): directions for "angle", label counts for "skew". n_samples (K,). compute_s (K,): seconds of a
    client's work in a round; exchange_s (K, K): seconds a round spends on the link of member (row) and head (column),
    infinite where it is down (`View.exchange_s`).
    n_trials: by default 80, as published for up to 30 clients, and more for more (`trials_for`).
    size_min, size_max bound what moves may do, not the start: by default half and one and a half times the mean, at
    least 2 and rounded outwards. z: what a loss must be paid back with, at least 1, by default the solution's; strict:
    nothing may get worse (z infinite). patience: ends the search after so many trials in a row without a change.
    start: clusters to begin with instead of random ones. t_cap, s: rounds count no longer than this, by default ten
    times the slowest live link with its sender's work; ten times the length of a cloud round is a good choice.

    rng is drawn from in this order: the random start, if none is given; for every trial the pair of clusters, and the
    change if there are valid ones and the choice is random.
    """
    _check.one_of("solution", solution, tuple(Z))
    _check.one_of("metric", metric, METRICS)
    t = round_matrix(compute_s, exchange_s)
    n_clients = len(t)
    if solution in ("2", "3"):
        _check.positive(f"compute_s for solution {solution}, which divides by round times,", t.diagonal())
    bounds = _size_bounds(n_clients, n_clusters, size_min, size_max)
    round_times = RoundTimes(t, _cap_s(t, t_cap))
    sizes = _check.array("n_samples", n_samples, (n_clients,))
    direction = Angle(features, sizes) if metric == "angle" else Skew(features, sizes)
    first = (
        random_clusters(n_clients, n_clusters, rng) if start is None else check_clusters(start, n_clients, n_clusters)
    )
    found = local_search(
        [direction, round_times],
        trade_off(solution, _exchange_rate(solution, z, strict)),
        first,
        bounds=bounds,
        n_trials=trials_for(n_clients, n_clusters) if n_trials is None else n_trials,
        choice=choice,
        patience=patience,
        rng=rng,
    )
    heads, round_s = heads_and_times(t, found.clusters)
    return SwapResult(
        clusters=found.clusters,
        heads=heads,
        round_s=round_s,
        theta=found.values[0],
        accepted=found.accepted,
        n_trials=found.n_trials,
    )


def valid(mu1: ArrayLike, mu2: ArrayLike, new1: ArrayLike, new2: ArrayLike, z: float) -> Mask:
    """Whether going from the metrics mu1, mu2 to new1, new2 is worth it; all at least 0, of shapes that broadcast.

    If both get better, or one does and the other stays: always. If one gets worse: if the other gets better by z times
    as much, relatively. z infinite: never if one gets worse. What is 0 and grows has grown infinitely.

    >>> valid(1.0, 1.0, [1.1, 1.1, 0.9], [0.895, 0.896, 0.9], z=1.05).tolist()
    [True, False, True]
    """
    return _pays(relative_change(mu1, new1), relative_change(mu2, new2), z, TOL)


def relative_change(old: ArrayLike, new: ArrayLike) -> Floats:
    """new / old - 1; 0 from 0 to 0, infinite from 0 to more."""
    before, now = np.asarray(old, dtype=np.float64), np.asarray(new, dtype=np.float64)
    if before.ndim == 0 and before > 0:
        return np.asarray(now / before - 1.0)
    change = now / np.where(before > 0, before, 1.0) - 1.0
    return np.where(before > 0, change, np.where(now > 0, np.inf, 0.0))


def trade_off(solution: str, z: float) -> Judge:
    """Which changes a solution takes: theta and T of a pair after each, (2, n1 + 1, n2 + 1), the last of all being the
    pair as it is -> mask, score (n1 + 1, n2 + 1). Only what gets better by 1e-9 at least is taken: angles are no sharper.
    """

    def judge(after: Sequence[Floats]) -> tuple[Mask, Floats]:
        theta, t = after
        changes = [
            (relative_change(new1[-1, -1], new1), relative_change(new2[-1, -1], new2))
            for new1, new2 in _metrics(solution, theta, t)
        ]
        accept = np.logical_and.reduce([_pays(r1, r2, z, LEAST) for r1, r2 in changes])
        return accept, np.asarray(sum(r1 + r2 for r1, r2 in changes))

    return judge


def _metrics(solution: str, theta: Floats, t: Floats) -> list[tuple[Floats, Floats]]:
    """The pairs (mu1, mu2), (...) each, of theta (2, ...) and T (2, ...)."""
    if solution == "1.1":
        return [(theta[0] + theta[1], t[0] + t[1])]
    if solution == "1.2":
        return [(theta[0], t[0]), (theta[1], t[1])]
    ratio = theta[0] / t[0] + theta[1] / t[1]
    return [(theta[0] + theta[1] if solution == "2" else t[0] + t[1], ratio)]


def _pays(r1: Floats, r2: Floats, z: float, least: float) -> Mask:
    """The condition on relative changes; `least` is how much better is better. z infinite: neither grows."""
    if z == np.inf:
        return np.asarray((r1 <= least) & (r2 <= least) & ((r1 < -least) | (r2 < -least)))
    return np.asarray(((r2 < -least) & (z * r1 + r2 <= TOL)) | ((r1 < -least) & (z * r2 + r1 <= TOL)))


def check_exchange_rate(z: float) -> None:
    """z, at least 1; infinite: nothing may get worse."""
    if not z >= 1:
        raise ValueError(f"z must be at least 1, so that a change never loses more than it gains; got {z:g}")


def _cap_s(t: Floats, t_cap: float | None) -> float:
    """What rounds count at most, by default ten times the longest that is finite of t (K, K)."""
    if t_cap is None:
        return 10 * float(t[np.isfinite(t)].max())
    if not 0 < t_cap < np.inf:
        raise ValueError(f"t_cap must be above 0 and finite, so that dead clusters can be compared, got {t_cap:g}")
    return t_cap


def _exchange_rate(solution: str, z: float | None, strict: bool) -> float:
    if strict and z is not None:
        raise ValueError(f"strict lets nothing get worse and has no use for z, got z = {z:g}; leave one of them out")
    if z is not None:
        check_exchange_rate(z)
    return np.inf if strict else Z[solution] if z is None else z


def _size_bounds(n_clients: int, n_clusters: int, size_min: int | None, size_max: int | None) -> tuple[int, int]:
    """Defaults: half the mean size rounded down, at least 2, and one and a half times the mean rounded up."""
    check_count(n_clients, n_clusters)
    low = max(2, n_clients // (2 * n_clusters)) if size_min is None else size_min
    high = -(-3 * n_clients // (2 * n_clusters)) if size_max is None else size_max
    _check.whole("size_min", low)
    _check.whole("size_max", high)
    if low > high:
        raise ValueError(f"size_min must be at most size_max, got {low} and {high}")
    return low, high
