"""Figures 9 to 11 of HHFL: time, data sent, and gains in both."""

from collections.abc import Mapping

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import (
    COMMON,
    GAIN,
    GAIN_6,
    SLOPE,
    THRESHOLDS,
    cases_of,
    common_gain,
    cost_ratio,
    curve,
    curves_plot,
    gain_by,
    gain_claims,
    gains,
    inverse,
    listed_means,
    near_one,
    sweep_series,
    value_at,
)
from fedloom.reproduce.hhfl.setups import ALIKE, APART, HFL, HHFL
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Table
from fedloom.reproduce.verdicts import Value, Values, ratios, spread

SAME_CLOCK = "a cloud round takes 56 units with either method, so gains in time are those in steps"
SAME_LINKS = "75 links where HFL has 57, at the same number of rounds"


def fig9(runs: Runs) -> Outcome:
    """Accuracy against time."""
    rows, claims, time_of = [], [], {}
    for case in cases_of(runs):
        time = time_of[case] = inverse(cost_ratio(runs[case, HFL], runs[case, HHFL], "time_s"))
        rows.append((f"case {case}", spread(common_gain(runs, case)), spread(time)))
        alike = case in ALIKE
        text = "no visible gain in time (0.9 to 1.1)" if alike else "HHFL is faster (time, HFL over HHFL, above 1)"
        verdict = near_one(time) if alike else verdicts.at_least(time, 1.0 + 1e-9)
        claims.append(Claim(text=f"case {case}: {text}", verdict=verdict, repeats=f"Fig. 11: {SAME_CLOCK}"))
    table = Table(title="Gain at common accuracy", columns=("", "in steps", "in time"), rows=tuple(rows))
    return Outcome(
        claims=tuple(claims),
        tables=(table,),
        plots=(curves_plot(runs, "fig9", "time_s", "time in units of five local steps"),),
        ours=f"Time of HFL over HHFL to a common accuracy: {listed_means(time_of)}.",
    )


def fig10(runs: Runs) -> Outcome:
    """Accuracy against data sent."""
    rows, claims, sent = [], [], {}
    for case in cases_of(runs):
        pair = runs[case, HFL], runs[case, HHFL]
        unicast, once = (cost_ratio(*pair, f"models_{way}") for way in ("unicast", "once"))
        sent[case] = unicast
        rows.append((f"case {case}", spread(unicast), spread(once)))
        claims.append(data_claim(case, unicast))
    equal = [
        value_at(b, "models_unicast", int(curve(b)[0][-1])) / value_at(a, "models_unicast", int(curve(a)[0][-1]))
        for a, b in zip(runs[1, HFL], runs[1, HHFL])
    ]
    claims.append(
        Claim(
            text="per round, HHFL uses 75 links where HFL uses 57 (ratio 25/19)",
            verdict=verdicts.within(equal, 25 / 19 - 1e-9, 25 / 19 + 1e-9),
            because="the layout has 75 links",
        )
    )
    table = Table(
        title="Models sent between clients and edge servers to the common accuracy, HHFL over HFL",
        columns=("", "sent to each edge server", "uplink sent once for all"),
        rows=tuple(rows),
    )
    plot = curves_plot(runs, "fig10", "models_unicast", "models sent between clients and edge servers")
    ours = f"Models sent by HHFL over HFL to a common accuracy: {listed_means(sent)}."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,), ours=ours)


def data_claim(case: int, sent: Values) -> Claim:
    """HHFL sends more where edge servers are alike, and less where they are not."""
    if case in ALIKE:
        return Claim(
            text=f"case {case}: HHFL sends more to the same accuracy (ratio above 1)",
            verdict=verdicts.at_least(sent, 1.0 + 1e-9),
            because=f"it learns as fast (Fig. 4), over {SAME_LINKS}",
        )
    text = f"case {case}: HHFL sends clearly less to the same accuracy (ratio at most 0.95)"
    return Claim(text=text, verdict=verdicts.at_most(sent, 0.95))


