"""With what power to send and how much to compute: problem P1 of CAMU.

    minimise    GAP = J (1 - A^T) / (1 - A)                                     after T rounds; J / (1 - A) for ever
    over        P_c >= P_min, 0 <= n_c <= cap_c                                 transmit powers, extra local updates
    subject to  sum_c [ e_c(P_c) + N_c kappa_c ] <= E_total                     J, in one cloud round
                sum_c P_c <= P_max                                              W
                0 <= A < 1

    N_c   = 1 + n_c
    1 - A = sum_c N_c b_c,  b_c = 2 mu lr delta G_c delta_c - mu L (lr delta G_c delta_c)^2 s_c      (CAMU, eq. 46)
    J     = sum_c G_c^2 / snr_c,  snr_c = P_c g_c,  g_c = |h_c|^2 / sigma^2                           (CAMU, eqs 21 to 23)
    e_c   = P_c Q / (B_c log2(1 + snr_c)),  Q = 32 q bits                                            J, one upload

G_c: weight of cluster c; s_c: sum of its members' squared weights; delta, delta_c: how much gradients of clusters, and
of the members of c, differ; mu, L: convexity and smoothness; |h_c|^2: gain of its leader's uplink; q: number of
parameters; kappa_c: joules of one update of all members. C clusters.

Reading "literal" keeps what is printed: p_c divides the noise as an amplitude, J = sum G_c^2 sigma^2 / (p_c^2 |h_c|^2),
and counts as a power elsewhere, sum p_c^2 <= P_max; parameters are counted instead of bits; the first update is free,
n_c kappa_c.

What the bound does not say: the factor q L / 2 of J is dropped in print (`bound="corrected"` puts it back; no optimum
for ever changes); more different gradients make A smaller, against intuition; the bound likes every extra update, so a
gate, which is a cap of 0, can only make the best GAP worse. What a gate is good for shows in accuracies alone.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.allocation.contraction import rate_limits, update_progress

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

READINGS = ("default", "literal")
BOUNDS = ("printed", "corrected")
BITS = 32
SLACK = 1e-9  # of a budget: rounding
BINDING = 1e-6  # of a budget left: used up


@dataclass(frozen=True, kw_only=True, eq=False)
class Allocation:
    """power_w (C,) and n_extra (C,), what they cost and give, and which budgets they use up: "energy", "power"."""

    power_w: Floats
    n_extra: Floats
    gap: float
    energy_j: float
    contraction: float
    binding: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """P1 and its constants; what is (C,) may be given as a list, or but for the weights as one number for all clusters.

    weight (C,): G_c, sum 1. delta_c (C,) and delta: at least 1. concentration (C,): s_c, in (0, 1]. gain (C,): |h_c|^2.
    update_j (C,): kappa_c. cap (C,): most extra updates, 0 where a gate is shut. horizon: T, None for ever.
    power_budget_w may be infinite.
    """

    weight: Floats
    delta_c: Floats
    concentration: Floats
    gain: Floats
    update_j: Floats
    cap: Floats
    energy_budget_j: float
    power_budget_w: float
    n_params: int
    lr: float
    mu: float = 0.1
    smooth: float = 2.0
    delta: float = 1.5
    noise_w: float = 1e-14
    bandwidth_hz: Floats | float = 1e6
    power_floor_w: float = 1e-6
    horizon: int | None = None
    reading: str = "default"
    bound: str = "printed"

    def __post_init__(self) -> None:
        _check.one_of("reading", self.reading, READINGS)
        _check.one_of("bound", self.bound, BOUNDS)
        _check.whole("n_params", self.n_params)
        _check.wholes(horizon=self.horizon)
        n = len(_check.array("weight", self.weight, (None,)))
        for name in ("weight", "delta_c", "concentration", "gain", "update_j", "cap", "bandwidth_hz"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(
                self, name, _check.array(name, np.broadcast_to(value, (n,)) if not value.ndim else value, (n,))
            )
        for name in (
            "weight",
            "gain",
            "bandwidth_hz",
            "concentration",
            "lr",
            "mu",
            "smooth",
            "noise_w",
            "power_floor_w",
        ):
            _check.positive(name, getattr(self, name))
        for name in ("update_j", "cap"):
            _check.positive(name, getattr(self, name), zero=True)
        for name in ("energy_budget_j", "power_budget_w"):
            _check.positive(name, getattr(self, name))
        if (self.cap != np.rint(self.cap)).any():
            raise ValueError(f"cap must be whole numbers, got {self.cap.tolist()}")
        if abs(self.weight.sum() - 1) > 1e-6:
            raise ValueError(f"weight must sum to 1, got {self.weight.sum():g}")
        if min(self.delta, self.delta_c.min()) < 1 - 1e-9:
            raise ValueError(
                "delta and delta_c are at least 1: a mean of gradients is never longer than they are on average"
            )
        if (self.progress <= 0).any():
            c = int(self.progress.argmin())
            raise ValueError(
                f"lr {self.lr:g} is too large for the bound to hold: cluster {c} needs less than {self.lr_limits()[0][c]:.3g} "
                "(2 / (L delta G_c delta_c s_c)); lower lr"
            )
        if self.progress.sum() > 1:
            raise ValueError(
                f"one update of each cluster already gives A = {1 - self.progress.sum():.3g}, below 0, where the bound "
                "means nothing; lower lr or mu"
            )

    @property
    def n_clusters(self) -> int:
        return len(self.weight)

    @cached_property
    def progress(self) -> Floats:
        """b (C,): what one update of each cluster takes off A."""
        return update_progress(lr=self.lr, mu=self.mu, **self._alike)

    @cached_property
    def snr_per_w(self) -> Floats:
        """g (C,), 1/W."""
        return self.gain / self.noise_w

    @cached_property
    def noise_cost(self) -> Floats:
        """a (C,): J = sum a / P, or a / p^2 as printed."""
        cost = self.weight**2 / self.snr_per_w
        return cost * (self.n_params * self.smooth / 2) if self.bound == "corrected" else cost

    @property
    def power_exponent(self) -> int:
        """1; 2 as printed, where noise falls and the power budget fills with p^2."""
        return 2 if self.reading == "literal" else 1

    @property
    def upload_bits(self) -> float:
        return float(self.n_params if self.reading == "literal" else BITS * self.n_params)

    def lr_limits(self) -> tuple[Floats, Floats]:
        """Learning rates (C,) below which each cluster helps and is a descent of its own."""
        return rate_limits(**self._alike)

    @property
    def _alike(self) -> dict[str, Any]:
        """How clusters compare, for `fedloom.allocation.contraction`."""
        names = ("weight", "delta", "delta_c", "concentration", "smooth")
        return {name: getattr(self, name) for name in names}

    def contraction(self, n_extra: ArrayLike) -> float:
        """A of extra updates n_extra (C,)."""
        return float(1 - (1 + self._clusters("n_extra", n_extra)) @ self.progress)

    def noise(self, power_w: ArrayLike) -> float:
        """J of powers (C,)."""
        power = self._clusters("power_w", power_w)
        return float((self.noise_cost / power**self.power_exponent).sum())

    def rounds(self, contraction: float) -> float:
        """(1 - A^T) / (1 - A): rounds whose noise is still felt at the end; falls as A falls."""
        if not contraction < 1:
            raise ValueError(f"the contraction must be below 1, got {contraction:g}")
        if self.horizon is None:
            return 1 / (1 - contraction)
        return (
            float(-np.expm1(self.horizon * np.log(contraction)) / (1 - contraction))
            if contraction > 0
            else 1 / (1 - contraction)
        )

    def gap(self, power_w: ArrayLike, n_extra: ArrayLike) -> float:
        """The objective: what noise leaves of the error after `horizon` rounds."""
        return self.noise(power_w) * self.rounds(self.contraction(n_extra))

    @cached_property
    def unit_j(self) -> Floats:
        """Q ln 2 / B (C,): joules of an upload are this times P / ln(1 + snr)."""
        return np.asarray(self.upload_bits * np.log(2) / np.asarray(self.bandwidth_hz))

    def upload_s(self, power_w: ArrayLike) -> Floats:
        """Seconds (C,) of each leader's upload."""
        return self.unit_j / np.log1p(self._clusters("power_w", power_w) * self.snr_per_w)

    def upload_j(self, power_w: ArrayLike) -> Floats:
        """e (C,): joules of each leader's upload; grows with the power, from (Q / B) ln 2 / g at no power at all."""
        power = self._clusters("power_w", power_w)
        return power * self.unit_j / np.log1p(power * self.snr_per_w)

    def compute_j(self, n_extra: ArrayLike) -> float:
        """Joules of all local updates."""
        n = self._clusters("n_extra", n_extra)
        return float((n if self.reading == "literal" else 1 + n) @ self.update_j)

    def energy_j(self, power_w: ArrayLike, n_extra: ArrayLike) -> float:
        """Joules of a cloud round."""
        return float(self.upload_j(power_w).sum()) + self.compute_j(n_extra)

    def power_w(self, power_w: ArrayLike) -> float:
        """What the power budget is compared with: the sum of powers, of squares as printed."""
        return float((self._clusters("power_w", power_w) ** self.power_exponent).sum())

    def violations(self, power_w: ArrayLike, n_extra: ArrayLike) -> list[str]:
        """What an allocation breaks, in words; nothing if it is feasible up to rounding."""
        power, n = self._clusters("power_w", power_w), self._clusters("n_extra", n_extra)
        found = []
        if (n < -SLACK).any() or (n > self.cap + SLACK).any():
            found.append(f"extra updates {n.tolist()} must be between 0 and the caps {self.cap.tolist()}")
        if (power < self.power_floor_w * (1 - SLACK)).any():
            found.append(f"powers must be at least {self.power_floor_w:g} W, got {power.min():g} W")
            return found
        for what, used, budget, unit in (
            ("energy", self.energy_j(power, n), self.energy_budget_j, "J"),
            ("power", self.power_w(power), self.power_budget_w, "W"),
        ):
            if used > budget * (1 + SLACK):
                found.append(f"{what} {used:.6g} {unit} exceeds the budget of {budget:.6g} {unit}")
        if self.contraction(n) < -SLACK:
            found.append(f"the contraction A is {self.contraction(n):.3g}, below 0; fewer updates or a lower lr")
        return found

    def allocation(self, power_w: ArrayLike, n_extra: ArrayLike) -> Allocation:
        """What an allocation costs and gives; one that is not feasible is refused."""
        power, n = self._clusters("power_w", power_w), self._clusters("n_extra", n_extra)
        broken = self.violations(power, n)
        if broken:
            raise ValueError(f"this allocation is not feasible: {'; '.join(broken)}")
        energy = self.energy_j(power, n)
        used = {"energy": energy / self.energy_budget_j, "power": self.power_w(power) / self.power_budget_w}
        return Allocation(
            power_w=power,
            n_extra=n,
            gap=self.gap(power, n),
            energy_j=energy,
            contraction=self.contraction(n),
            binding=tuple(name for name, share in used.items() if share > 1 - BINDING),
        )

    def check_feasible(self) -> None:
        """Refuse a problem without any allocation, and say what would change that."""
        least_w = self.power_w(np.full(self.n_clusters, self.power_floor_w))
        if least_w > self.power_budget_w:
            raise ValueError(
                f"the power budget of {self.power_budget_w:g} W is below {least_w:g} W, the least power "
                f"({self.power_floor_w:g} W) of {self.n_clusters} clusters; raise power_budget_w or lower power_floor_w"
            )
        upload_j = float(self.upload_j(np.full(self.n_clusters, self.power_floor_w)).sum())
        compute_j = self.compute_j(np.zeros(self.n_clusters))
        if upload_j + compute_j >= self.energy_budget_j:
            raise ValueError(
                f"the energy budget of {self.energy_budget_j:.4g} J is not enough: uploads take {upload_j:.4g} J however low the "
                f"power and one update of each cluster {compute_j:.4g} J; raise energy_budget_j above "
                f"{upload_j + compute_j:.4g} J, or take a smaller model, more bandwidth or fewer clusters"
            )

    def _clusters(self, name: str, value: ArrayLike) -> Floats:
        return _check.array(name, value, (self.n_clusters,))


def update_energy_j(
    cover: Mask, cycles: ArrayLike, work: ArrayLike, cpu_hz: ArrayLike, *, compute_w: float = 0.05
) -> Floats:
    """kappa (C,): joules of one local update of all members of each cluster; cover (C, K) bool.

    cycles (K,): of a unit of work; work (K,): units, a device's samples, or as printed the number of parameters; cpu_hz
    (K,) cycles per second; compute_w watt while computing.
    """
    for name, value in (("cycles", cycles), ("cpu_hz", cpu_hz)):
        _check.positive(name, value)
    _check.positive("work", work, zero=True)
    seconds = np.broadcast_to(np.multiply(cycles, work) / np.asarray(cpu_hz, dtype=np.float64), cover.shape[1:])
    return np.asarray(compute_w * (cover @ seconds))
