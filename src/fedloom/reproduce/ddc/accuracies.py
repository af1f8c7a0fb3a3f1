"""Table 1 and Figures 2 and 3 of DDC: accuracy by method, and what clusters are like."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.bounds.ddc_energy import ENERGY_READINGS
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.measures import (
    DEVICES,
    HEADS,
    Values,
    final,
    is_less,
    joules_of,
    label_distances,
    mean_member_m,
    n_heads,
    note,
    over_all,
    seconds_of,
)
from fedloom.reproduce.ddc.published import (
    CLUSTERED,
    FEDAVG,
    METHODS,
    ORDER,
    PROPOSED,
    RANDOM,
    SELDOM,
    SIMILARITY,
    TABLE_1,
    TAU,
)
from fedloom.reproduce.ddc.scoring import all_scored, scoring_claims, scoring_table
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, spread


def table_1(runs: Runs) -> Outcome:
    """The last accuracy by method, and why the paper says it works."""
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    shown: list[str] = []
    names = methods_of(runs)
    for data in dict.fromkeys(label[0] for label in runs):
        found = {m: final(runs[data, m]) for m in names}
        known = TABLE_1[data]
        rows.append((data, *(spread(found[m]) for m in names)))
        rows.append((f"{data}, mean of heads' models", *(spread(final(runs[data, m], HEADS)) for m in names)))
        if DEVICES in runs[data, FEDAVG][0].metrics.columns:
            rows.append((f"{data}, mean of devices' models", *(spread(final(runs[data, m], DEVICES)) for m in names)))
        rows.append((f"{data}, published", *(f"{known[m]:.1f}" if m in known else "–" for m in names)))
        off = {m: apart([known[m]] * len(found[m]), found[m]) for m in known}
        text = f"{data}: accuracies within 2 points of the published ones (points from them)"
        claims.append(Claim(text=text, verdict=all_near(off), absolute=True))
        for better, worse in ORDER:
            text = f"{data}: {better} is more accurate than {worse} (points)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found[worse], found[better]), 1e-9)))
        text = f"{data}: {PROPOSED} is more accurate than {FEDAVG} by 5 points or more (published: 10 and 12)"
        ahead = verdicts.at_least(apart(found[FEDAVG], found[PROPOSED]), 5.0)
        claims.append(Claim(text=text, verdict=ahead, absolute=True))
        if all_scored([run for m in known for run in runs[data, m]]):
            claims += scoring_claims(runs, data)
        claims += balance_claims(runs, data)
        shown.append(f"{data}: " + ", ".join(f"{m} {mean(found[m]):.1f}" for m in known))
    table = Table(title="Accuracy in %", columns=("data", *names), rows=tuple(rows))
    readings = (scoring_table(runs),) if all_scored([run for same in runs.values() for run in same]) else ()
    tables = (table, *readings, clusters_table(runs))
    return Outcome(claims=tuple(claims), tables=tables, ours="; ".join(shown) + " %.")


def methods_of(runs: Runs) -> list[str]:
    """Of the labels (data, method), in the order of the tables."""
    return [m for m in METHODS if any(name == m for _, name in runs)]


def all_near(off: Mapping[Any, Values]) -> Verdict:
    """Are all of these within 2 points?"""
    each = {name: verdicts.within(o, -2, 2) for name, o in off.items()}
    shown = ", ".join(f"{name} {v.measured}" for name, v in each.items())
    return Verdict(verdicts.worst(*each.values()), shown, min(v.n for v in each.values()))


def balance_claims(runs: Runs, data: str) -> list[Claim]:
    """Why the paper says it works: clusters that are like the whole."""
    claims = []
    for m in (RANDOM, SIMILARITY):
        for what, measure in (("labels of clusters are closer to all (TV)", label_distances), ("c(C) is lower", None)):
            ours, theirs = (measure(runs[data, x]) if measure else note(runs[data, x], "cosine") for x in (PROPOSED, m))
            text = f"{data}: {what} with {PROPOSED} than with {m} (ratio)"
            claims.append(Claim(text=text, verdict=is_less(ours, theirs), own=True))
    return claims


def clusters_table(runs: Runs) -> Table:
    """Heads, metres, labels, joules and seconds of every setup."""
    rows = []
    for (data, name), same in runs.items():
        clustered = name in CLUSTERED
        rows.append(
            (
                f"{data}, {name}",
                spread(n_heads(same)) if clustered else "–",
                spread(mean_member_m(same)) if clustered else "–",
                spread(label_distances(same)) if clustered else "–",
                spread(note(same, "cosine")) if clustered else "–",
                spread(note(same, "cosine_by_size")) if clustered else "–",
                *(spread(joules_of(name, runs, data, reading)) for reading in ENERGY_READINGS),
                spread(seconds_of(name, runs, data, "literal")),
            )
        )
    columns = ("", "heads", "m to head", "TV of labels", "c(C)", "c(C) by size")
    joule_columns = tuple(f"J, {reading}" for reading in ENERGY_READINGS)
    title = "Clusters, and joules and seconds on the air of 200 rounds"
    return Table(title=title, columns=(*columns, *joule_columns, "s, literal"), rows=tuple(rows))


def curves_plot(runs: Runs, key: str, tau2: int = TAU[1]) -> Plot:
    """Accuracy against local rounds; labels of runs are (data, method)."""
    series = []
    for i, ((_, name), same) in enumerate(runs.items()):
        accuracy = np.array([run.metrics["accuracy"].to_numpy() for run in same])
        series.append(
            Series(
                label=name,
                x=tuple(float(tau2 * v) for v in same[0].metrics["cloud_round"]),
                y=tuple(accuracy.mean(axis=0).tolist()),
                low=tuple(accuracy.min(axis=0).tolist()),
                high=tuple(accuracy.max(axis=0).tolist()),
                colour=i,
                dashed=name == SELDOM,
            )
        )
    caption = "Test accuracy against local rounds; lines are means over seeds, whiskers or bands go from the least to the most."
    return Plot(key=key, caption=caption, x_label="local rounds", y_label="test accuracy", series=tuple(series))


def curves_figure(runs: Runs, key: str) -> Outcome:
    """Figures 2 and 3: curves in the order of the methods."""
    data = next(iter(runs))[0]
    names = methods_of(runs)
    height = {m: over_all(runs[data, m]) for m in names}
    claims = [
        Claim(
            text=f"{better} is above {worse} (points, mean over the curve)",
            verdict=verdicts.at_least(apart(height[worse], height[better]), 1e-9),
        )
        for better, worse in ORDER
    ]
    table = Table(
        title="Accuracy in %",
        columns=("", *names),
        rows=(
            ("mean over the curve", *(spread(height[m]) for m in names)),
            ("at the end", *(spread(final(runs[data, m])) for m in names)),
            *(
                (f"the same of {whose}", *(spread(final(runs[data, m], column)) for m in names))
                for column, whose in ((HEADS, "heads' models"), (DEVICES, "devices' models"))
                if DEVICES in runs[data, FEDAVG][0].metrics.columns
            ),
        ),
    )
    shown = ", ".join(f"{m} {mean(height[m]):.1f}" for m in (PROPOSED, SIMILARITY, RANDOM, FEDAVG))
    ours = f"Mean over the curve: {shown} %."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(curves_plot(runs, key),), ours=ours)
