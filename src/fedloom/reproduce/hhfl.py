"""HHFL: clients in overlapping cells bridge edge servers. Figures 4, 5 and 7 to 16.

57 clients and 3 edge servers, E = G = 5, batches of 20. Cases 1 to 3: edge servers have the same labels; 4 and 5: each misses
three or four classes; 6: as 5 with 21 instead of 15 clients in overlaps. One round trip between client and edge server takes
10 units of time, edge server and cloud 1, five local steps 1. HFL is HierFedAVG with clients of overlaps dealt evenly.

"Gain" is steps of HFL / steps of HHFL until training has converged (slope of the accuracy below 0.1 % per 25 steps over the
last 250), or until both have reached the lower of the two accuracies at which they converged ("common").
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.record.convergence import Gain, first_step_at, gain
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.paper import Claim, Item, Outcome, Paper, Plot, Runs, Series, Setup, Setups, Table
from fedloom.reproduce.verdicts import Verdict, spread

Judge = Callable[[Runs], Outcome]

HFL, HHFL = "hierfedavg", "hhfl"
NAMES = {HFL: "HFL", HHFL: "HHFL"}
CASES = (1, 2, 3, 4, 5, 6)
ALIKE, APART = (1, 2, 3), (4, 5, 6)  # edge servers with the same labels, with different ones
BARS = {4: 1.1, 5: 1.5, 6: 1.7}  # gain at common accuracy that logistic regression should reach
TOTAL_STEPS = {"laptop": 1500, "paper": 3000}
SWEEP = {"laptop": (0, 3, 9, 15, 27, 57), "paper": (0, 3, 6, 9, 12, 15, 21, 27, 33, 39, 45, 51, 57)}
SWEEP_CASES = {"laptop": (1, 5), "paper": (1, 2, 3, 4, 5)}
PERIODS = (2, 5, 10, 20)
PERIOD_CASES = {"laptop": (5,), "paper": APART}
PERIOD_STEPS = {"laptop": 2400, "paper": 3000}  # whole numbers of cloud rounds for all periods
SAMPLES = {  # of each client, by case
    "mnist": {1: 950, 2: 984, 3: 902, 4: 902, 5: 974, 6: 974},
    "cifar10": {1: 870, 2: 828, 3: 832, 4: 832, 5: 832, 6: 832},
}
MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"dataset": "mnist", "model": {"kind": "softmax"}, "lr": 0.1, "ratio": 0.992},
    "cnn": {"dataset": "mnist", "model": {"kind": "cnn"}, "lr": 0.02, "ratio": 0.992},
    "vgg": {"dataset": "cifar10", "model": {"kind": "vgg"}, "lr": 0.07, "ratio": 0.9},
}


def setup(
    case: int,
    method: str,
    total_steps: int,
    *,
    local_steps: int = 5,
    edge_rounds: int = 5,
    overlap: int | None = None,
    model: str = "softmax",
    width: float | None = None,
) -> Setup:
    """One of the paper's experiments. overlap: clients in overlaps, by default those of the case."""
    kind = MODELS[model]
    dataset = kind["dataset"]
    if overlap is None:
        overlap = 21 if case == 6 else 15
    network = kind["model"] | ({} if width is None else {"width": width})
    big = {"momentum": 0.9, "weight_decay": 5e-4} if model == "vgg" else {}
    scenario = {
        "name": "hhfl",
        "fleet": {
            "n_devices": 57,
            "cells": {"kind": "grid", "shape": "triangle"},
            "placement": {"kind": "three-cells", "overlap": overlap},
            "device_edge": {"up": {"kind": "fixed", "seconds": 5}, "down": {"kind": "fixed", "seconds": 5}},
            "edge_cloud": {"up": {"kind": "fixed", "seconds": 0.5}, "down": {"kind": "fixed", "seconds": 0.5}},
            "compute": {"law": {"kind": "fixed", "value": 0.2}},
        },
        "task": {
            "dataset": dataset,
            "standardise": model == "vgg",
            "partition": {"kind": "edge-case", "case": case},
            "model": network,
        },
        "training": {
            "batch_size": 20,
            "drop_last": True,
            "local_steps": local_steps,
            "edge_rounds": edge_rounds,
            "cloud_rounds": total_steps // (local_steps * edge_rounds),
            "lr": kind["lr"],
            "lr_decay": {
                "kind": "exponential",
                "ratio": kind["ratio"],
                "every_steps": math.ceil(SAMPLES[dataset][case] / 20),
            },
            **big,
        },
        "evaluation": {"local_samples": 0},
    }
    return Setup(scenario=scenario, method=method)


