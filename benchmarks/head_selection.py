"""How fast heads are chosen: association of 1,000 and 10,000 devices, and the search for heads among candidates.

Targets: about a second for 1,000 devices under 50 heads, 15 s for the search among 50 candidates, about a minute each for
10,000 devices. Prices of all moves are compared with plain recomputation of the objective, for equality and for time.

python benchmarks/head_selection.py [--json] [--small]
"""

import json
import sys
import time

import numpy as np

from conditions import conditions
from fedloom.grouping.association import associate, move_changes
from fedloom.grouping.head_problem import HeadProblem, head_problem
from fedloom.grouping.head_selection import select_heads

COORDINATES = 64


def problem(n: int, n_candidates: int, capacity: int, seed: int = 1) -> HeadProblem:
    """Devices in a disc of 100 m, the server 1 km away; gradients of skewed labels, in 64 coordinates."""
    rng = np.random.default_rng(seed)
    radius, angle = 100 * np.sqrt(rng.uniform(size=n)), rng.uniform(0, 2 * np.pi, n)
    labels = rng.dirichlet(np.full(10, 0.5), n)
    skew = labels - 0.7 * labels.mean(axis=0) + 0.02 * rng.normal(size=labels.shape)
    gradients = skew @ rng.normal(size=(10, COORDINATES)) + 0.3 * rng.normal(size=(n, COORDINATES))
    return head_problem(
        np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1),
        [1000.0, 0.0],
        gradients,
        alpha=0.5,
        candidates=rng.choice(n, n_candidates, replace=False),
        capacity=capacity,
    )


def plain_objective(case: HeadProblem, cosine: np.ndarray, column: np.ndarray) -> float:
    """Psi from the cosines (U, U), for devices at the heads in these columns (U,)."""
    value = case.cost[np.arange(len(column)), column].sum()
    heads = np.unique(column)
    for n in heads:
        members = np.flatnonzero(column == n)
        value += case.alpha / len(heads) * cosine[np.ix_(members, members)].sum() / len(members) ** 2
    return float(value + case.server_cost[heads].sum())


def prices_against_recomputation(n: int, k: int, n_checked: int = 50) -> tuple[float, float]:
    """Seconds to price one move, out of a table of all, and to recompute the objective after it; they must agree."""
    case = problem(n, k, 2 * n // k)
    found = associate(case, case.candidates, rng=np.random.default_rng(0))
    cosine = case.rows @ case.rows.T
    column = case.columns(found.heads)[np.searchsorted(found.heads, found.assign)]
    table_s = []
    for _ in range(5):
        start = time.perf_counter()
        changes = move_changes(case, found.assign)
        table_s.append(time.perf_counter() - start)
    before = plain_objective(case, cosine, column)
    moves = np.argwhere(np.isfinite(changes) & (changes != 0))
    some = moves[np.random.default_rng(1).choice(len(moves), n_checked, replace=False)]
    plain_s = 0.0
    for u, n_new in some.tolist():
        after = column.copy()
        after[u] = n_new
        start = time.perf_counter()
        value = plain_objective(case, cosine, after)
        plain_s += time.perf_counter() - start
        assert abs(value - before - changes[u, n_new]) < 1e-9
    return min(table_s) / changes.size, plain_s / n_checked


def association(n: int, k: int) -> tuple[float, float]:
    case = problem(n, k, 3 * n // (2 * k))
    start = time.perf_counter()
    found = associate(case, case.candidates, rng=np.random.default_rng(0))
    return time.perf_counter() - start, found.scores.objective


def search(n: int, n_candidates: int, capacity: int) -> tuple[float, float, int]:
    case = problem(n, n_candidates, capacity)
    start = time.perf_counter()
    found = select_heads(case, rng=np.random.default_rng(0))
    return time.perf_counter() - start, found.scores.objective, len(found.heads)


def main() -> None:
    move_s, plain_s = prices_against_recomputation(1000, 50)
    out: dict[str, object] = {"move_s": move_s, "recomputation_s": plain_s, "ratio": plain_s / move_s}
    sizes = ((1000, 50, 100),) if "--small" in sys.argv else ((1000, 50, 100), (10_000, 100, 300))
    for n, n_candidates, capacity in sizes:
        out[f"association_{n}_s"], out[f"association_{n}_objective"] = association(n, 50)
        seconds, objective, k = search(n, n_candidates, capacity)
        out |= {f"search_{n}_s": seconds, f"search_{n}_objective": objective, f"search_{n}_heads": k}
    out |= conditions()
    if "--json" in sys.argv:
        print(json.dumps(out))
        return
    print(
        f"a move: {1e9 * move_s:.0f} ns from the table of all, {1e6 * plain_s:.0f} us recomputed, ratio {out['ratio']:,.0f}"
    )
    for n, n_candidates, capacity in sizes:
        one, many = (15, "1 s") if n == 1000 else (60, "60 s")
        print(f"association, {n:,} devices, 50 heads: {out[f'association_{n}_s']:.2f} s (target: about {many})")
        print(
            f"search, {n:,} devices, {n_candidates} candidates of capacity {capacity}: {out[f'search_{n}_s']:.1f} s, "
            f"{out[f'search_{n}_heads']} heads (target: {one} s)"
        )
    print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()
