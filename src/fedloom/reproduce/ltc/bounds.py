"""Tables 8 and 9 of LTC: terms of its bound."""

from fedloom import bounds
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.ltc.measures import mean_of, rows_of
from fedloom.reproduce.ltc.published import TABLE_8, TABLE_9
from fedloom.reproduce.ltc.setups import METHODS
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import apart, mean, ratios, spread


def table_8(runs: Runs) -> Outcome:
    """The loss-gap term."""
    rows, claims = [], []
    for data in rows_of(runs):
        gap = {m: [_loss_gap(run) for run in runs[data, m]] for m in METHODS}
        rows.append((data, *(spread(gap[m]) for m in METHODS)))
        if data in TABLE_8:
            rows.append((f"{data}, published", *(f"{v:.2f}" for v in TABLE_8[data])))
        for m in ("A+", "1.1", "1.2"):
            text = f"{data}: the term of {m} is at least that of A"
            claims.append(Claim(text=text, verdict=verdicts.at_least(apart(gap["A"], gap[m]), 0.0)))
    table = Table(
        title="Loss-gap term x 10^4, steps without learning rate", columns=("data", *METHODS), rows=tuple(rows)
    )
    first = rows_of(runs)[0]
    shown = ", ".join(f"{m} {mean([_loss_gap(run) for run in runs[first, m]]):.2f}" for m in METHODS)
    return Outcome(claims=tuple(claims), tables=(table,), ours=f"{first}: {shown} x 10^-4.")


def _loss_gap(run: Run) -> float:
    """The loss-gap term of the bound x 10^4."""
    return float(1e4 * bounds.loss_gap(run.metrics["train_loss"].to_numpy(), run.metrics["step_mass"].to_numpy()[1:]))


def table_9(runs: Runs) -> Outcome:
    """The mismatches in it: of clusters and all, of clients and their clusters."""
    rows, claims, shown = [], [], []
    for data in rows_of(runs):
        mismatch = {
            (kind, m): mean_of([_without_first(run) for run in runs[data, m]], f"mismatch_{kind}")
            for kind in ("cluster", "client")
            for m in METHODS
        }
        for i, (kind, what) in enumerate((("cluster", "cluster and all"), ("client", "client and cluster"))):
            rows.append((f"{data}, {what}", *(spread(mismatch[kind, m]) for m in METHODS)))
            if data in TABLE_9:
                rows.append((f"{data}, {what}, published", *(f"{v:.2f}" for v in TABLE_9[data][i])))
        for m in ("A+", "1.1", "1.2"):
            smaller, larger = (ratios(mismatch[kind, "A"], mismatch[kind, m]) for kind in ("cluster", "client"))
            terms = {
                x: [
                    float(bounds.mismatch_term(verdicts.number_of(a), verdicts.number_of(b), r_max=4))
                    for a, b in zip(mismatch["cluster", x], mismatch["client", x])
                    if a is not None and b is not None
                ]
                for x in ("A", m)
            }
            claims += [
                Claim(
                    text=f"{data}: mismatch of cluster and all is smaller with {m} than with A (ratio)",
                    verdict=verdicts.at_most(smaller, 1 - 1e-9),
                ),
                Claim(
                    text=f"{data}: mismatch of client and cluster is larger with {m} than with A (ratio)",
                    verdict=verdicts.at_least(larger, 1 + 1e-9),
                ),
                Claim(
                    text=f"{data}: the mismatch term at four rounds is lower with {m} than with A (ratio)",
                    verdict=verdicts.at_most(ratios(terms["A"], terms[m]), 1 - 1e-9),
                ),
            ]
        shown.append(
            f"{data}: 1.1 over A {mean(ratios(mismatch['cluster', 'A'], mismatch['cluster', '1.1'])):.2f} to all, "
            f"{mean(ratios(mismatch['client', 'A'], mismatch['client', '1.1'])):.2f} to the cluster"
        )
    table = Table(title="Gradient mismatch", columns=("", *METHODS), rows=tuple(rows))
    return Outcome(claims=tuple(claims), tables=(table,), ours="; ".join(shown) + ".")


def _without_first(run: Run) -> Run:
    """Without the row of the initial model, which no cloud round led to."""
    from dataclasses import replace

    return replace(run, metrics=run.metrics[1:])
