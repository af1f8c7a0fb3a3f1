"""Heads and members solved to the end, for small instances: what the searches are tested against (DDC, eq. 16, 17).

The cosine part w(m_n) sum_{u,v} b_un b_vn c_uv of psi is a fraction, because m_n = sum_u b_un. Fixing or choosing sizes
removes it:

    brute     every assignment, k^(U - k) of them
    milp      for every vector of sizes a mixed-integer program with products y_uvn = b_un b_vn, by HiGHS:
              min sum_un lam d_un b_un + sum_n w(m_n) [m_n + 2 sum_{u<v} c_uv y_uvn],   sum_u b_un = m_n,   sum_n b_un = 1,
              y_uvn >= b_un + b_vn - 1 where c_uv > 0,   y_uvn <= b_un, b_vn where c_uv < 0
    cp_sat    one model in whole numbers, by OR-Tools: sizes chosen by z_ns, and for every size s, if z_ns = 1,
              p_n >= w(s) [s + 2 sum_{u<v} c_uv y_uvn] in units of 1e-8 of the costs; the result is priced again in float64

About how far they go on one core: (U, k, capacity) = (12, 3, 5) in two seconds with milp and in less than one with cp_sat, which
still proves (14, 3, 7) in some seconds and (16, 4, 6) no more in a minute. U devices, N candidates, k heads.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.association import association_of, fill_by_regret
from fedloom.grouping.head_clusters import Clustering
from fedloom.grouping.head_problem import HeadProblem, check_capacity
from fedloom.grouping.head_scores import HeadScores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METHODS = ("auto", "brute", "milp", "cp_sat")
MOST_ASSIGNMENTS = 5_000_000
FEW_ASSIGNMENTS = 100_000  # up to which "auto" is "brute"
AT_ONCE = 1 << 14  # assignments
MOST_CANDIDATES = 10
UNITS = 1e8  # of CP-SAT's objective in the largest cost


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactAssociation:
    """heads, assign, clusters, scores: as in `Association`. bound: a proven lower bound of Psi; proven: whether the
    solution meets it, up to the solver's rounding. Only a time limit leaves it unproven."""

    heads: Ints
    assign: Ints
    clusters: list[Ints]
    scores: HeadScores
    bound: float
    proven: bool


def exact_association(
    problem: HeadProblem, heads: ArrayLike, *, method: str = "auto", time_limit_s: float | None = None
) -> ExactAssociation:
    """The best head for each device under the given heads (k,).

    method "auto": brute force up to 100,000 assignments, cp_sat above. time_limit_s, for cp_sat: then the best found so far.
    """
    _check.one_of("method", method, METHODS)
    columns = np.sort(problem.columns(heads))
    check_capacity(problem, columns)
    if time_limit_s is not None:
        _check.positive("time_limit_s", time_limit_s)
        if method in ("brute", "milp"):
            raise ValueError(f'time_limit_s is for method "cp_sat" and would be ignored by "{method}"')
    if method == "auto":
        method = "brute" if _n_assignments(problem, columns) <= FEW_ASSIGNMENTS else "cp_sat"
    if method == "cp_sat":
        cluster, gap = _cp_sat(problem, columns, time_limit_s)
    else:
        cluster, gap = (_brute if method == "brute" else _milp)(problem, columns), 0.0
    found = association_of(problem, problem.candidates[columns][cluster])
    return ExactAssociation(
        heads=found.heads,
        assign=found.assign,
        clusters=found.clusters,
        scores=found.scores,
        bound=found.scores.objective - gap,
        proven=gap == 0.0,
    )


def exact_heads(problem: HeadProblem, *, method: str = "auto") -> ExactAssociation:
    """The best heads and the best head for each device, from all sets of at most 10 candidates.

    Sets whose distance costs alone, everybody at the nearest head, exceed the best value so far are left out.
    """
    n_candidates = len(problem.candidates)
    if n_candidates > MOST_CANDIDATES:
        raise ValueError(f"all sets of heads are tried for at most {MOST_CANDIDATES} candidates, got {n_candidates}")
    check_capacity(problem, np.arange(n_candidates))
    sets = [
        (_least(problem, list(columns)), columns)
        for k in range(1, n_candidates + 1)
        for columns in itertools.combinations(range(n_candidates), k)
        if problem.capacity[list(columns)].sum() >= problem.n_devices
    ]
    best: ExactAssociation | None = None
    for least, columns in sorted(sets):
        if best is not None and least >= best.scores.objective:
            break
        found = exact_association(problem, problem.candidates[list(columns)], method=method)
        if best is None or found.scores.objective < best.scores.objective:
            best = found
    if best is None:
        raise ValueError("no set of candidates has room for all devices")
    return best


