"""Measures against costs, averaged over seeds: the numbers behind the curves.

Whatever was read from a file is escaped where it becomes a label of a figure, not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedloom.record.axes import AXES
from fedloom.record.measures import NAMES, SHARES, measure_meaning, measure_name
from fedloom.record.runs import COUNTERS, Run, by_method, common_measure
from fedloom.record.statistics import LEAST, LEVEL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Okabe and Ito's colours, with a darker yellow and grey for black, so that all show on white and on black.
METHOD_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#B5A100")
METHOD_DASHES = ("solid", "dash", "dot")
MOST_POINTS = 200  # of a curve
MOST_MEASURES = 16
PLAIN = {"edge_round", "models_unicast", "models_once"}  # counters that every method drives alike


def method_styles(runs: Iterable[Run]) -> dict[str, tuple[str, str]]:
    """(colour, dash) of each method; with more methods than colours the dash tells them apart."""
    n = len(METHOD_COLORS)
    return {
        method: (METHOD_COLORS[i % n], METHOD_DASHES[i // n % len(METHOD_DASHES)])
        for i, method in enumerate(by_method(runs))
    }


@dataclass(frozen=True)
class Curve:
    """A measure against a cost, over the seeds of one method: arrays (n,). half: of the 95 % interval of the mean, None below
    three seeds. costs: mean of every cost there."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    half: NDArray[np.float64] | None
    costs: dict[str, NDArray[np.float64]]


def mean_curve(runs: Sequence[Run], x: str, measure: str | None = None) -> Curve:
    """A measure of one method, what the runs are judged by or another column, against a cost; see `mean_curves`."""
    (curve,) = mean_curves(runs, x, [measure or common_measure(runs)])
    return curve


def mean_curves(runs: Sequence[Run], x: str, names: Sequence[str]) -> list[Curve]:
    """Means over the seeds of one method, and half of their 95 % intervals, on the union of their x, for each measure.

    What is averaged is what is drawn, straight lines between evaluations: with steps, two seeds that are evaluated
    a moment apart would seem to disagree wildly in between. After its end a finished run holds its last value;
    where the first unfinished run ends, the curve ends. A measure need not have been taken at every evaluation, and is NaN
    before it first was.
    """
    import numpy as np

    own = [run.metrics[AXES[x].column].to_numpy().astype(float) for run in runs]
    start = max(at[0] for at in own)
    end = min((at[-1] for at, run in zip(own, runs) if not run.finished), default=math.inf)
    union = np.unique(np.concatenate(own))
    union = union[(union >= start) & (union <= end)]
    if len(union) > MOST_POINTS:
        union = union[np.unique(np.linspace(0, len(union) - 1, MOST_POINTS).round().astype(int))]
    columns = [run.metrics.to_dict() for run in runs]

    def on_union(name: str) -> NDArray[np.float64]:
        """(runs, points)"""
        lines = np.full((len(runs), len(union)), np.nan)
        for line, of_run, at in zip(lines, columns, own):
            if name not in of_run:
                continue
            value = of_run[name].cast(float).to_numpy()  # a null becomes NaN
            there = of_run[name].is_not_null().to_numpy() if of_run[name].null_count() else slice(None)
            if len(value[there]):
                line[:] = np.interp(union, at[there], value[there], left=np.nan)
        return lines

    seeds = np.array([run.seed for run in runs])
    costs = {name: on_union(axis.column).mean(axis=0) for name, axis in AXES.items()}
    curves = []
    for name in names:
        found = on_union(name)
        values = np.stack([found[seeds == seed].mean(axis=0) for seed in np.unique(seeds)])  # a seed counts once
        curves.append(Curve(union, values.mean(axis=0), half_width(values), costs))
    return curves


