"""What the runs of CSAHFL say: four accuracies, times to an accuracy, late updates, and verdicts on several cases."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.csahfl.published import FEDAT, FLAT, FULL, HIER, STATIC
from fedloom.reproduce.paper import Runs
from fedloom.reproduce.verdicts import FAILS, HOLDS, OPEN, Beyond, Value, Verdict, apart, number_of, spread

Values = list[Value]

METRICS = {"G": "accuracy", "L_glob": "local_by_global", "L_cluster": "local_by_cluster", "L_edge": "local_by_edge"}
LESS = 2.0  # points below the last accuracy of a method: a target that fits the scale
SIGNS = {HOLDS: "✔", FAILS: "✘", OPEN: "?"}


def final(runs: Sequence[Run], metric: str) -> Values:
    """A measure in percent at the end, seed by seed."""
    return [100 * float(run.metrics[METRICS[metric]][-1]) for run in runs]


def seconds_to(runs: Sequence[Run], metric: str, targets: Values) -> Values:
    """Simulated seconds until the first evaluation that reaches the target in percent, seed by seed.

    Who does not get there needs more than the run took; None without a target.
    """
    found: Values = []
    for run, target in zip(runs, targets, strict=True):
        at = run.metrics["time_s"].to_list()
        accuracy = run.metrics[METRICS[metric]].to_list()
        never = Beyond(float(at[-1]))
        goal = math.nan if target is None else number_of(target)
        found.append(
            None if target is None else next((float(t) for t, v in zip(at, accuracy) if 100 * v >= goal), never)
        )
    return found


def just_below(runs: Sequence[Run], metric: str) -> Values:
    """A target for each seed: a bit below what these runs end with."""
    return [None if v is None else number_of(v) - LESS for v in final(runs, metric)]


def round_seconds(runs: Sequence[Run]) -> Values:
    """Mean simulated seconds of a cloud round, seed by seed."""
    return [float(run.metrics["time_s"][-1] / run.metrics["cloud_round"][-1]) for run in runs]


def late_shares(runs: Sequence[Run]) -> Values:
    """Updates that missed their round in percent of all that were merged, seed by seed."""
    return [100 * float(run.metrics["late"][-1] / run.metrics["updates"][-1]) for run in runs]


def n_updates(runs: Sequence[Run]) -> Values:
    """Updates that were merged, seed by seed."""
    return [float(run.metrics["updates"][-1]) for run in runs]


def n_clusters(runs: Sequence[Run]) -> Values:
    """Clusters of the last grouping, seed by seed."""
    return [float(run.metrics["clusters"].drop_nulls()[-1]) for run in runs]


def best_of(times: Sequence[Values], pick: Any = min) -> Values:
    """The first (or with max the last) of several times, seed by seed; known only beyond a bound if that may decide it."""
    found: Values = []
    for same in zip(*times, strict=True):
        known = [v for v in same if v is not None]
        best = pick(known, key=number_of)
        unsure = pick is max and any(isinstance(v, Beyond) for v in known)
        found.append(Beyond(number_of(best)) if unsure else best)
    return found


def until_hierfedavg_ends(runs: Runs) -> dict[Any, Sequence[Run]]:
    """The same runs, those of FedAT without what came after the end of HierFedAVG's run with the same seed."""
    cut: dict[Any, Sequence[Run]] = dict(runs)
    for (place, setting, m), same in runs.items():
        if m == FEDAT and (place, setting, HIER) in runs:
            ends = [float(run.metrics["time_s"][-1]) for run in runs[place, setting, HIER]]
            cut[place, setting, m] = [
                replace(run, metrics=run.metrics.filter(run.metrics["time_s"] <= end)) for run, end in zip(same, ends)
            ]
    return cut


def present_in(runs: Runs) -> tuple[list[str], list[str], list[str]]:
    """Places, settings and methods of the labels."""
    places, settings, methods = (list(dict.fromkeys(column)) for column in zip(*runs))
    return places, settings, methods


def rivals_of(runs: Runs, place: str, setting: str) -> dict[str, Sequence[Run]]:
    """The other methods; without edges, their static runs stand for mobile ones."""
    found = {m: same for (p, s, m), same in runs.items() if (p, s) == (place, setting) and m != FULL}
    return found | {m: runs[STATIC, setting, m] for m in FLAT if (STATIC, setting, m) in runs}


def in_each_case(parts: Mapping[str, Verdict]) -> Verdict:
    """Of a claim that holds if it does in each case; what was measured says so case by case."""
    shown = "; ".join(f"{name} {SIGNS[v.state]} {v.measured}" for name, v in parts.items())
    return Verdict(verdicts.worst(*parts.values()), shown, min(v.n for v in parts.values()))


def before_rivals(times: Values, rivals: Mapping[str, Values]) -> Verdict:
    """Are these times earlier than the first of the rivals', seed by seed?"""
    next_one = min(rivals, key=lambda m: fmean(math.inf if not isinstance(v, float) else v for v in rivals[m]))
    v = verdicts.at_least(apart(times, best_of(list(rivals.values()))), 1e-9)
    return Verdict(v.state, f"{spread(times)} s ({next_one}: {spread(rivals[next_one])})", v.n)
