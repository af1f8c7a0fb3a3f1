"""Tables 6, 7 and 10 of LTC: accuracy by method, and by criterion and round time."""

from collections.abc import Mapping

from fedloom.reproduce import verdicts
from fedloom.reproduce.ltc.measures import curves_plot, final, gain_percent, mean_of, over_all, rows_of, time_saved
from fedloom.reproduce.ltc.published import FIG_5, HEADLINE, TABLE_10
from fedloom.reproduce.ltc.setups import METHODS, ROUND_TIMES
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, spread


def judge_accuracies(runs: Runs, published: Mapping[str, tuple[float, ...]], key: str, uniform: bool) -> Outcome:
    """Tables 6 and 7: the last accuracy by method, with links alike or drawn."""
    rows: list[tuple[str, ...]] = []
    claims = []
    gains = {}
    for data in rows_of(runs):
        found = {m: final(runs[data, m]) for m in METHODS}
        known = published.get(data)
        rows.append((data, *(spread(found[m]) for m in METHODS)))
        rows.append((f"{data}, all rounds", *(spread(over_all(runs[data, m])) for m in METHODS)))
        if known:
            rows.append((f"{data}, published", *(f"{v:.1f}" for v in known)))
            off = [apart([p] * len(found[m]), found[m]) for m, p in zip(METHODS, known)]
            each = [verdicts.within(o, -2, 2) for o in off]
            shown = ", ".join(f"{m} {v.measured}" for m, v in zip(METHODS, each))
            text = f"{data}: accuracies within 2 points of the published ones (points from them)"
            claims.append(
                Claim(text=text, verdict=Verdict(verdicts.worst(*each), shown, min(v.n for v in each)), absolute=True)
            )
        for m in ("A+", "1.1", "1.2"):
            text = f"{data}: {m} is more accurate than A (points)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found["A"], found[m]), 1e-9)))
        for m in ("1.1", "1.2"):
            gains[data, m] = gain_percent(found["A"], found[m])
            if _unbalanced(data):
                text = f"{data}: {m} is at least {HEADLINE:g} % more accurate than A (the paper's headline; %)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(gains[data, m], HEADLINE), absolute=True))
            if uniform:
                text = f"{data}: A+ ties with {m} (within one point)"
                claims.append(Claim(text=text, verdict=verdicts.within(apart(found["A+"], found[m]), -1, 1)))
            else:
                text = f"{data}: {m} is more accurate than A+ (points)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found["A+"], found[m]), 1e-9)))
        if uniform and _unbalanced(data):
            target, least = FIG_5
            saved = time_saved(runs[data, "A"], runs[data, "1.1"], "accuracy", target)
            text = f"{data}: 1.1 reaches {100 * target:.0f} % in {least:g} % less time than A (Fig. 5; % saved)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(saved, least), absolute=True))
    table = Table(title="Accuracy in %", columns=("data", *METHODS), rows=tuple(rows))
    ours = "Above A: " + "; ".join(f"{data}: {m} {mean(v):+.1f} %" for (data, m), v in gains.items()) + "."
    return Outcome(
        claims=tuple(claims), tables=(table, _clusters_table(runs)), plots=(curves_plot(runs, key),), ours=ours
    )


def _unbalanced(data: str) -> bool:
    """Where the paper's headline is about: few classes at every client."""
    return data.endswith((", 4", ", 2"))


def _clusters_table(runs: Runs) -> Table:
    """What the clusters were like."""
    rows = [
        (
            f"{data}, {m}",
            spread(mean_of(same, "rounds_mean")),
            spread(mean_of(same, "round_s")),
            spread(mean_of(same, "theta")) if "theta" in same[0].metrics.columns else "–",
        )
        for (data, m, *_), same in runs.items()
        if "rounds_mean" in same[0].metrics.columns
    ]
    return Table(title="Clusters", columns=("", "rounds in a box", "round time", "angle to all"), rows=tuple(rows))


def table_10(runs: Runs) -> Outcome:
    """The last accuracy by criterion and round time."""
    rows, claims = [], []
    names = ("1.1", "2", "3")
    ahead: list[float] = []
    for data in rows_of(runs):
        for i, m in enumerate(names):
            rows.append((f"{data}, {m}", *(spread(final(runs[data, m, t])) for t in ROUND_TIMES)))
            if data in TABLE_10:
                rows.append((f"{data}, {m}, published", *(f"{cell[i]:.1f}" for cell in TABLE_10[data])))
            rows.append((f"{data}, {m}, all rounds", *(spread(over_all(runs[data, m, t])) for t in ROUND_TIMES)))
        for t in ROUND_TIMES:
            found = {m: final(runs[data, m, t]) for m in names}
            ahead.append(mean(apart(found["3"], found["1.1"])))
            for better, worse in (("1.1", "3"), ("3", "2")):
                text = f"{data}, {t}: {better} is more accurate than {worse} at the end (points)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found[worse], found[better]), 1e-9)))
    columns = ("accuracy in %", *(f"box {t}" for t in ROUND_TIMES))
    table = Table(title="Criteria under varying links", columns=columns, rows=tuple(rows))
    ours = f"1.1 ends {min(ahead):+.1f} to {max(ahead):+.1f} points above 3."
    return Outcome(claims=tuple(claims), tables=(table,), ours=ours)
