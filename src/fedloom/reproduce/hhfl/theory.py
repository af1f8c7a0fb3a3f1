"""Lemma 3 of HHFL beside runs: how far models drift apart, and what the lemma allows.

    mean_i |w_i - mean|^2 <= lr^2 / 2 drift(E, G, H^2)          drift: the last term of Theorem 1, published and sharp

It needs neither convexity nor the learning rate of Theorem 1, which no experiment of the paper has: losses are not strongly
convex, and lr falls exponentially. H is the largest gradient of a mini-batch in a run, lr its first. Clusters do not occur in
it, so that it says the same of HFL and HHFL. Measured are edge servers' models, when the cloud merges them.
"""

from fedloom.bounds import drift_term
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.remarks import drift
from fedloom.reproduce.hhfl.setups import HFL, HHFL, NAMES, PERIODS, THEORY_CASE
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.theory import most, pairs_in_order
from fedloom.reproduce.verdicts import mean

FORMS = ("published", "sharp")


def judge_theory(runs: Runs) -> Outcome:
    """The drift against E and G, the other being 5, beside both forms of the lemma."""
    claims, rows, plots, shown = [], [], [], []
    pairs = len(PERIODS) * (len(PERIODS) - 1) // 2
    for symbol in ("E", "G"):
        measured = {
            (m, n): [verdicts.number_of(v) for v in drift(runs[symbol, m, n]) if v is not None]
            for m in (HFL, HHFL)
            for n in PERIODS
        }
        limit = {(f, m, n): [lemma_3(run, f) for run in runs[symbol, m, n]] for f in FORMS for m, n in measured}
        over = {
            f: [
                min(b / v for b, v in seed) for seed in zip(*(zip(limit[f, m, n], measured[m, n]) for m, n in measured))
            ]
            for f in FORMS
        }
        claims += [
            Claim(
                text=f"{symbol}: the drift is below the lemma, {form} (lemma over drift, least of periods and methods)",
                verdict=verdicts.at_least(list(over[form]), 1.0),
                own=True,
            )
            for form in FORMS
        ]
        for m in (HFL, HHFL):
            of_lemma = {str(n): limit["published", m, n] for n in PERIODS}
            order = pairs_in_order(of_lemma, {str(n): measured[m, n] for n in PERIODS})
            claims.append(
                Claim(
                    text=f"{symbol}: the lemma ranks periods as the drift of {NAMES[m]} does (pairs out of {pairs})",
                    verdict=verdicts.at_least(order, float(pairs)),
                    own=True,
                )
            )
            rows.append((f"{symbol}, {NAMES[m]}, measured", *(_short(measured[m, n]) for n in PERIODS)))
            rows += [(f"{symbol}, {NAMES[m]}, {f}", *(_short(limit[f, m, n]) for n in PERIODS)) for f in FORMS]
        plots.append(_plot(symbol, measured, limit))
        shown.append(
            f"{symbol}: lemma at least {min(over['published']):.1e} times the drift, sharp {min(over['sharp']):.1e} times"
        )
    columns = ("", *(f"{n}" for n in PERIODS))
    title = f"Case {THEORY_CASE}: mean squared distance of edge models from their mean, and the lemma"
    return Outcome(
        claims=tuple(claims),
        tables=(Table(title=title, columns=columns, rows=tuple(rows)),),
        plots=tuple(plots),
        ours="; ".join(shown) + ".",
    )


def lemma_3(run: Run, form: str) -> float:
    """What the lemma allows in a run."""
    training = run.scenario["training"]
    term = drift_term(training["local_steps"], training["edge_rounds"], most(run, "gradient_max") ** 2, form)
    return float(training["lr"]) ** 2 / 2 * term


def _short(values: list[float]) -> str:
    return f"{mean(list(values)):.1e}"


def _plot(
    symbol: str, measured: dict[tuple[str, int], list[float]], limit: dict[tuple[str, str, int], list[float]]
) -> Plot:
    x = tuple(float(n) for n in PERIODS)
    series = [
        Series(label=NAMES[m], x=x, y=tuple(mean(list(measured[m, n])) for n in PERIODS), colour=i)
        for i, m in enumerate((HFL, HHFL))
    ]
    series += [
        Series(
            label=f"Lemma 3, {f}",
            x=x,
            y=tuple(mean(list(limit[f, HFL, n])) for n in PERIODS),
            colour=2 + i,
            dashed=True,
        )
        for i, f in enumerate(FORMS)
    ]
    return Plot(
        key=f"theory-{symbol.lower()}",
        caption=f"Case {THEORY_CASE}: drift of edge servers against {symbol}, the other period being 5, and Lemma 3 (dashed).",
        x_label=symbol,
        y_label="mean squared distance",
        series=tuple(series),
        log=True,
    )
