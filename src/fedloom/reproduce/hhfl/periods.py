"""Figures 12 and 13 of HHFL: the gain against local steps and edge rounds."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import COMMON, SLOPE, cases_of, gain_by, listed_means, sweep_series
from fedloom.reproduce.hhfl.setups import HFL, HHFL, PERIODS
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Table
from fedloom.reproduce.verdicts import spread


def judge_periods(runs: Runs, key: str, symbol: str, what: str) -> Outcome:
    """The gain against one of the two periods."""
    cases = cases_of(runs)
    of = {
        (kind, c, n): gain_by(kind, runs[c, HFL, n], runs[c, HHFL, n])
        for kind in (SLOPE, COMMON)
        for c in cases
        for n in PERIODS
    }
    claims = tuple(
        Claim(
            text=f"case {c}: the gain grows with {symbol} ({kind})",
            verdict=verdicts.rising([of[kind, c, n] for n in PERIODS]),
        )
        for c in cases
        for kind in (SLOPE, COMMON)
    )
    rows = tuple(
        (f"case {c}, {kind}", *(spread(of[kind, c, n]) for n in PERIODS)) for c in cases for kind in (COMMON, SLOPE)
    )
    table = Table(title=f"Gain against {symbol}", columns=("", *(f"{symbol} = {n}" for n in PERIODS)), rows=rows)
    plot = Plot(
        key=key,
        caption=f"Gain of HHFL over HFL at common accuracy against the {what}; the other period is 5.",
        x_label=what,
        y_label="gain at common accuracy",
        series=tuple(
            sweep_series(f"case {c}", PERIODS, [of[COMMON, c, n] for n in PERIODS], i) for i, c in enumerate(cases)
        ),
        level=1.0,
    )
    first, last = (
        f"{listed_means({c: of[COMMON, c, n] for c in cases})} ({symbol} = {n})" for n in (PERIODS[0], PERIODS[-1])
    )
    ours = f"At common accuracy from {first} to {last}."
    return Outcome(claims=claims, tables=(table,), plots=(plot,), ours=ours)
