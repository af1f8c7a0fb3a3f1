"""What clusters around heads are worth: total distance, similarity of gradients, and their weighted sum (DDC).

    d(C) = sum_n ([sum_{u in C_n} d_un] + d_n,cs)                            metres, the server once per head      (6)
    Q_n  = S_n / m_n^2,   S_n = sum_{u,v in C_n} c_uv                        in [0, 1]; pairs ordered, u = v too
    c(C) = (1/k) sum_n Q_n                                                   similarity score                 (14, 15)
    psi  = lam sum_u d_u,h(u) + (alpha / k) sum_n Q_n                        association                          (17)
    Psi  = psi + lam sum_n d_n,cs                                            objective, to be made small      (16, 18)

Why likeness in a cluster is bad: Q_n = |mean of the unit gradients in C_n|^2, and for equal clusters c(C) is the mean of all
cosines plus the mean squared distance of the clusters' means from the mean of all. So clusters of devices that differ are
each like the whole. lam, alpha and the other weighting of Q_n: see `head_problem`. U devices, k heads, m_n members.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom.grouping.head_problem import HeadProblem
from fedloom.grouping.unit_gradients import unit_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadScores:
    """Psi and its parts. heads (k,) rising; size, q (k,) in their order; without gradients there is no q and no cosine.

    objective: Psi (18). association: psi (17). member_cost, server_cost: the two distance parts of Psi as weighted there.
    cosine: c(C) (15), the mean of q over clusters; cosine_by_size: the mean over devices. member_m, server_m: the two
    parts of d(C) (6), metres.
    """

    heads: Ints
    size: Ints
    q: Floats | None
    objective: float
    association: float
    member_cost: float
    server_cost: float
    cosine: float | None
    cosine_by_size: float | None
    member_m: float
    server_m: float

    @property
    def total_m(self) -> float:
        """d(C) (6), metres."""
        return self.member_m + self.server_m


def head_scores(problem: HeadProblem, assign: ArrayLike) -> HeadScores:
    """Psi and its parts for assign (U,): the head each device reports to. Capacities are not looked at."""
    heads, cluster, columns = split_assignment(problem, assign)
    n, k = len(cluster), len(heads)
    size = np.bincount(cluster)
    devices = np.arange(n)
    member_cost = float(problem.cost[devices, columns[cluster]].sum())
    server_cost = float(problem.server_cost[columns].sum())
    q = cosine = by_size = None
    learning = 0.0
    if problem.has_gradients:
        _, square = cluster_sums(problem, cluster, k)
        q = square / size**2
        cosine, by_size = float(q.mean()), float(size @ q / n)
        learning = problem.alpha * (cosine if problem.weighting == "cluster" else by_size)
    return HeadScores(
        heads=heads,
        size=size,
        q=q,
        objective=member_cost + server_cost + learning,
        association=member_cost + learning,
        member_cost=member_cost,
        server_cost=server_cost,
        cosine=cosine,
        cosine_by_size=by_size,
        member_m=float(problem.distance_m[devices, columns[cluster]].sum()),
        server_m=float(problem.server_m[columns].sum()),
    )


def gradient_likeness(gradients: NDArray[np.floating], clusters: Sequence[NDArray[np.integer]]) -> tuple[float, float]:
    """c(C) of clusters of any kind: the mean of Q_n over clusters (15), and over devices.

    gradients (U, p): one per device at a common model. clusters: members of each, at least one.

    >>> two = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    >>> gradient_likeness(two, [np.array([0, 1]), np.array([2])])  # Q = 1/2 and 1
    (0.75, 0.6666666666666666)
    """
    if not clusters or not all(len(members) for members in clusters):
        raise ValueError(f"clusters must have members, got sizes {[len(members) for members in clusters]}")
    rows, remainder = unit_rows(gradients)
    square = [float((rows[c].sum(axis=0) ** 2).sum() + remainder[c].sum()) for c in clusters]
    size = np.array([len(c) for c in clusters])
    q = np.array(square) / size**2
    return float(q.mean()), float(size @ q / size.sum())


def split_assignment(problem: HeadProblem, assign: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Heads (k,) rising, cluster (U,) in 0..k-1 and columns (k,) of an assignment (U,), which must be a valid one."""
    given = np.asarray(assign)
    if given.shape != (problem.n_devices,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"assign must be whole numbers of shape ({problem.n_devices},), got {given.dtype} {given.shape}"
        )
    heads, cluster = np.unique(given.astype(np.int64), return_inverse=True)
    columns = problem.columns(heads)
    if problem.own_cluster:
        elsewhere = heads[given[heads] != heads]
        if len(elsewhere):
            raise ValueError(f"heads must report to themselves, but devices {elsewhere[:10].tolist()} do not")
    return heads, np.asarray(cluster, dtype=np.int64), columns


def cluster_sums(problem: HeadProblem, cluster: Ints, k: int) -> tuple[Floats, Floats]:
    """Sums of rows (k, q) and S_n (k,) of clusters (U,) in 0..k-1; negative: in none. Empty clusters have 0."""
    sums = sum_by_cluster(problem.rows, cluster, k)
    inside = cluster >= 0
    alone = np.bincount(cluster[inside], weights=problem.remainder[inside], minlength=k)
    return sums, (sums**2).sum(axis=1) + alone


def sum_by_cluster(values: Floats, cluster: Ints, k: int) -> Floats:
    """Sums (k, m) of values (U, m) over clusters (U,) in 0..k-1; negative: in none."""
    order = np.argsort(cluster, kind="stable")
    first = np.searchsorted(cluster[order], np.arange(k + 1))
    full = np.flatnonzero(first[1:] > first[:-1])
    sums = np.zeros((k, values.shape[1]))
    if len(full) and sums.size:
        sums[full] = np.add.reduceat(values[order[first[0] :]], first[full] - first[0], axis=0)
    return sums
