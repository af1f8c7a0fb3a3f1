"""From any numbers to a feasible allocation near them (CAMU demands this and does not say how).

Powers and updates are clipped to their ranges; all powers are lowered by one factor to the power budget; extra updates
are lowered by one factor to what the energy budget leaves for them, and to A >= 0; if even none is too much, all powers
are lowered by one factor until the energy is enough.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.allocation.problem import Problem

Floats = NDArray[np.float64]


def project(problem: Problem, power_w: ArrayLike, n_extra: ArrayLike) -> tuple[Floats, Floats]:
    """Powers (C,) and real extra updates (C,) that are feasible; a feasible allocation stays as it is."""
    power = _within_power(problem, _check.array("power_w", power_w, (problem.n_clusters,)))
    n = np.clip(_check.array("n_extra", n_extra, (problem.n_clusters,)), 0, problem.cap)
    base_j, one_j = problem.compute_j(np.zeros(len(n))), float(n @ problem.update_j)
    left_j = problem.energy_budget_j - float(problem.upload_j(power).sum()) - base_j
    if one_j > max(left_j, 0.0):
        n = n * (max(left_j, 0.0) / one_j)
    room = 1 - float(problem.progress.sum())
    if n @ problem.progress > room:
        n = n * (max(room, 0.0) / (n @ problem.progress))
    if left_j < 0:
        power = within_energy(problem, power, problem.energy_budget_j - base_j)
    return power, n


def within_energy(problem: Problem, power_w: Floats, upload_j: float) -> Floats:
    """Powers lowered by one factor, to the floor at most, so that uploads take upload_j; refused if that is not enough."""
    from scipy.optimize import brentq  # takes long to import

    def excess(log_factor: float) -> float:
        lowered = np.maximum(power_w * np.exp(log_factor), problem.power_floor_w)
        return float(problem.upload_j(lowered).sum()) - upload_j

    if excess(0.0) <= 0:
        return power_w
    lowest = float(np.log(problem.power_floor_w / power_w.max())) - 1e-9
    if excess(lowest) > 0:
        raise ValueError(
            f"uploads take {excess(lowest) + upload_j:.4g} J however low the power, and {upload_j:.4g} J is left for them"
        )
    found = float(brentq(excess, lowest, 0.0, xtol=1e-13))
    while excess(found) > 0:  # rounding
        found -= 1e-12
    return np.asarray(np.maximum(power_w * np.exp(found), problem.power_floor_w))


def to_whole(problem: Problem, power_w: ArrayLike, n_extra: ArrayLike) -> tuple[Floats, Floats]:
    """The better of two feasible allocations with whole updates near this one, which is projected first.

    Rounded down, with powers raised by one factor to spend what that saves; or rounded, with powers lowered or raised.
    """
    power, n = project(problem, power_w, n_extra)
    down = np.floor(n + 1e-9)
    near = np.minimum(np.rint(n), problem.cap)
    fewer = power if (down == n).all() else up_to_energy(problem, power, down)
    if (near == down).all() or problem.contraction(near) < 0:
        return fewer, down
    try:
        paid = within_energy(problem, power, problem.energy_budget_j - problem.compute_j(near))
    except ValueError:  # not at any power
        return fewer, down
    paid = up_to_energy(problem, paid, near)
    return (paid, near) if problem.gap(paid, near) < problem.gap(fewer, down) else (fewer, down)


def up_to_energy(problem: Problem, power_w: Floats, n_extra: Floats) -> Floats:
    """Powers (C,) raised by one factor until energy or power is used up; the allocation must be feasible."""
    from scipy.optimize import brentq  # takes long to import

    upload_j = problem.energy_budget_j - problem.compute_j(n_extra)
    most = float(np.log(problem.power_budget_w / problem.power_w(power_w))) / problem.power_exponent

    def excess(log_factor: float) -> float:
        return float(problem.upload_j(power_w * np.exp(log_factor)).sum()) - upload_j

    if excess(0.0) >= 0 or most <= 0:
        return power_w
    high = min(most, 1.0)
    while high < most and excess(high) < 0:
        high = min(most, 2 * high)
    found = high if excess(high) <= 0 else float(brentq(excess, 0.0, high, xtol=1e-13))
    raised = power_w * np.exp(found)
    while (
        problem.energy_j(raised, n_extra) > problem.energy_budget_j or problem.power_w(raised) > problem.power_budget_w
    ):
        found -= 1e-12  # rounding
        raised = power_w * np.exp(found)
    return np.asarray(raised)


def top_power_w(problem: Problem) -> float:
    """The most power of a cluster worth a proposal: the whole budget, or where all energy would go into the cheapest upload."""
    from scipy.optimize import brentq  # takes long to import

    def excess(log_power: float) -> float:
        power = np.full(problem.n_clusters, np.exp(log_power))
        return float(np.log(problem.upload_j(power).min() / problem.energy_budget_j))

    low = float(np.log(problem.power_floor_w))
    high = low + 1
    while excess(high) < 0:
        high += 1
    return float(min(problem.power_budget_w ** (1 / problem.power_exponent), np.exp(brentq(excess, low, high))))


def _within_power(problem: Problem, power: Floats) -> Floats:
    """Clipped to the floor and scaled to the budget; who is at the floor stays there."""
    m = problem.power_exponent
    power = np.maximum(power, problem.power_floor_w)
    while problem.power_w(power) > problem.power_budget_w:
        high = power > problem.power_floor_w
        if not high.any():
            raise ValueError(f"the power budget of {problem.power_budget_w:g} W is below the least powers; raise it")
        left = problem.power_budget_w - float((power[~high] ** m).sum())
        factor = (max(left, 0.0) / float((power[high] ** m).sum())) ** (1 / m) * (1 - 1e-15)
        power = np.maximum(np.where(high, power * factor, power), problem.power_floor_w)
    return power
