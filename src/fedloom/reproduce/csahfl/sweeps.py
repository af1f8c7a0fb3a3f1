"""Figure 4 of CSAHFL: alpha and epochs, and beta."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.csahfl.measures import (
    LESS,
    METRICS,
    Values,
    before_rivals,
    final,
    just_below,
    n_clusters,
    round_seconds,
    seconds_to,
)
from fedloom.reproduce.csahfl.published import HALF, HIGH, LOW
from fedloom.reproduce.csahfl.setups import ALL
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, spread


def fig_4a(runs: Runs) -> Outcome:
    """Seconds against alpha and epochs."""
    epochs = list(dict.fromkeys(e for _, e in runs))
    reference = (1.5, epochs[1])
    alphas = _alphas(runs)
    claims = []
    for metric in METRICS:
        own = just_below(runs[reference], metric)
        goals: dict[str, Values] = {
            f"{HIGH[HALF]:.0f} %": [HIGH[HALF]] * len(own),
            f"its last accuracy less {LESS:.0f} points": own,
        }
        for goal, targets in goals.items():
            times = {f"{a:g}, {e}": seconds_to(runs[a, e], metric, targets) for a, e in runs if a != ALL}
            first = times.pop(f"1.5, {epochs[1]}")
            text = f"{metric}: alpha 1.5 with {epochs[1]} epochs is the first to reach {goal} (the next: alpha, epochs)"
            claims.append(Claim(text=text, verdict=before_rivals(first, times), absolute=targets is not own))
    by_alpha = [round_seconds(runs[alpha, epochs[1]]) for alpha in alphas]
    text = f"a cloud round takes longer the larger alpha is ({epochs[1]} epochs, seconds)"
    because = "an edge waits alpha interquartile ranges beyond the median (eqs 7 and 8)"
    claims.append(Claim(text=text, verdict=verdicts.rising(by_alpha, slack=1e-6), because=because))
    waiting = round_seconds(runs[ALL, epochs[1]])
    for alpha in alphas:
        ratio = verdicts.ratios(waiting, round_seconds(runs[alpha, epochs[1]]))
        text = f"with alpha {alpha:g} a cloud round is 10 % shorter than waiting for all, or more (ratio)"
        claims.append(Claim(text=text, verdict=verdicts.at_most(ratio, 0.9), own=True))
    tables = tuple(_sweep_table(runs, metric, reference) for metric in METRICS)
    plots = tuple(_sweep_plot(runs, metric, reference) for metric in ("G", "L_edge"))
    shorter = mean(verdicts.ratios(waiting, round_seconds(runs[reference])))
    ours = f"With alpha 1.5 a cloud round takes {shorter:.2f} of what waiting for all takes."
    return Outcome(claims=tuple(claims), tables=tables, plots=plots, ours=ours)


def _alphas(runs: Runs) -> list[float]:
    return sorted({alpha for alpha, _ in runs if alpha != ALL})


def _sweep_table(runs: Runs, metric: str, reference: tuple[float, int]) -> Table:
    own = just_below(runs[reference], metric)
    rows = []
    for (alpha, epochs), same in runs.items():
        targets: tuple[Values, ...] = ([LOW] * len(same), [HIGH[HALF]] * len(same), own)
        rows.append(
            (
                f"{'waiting for all' if alpha == ALL else f'alpha {alpha:g}'}, {epochs} epochs",
                spread(round_seconds(same)),
                spread(final(same, metric)),
                *(spread(seconds_to(same, metric, t)) for t in targets),
            )
        )
    columns = ("", "s of a cloud round", f"{metric} in %", f"s to {LOW:.0f} %", f"s to {HIGH[HALF]:.0f} %")
    last = f"s to that of alpha {reference[0]:g}, {reference[1]} epochs"
    return Table(title=f"Deadlines and work, {metric}", columns=(*columns, last), rows=tuple(rows))


def _sweep_plot(runs: Runs, metric: str, reference: tuple[float, int]) -> Plot:
    own = just_below(runs[reference], metric)
    series = []
    for i, epochs in enumerate(dict.fromkeys(e for _, e in runs)):
        times = {alpha: seconds_to(runs[alpha, epochs], metric, own) for alpha in _alphas(runs)}
        arrived = {alpha: mean(t) for alpha, t in times.items() if all(isinstance(v, float) for v in t)}
        series.append(
            Series(label=f"{epochs} epochs", x=tuple(arrived), y=tuple(arrived.values()), colour=i),
        )
    caption = (
        f"Simulated seconds to the last {metric} of alpha {reference[0]:g} with {reference[1]} epochs less {LESS:.0f} points, "
        "where all seeds arrive; means over seeds."
    )
    key = f"fig4a-{metric.lower()}"
    return Plot(key=key, caption=caption, x_label="alpha", y_label="simulated seconds", series=tuple(series))


def fig_4b(runs: Runs) -> Outcome:
    """Accuracy and number of clusters against beta."""
    of = {beta: same for (_, beta), same in runs.items()}
    text = "the number of clusters falls as beta grows (shown from 90 to 1)"
    counts = verdicts.rising([n_clusters(same) for same in reversed(of.values())])
    claims = [Claim(text=text, verdict=counts, because="clusters merge up to beta, the more the larger it is")]
    for metric in METRICS:
        found = {beta: final(same, metric) for beta, same in of.items()}
        gain = verdicts.at_least(apart(found[1], found[5]), 1.0)
        claims.append(Claim(text=f"{metric} rises by a point or more from beta 1 to 5 (points)", verdict=gain))
        best = max((b for b in found if b != 20), key=lambda b: mean(found[b]))
        v = verdicts.at_least(apart(found[best], found[20]), -1.0)
        text = f"{metric} with beta 20 is at most a point below that of any other beta (points above the best)"
        claims.append(Claim(text=text, verdict=Verdict(v.state, f"{v.measured} (beta {best})", v.n)))
    rows = tuple(
        (f"{beta}", spread(n_clusters(same)), *(spread(final(same, metric)) for metric in METRICS))
        for beta, same in of.items()
    )
    table = Table(title="Clusters and accuracy in %", columns=("beta, degrees", "clusters", *METRICS), rows=rows)
    at = tuple(float(beta) for beta in of)
    lines = tuple(
        Series(label=metric, x=at, y=tuple(mean(final(same, metric)) for same in of.values()), colour=i)
        for i, metric in enumerate(METRICS)
    )
    numbers = Series(label="clusters", x=at, y=tuple(mean(n_clusters(same)) for same in of.values()))
    caption = "ENIID50%, static: accuracy at the end by four measures against beta, means over seeds."
    plots = (
        Plot(key="fig4b", caption=caption, x_label="beta, degrees", y_label="accuracy in %", series=lines),
        Plot(
            key="fig4b-clusters",
            caption="ENIID50%, static: number of clusters against beta, mean over seeds.",
            x_label="beta, degrees",
            y_label="clusters",
            series=(numbers,),
        ),
    )
    best = {metric: max(of, key=lambda b: mean(final(of[b], metric))) for metric in METRICS}
    ours = f"Best beta: {', '.join(f'{metric} {b}' for metric, b in best.items())}."
    return Outcome(claims=tuple(claims), tables=(table,), plots=plots, ours=ours)