def _least(problem: HeadProblem, columns: list[int]) -> float:
    """A lower bound of Psi: nearest heads, and by size no less than the mean of all cosines."""
    least = problem.cost[:, columns].min(axis=1).sum() + problem.server_cost[columns].sum()
    if problem.weighting == "size":
        total = problem.rows.sum(axis=0)
        least += problem.alpha * (total @ total + problem.remainder.sum()) / problem.n_devices**2
    return float(least) - 1e-12


def _brute(problem: HeadProblem, columns: Ints) -> Ints:
    """Clusters (U,) of the best of all assignments, the first of equals."""
    n_all, k = _n_assignments(problem, columns), len(columns)
    if n_all > MOST_ASSIGNMENTS:
        raise ValueError(
            f'brute force tries up to {MOST_ASSIGNMENTS:,} assignments, here there are {n_all:,}; take method "cp_sat"'
        )
    free = _free(problem, columns)
    cluster = np.zeros((AT_ONCE, problem.n_devices), dtype=np.int64)
    cluster[:, problem.candidates[columns]] = np.arange(k)
    weight, room, cost = problem.weights(k), problem.capacity[columns], problem.cost[:, columns]
    digits = k ** np.arange(len(free) - 1, -1, -1)
    best, best_cluster = np.inf, np.zeros(problem.n_devices, dtype=np.int64)
    for start in range(0, n_all, AT_ONCE):
        numbers = np.arange(start, min(start + AT_ONCE, n_all))
        some = cluster[: len(numbers)]
        some[:, free] = numbers[:, None] // digits % k
        value = cost[np.arange(problem.n_devices), some].sum(axis=1)
        for c in range(k):
            member = (some == c).astype(np.float64)
            size = member.sum(axis=1).astype(np.int64)
            square = ((member @ problem.rows) ** 2).sum(axis=1) + member @ problem.remainder
            value += weight[size] * square
            value[(size == 0) | (size > room[c])] = np.inf
        i = int(value.argmin())
        if value[i] < best:
            best, best_cluster = float(value[i]), np.array(some[i])
    return best_cluster


