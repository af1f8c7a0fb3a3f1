"""What the runs of LTC say: accuracies, gains, time saved, and curves of them."""

import math
from collections.abc import Sequence

import numpy as np

from fedloom.record.outperform import rounds_to
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.paper import Plot, Runs, Series
from fedloom.reproduce.verdicts import Value, Values, ratios


def final(runs: Sequence[Run]) -> list[Value]:
    """Accuracy in percent at the end, seed by seed."""
    return [100 * float(run.metrics["accuracy"][-1]) for run in runs]


def over_all(runs: Sequence[Run]) -> list[Value]:
    """Mean accuracy in percent over all cloud rounds, seed by seed."""
    return [100 * float(np.mean(run.metrics["accuracy"].to_numpy()[1:])) for run in runs]


def mean_of(runs: Sequence[Run], column: str) -> list[Value]:
    """Mean of a measure over all cloud rounds, seed by seed."""
    return [float(np.mean(run.metrics[column].drop_nulls().to_numpy())) for run in runs]


def gain_percent(base: Values, ours: Values) -> list[Value]:
    """By how many per cent ours are above the base, seed by seed."""
    return [None if r is None else 100 * (verdicts.number_of(r) - 1) for r in ratios(base, ours)]


def time_saved(
    base: Sequence[Run], ours: Sequence[Run], column: str, target: float, lower: bool = False
) -> list[Value]:
    """Per cent of the base's simulated time to a target that ours do not need, seed by seed; None if one does not arrive."""

    def seconds(run: Run) -> float | None:
        r = rounds_to(run.metrics[column].to_numpy(), target, lower_is_better=lower)
        at = run.metrics["time_s"].to_numpy()
        return None if math.isinf(r) else float(np.interp(r, np.arange(len(at)), at))

    shares = ratios([seconds(run) for run in base], [seconds(run) for run in ours])
    return [None if r is None else 100 * (1 - verdicts.number_of(r)) for r in shares]


def rows_of(runs: Runs) -> list[str]:
    """Data of the labels."""
    return list(dict.fromkeys(label[0] for label in runs))


def curves_plot(runs: Runs, key: str) -> Plot:
    """Accuracy against simulated time."""
    series = []
    for i, (label, same) in enumerate(runs.items()):
        accuracy = np.array([run.metrics["accuracy"].to_numpy() for run in same])
        series.append(
            Series(
                label=", ".join(map(str, label[1:] if len(rows_of(runs)) == 1 else label)),
                x=tuple(float(v) for v in same[0].metrics["time_s"]),
                y=tuple(accuracy.mean(axis=0).tolist()),
                low=tuple(accuracy.min(axis=0).tolist()),
                high=tuple(accuracy.max(axis=0).tolist()),
                colour=i,
            )
        )
    caption = "Test accuracy against simulated time; lines are means over seeds, whiskers or bands go from the least to the most."
    return Plot(key=key, caption=caption, x_label="time", y_label="test accuracy", series=tuple(series))
