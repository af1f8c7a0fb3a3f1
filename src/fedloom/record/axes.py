"""Costs to measure a method against, and numbers as text: a mean, perhaps ± half of its interval, in a unit that fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedloom.record.measures import SHARES


@dataclass(frozen=True)
class Axis:
    """A cost to measure a method against. units: (how many of the basic unit, name), ascending."""

    column: str
    name: str
    label: str
    units: tuple[tuple[float, str], ...]

    def unit(self, value: float) -> tuple[float, str]:
        """The largest unit that is not larger than `value`."""
        return next(((size, name) for size, name in reversed(self.units) if abs(value) >= size), self.units[0])

    def text(self, mean: float, half: float | None = None) -> str:
        """In a unit that fits; without half of the interval if it is exactly 0, as where no chance is involved.

        >>> AXES["seconds"].text(90.0, 6.0), AXES["bytes"].text(703503360), AXES["steps"].text(1500.0)
        ('1.50 ± 0.10 min', '704 MB', '1,500')
        """
        size, name = self.unit(mean)
        return f"{_number(mean / size, half / size if half else None, whole=not name)} {name}".rstrip()


AXES = {
    "steps": Axis("local_steps", "steps", "local steps", ((1.0, ""),)),
    "seconds": Axis("time_s", "time", "simulated time", ((1.0, "s"), (60.0, "min"), (3600.0, "h"), (86400.0, "d"))),
    "joules": Axis("energy_j", "energy", "energy", ((1.0, "J"), (1e3, "kJ"), (1e6, "MJ"), (1e9, "GJ"))),
    "bytes": Axis("bytes", "traffic", "traffic", ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))),
}
NEVER = "–"


def score_text(measure: str, mean: float, half: float | None = None) -> str:
    """Percent for accuracy, three significant digits for rmse.

    >>> score_text("accuracy", 0.7285, 0.0021), score_text("rmse", 0.01234)
    ('72.9 ± 0.2 %', '0.0123')
    """
    if measure in SHARES:
        return f"{100 * mean:.1f} %" if not half else f"{100 * mean:.1f} ± {100 * half:.1f} %"
    return _number(mean, half or None)


def _number(mean: float, half: float | None, whole: bool = False) -> str:
    """Three significant digits, and as many decimals for half of the interval."""
    if whole and (mean >= 1000 or (float(mean).is_integer() and not half)):
        decimals = 0
    else:
        decimals = min(max(0, 2 - math.floor(math.log10(abs(mean)))), 9) if mean else 0
    return f"{mean:,.{decimals}f}" if half is None else f"{mean:,.{decimals}f} ± {half:,.{decimals}f}"
