"""Remarks 4 and 5 of HHFL: periods that grow during training, and how far edge servers drift apart."""

from collections.abc import Sequence

import numpy as np

from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import cases_of, curve, listed_means, sweep_series
from fedloom.reproduce.hhfl.setups import GROWING, HFL, HHFL, NAMES, PERIODS
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Value, Values, Verdict, apart, mean, ratios, spread

GRID = 400  # points of time at which curves are compared


def drift(runs: Sequence[Run]) -> list[Value]:
    """Mean over all cloud merges of the mean squared distance of edge models from their mean, seed by seed."""
    return [float(np.mean(run.metrics["edge_drift"].to_numpy()[1:])) for run in runs]


def judge_drift(runs: Runs) -> Outcome:
    """Remark 5 and Appendix E: HFL's edge servers drift further apart than HHFL's, the more the larger E and G are."""
    claims, rows, shown = [], [], []
    series: list[Series] = []
    for symbol in ("E", "G"):
        for case in sorted({c for s, c, *_ in runs if s == symbol}):
            of = {(m, n): drift(runs[symbol, case, m, n]) for m in (HFL, HHFL) for n in PERIODS}
            over = [ratios(of[HHFL, n], of[HFL, n]) for n in PERIODS]
            gaps = [apart(of[HHFL, n], of[HFL, n]) for n in PERIODS]
            larger = [verdicts.at_least(r, 1 + 1e-9) for r in over]
            where = f"case {case}"
            text = f"{where}: HFL drifts further than HHFL at every {symbol} (times)"
            spans = " → ".join(spread(r) for r in over)
            claims += [
                Claim(text=text, verdict=Verdict(verdicts.worst(*larger), spans, min(v.n for v in larger))),
                Claim(text=f"{where}: the difference grows with {symbol}", verdict=verdicts.rising(gaps)),
            ]
            rows += [(f"{where}, {NAMES[m]}, {symbol}", *(_small(of[m, n]) for n in PERIODS)) for m in (HFL, HHFL)]
            shown.append(f"{symbol}, {where} {mean(over[0]):.1f} to {mean(over[-1]):.1f}")
            series.append(sweep_series(f"{symbol}, {where}", PERIODS, over, len(series)))
    columns = ("", *(f"{n}" for n in PERIODS))
    table = Table(
        title="Mean squared distance of edge models from their mean, at merges", columns=columns, rows=tuple(rows)
    )
    plot = Plot(
        key="drift",
        caption="Drift of HFL over that of HHFL against E or G, the other being 5; bars: seeds.",
        x_label="E or G",
        y_label="drift, HFL over HHFL",
        series=tuple(series),
        level=1.0,
    )
    ours = f"HFL's drift over HHFL's from {PERIODS[0]} to {PERIODS[-1]}: {'; '.join(shown)}."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,), ours=ours)


def _small(values: Values) -> str:
    return f"{mean(values):.2e}"


def judge_growing(runs: Runs) -> Outcome:
    """Remark 4: periods that grow, against fixed ones, at equal time."""
    claims, rows = [], []
    lead: dict[int, Values] = {}
    for case in cases_of(runs):
        of = {name: same for (c, name), same in runs.items() if c == case}
        end = min(float(run.metrics["time_s"][-1]) for same in of.values() for run in same)
        height = {name: [_over_time(run, end) for run in same] for name, same in of.items()}
        last = {name: [_at_time(run, end) for run in same] for name, same in of.items()}
        fixed = [name for name in of if name != GROWING]
        best = max(fixed, key=lambda name: mean(height[name]))
        lead[case] = apart(height[best], height[GROWING])
        text = f"case {case}: growing periods are ahead of the best fixed ones, {best}, on average over time (points)"
        claims.append(Claim(text=text, verdict=verdicts.at_least(lead[case], 1e-9)))
        rows += [
            (f"case {case}, {name}", spread(height[name]), spread(last[name]), f"{end:,.0f}")
            for name in (*fixed, GROWING)
        ]
    columns = ("", "mean over time", "at the end of that time", "units of time")
    table = Table(title="Accuracy in % of HHFL at equal time", columns=columns, rows=tuple(rows))
    ours = f"Growing periods ahead of the best fixed ones by {listed_means(lead)} (points, mean over time)."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(_growing_plot(runs),), ours=ours)


def _over_time(run: Run, end: float) -> float:
    at, accuracy = run.metrics["time_s"].to_numpy(), curve(run)[1]
    return 100 * float(np.interp(np.linspace(0.0, end, GRID), at, accuracy).mean())


def _at_time(run: Run, end: float) -> float:
    return 100 * float(np.interp(end, run.metrics["time_s"].to_numpy(), curve(run)[1]))


def _growing_plot(runs: Runs) -> Plot:
    case = cases_of(runs)[-1]
    of = {name: same for (c, name), same in runs.items() if c == case}
    series = tuple(
        Series(
            label=name,
            x=tuple(float(v) for v in same[0].metrics["time_s"]),
            y=tuple(np.mean([curve(run)[1] for run in same], axis=0).tolist()),
            colour=i,
            dashed=name != GROWING,
        )
        for i, (name, same) in enumerate(of.items())
    )
    caption = f"Case {case}: test accuracy of HHFL against time with fixed and growing periods, means over seeds."
    return Plot(key="growing", caption=caption, x_label="time", y_label="test accuracy", series=series)