def _milp(problem: HeadProblem, columns: Ints) -> Ints:
    """Clusters (U,) of the best over all vectors of sizes."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # takes long to import
    from scipy.sparse import csr_array

    n, k = problem.n_devices, len(columns)
    cosine = problem.rows @ problem.rows.T
    pairs = np.array([(u, v) for u in range(n) for v in range(u + 1, n) if cosine[u, v]], dtype=np.int64).reshape(-1, 2)
    if not problem.alpha:
        pairs = pairs[:0]
    n_b, n_p = n * k, len(pairs)  # b_un at u k + n, then y_pn at n_b + p k + n
    weight = problem.weights(k)
    low = np.zeros(n_b + n_p * k)
    if problem.own_cluster:
        low[problem.candidates[columns] * k + np.arange(k)] = 1.0
    one_head = csr_array((np.ones(n_b), (np.arange(n_b) // k, np.arange(n_b))), shape=(n, len(low)))
    sizes = csr_array((np.ones(n_b), (np.arange(n_b) % k, np.arange(n_b))), shape=(k, len(low)))
    products, lower, upper = _products(cosine, pairs, k, n_b)
    best, best_cluster = np.inf, np.zeros(n, dtype=np.int64)
    scale = 1e4 / (np.abs(problem.cost[:, columns]).max() + problem.alpha)  # the solver stops 1e-6 above the optimum
    for size in _sizes(n, problem.capacity[columns].tolist()):
        each = weight[list(size)]
        cost = problem.cost[:, columns].ravel()
        objective = np.concatenate((cost, (2 * cosine[pairs[:, 0], pairs[:, 1]][:, None] * each).ravel()))
        constraints = [LinearConstraint(one_head, 1, 1), LinearConstraint(sizes, size, size)]
        if n_p:
            constraints.append(LinearConstraint(products, lower, upper))
        solved = milp(
            scale * objective,
            integrality=(np.arange(len(low)) < n_b).astype(int),
            bounds=Bounds(low, np.ones(len(low))),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if solved.status != 0:
            raise RuntimeError(f"HiGHS gave up on sizes {size}: {solved.message}")
        cluster = solved.x[:n_b].reshape(n, k).argmax(axis=1)
        value = Clustering(problem, columns, cluster).value
        if value < best:
            best, best_cluster = value, cluster
    return best_cluster


def _cp_sat(problem: HeadProblem, columns: Ints, time_limit_s: float | None) -> tuple[Ints, float]:
    """Clusters (U,), and how far psi may be above the optimum: 0 if proven."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ImportError(
            'method "cp_sat" needs OR-Tools: pip install ortools; or take method "milp" or "brute", slower but without it'
        ) from error
    n, k = problem.n_devices, len(columns)
    cost, room, weight = problem.cost[:, columns], problem.capacity[columns], problem.weights(k)
    start = np.full(n, -1)
    start[problem.candidates[columns]] = np.arange(k)
    start = fill_by_regret(cost, start, room)
    cosine = problem.rows @ problem.rows.T
    units = UNITS / max(float(cost.max()), problem.alpha)
    model = cp_model.CpModel()
    b = [[model.new_bool_var("") for _ in range(k)] for _ in range(n)]
    for u in range(n):
        model.add_exactly_one(b[u])
        for c in range(k):
            model.add_hint(b[u][c], int(start[u]) == c)
    if problem.own_cluster:
        for c, head in enumerate(problem.candidates[columns].tolist()):
            model.add(b[head][c] == 1)
    pairs = [(u, v) for u in range(n) for v in range(u + 1, n) if problem.alpha and cosine[u, v]]
    parts = []
    for c in range(k):
        sizes = range(1, int(room[c]) + 1)
        chosen = [model.new_bool_var("") for _ in sizes]
        model.add_exactly_one(chosen)
        model.add(sum(s * z for s, z in zip(sizes, chosen)) == sum(b[u][c] for u in range(n)))
        if not problem.alpha:
            continue
        together = []
        for u, v in pairs:
            y = model.new_bool_var("")
            model.add_bool_or(b[u][c].negated(), b[v][c].negated(), y)
            model.add_implication(y, b[u][c])
            model.add_implication(y, b[v][c])
            together.append(y)
        part = model.new_int_var(0, round(units * problem.alpha) + len(pairs) + 1, "")
        for s, z in zip(sizes, chosen):
            price = [round(2 * units * weight[s] * cosine[u, v]) for u, v in pairs]
            own = round(units * weight[s] * s)
            model.add(part >= own + sum(p * y for p, y in zip(price, together))).only_enforce_if(z)
        parts.append(part)
    model.minimize(sum(round(units * cost[u, c]) * b[u][c] for u in range(n) for c in range(k)) + sum(parts))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    if time_limit_s is not None:
        solver.parameters.max_time_in_seconds = time_limit_s
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):  # not even the hint was looked at; psi is never negative
        return start, Clustering(problem, columns, start).value
    cluster = np.array([[solver.value(x) for x in row] for row in b]).argmax(axis=1)
    gap = (solver.objective_value - solver.best_objective_bound) / units
    return cluster, 0.0 if status == cp_model.OPTIMAL else max(gap, 1 / units)


def _products(cosine: Floats, pairs: Ints, k: int, n_b: int) -> tuple[object, Floats, Floats]:
    """Constraints matrix (rows, variables), lower and upper limits (rows,), that make y_uvn = b_un b_vn at the optimum."""
    from scipy.sparse import csr_array

    rows: list[tuple[dict[int, float], float, float]] = []
    for p, (u, v) in enumerate(pairs.tolist()):
        for c in range(k):
            y = n_b + p * k + c
            if cosine[u, v] > 0:
                rows.append(({y: 1.0, u * k + c: -1.0, v * k + c: -1.0}, -1.0, np.inf))
            else:
                rows += [({y: 1.0, w * k + c: -1.0}, -np.inf, 0.0) for w in (u, v)]
    entries = [(i, j, value) for i, (row, _, _) in enumerate(rows) for j, value in row.items()]
    at, variable, value = (np.array(x) for x in zip(*entries)) if entries else (np.zeros(0, int),) * 3
    matrix = csr_array((value, (at, variable)), shape=(len(rows), n_b + len(pairs) * k))
    return matrix, np.array([low for _, low, _ in rows]), np.array([high for _, _, high in rows])


def _sizes(n: int, room: list[int]) -> Iterator[tuple[int, ...]]:
    """All sizes of at least 1 and at most `room` that sum to n."""
    if len(room) == 1:
        if 1 <= n <= room[0]:
            yield (n,)
        return
    for first in range(1, min(room[0], n - len(room) + 1) + 1):
        for rest in _sizes(n - first, room[1:]):
            yield (first, *rest)


def _free(problem: HeadProblem, columns: Ints) -> Ints:
    """Devices that may choose."""
    everybody = np.arange(problem.n_devices)
    return np.setdiff1d(everybody, problem.candidates[columns]) if problem.own_cluster else everybody


def _n_assignments(problem: HeadProblem, columns: Ints) -> int:
    return int(len(columns) ** len(_free(problem, columns)))
