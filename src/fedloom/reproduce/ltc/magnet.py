"""Figures 7, 9 and 13 of LTC: tracking a magnet."""

from collections.abc import Sequence

import numpy as np

from fedloom.reproduce import verdicts
from fedloom.reproduce.ltc.measures import time_saved
from fedloom.reproduce.ltc.published import MAGNET_TARGETS, SAVED
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Value, apart, mean, spread


def judge_magnet(runs: Runs, better: str, worse: Sequence[str], key: str, headline: bool = False) -> Outcome:
    """Errors at the end, and time saved until an error."""
    rows, claims, shown = [], [], []
    names = (better, *worse)
    for column, (target, unit) in MAGNET_TARGETS.items():
        last: dict[str, list[Value]] = {m: [float(r.metrics[column][-1]) for r in runs["magnet", m]] for m in names}
        goal = mean(last[worse[0]])
        saved = {m: time_saved(runs["magnet", m], runs["magnet", better], column, goal, lower=True) for m in worse}
        rows += [(f"{m}: error in {unit}", spread(last[m]), spread(saved[m]) if m in saved else "–") for m in names]
        shown.append(", ".join(f"{m} {mean(last[m]):.1f}" for m in names) + f" {unit}")
        claims += [
            Claim(
                text=f"{better} ends with a smaller error in {unit} than {m}",
                verdict=verdicts.at_least(apart(last[better], last[m]), 1e-9, unit),
            )
            for m in worse
        ]
        if headline:
            early = time_saved(runs["magnet", worse[0]], runs["magnet", better], column, target, lower=True)
            text = f"{better} reaches {target:g} {unit} over {SAVED:g} % sooner than {worse[0]} (the paper's headline; % saved)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(early, SAVED + 1e-9), absolute=True))
    n_rounds = runs["magnet", better][0].metrics["cloud_round"][-1]
    columns = (
        "",
        f"after {n_rounds} cloud rounds",
        f"% of its time to the last error of {worse[0]} that {better} saves",
    )
    table = Table(title="Errors", columns=columns, rows=tuple(rows))
    series = tuple(
        Series(
            label=m,
            x=tuple(float(v) for v in runs["magnet", m][0].metrics["time_s"]),
            y=tuple(np.mean([run.metrics["position_mm"].to_numpy() for run in runs["magnet", m]], axis=0).tolist()),
            colour=i,
        )
        for i, m in enumerate(names)
    )
    caption = "Mean position error against simulated time, mean over seeds."
    plot = Plot(key=key, caption=caption, x_label="time", y_label="position error, mm", series=series)
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,), ours=f"At the end: {'; '.join(shown)}.")