def fig11(runs: Runs) -> Outcome:
    """Gains in steps and in time."""
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    steps_of: dict[int, list[Value]] = {}
    common_of: dict[int, list[Value]] = {}
    time_of: dict[int, list[Value]] = {}
    for case in cases_of(runs):
        pair = runs[case, HFL], runs[case, HHFL]
        steps_of[case], common_of[case] = gain_by(SLOPE, *pair), gain_by(COMMON, *pair)
        time_of[case] = [
            value_at(a, "time_s", x.steps_reference) / value_at(b, "time_s", x.steps_contender)
            if x.steps_reference and x.steps_contender
            else None
            for a, b, x in zip(*pair, gains(*pair))
        ]
        common_time = inverse(cost_ratio(*pair, "time_s"))
        shown = steps_of[case], time_of[case], common_of[case], common_time
        rows.append((f"case {case}", *(spread(values) for values in shown)))
        claims += _gain_claims(runs, case, common_time, common_of[case])
    if 6 in steps_of:
        claims += gain_claims(runs, 6, lambda v: verdicts.at_least(v, GAIN_6), f"a gain of 2 (at least {GAIN_6:g})")
    table = Table(
        title="Gain of HHFL over HFL",
        columns=("", "slope, steps", "slope, time", "common, steps", "common, time"),
        rows=tuple(rows),
    )
    plot = _gain_plot({"slope, steps": steps_of, "slope, time": time_of, "common, steps": common_of})
    apart = [c for c in cases_of(runs) if c in APART]
    by_slope, at_common = (listed_means({c: of[c] for c in apart}) for of in (steps_of, common_of))
    ours = f"By the slope {by_slope}, at common accuracy {at_common}."
    return Outcome(claims=tuple(claims), tables=(table, _threshold_table(runs)), plots=(plot,), ours=ours)


def _gain_claims(runs: Runs, case: int, in_time: list[Value], in_steps: list[Value]) -> list[Claim]:
    """The gains at common accuracy are nearly equal, and as large as the case lets expect."""
    off = [None if r is None else 100 * abs(verdicts.number_of(r) - 1) for r in ratios(in_time, in_steps)]
    equal = Claim(
        text=f"case {case}: gains in steps and in time are nearly equal (within 2 %)",
        verdict=verdicts.at_most(off, 2.0, "%"),
        because=SAME_CLOCK,
    )
    if case in ALIKE:
        return [equal, *gain_claims(runs, case, near_one, "gain about 1 (0.9 to 1.1)")]
    return [equal, *gain_claims(runs, case, lambda v: verdicts.at_least(v, GAIN + 1e-9), f"gain above {GAIN:g}")]


def _gain_plot(gains_of: Mapping[str, Mapping[int, list[Value]]]) -> Plot:
    """Bars: by what is shown, and by case, the gain with every seed."""
    cases = list(next(iter(gains_of.values())))
    return Plot(
        key="fig11",
        caption="Gain of HHFL over HFL by the slope criterion and at common accuracy; whiskers: seeds.",
        x_label="",
        y_label="gain",
        kind="bars",
        ticks=tuple(f"case {c}" for c in cases),
        series=tuple(
            sweep_series(label, range(len(cases)), [of[c] for c in cases], i)
            for i, (label, of) in enumerate(gains_of.items())
        ),
        level=1.0,
    )


def _threshold_table(runs: Runs) -> Table:
    """How much the gain by the slope depends on the slope at which a run has converged."""
    rows = tuple(
        (f"case {c}", *(spread(gain_by(SLOPE, runs[c, HFL], runs[c, HHFL], t)) for t in THRESHOLDS))
        for c in cases_of(runs)
    )
    columns = ("", *(f"{100 * t:g} %" for t in THRESHOLDS))
    return Table(
        title="Gain by the slope, for several slopes per 25 steps that count as converged", columns=columns, rows=rows
    )
