"""P1 solved to the end: the problem is convex in log power, and separates into powers and updates.

For given updates, and so E joules for uploads, the powers with the least noise are (u = ln P, m = 1, or 2 as printed)

    energy to spare    P_c^m = P_max sqrt(a_c) / sum_j sqrt(a_j)
    otherwise          m a_c / P^m = nu e_c(P) eta(g_c P) + m rho P^m,   eta(x) = d ln e / d u = 1 - x / ((1 + x) ln(1 + x))

whose left side falls and right side rises, one root for each cluster; nu is found so that the energy is used up and rho
so that the power is, or 0 where a budget is not. Call the least noise J*(E); it falls as E grows, and ln J* is convex.

Updates matter only by the joules they take and the progress sum_c N_c b_c they make. Whole numbers: all pairs of
(joules, progress) that no other pair beats, cluster by cluster; then J* is evaluated where it must be, best bound
first. Real numbers: updates in falling order of b_c / kappa_c, and a search over the joules spent on them, one stretch
of this order at a time. Both are exact up to rounding, also for a finite horizon, because the rounds that count fall as
progress grows.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.allocation.problem import SLACK, Allocation, Problem

Floats = NDArray[np.float64]

MOST_PAIRS = 2_000_000
TINY_SNR = 1e-4  # below which eta is a series
GRID = 9  # points on each stretch of a real-valued search


def allocate(
    problem: Problem, *, power_w: ArrayLike | None = None, n_extra: ArrayLike | None = None, whole: bool = True
) -> Allocation:
    """The best powers (C,) and extra updates (C,), or the best of one for the given other.

    whole: extra updates are whole numbers; otherwise real ones, which is a lower bound of what whole ones can reach. A
    problem without any feasible allocation is refused with what to change.
    """
    problem.check_feasible()
    if power_w is not None and n_extra is not None:
        raise ValueError("give power_w or n_extra, not both: nothing would be left to choose")
    if n_extra is not None:
        n = _check.array("n_extra", n_extra, (problem.n_clusters,))
        wrong = problem.violations(np.full(problem.n_clusters, problem.power_floor_w), n)
        if wrong:
            raise ValueError(f"these extra updates are not feasible at any power: {'; '.join(wrong)}")
        return problem.allocation(least_noise(problem, problem.energy_budget_j - problem.compute_j(n)), n)
    if power_w is not None:
        power = problem.allocation(power_w, np.zeros(problem.n_clusters)).power_w
        least_j = problem.compute_j(np.zeros(problem.n_clusters))  # always feasible: the powers were checked
        spare_j = max(problem.energy_budget_j - float(problem.upload_j(power).sum()), least_j)
        chosen = _front(problem, spare_j * (1 + SLACK)).n_extra[-1] if whole else _Filling.of(problem).at(spare_j)
        return problem.allocation(power, chosen)
    return _whole(problem) if whole else _real(problem)


def least_noise(problem: Problem, upload_j: float) -> Floats:
    """Powers (C,) with the least noise J whose uploads take at most upload_j joules, within the power budget."""
    m, a, floor = problem.power_exponent, problem.noise_cost, problem.power_floor_w
    power = _spread(np.sqrt(a), problem.power_budget_w, floor**m) ** (1 / m)
    if np.isfinite(power).all() and problem.upload_j(power).sum() <= upload_j:
        return _trimmed(problem, power, upload_j)
    least_j = float(problem.upload_j(np.full(len(a), floor)).sum())
    if least_j > upload_j * (1 + SLACK):
        raise ValueError(f"uploads take {least_j:.4g} J however low the power, and {upload_j:.4g} J is left for them")
    if least_j > upload_j * (1 - SLACK):
        return np.full(len(a), floor)

    def spending(rho: float) -> Floats:
        """Powers that use the energy up, at a price rho of power."""

        def excess(log_nu: float) -> float:
            return float(problem.upload_j(_root(problem, np.exp(log_nu), rho)).sum()) / upload_j - 1

        if rho > 0 and problem.upload_j(_root(problem, 0.0, rho)).sum() <= upload_j:
            return _root(problem, 0.0, rho)
        return _root(problem, np.exp(_crossing(excess, np.log(a.sum() / upload_j))), rho)

    power = spending(0.0)
    if problem.power_w(power) > problem.power_budget_w:
        # at rho_most all power but no energy has a price: the power is within its budget, and at 0 it is not
        rho_most = float(np.sqrt(a).sum() / problem.power_budget_w) ** 2
        power = spending(_falling(lambda rho: problem.power_w(spending(rho)) - problem.power_budget_w, 0.0, rho_most))
    return _trimmed(problem, power, upload_j)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Front:
    """Whole updates n_extra (n, C) that no others beat, with joules (n,) and progress (n,), both rising."""

    n_extra: Floats
    joules: Floats
    progress: Floats


def _front(problem: Problem, most_j: float) -> _Front:
    """All updates of at most most_j joules worth a look, for any noise: no others are cheaper and make more progress.

    Progress above 1 is not allowed. So somebody who makes less progress may not be forgotten as long as the better one
    could still get there.
    """
    b, kappa, cap = problem.progress, np.asarray(problem.update_j), np.asarray(problem.cap)
    n = np.zeros((1, len(b)))
    joules, progress = np.array([problem.compute_j(n[0])]), np.array([b.sum()])
    for c in range(len(b)):
        more = np.arange(cap[c] + 1)
        rest = float(b[c + 1 :] @ cap[c + 1 :])
        joules, progress = np.add.outer(joules, kappa[c] * more).ravel(), np.add.outer(progress, b[c] * more).ravel()
        n = np.repeat(n, len(more), axis=0)
        n[:, c] = np.tile(more, len(n) // len(more))
        keep = np.flatnonzero((joules <= most_j) & (progress <= 1 + SLACK))
        order = keep[np.lexsort((-progress[keep], joules[keep]))]
        safe = progress[order] + rest <= 1
        record = np.maximum.accumulate(np.where(safe, progress[order], -np.inf))
        better = np.append(True, progress[order][1:] > record[:-1])
        order = order[better | (False if not rest else ~safe)]
        if len(order) > MOST_PAIRS:
            raise ValueError(
                f"more than {MOST_PAIRS:,} choices of whole updates are worth a look; lower the caps, or lr so that A stays "
                "above 0, or take whole=False"
            )
        n, joules, progress = n[order], joules[order], progress[order]
    record = np.maximum.accumulate(progress)
    best = np.append(True, progress[1:] > record[:-1])
    return _Front(n_extra=n[best], joules=joules[best], progress=progress[best])


def _whole(problem: Problem) -> Allocation:
    """Best first over stretches of the front: no member has less noise than the cheapest one leaves energy for, nor
    more progress
    than the last one."""
    floor_j = float(problem.upload_j(np.full(problem.n_clusters, problem.power_floor_w)).sum())
    front = _front(problem, problem.energy_budget_j - floor_j)
    noise: dict[int, float] = {}

    def bound(first: int, last: int) -> float:
        if first not in noise:
            noise[first] = problem.noise(least_noise(problem, problem.energy_budget_j - float(front.joules[first])))
        return noise[first] * problem.rounds(1 - float(front.progress[last]))

    heap = [(bound(0, len(front.joules) - 1), 0, len(front.joules) - 1)]
    while True:
        _, first, last = heapq.heappop(heap)
        if first == last:
            break
        middle = (first + last) // 2
        heapq.heappush(heap, (bound(first, middle), first, middle))
        heapq.heappush(heap, (bound(middle + 1, last), middle + 1, last))
    n = front.n_extra[first]
    return problem.allocation(least_noise(problem, problem.energy_budget_j - problem.compute_j(n)), n)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Filling:
    """Real updates in falling order of progress per joule: `order` (C,), `joules` (C + 1,) when so many clusters are
    full, and
    `cap` (C,), lowered where A would fall below 0."""

    order: NDArray[np.int64]
    joules: Floats
    cap: Floats

    @classmethod
    def of(cls, problem: Problem) -> "_Filling":
        b, kappa, cap = problem.progress, np.asarray(problem.update_j), np.asarray(problem.cap)
        with np.errstate(divide="ignore"):
            order = np.argsort(-b / kappa, kind="stable")
        cap = cap.copy()
        room = 1 - b.sum()
        for c in order:  # A >= 0
            cap[c] = min(cap[c], max(room, 0.0) / b[c])
            room -= cap[c] * b[c]
        joules = problem.compute_j(np.zeros(len(b))) + np.append(0.0, np.cumsum((cap * kappa)[order]))
        return cls(order=order, joules=joules, cap=cap)

    def at(self, joules: float) -> Floats:
        """Extra updates (C,) for so many joules."""
        step = np.diff(self.joules)
        spent = joules - self.joules[:-1]
        share = np.where(step > 0, spent / np.where(step > 0, step, 1.0), spent >= 0).clip(0, 1)
        n = np.empty(len(share))
        n[self.order] = share * self.cap[self.order]
        return n


def _real(problem: Problem) -> Allocation:
    """A search over the joules of updates on each stretch between two fillings that could still hold the best."""
    from scipy.optimize import minimize_scalar  # takes long to import

    filling = _Filling.of(problem)
    floor_j = float(problem.upload_j(np.full(problem.n_clusters, problem.power_floor_w)).sum())

    def noise(joules: float) -> float:
        return problem.noise(least_noise(problem, problem.energy_budget_j - joules))

    def rounds(joules: float) -> float:
        return problem.rounds(problem.contraction(filling.at(joules)))

    def gap(joules: float) -> float:
        return noise(joules) * rounds(joules)

    most_j = problem.energy_budget_j - floor_j
    ends = np.minimum(filling.joules, most_j)
    if np.isfinite(problem.power_budget_w):  # where all power can just be paid for, the noise has a kink
        kink_j = problem.energy_budget_j - float(problem.upload_j(least_noise(problem, np.inf)).sum())
        ends = np.append(ends, np.clip(kink_j, ends[0], ends[-1]))
    ends = np.unique(ends).tolist()
    best, best_j = min((gap(x), x) for x in ends)
    bounds = sorted((noise(low) * rounds(high), low, high) for low, high in itertools.pairwise(ends))
    for bound, low, high in bounds:
        if bound >= best:
            break
        grid = np.linspace(low, high, GRID).tolist()
        value, i = min((gap(x), i) for i, x in enumerate(grid))
        around = (grid[max(i - 1, 0)], grid[min(i + 1, GRID - 1)])
        found = minimize_scalar(
            gap, bounds=around, method="bounded", options={"xatol": 1e-10 * problem.energy_budget_j}
        )
        best, best_j = min((best, best_j), (value, grid[i]), (float(found.fun), float(found.x)))
    n = filling.at(best_j)
    return problem.allocation(least_noise(problem, problem.energy_budget_j - problem.compute_j(n)), n)


def _spread(share: Floats, total: float, floor: float) -> Floats:
    """Numbers (C,) that sum to `total`, proportional to `share` but at least `floor`."""
    if not np.isfinite(total):
        return np.full(len(share), np.inf)
    low = np.zeros(len(share), dtype=np.bool_)
    while True:
        out = np.where(low, floor, share * (total - floor * low.sum()) / (share[~low].sum() if not low.all() else 1.0))
        if not (out[~low] < floor).any():
            return out
        low |= out < floor


def _root(problem: Problem, nu: float, rho: float) -> Floats:
    """P (C,) with m a / P^m = nu e(P) eta(gP) + m rho P^m, at least the floor: Newton's method on ln P between bounds."""
    m, g, unit_j = problem.power_exponent, problem.snr_per_w, problem.unit_j

    def miss(u: Floats) -> tuple[Floats, Floats]:
        """ln of the left side less ln of the right one, and its slope, which is at most -m."""
        power = np.exp(u)
        x = g * power
        nats = np.log1p(x)
        eta = np.where(x < TINY_SNR, x / 2 - 5 * x**2 / 12, 1 - x / ((1 + x) * nats))
        rise = (1 - eta) * (x - nats) / ((1 + x) * nats)  # d eta / du
        energy = nu * unit_j * power / nats
        own = m * rho * power**m
        right = energy * eta + own
        return np.log(m * problem.noise_cost) - m * u - np.log(right), -m - (energy * (eta**2 + rise) + m * own) / right

    low = np.full(len(g), np.log(problem.power_floor_w))
    high = low + np.maximum(miss(low)[0], 0.0) / m
    u = (low + high) / 2
    for _ in range(100):
        value, slope = miss(u)
        low, high = np.where(value > 0, np.maximum(low, u), low), np.where(value < 0, np.minimum(high, u), high)
        new = u - value / slope
        new = np.where((new < low) | (new > high), (low + high) / 2, new)
        done = np.abs(new - u).max() < 1e-14 * (1 + np.abs(u).max())
        u = new
        if done:
            break
    return np.maximum(np.exp(u), problem.power_floor_w)


def _crossing(falling: Callable[[float], float], start: float) -> float:
    """Where a falling function of a real number crosses 0."""
    low = high = start
    width = 1.0
    while falling(low) < 0:
        low, width = low - width, 2 * width
    while falling(high) > 0:
        high, width = high + width, 2 * width
    return _falling(falling, low, high)


def _falling(falling: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq  # takes long to import

    if low == high or falling(low) <= 0:
        return low
    if falling(high) >= 0:
        return high
    return float(brentq(falling, low, high, xtol=1e-14 * max(abs(low), abs(high)), rtol=1e-14))


def _trimmed(problem: Problem, power: Floats, upload_j: float) -> Floats:
    """Powers lowered by rounding until both budgets hold."""
    less = 1e-15
    while less < 1e-6 and (problem.upload_j(power).sum() > upload_j or problem.power_w(power) > problem.power_budget_w):
        power = np.maximum(power * (1 - less), problem.power_floor_w)
        less *= 2
    return power
