"""What the runs of HHFL say: curves, gains by two criteria, costs, and tables, plots and claims of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fedloom.record.convergence import Gain, first_step_at, gain
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.setups import HFL, HHFL, NAMES
from fedloom.reproduce.paper import Claim, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Value, Values, Verdict, mean, ratios, spread

GAIN, GAIN_6 = 1.5, 1.9  # published: above 1.5 where edge servers differ, "reaching 2" in case 6
THRESHOLDS = (0.0005, 0.001, 0.002, 0.005)  # slopes per 25 steps below which a curve has converged: readings of "0.1 %"
SLOPE, COMMON = "slope", "common accuracy"


def curve(run: Run, column: str = "accuracy") -> tuple[np.ndarray, np.ndarray]:
    """Local steps and accuracy (or another share) at every evaluation."""
    return run.metrics["local_steps"].to_numpy(), run.metrics[column].to_numpy()


def gains(
    reference: Sequence[Run], contender: Sequence[Run], threshold: float = 0.001, over: int | None = None
) -> list[Gain]:
    """Gain of the contender, seed by seed. threshold: the slope per 25 steps below which a run has converged; over: how many
    evaluations it is taken over."""
    return [gain(curve(a), curve(b), threshold, over) for a, b in zip(reference, contender)]


def gain_by(
    criterion: str, reference: Sequence[Run], contender: Sequence[Run], threshold: float = 0.001
) -> list[Value]:
    """Gain by SLOPE or at COMMON accuracy, seed by seed; by the slope None where a run has not converged."""
    found = gains(reference, contender, threshold)
    return [g.gain_steps if criterion == SLOPE else g.gain_common for g in found]


def converged(runs: Runs, cases: Iterable[int]) -> bool:
    """Whether all runs of both methods have."""
    pairs = (gains(runs[c, HFL], runs[c, HHFL]) for c in cases)
    return not any(g.not_converged for found in pairs for g in found)


def steps_to(runs: Sequence[Run], target: float) -> list[Value]:
    """Steps to an accuracy, seed by seed."""
    return [None if (s := first_step_at(*curve(run), target)) is None else float(s) for run in runs]


def cost_ratio(reference: Sequence[Run], contender: Sequence[Run], column: str) -> list[Value]:
    """What the contender needs of `column` to the common accuracy, over what the reference needs, seed by seed."""
    found: list[Value] = []
    for a, b, g in zip(reference, contender, gains(reference, contender)):
        if g.common_reference and g.common_contender:
            found.append(value_at(b, column, g.common_contender) / value_at(a, column, g.common_reference))
        else:
            found.append(None)
    return found


def value_at(run: Run, column: str, step: int) -> float:
    """Of a column, at the evaluation after so many steps."""
    steps = run.metrics["local_steps"].to_list()
    return float(run.metrics[column][steps.index(step)])


def inverse(values: Values) -> list[Value]:
    """1 / value, seed by seed."""
    return ratios(values, [1.0] * len(values))


def cases_of(runs: Runs) -> list[int]:
    """Of the labels, ascending."""
    return sorted({label[0] for label in runs})


def curves_plot(runs: Runs, key: str, column: str = "local_steps", label: str = "local steps") -> Plot:
    """Accuracy against a cost for all cases and both methods: mean of the seeds, band from least to most."""
    series = []
    for i, case in enumerate(cases_of(runs)):
        for method in (HFL, HHFL):
            same = runs[case, method]
            accuracy = np.array([curve(run)[1] for run in same])
            series.append(
                Series(
                    label=f"case {case}, {NAMES[method]}",
                    x=tuple(float(v) for v in same[0].metrics[column]),
                    y=tuple(accuracy.mean(axis=0).tolist()),
                    low=tuple(accuracy.min(axis=0).tolist()),
                    high=tuple(accuracy.max(axis=0).tolist()),
                    dashed=method == HFL,
                    colour=i,
                )
            )
    return Plot(
        key=key,
        caption=f"Test accuracy against {label}; lines are means over seeds, bands go from the least to the most.",
        x_label=label,
        y_label="test accuracy",
        series=tuple(series),
    )


def gain_table(runs: Runs, target: float) -> Table:
    """Gains, steps to a target, and last accuracies, case by case."""
    rows = []
    for case in cases_of(runs):
        reference, contender = runs[case, HFL], runs[case, HHFL]
        g = gains(reference, contender)
        rows.append(
            (
                f"case {case}",
                spread([x.gain_steps for x in g]),
                spread([x.gain_common for x in g]),
                spread(steps_to(reference, target)),
                spread(steps_to(contender, target)),
                spread([100 * curve(run)[1][-1] for run in reference]),
                spread([100 * curve(run)[1][-1] for run in contender]),
            )
        )
    at = f"{100 * target:.0f} %"
    return Table(
        title="Gains of HHFL over HFL, and steps to an accuracy",
        columns=(*("", "gain, slope", "gain, common", f"HFL to {at}", f"HHFL to {at}", "HFL final %", "HHFL final %"),),
        rows=tuple(rows),
    )


def common_gain(runs: Runs, case: int) -> list[Value]:
    """Gain at common accuracy, seed by seed."""
    return gain_by(COMMON, runs[case, HFL], runs[case, HHFL])


def sooner_by(runs: Runs, case: int) -> list[Value]:
    """Steps of HFL over steps of HHFL to 88 %, seed by seed."""
    return ratios(steps_to(runs[case, HHFL], 0.88), steps_to(runs[case, HFL], 0.88))


def near_one(values: Values) -> Verdict:
    """Is it 0.9 to 1.1?"""
    return verdicts.within(values, 0.9, 1.1)


def gain_claims(runs: Runs, case: int, judge: Callable[[Values], Verdict], text: str, repeats: str = "") -> list[Claim]:
    """A claim about a gain, by the published criterion and by ours.

    The former in all readings of its threshold with which all runs have converged: where they disagree nothing is decided.
    """
    pair = runs[case, HFL], runs[case, HHFL]
    ours = gain_by(SLOPE, *pair)
    readings = [values for t in THRESHOLDS if None not in (values := gain_by(SLOPE, *pair, t))]
    means = [mean(values) for values in readings]
    between = f" ({min(means):.2f} to {max(means):.2f} over {len(means)} thresholds)" if means else ""
    slope = judge(ours)
    return [
        Claim(
            text=f"case {case}: {text}, by the slope",
            verdict=Verdict(verdicts.agreed(slope, *map(judge, readings)), f"{slope.measured}{between}", slope.n),
            repeats=repeats,
        ),
        Claim(text=f"case {case}: {text}, at common accuracy", verdict=judge(common_gain(runs, case)), repeats=repeats),
    ]


def listed_means(values: Mapping[int, Values]) -> str:
    """Means, case by case."""
    shown = ", ".join("–" if math.isnan(mean(v)) else f"{mean(v):.2f}" for v in values.values())
    return f"{shown} in {'cases' if len(values) > 1 else 'case'} {', '.join(map(str, values))}"


def sweep_series(label: str, x: Sequence[float], values: Sequence[Values], colour: int) -> Series:
    """Means over the seeds that have a value, from least to most."""
    known = [(at, [v for v in vs if isinstance(v, float)]) for at, vs in zip(x, values)]
    known = [(at, vs) for at, vs in known if vs]
    return Series(
        label=label,
        x=tuple(at for at, _ in known),
        y=tuple(float(np.mean(vs)) for _, vs in known),
        low=tuple(min(vs) for _, vs in known),
        high=tuple(max(vs) for _, vs in known),
        colour=colour,
    )