def both(cases: Iterable[int], total_steps: int, **options: Any) -> Setups:
    """HFL and HHFL for every case, by label (case, method)."""
    return {(c, m): setup(c, m, total_steps, **options) for c in cases for m in (HFL, HHFL)}


# What runs say


def curve(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Local steps and accuracy at every evaluation."""
    return run.metrics["local_steps"].to_numpy(), run.metrics["accuracy"].to_numpy()


def gains(reference: Sequence[Run], contender: Sequence[Run]) -> list[Gain]:
    """Gain of the contender, seed by seed."""
    return [gain(curve(a), curve(b)) for a, b in zip(reference, contender)]


def steps_to(runs: Sequence[Run], target: float) -> list[float | None]:
    """Steps to an accuracy, seed by seed."""
    return [None if (s := first_step_at(*curve(run), target)) is None else float(s) for run in runs]


def cost_ratio(reference: Sequence[Run], contender: Sequence[Run], column: str) -> list[float | None]:
    """What the contender needs of `column` to the common accuracy, over what the reference needs, seed by seed."""
    ratios: list[float | None] = []
    for a, b, g in zip(reference, contender, gains(reference, contender)):
        if g.common_reference and g.common_contender:
            ratios.append(_at(b, column, g.common_contender) / _at(a, column, g.common_reference))
        else:
            ratios.append(None)
    return ratios


def _at(run: Run, column: str, step: int) -> float:
    steps = run.metrics["local_steps"].to_list()
    return float(run.metrics[column][steps.index(step)])


def _inverse(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else 1 / v for v in values]


def _ratio(a: Sequence[float | None], b: Sequence[float | None]) -> list[float | None]:
    return [None if x is None or y is None else y / x for x, y in zip(a, b)]


def _cases(runs: Runs) -> list[int]:
    return sorted({label[0] for label in runs})


def _curves(runs: Runs, key: str, column: str = "local_steps", label: str = "local steps") -> Plot:
    """Accuracy against a cost for all cases and both methods: mean of the seeds, band from least to most."""
    series = []
    for i, case in enumerate(_cases(runs)):
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


def _gain_table(runs: Runs, target: float) -> Table:
    rows = []
    for case in _cases(runs):
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


def _common(runs: Runs, case: int) -> list[float | None]:
    return [g.gain_common for g in gains(runs[case, HFL], runs[case, HHFL])]


# Figures


def _fig4(runs: Runs) -> Outcome:
    claims = []
    for case in ALIKE:
        apart = [float(np.abs(curve(a)[1] - curve(b)[1]).max()) for a, b in zip(runs[case, HFL], runs[case, HHFL])]
        claims.append(
            Claim(text=f"case {case}: HFL and HHFL coincide (gain 0.9 to 1.1)", verdict=_near_one(_common(runs, case)))
        )
        claims.append(
            Claim(
                text=f"case {case}: the curves are never more than one point of accuracy apart",
                verdict=verdicts.at_most([100 * a for a in apart], 1.0, "points"),
            )
        )
    for case in (1, 2):
        slower = _ratio(steps_to(runs[case, HHFL], 0.88), steps_to(runs[3, HHFL], 0.88))
        claims.append(
            Claim(
                text=f"case 3 is clearly slower than case {case} (steps to 88 %, at least 1.2 times as many)",
                verdict=verdicts.at_least(slower, 1.2, "times"),
            )
        )
    return Outcome(claims=tuple(claims), tables=(_gain_table(runs, 0.88),), plots=(_curves(runs, "fig4"),))


def _near_one(values: Sequence[float | None]) -> Verdict:
    return verdicts.within(values, 0.9, 1.1)


def _fig5(runs: Runs) -> Outcome:
    hfl, hhfl = (_ratio(steps_to(runs[4, m], 0.88), steps_to(runs[5, m], 0.88)) for m in (HFL, HHFL))
    widens = [None if a is None or b is None else b - a for a, b in zip(_common(runs, 4), _common(runs, 5))]
    claims = (
        *(_ahead(runs, case) for case in (4, 5)),
        Claim(
            text="from case 4 to 5 HFL degrades (steps to 88 % grow by more than half)",
            verdict=verdicts.at_least(hfl, 1.5, "times"),
        ),
        Claim(
            text="from case 4 to 5 HHFL hardly changes (steps to 88 % grow by less than 35 %)",
            verdict=verdicts.at_most(hhfl, 1.35, "times"),
        ),
        Claim(text="the gap widens from case 4 to 5 (gain at common accuracy)", verdict=verdicts.at_least(widens, 0.0)),
    )
    return Outcome(claims=claims, tables=(_gain_table(runs, 0.88),), plots=(_curves(runs, "fig5"),))


def _ahead(runs: Runs, case: int, bar: float | None = None) -> Claim:
    bar = BARS[case] if bar is None else bar
    return Claim(
        text=f"case {case}: HHFL ahead (gain at common accuracy at least {bar:g})",
        verdict=verdicts.at_least(_common(runs, case), bar),
    )


def _fig7(runs: Runs) -> Outcome:
    faster = _ratio(steps_to(runs[6, HHFL], 0.88), steps_to(runs[5, HHFL], 0.88))
    same = [float(np.abs(curve(a)[1] - curve(b)[1]).max()) for a, b in zip(runs[5, HFL], runs[6, HFL])]
    claims = (
        *(_ahead(runs, case) for case in (5, 6)),
        Claim(
            text="HHFL is a little faster in case 6 than in case 5 (steps to 88 %, case 5 over case 6)",
            verdict=verdicts.at_least(faster, 1.0, "times"),
        ),
        Claim(
            text="HFL does not change from case 5 to 6 (largest difference of accuracies)",
            verdict=verdicts.at_most(same, 0.0),
        ),
    )
    return Outcome(claims=claims, tables=(_gain_table(runs, 0.88),), plots=(_curves(runs, "fig7"),))


def _sweep_setups(scale: str) -> Setups:
    total = TOTAL_STEPS[scale]
    return {
        **{(c, 0): setup(c, HFL, total) for c in SWEEP_CASES[scale]},  # the same at every proportion
        **{(c, m): setup(c, HHFL, total, overlap=m) for c in SWEEP_CASES[scale] for m in SWEEP[scale] if m},
    }


def _fig8(runs: Runs) -> Outcome:
    overlaps = sorted({m for _, m in runs})
    common = {
        (c, m): [g.gain_common for g in gains(runs[c, 0], runs[c, m])] for c in _cases(runs) for m in overlaps if m
    }
    common |= {(c, 0): [1.0] * len(runs[c, 0]) for c in _cases(runs)}
    claims = []
    for case in _cases(runs):
        along = [common[case, m] for m in overlaps]
        if case in ALIKE:
            flat = [v for values in along for v in values]
            claims.append(
                Claim(
                    text=f"case {case}: gain about 1 (0.9 to 1.1) at every proportion",
                    verdict=Verdict(
                        verdicts.worst(*(_near_one(values) for values in along)),
                        f"{min(v for v in flat if v is not None):.2f} to {max(v for v in flat if v is not None):.2f}",
                    ),
                )
            )
            continue
        slack = next(v * 25 / 250 for v in (1.0,))  # one evaluation, at some 250 steps to the common accuracy
        claims.append(
            Claim(text=f"case {case}: the gain rises with the overlap", verdict=verdicts.rising(along, slack))
        )
        early = _slope(common[case, 0], common[case, 15], 15)
        late = _slope(common[case, 15], common[case, overlaps[-1]], overlaps[-1] - 15)
        steeper = [None if a is None or b is None else a - b for a, b in zip(early, late)]
        claims.append(
            Claim(
                text=f"case {case}: steep at first, then it saturates (gain per client up to 15, less that beyond)",
                verdict=verdicts.at_least(steeper, 1e-9),
            )
        )
    rows = [(f"{m} ({100 * m / 57:.0f} %)", *(spread(common[c, m]) for c in _cases(runs))) for m in overlaps]
    table = Table(
        title="Gain at common accuracy",
        columns=("clients in overlaps", *(f"case {c}" for c in _cases(runs))),
        rows=tuple(rows),
    )
    series = [_sweep_series(f"case {c}", [100 * m / 57 for m in overlaps], [common[c, m] for m in overlaps], i)
              for i, c in enumerate(_cases(runs))]  # fmt: skip
    plot = Plot(
        key="fig8",
        caption="Gain of HHFL over HFL at common accuracy against the share of clients in overlaps; bars: seeds.",
        x_label="clients in overlaps, %",
        y_label="gain at common accuracy",
        series=tuple(series),
        level=1.0,
    )
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,))


def _slope(a: Sequence[float | None], b: Sequence[float | None], n: int) -> list[float | None]:
    return [None if x is None or y is None else (y - x) / n for x, y in zip(a, b)]


def _sweep_series(label: str, x: Sequence[float], values: Sequence[Sequence[float | None]], colour: int) -> Series:
    known = [(at, [v for v in vs if v is not None]) for at, vs in zip(x, values)]
    known = [(at, vs) for at, vs in known if vs]
    return Series(
        label=label,
        x=tuple(at for at, _ in known),
        y=tuple(float(np.mean(vs)) for _, vs in known),
        low=tuple(min(vs) for _, vs in known),
        high=tuple(max(vs) for _, vs in known),
        colour=colour,
    )


def _fig9(runs: Runs) -> Outcome:
    rows, claims = [], []
    for case in _cases(runs):
        time = _inverse(cost_ratio(runs[case, HFL], runs[case, HHFL], "time_s"))
        rows.append((f"case {case}", spread(_common(runs, case)), spread(time)))
        if case in ALIKE:
            claims.append(Claim(text=f"case {case}: no visible gain in time (0.9 to 1.1)", verdict=_near_one(time)))
        else:
            claims.append(
                Claim(
                    text=f"case {case}: HHFL is faster (time to the common accuracy, HFL over HHFL, at least 1.1)",
                    verdict=verdicts.at_least(time, 1.1),
                )
            )
    table = Table(title="Gain at common accuracy", columns=("", "in steps", "in time"), rows=tuple(rows))
    return Outcome(
        claims=tuple(claims),
        tables=(table,),
        plots=(_curves(runs, "fig9", "time_s", "time in units of five local steps"),),
    )


def _fig10(runs: Runs) -> Outcome:
    rows, claims = [], []
    for case in _cases(runs):
        pair = runs[case, HFL], runs[case, HHFL]
        unicast, once = (cost_ratio(*pair, f"models_{way}") for way in ("unicast", "once"))
        rows.append((f"case {case}", spread(unicast), spread(once)))
        if case in ALIKE:
            text = f"case {case}: HHFL sends more to the same accuracy (ratio above 1)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(unicast, 1.0 + 1e-9)))
        else:
            text = f"case {case}: HHFL sends clearly less to the same accuracy (ratio at most 0.95)"
            claims.append(Claim(text=text, verdict=verdicts.at_most(unicast, 0.95)))
    equal = [
        _at(b, "models_unicast", int(curve(b)[0][-1])) / _at(a, "models_unicast", int(curve(a)[0][-1]))
        for a, b in zip(runs[1, HFL], runs[1, HHFL])
    ]
    claims.append(
        Claim(
            text="per round, HHFL uses 75 links where HFL uses 57 (ratio 25/19)",
            verdict=verdicts.within(equal, 25 / 19 - 1e-9, 25 / 19 + 1e-9),
        )
    )
    table = Table(
        title="Models sent between clients and edge servers to the common accuracy, HHFL over HFL",
        columns=("", "sent to each edge server", "uplink sent once for all"),
        rows=tuple(rows),
    )
    plot = _curves(runs, "fig10", "models_unicast", "models sent between clients and edge servers")
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,))


def _fig11(runs: Runs) -> Outcome:
    rows, claims = [], []
    steps_of, common_of, time_of = {}, {}, {}
    for case in _cases(runs):
        g = gains(runs[case, HFL], runs[case, HHFL])
        steps_of[case] = [x.gain_steps for x in g]
        common_of[case] = [x.gain_common for x in g]
        time_of[case] = [
            _at(a, "time_s", x.steps_reference) / _at(b, "time_s", x.steps_contender)
            if x.steps_reference and x.steps_contender
            else None
            for a, b, x in zip(runs[case, HFL], runs[case, HHFL], g)
        ]
        common_time = _inverse(cost_ratio(runs[case, HFL], runs[case, HHFL], "time_s"))
        rows.append(
            (
                f"case {case}",
                spread(steps_of[case]),
                spread(time_of[case]),
                spread(common_of[case]),
                spread(common_time),
            )
        )
        off = [None if a is None or b is None else 100 * abs(a / b - 1) for a, b in zip(common_of[case], common_time)]
        claims.append(
            Claim(
                text=f"case {case}: gains in steps and in time are nearly equal (within 2 %)",
                verdict=verdicts.at_most(off, 2.0, "%"),
            )
        )
        if case in ALIKE:
            claims.append(Claim(text=f"case {case}: gain about 1 (0.9 to 1.1)", verdict=_near_one(common_of[case])))
        else:
            claims.append(_ahead(runs, case))
    if 6 in steps_of:
        claims.append(
            Claim(
                text="case 6: a gain of 2 (at least 1.9) by the paper's own criterion, the slope of the accuracy",
                verdict=verdicts.at_least(steps_of[6], 1.9),
            )
        )
    table = Table(
        title="Gain of HHFL over HFL",
        columns=("", "slope, steps", "slope, time", "common, steps", "common, time"),
        rows=tuple(rows),
    )
    cases = _cases(runs)
    kinds = (("slope, steps", steps_of), ("slope, time", time_of), ("common, steps", common_of))
    plot = Plot(
        key="fig11",
        caption="Gain of HHFL over HFL by the slope criterion and at common accuracy; whiskers: seeds.",
        x_label="",
        y_label="gain",
        kind="bars",
        ticks=tuple(f"case {c}" for c in cases),
        series=tuple(
            _sweep_series(label, range(len(cases)), [of[c] for c in cases], i) for i, (label, of) in enumerate(kinds)
        ),
        level=1.0,
    )
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,))


def _period_setups(scale: str, name: str) -> Setups:
    def at(case: int, method: str, n: int) -> Setup:
        options: dict[str, Any] = {name: n}
        return setup(case, method, PERIOD_STEPS[scale], **options)

    return {(c, m, n): at(c, m, n) for c in PERIOD_CASES[scale] for m in (HFL, HHFL) for n in PERIODS}


def _periods(runs: Runs, key: str, symbol: str, what: str) -> Outcome:
    cases = _cases(runs)
    of = {(c, n): gains(runs[c, HFL, n], runs[c, HHFL, n]) for c in cases for n in PERIODS}
    common = {label: [g.gain_common for g in of[label]] for label in of}
    slope = {label: [g.gain_steps for g in of[label]] for label in of}
    claims = tuple(
        Claim(
            text=f"case {c}: the gain grows with {symbol} (at common accuracy)",
            verdict=verdicts.rising([common[c, n] for n in PERIODS]),
        )
        for c in cases
    )
    rows = tuple(
        (f"case {c}, {kind}", *(spread(values[c, n]) for n in PERIODS))
        for c in cases
        for kind, values in (("common", common), ("slope", slope))
    )
    table = Table(title=f"Gain against {symbol}", columns=("", *(f"{symbol} = {n}" for n in PERIODS)), rows=rows)
    plot = Plot(
        key=key,
        caption=f"Gain of HHFL over HFL at common accuracy against the {what}; the other period is 5.",
        x_label=what,
        y_label="gain at common accuracy",
        series=tuple(
            _sweep_series(f"case {c}", PERIODS, [common[c, n] for n in PERIODS], i) for i, c in enumerate(cases)
        ),
        level=1.0,
    )
    return Outcome(claims=claims, tables=(table,), plots=(plot,))


def _cnn(runs: Runs) -> Outcome:
    claims = [
        Claim(text=f"case {c}: gain about 1 (0.9 to 1.1)", verdict=_near_one(_common(runs, c)))
        if c in ALIKE
        else _ahead(runs, c, 1.1)
        for c in _cases(runs)
    ]
    return Outcome(claims=tuple(claims), tables=(_gain_table(runs, 0.9),), plots=(_curves(runs, "cnn"),))


def _fig14(runs: Runs) -> Outcome:
    claims = []
    rows = []
    for case in _cases(runs):
        pair = runs[case, HFL], runs[case, HHFL]
        time = _inverse(cost_ratio(*pair, "time_s"))
        sent = cost_ratio(*pair, "models_unicast")
        rows.append((f"case {case}", spread(_common(runs, case)), spread(time), spread(sent)))
        if case in ALIKE:
            claims.append(Claim(text=f"case {case}: gain about 1 (0.9 to 1.1)", verdict=_near_one(_common(runs, case))))
            text = f"case {case}: HHFL sends more to the same accuracy (ratio above 1)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(sent, 1.0 + 1e-9)))
        else:
            text = f"case {case}: gain above 1.5 in steps and time"
            both_ways = (verdicts.at_least(_common(runs, case), 1.5), verdicts.at_least(time, 1.5))
            measured = f"{both_ways[0].measured} and {both_ways[1].measured}"
            claims.append(Claim(text=text, verdict=Verdict(verdicts.worst(*both_ways), measured)))
            text = f"case {case}: HHFL sends less to the same accuracy (ratio below 1)"
            claims.append(Claim(text=text, verdict=verdicts.at_most(sent, 1.0 - 1e-9)))
    costs = Table(
        title="At common accuracy: gains, and models sent (HHFL over HFL)",
        columns=("", "gain in steps", "gain in time", "models sent"),
        rows=tuple(rows),
    )
    return Outcome(claims=tuple(claims), tables=(_gain_table(runs, 0.5), costs), plots=(_curves(runs, "fig14"),))


def _others_setups(scale: str) -> Setups:
    total = TOTAL_STEPS[scale]
    methods = (HFL, HHFL, "hhfl:max_links=2", "msfedavg", "fedmes")
    return {(c, m): setup(c, m, total) for c in APART for m in methods}


def _others(runs: Runs) -> Outcome:
    rows, claims = [], []
    for c in _cases(runs):
        ratio = {
            m: [g.gain_common for g in gains(runs[c, m], runs[c, HHFL])]
            for m in (HFL, "hhfl:max_links=2", "msfedavg", "fedmes")
        }
        rows.append((f"case {c}", *(spread(values) for values in ratio.values())))
        claims += [
            Claim(
                text=f"case {c}: HHFL is better than {name} (gain at common accuracy above 1)",
                verdict=verdicts.at_least(ratio[m], 1.0 + 1e-9),
            )
            for m, name in (("msfedavg", "MS-FedAvg"), ("fedmes", "FedMes"))
        ]
    table = Table(
        title="Gain of HHFL at common accuracy over other methods (MS-FedAvg and FedMes as we read them)",
        columns=("", "HFL", "HHFL with two links a client", "MS-FedAvg", "FedMes"),
        rows=tuple(rows),
    )
    return Outcome(claims=tuple(claims), tables=(table,))


def _curve_item(key: str, title: str, published: str, cases: Sequence[int], judge: Judge) -> Item:
    return Item(
        key=key,
        title=title,
        published=published,
        setups=lambda scale: both(cases, TOTAL_STEPS[scale]),
        judge=judge,
    )


def _big(
    model: str, steps: Mapping[str, int], cases: Mapping[str, Sequence[int]], width: float | None = None
) -> Callable[[str], Setups]:
    return lambda scale: both(cases[scale], steps[scale], model=model, width=width if scale == "laptop" else None)


PAPER = Paper(
    key="hhfl",
    title="HHFL: clients in overlapping cells bridge edge servers",
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        _curve_item(
            "fig4",
            "Fig. 4: convergence when edge servers have the same labels",
            "HFL and HHFL coincide in cases 1 to 3; case 3 is clearly slower than cases 1 and 2.",
            ALIKE,
            _fig4,
        ),
        _curve_item(
            "fig5",
            "Fig. 5: convergence when edge servers miss classes",
            "HHFL is ahead in cases 4 and 5; from 4 to 5 HHFL hardly changes, HFL degrades and the gap widens.",
            (4, 5),
            _fig5,
        ),
        _curve_item(
            "fig7",
            "Fig. 7: more clients in overlaps",
            "HHFL is ahead in cases 5 and 6 and slightly faster in 6 than in 5; HFL is the same in both.",
            (5, 6),
            _fig7,
        ),
        Item(
            key="fig8",
            title="Fig. 8: gain against the share of clients in overlaps",
            published="Cases 1 to 3: about 1 at every share. Cases 4 and 5: the gain rises steeply at first, then saturates.",
            setups=_sweep_setups,
            judge=_fig8,
        ),
        _curve_item(
            "fig9",
            "Fig. 9: accuracy against time",
            "No visible gain where edge servers are alike; HHFL is faster where they are not.",
            CASES,
            _fig9,
        ),
        _curve_item(
            "fig10",
            "Fig. 10: accuracy against data sent",
            "HHFL needs more data where edge servers are alike, and clearly less where they are not.",
            CASES,
            _fig10,
        ),
        _curve_item(
            "fig11",
            "Fig. 11: gain in steps and in time",
            "The two are nearly equal; about 1 in cases 1 to 3, well above 1 in cases 4 to 6, and 2 in case 6.",
            CASES,
            _fig11,
        ),
        Item(
            key="fig12",
            title="Fig. 12: gain against the local steps of an edge round",
            published="The gain grows with E (cases 4 to 6, G = 5).",
            setups=lambda scale: _period_setups(scale, "local_steps"),
            judge=lambda runs: _periods(runs, "fig12", "E", "local steps in an edge round"),
        ),
        Item(
            key="fig13",
            title="Fig. 13: gain against the edge rounds of a cloud round",
            published="The gain grows with G (cases 4 to 6, E = 5).",
            setups=lambda scale: _period_setups(scale, "edge_rounds"),
            judge=lambda runs: _periods(runs, "fig13", "G", "edge rounds in a cloud round"),
        ),
        Item(
            key="fig14",
            title="Figs. 14 to 16: CIFAR-10 with a VGG-style network (laptop scale: an eighth of its width, 300 steps)",
            published="The same trends: gain above 1.5 in steps and time for cases 4 to 6, less data sent; none for 1 to 3.",
            setups=_big("vgg", {"laptop": 300, "paper": 3000}, {"laptop": (1, 6), "paper": CASES}, width=0.125),
            judge=_fig14,
        ),
        Item(
            key="cnn",
            title="MNIST with a convolutional network",
            published="Used beside logistic regression in the figures above: the same trends.",
            setups=_big("cnn", {"laptop": 1000, "paper": 3000}, {"laptop": (1, 5, 6), "paper": CASES}),
            judge=_cnn,
        ),
        Item(
            key="others",
            title="Multi-server methods without a cloud, and fewer links",
            published="HHFL is said, without an experiment, to be better than FedMes and MS-FedAvg where edge data differ.",
            setups=_others_setups,
            judge=_others,
        ),
    ),
)
