"""Algorithm 1 of DDC as published (`full`) against our faster search, on the same layouts and gradients."""

from fedloom.bounds.ddc_energy import ENERGY_READINGS
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.measures import Values, joules, label_distances, mean_member_m, n_heads, note
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import mean, number_of, ratios, spread

FULL, FAST = "full", "fast"


def judge_search(runs: Runs) -> Outcome:
    """How far the objectives, clusters and joules of the two are apart."""
    rows, claims = [], []
    gaps: dict[float, Values] = {}
    for alpha in dict.fromkeys(alpha for _, alpha in runs):
        full, fast = runs[FULL, alpha], runs[FAST, alpha]
        above = ratios(note(full, "objective"), note(fast, "objective"))
        gaps[alpha] = [None if r is None else 100 * (number_of(r) - 1) for r in above]
        claims.append(
            Claim(
                text=f"alpha {alpha:g}: the faster search's objective is at most 1 % above that of Algorithm 1 (%)",
                verdict=verdicts.at_most(gaps[alpha], 1.0),
                own=True,
            )
        )
        for name, same in ((FULL, full), (FAST, fast)):
            measures = (note(same, "objective"), n_heads(same), mean_member_m(same), label_distances(same))
            more = (note(same, "cosine"), *(joules(same, reading) for reading in ENERGY_READINGS))
            rows.append((f"alpha {alpha:g}, {name}", *(spread(v) for v in (*measures, *more))))
    columns = ("", "objective", "heads", "m to head", "TV of labels", "c(C)")
    table = Table(
        title="Clusters by search",
        columns=(*columns, *(f"J, {reading}" for reading in ENERGY_READINGS)),
        rows=tuple(rows),
    )
    shown = ", ".join(f"{mean(v):+.2f} % (alpha {alpha:g})" for alpha, v in gaps.items())
    return Outcome(
        claims=tuple(claims), tables=(table,), ours=f"The faster search's objective above that of Algorithm 1: {shown}."
    )
