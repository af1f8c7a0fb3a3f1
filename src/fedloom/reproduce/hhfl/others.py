"""HHFL against methods of several edge servers without a cloud, and with fewer links."""

from collections.abc import Sequence

import numpy as np

from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import COMMON, cases_of, curve, gain_by, listed_means
from fedloom.reproduce.hhfl.setups import HFL, HHFL, RIVALS
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Value, spread

HELD = "edge_accuracy"  # mean accuracy of the edge servers' models on the whole test set


def held_ahead(rival: Sequence[Run], ours: Sequence[Run], column: str = "accuracy") -> list[Value]:
    """Points by which our global model, which all hold after a cloud round (or with HELD our edge servers' just before one),
    leads the mean of the rival's edge servers, on average over cloud rounds, seed by seed; None where they were not evaluated."""
    return [
        100 * float(np.mean(curve(b, column)[1][1:] - curve(a, HELD)[1][1:]))
        if HELD in a.metrics.columns and column in b.metrics.columns
        else None
        for a, b in zip(rival, ours)
    ]


def judge_others(runs: Runs) -> Outcome:
    """Gains over other methods, and points ahead of the models that their edge servers hold."""
    rows, claims = [], []
    held: dict[int, list[Value]] = {}
    common: dict[int, list[Value]] = {}
    for c in cases_of(runs):
        ratio = {m: gain_by(COMMON, runs[c, m], runs[c, HHFL]) for m in (HFL, "hhfl:max_links=2", *RIVALS)}
        lead = {m: held_ahead(runs[c, m], runs[c, HHFL]) for m in RIVALS}
        held[c], common[c] = lead["fedmes"], ratio["fedmes"]
        edges = [held_ahead(runs[c, m], runs[c, HHFL], HELD) for m in RIVALS]
        rows.append((f"case {c}", *(spread(values) for values in (*ratio.values(), *lead.values(), *edges))))
        for m, name in RIVALS.items():
            claims += [
                Claim(
                    text=f"case {c}: HHFL is better than {name}'s mean of all models, which nobody holds (gain above 1)",
                    verdict=verdicts.at_least(ratio[m], 1.0 + 1e-9),
                ),
                Claim(
                    text=f"case {c}: HHFL's global model is better than {name}'s edge models (points, mean over the curve)",
                    verdict=verdicts.at_least(lead[m], 1e-9),
                ),
            ]
    names = list(RIVALS.values())
    ahead = (f"{whose} ahead of {name}'s edge models" for whose in ("global model", "edge models") for name in names)
    table = Table(
        title="Gain of HHFL at common accuracy over other methods; points by which HHFL's global model after a merge, and its "
        "edge models before one, are ahead of the models that their edge servers hold",
        columns=("", "HFL", "HHFL with two links a client", *names, *ahead),
        rows=tuple(rows),
    )
    by_held = "not recorded" if any(v is None for values in held.values() for v in values) else listed_means(held)
    ours = f"Against FedMes, gain over its mean of all models {listed_means(common)}; points ahead of its edge models: {by_held}."
    return Outcome(claims=tuple(claims), tables=(table,), ours=ours)
