"""CSAHFL in several readings, as distances to the published accuracies."""

from statistics import fmean

from fedloom.reproduce import verdicts
from fedloom.reproduce.csahfl.measures import METRICS, final, n_clusters
from fedloom.reproduce.csahfl.published import FASHION, FULL, STATIC, TABLE_1, published_value
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Verdict, mean, spread


def judge_readings(runs: Runs) -> Outcome:
    """Every reading by every measure, beside the published accuracies of static clients."""
    readings, settings = (list(dict.fromkeys(column)) for column in zip(*runs))
    known = {s: published_value(TABLE_1[FASHION][STATIC][FULL], s) for s in settings}
    rows: list[tuple[str, ...]] = []
    distance: dict[str, float] = {}
    most: dict[str, float] = {}
    for reading in readings:
        clusters = spread(n_clusters(runs[reading, settings[0]]))
        for metric in METRICS:
            found = {s: final(runs[reading, s], metric) for s in settings}
            off = [abs(mean(found[s]) - known[s]) for s in settings]
            label = f"{reading}, {metric}"
            distance[label], most[label] = fmean(off), max(off)
            falls = "yes" if mean(found[settings[0]]) > mean(found[settings[-1]]) else "no"
            rows.append((label, clusters, *(spread(found[s]) for s in settings), f"{fmean(off):.1f}", falls))
    rows.append(("published", "–", *(f"{known[s]:.2f}" for s in settings), "–", "yes"))
    rows.sort(key=lambda row: distance.get(row[0], -1.0))
    columns = ("", f"clusters, {settings[0]}", *settings, "mean distance", "falls with skew")
    near = [label for label, value in most.items() if value <= 2.0]
    n = min(len(same) for same in runs.values())
    state = verdicts.OPEN if n < 3 else verdicts.HOLDS if near else verdicts.FAILS
    text = f"one of {len(distance)} readings is within 2 points of all published accuracies (means)"
    best = min(distance, key=lambda label: distance[label])
    return Outcome(
        claims=(Claim(text=text, verdict=Verdict(state, "; ".join(near) or "none", n), own=True),),
        tables=(Table(title=f"Accuracy in % in {len(distance)} readings", columns=columns, rows=tuple(rows)),),
        ours=f"Nearest of {len(distance)}: {best}, {distance[best]:.1f} points away on average.",
    )