def half_width(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Half of the 95 % interval of the mean of n values (n, points), (points,); None below three."""
    n = len(values)
    if n < LEAST:
        return None
    from scipy.special import stdtrit  # takes long to import

    factor = float(stdtrit(n - 1, (1 + LEVEL) / 2)) / math.sqrt(n)
    found: NDArray[np.float64] = factor * values.std(axis=0, ddof=1)
    return found


def measures(runs: Sequence[Run]) -> list[str]:
    """Columns of the metrics that can be drawn: in all runs of a method, not always the same; what the runs are judged by
    first."""
    import numpy as np

    first = common_measure(runs)
    of_methods = [
        [name for name in same[0].metrics.columns if all(name in run.metrics.columns for run in same)]
        for same in by_method(runs).values()
    ]
    found = [first]
    for name in dict.fromkeys(name for columns in of_methods for name in columns):
        having = [run for run in runs if name in run.metrics.columns]
        if name in COUNTERS or name in PLAIN or name == first or not having[0].metrics[name].dtype.is_numeric():
            continue
        values = np.concatenate([run.metrics[name].to_numpy().astype(float) for run in having])
        values = values[np.isfinite(values)]
        if len(values) and values.min() < values.max():
            found.append(name)
    known = [name for name in NAMES if name in found]
    return ([first] + [n for n in known if n != first] + [n for n in found[1:] if n not in known])[:MOST_MEASURES]


def score_range(runs: Sequence[Run], measure: str | None = None) -> tuple[float, float] | None:
    """The values worth showing: of all runs after their first steps, which else would flatten everything.

    The first evaluation and the first twentieth of each run are left out; None if nothing is left.
    """
    import numpy as np

    measure = measure or common_measure(runs)
    late = []
    for run in (run for run in runs if measure in run.metrics.columns):
        values = run.metrics[measure].to_numpy().astype(float)
        late.append(values[max(1, math.ceil(len(values) / 20)) :])
    shown = np.concatenate(late)
    shown = shown[np.isfinite(shown)]
    if not len(shown):
        return None
    low, high = float(shown.min()), float(shown.max())
    pad = 0.08 * (high - low) or 0.05 * abs(high) or 0.1
    bottom = 0.0 if low >= 0 else -math.inf
    return max(low - pad, bottom), min(high + pad, 1.0 if measure in SHARES else math.inf)


def curve_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything the page needs to draw any measure against any cost, as plain lists.

    methods: name, color, dash, seeds. axes: label, units [[size, name], ...]. measures: key, label, what it says, share,
    range. curves: by axis, a list with an entry for each method: x, costs by axis, and by measure {mean, half or None}.
    """
    columns = measures(runs)
    methods = by_method(runs)
    styles = method_styles(runs)
    return {
        "methods": [
            {
                "name": method,
                "color": styles[method][0],
                "dash": styles[method][1],
                "seeds": len({run.seed for run in same}),
            }
            for method, same in methods.items()
        ],
        "axes": {
            x: {"label": axis.label, "column": axis.column, "units": [list(unit) for unit in axis.units]}
            for x, axis in AXES.items()
        },
        "measures": [
            {
                "key": name,
                "label": measure_name(name),
                "says": measure_meaning(name),
                "share": name in SHARES,
                "range": score_range(runs, name),
            }
            for name in columns
        ],
        "curves": {x: [_curve_lists(same, x, columns) for same in methods.values()] for x in AXES},
    }


def _curve_lists(runs: Sequence[Run], x: str, columns: Sequence[str]) -> dict[str, Any]:
    curves = dict(zip(columns, mean_curves(runs, x, columns)))
    any_curve = next(iter(curves.values()))
    return {
        "x": rounded(any_curve.x),
        "costs": {name: rounded(values) for name, values in any_curve.costs.items() if name != x},
        "measures": {
            name: {"mean": rounded(curve.mean), "half": None if curve.half is None else rounded(curve.half)}
            for name, curve in curves.items()
        },
    }


def rounded(values: Iterable[float]) -> list[float | None]:
    """Six significant digits; None for what is not finite, which JSON does not know."""
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in values]
