"""Figure 8 of HHFL: the gain against the share of clients in overlaps."""

import math
from collections.abc import Mapping, Sequence

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import COMMON, SLOPE, cases_of, gain_by, listed_means, near_one, sweep_series
from fedloom.reproduce.hhfl.setups import ALIKE
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Table
from fedloom.reproduce.verdicts import Value, Values, Verdict, apart, mean, ratios, spread


def fig8(runs: Runs) -> Outcome:
    """Gains at every share of clients in overlaps."""
    overlaps = sorted({m for _, m in runs})
    cases = cases_of(runs)
    of: dict[tuple[str, int, int], list[Value]] = {}
    for kind in (SLOPE, COMMON):
        of |= {(kind, c, m): gain_by(kind, runs[c, 0], runs[c, m]) for c in cases for m in overlaps if m}
        of |= {(kind, c, 0): [1.0] * len(runs[c, 0]) for c in cases}  # HFL against itself
    claims = [claim for c in cases for kind in (SLOPE, COMMON) for claim in _overlap_claims(of, kind, c, overlaps)]
    rows = [
        (f"{m} ({100 * m / 57:.0f} %)", *(spread(of[kind, c, m]) for kind in (SLOPE, COMMON) for c in cases))
        for m in overlaps
    ]
    columns = [f"case {c}, {kind}" for kind in (SLOPE, COMMON) for c in cases]
    table = Table(title="Gain", columns=("clients in overlaps", *columns), rows=tuple(rows))
    series = [sweep_series(f"case {c}", [100 * m / 57 for m in overlaps], [of[COMMON, c, m] for m in overlaps], i)
              for i, c in enumerate(cases)]  # fmt: skip
    plot = Plot(
        key="fig8",
        caption="Gain of HHFL over HFL at common accuracy against the share of clients in overlaps; bars: seeds.",
        x_label="clients in overlaps, %",
        y_label="gain at common accuracy",
        series=tuple(series),
        level=1.0,
    )
    last = {kind: {c: of[kind, c, overlaps[-1]] for c in cases} for kind in (SLOPE, COMMON)}
    ours = f"With all in overlaps, by the slope: {listed_means(last[SLOPE])}; at common accuracy: {listed_means(last[COMMON])}."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,), ours=ours)


def _overlap_claims(
    of: Mapping[tuple[str, int, int], list[Value]], kind: str, case: int, overlaps: Sequence[int]
) -> list[Claim]:
    """Of Fig. 8, by one criterion. A step down may be a tenth of the whole rise."""
    along = [of[kind, case, m] for m in overlaps]
    how = f"({kind})"
    if case in ALIKE:
        each = [near_one(values) for values in along[1:]]
        means = [m for values in along[1:] if not math.isnan(m := mean(values))]
        shown = f"{min(means):.2f} to {max(means):.2f}" if means else "–"
        text = f"case {case}: gain about 1 (0.9 to 1.1) at every proportion {how}"
        return [Claim(text=text, verdict=Verdict(verdicts.worst(*each), shown, min(v.n for v in each)))]
    rise = mean(apart(along[0], along[-1]))
    slack = 0.0 if math.isnan(rise) else max(0.0, rise / 10)
    early = _slope(along[0], of[kind, case, 15], 15)
    late = _slope(of[kind, case, 15], along[-1], overlaps[-1] - 15)
    return [
        Claim(
            text=f"case {case}: the gain rises with the overlap, no step down by a tenth of the whole rise {how}",
            verdict=verdicts.rising(along, slack),
        ),
        Claim(
            text=f"case {case}: steep at first, then it saturates (gain per client up to 15, less that beyond) {how}",
            verdict=verdicts.at_least(apart(late, early), 1e-9),
        ),
    ]


def _slope(a: Values, b: Values, n: int) -> list[Value]:
    return ratios([float(n)] * len(a), apart(a, b))
