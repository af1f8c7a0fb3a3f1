"""What a plan is asked for: one of the figures that it reports, or a mix of them.

    seconds    of a cloud round                        joules     of all devices in it
    bytes      of all links in it                      battery    most of its battery that a device spends in it
    balance    mean distance of clusters' labels to everybody's
    mix        mean of seconds, joules, battery and balance, each in parts of the best that k-means finds of it

Of plans that are alike in it the one of fewer joules is better; for joules itself the faster one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import Costs, Prices, costs_of, total_bytes

Ints = NDArray[np.int64]

MEASURES = ("seconds", "joules", "bytes", "battery", "balance")
OBJECTIVES = (*MEASURES, "mix")
MIXED = ("seconds", "joules", "battery", "balance")
LEAST_BALANCE = 0.02  # of a reference in a mix: below that labels are alike
ALIKE = 1e-9  # parts by which figures differ that are the same


class Figures(NamedTuple):
    """Of a grouping, by MEASURES, and joules of the worst device."""

    clusters: int
    seconds: float
    joules: float
    bytes: float
    battery: float
    balance: float
    worst_j: float


@dataclass(frozen=True, kw_only=True)
class Objective:
    """By name; of a mix, what each of MIXED is divided by."""

    name: str
    reference: Mapping[str, float] | None = None

    def value(self, figures: Figures) -> float:
        """Less is better."""
        if self.name != "mix":
            return float(getattr(figures, self.name))
        assert self.reference is not None
        return float(sum(getattr(figures, name) / self.reference[name] for name in MIXED)) / len(MIXED)

    def key(self, figures: Figures) -> tuple[float, float]:
        """To order plans by."""
        return self.value(figures), figures.seconds if self.name == "joules" else figures.joules


def better(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """A key is truly less than another: figures that differ in their last digits are alike."""
    if not one[0] < np.inf:
        return False
    if not other[0] < np.inf or one[0] < other[0] * (1 - ALIKE):
        return True
    return one[0] <= other[0] * (1 + ALIKE) and one[1] < other[1] * (1 - ALIKE)


def figures_of(prices: Prices, head: Ints) -> Figures:
    """Of everybody's head (K,)."""
    return figures_of_costs(prices, costs_of(prices, np.arange(len(head)), head))


def figures_of_costs(prices: Prices, costs: Costs) -> Figures:
    """Of all clusters together."""
    samples = float(prices.devices.label_counts.sum())
    return Figures(
        clusters=len(costs.host),
        seconds=prices.last_s(costs.host, costs.work_s),
        joules=float(costs.total_j.sum()),
        bytes=float(total_bytes(prices.work, int(costs.size.sum()), len(costs.host))),
        battery=float(costs.most_drain.max()),
        balance=float(costs.off.sum() / samples) if samples else 0.0,
        worst_j=float(costs.most_j.max()),
    )
