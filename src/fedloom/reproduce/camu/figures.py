"""Figures 4 to 6 of CAMU."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.camu.setups import BUDGET, DATA, FIG_4, FIG_5, FIG_6, GATED, UNITS, UPDATES, WAITING
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Value, Verdict, apart, mean, number_of, spread

LAST = 10  # cloud rounds that a final accuracy is the mean of
ROUNDS = (2, 4, 6, 10, 20, 50, 100, 200)  # at which gains are shown, as far as a run goes


def final(runs: Sequence[Run]) -> list[Value]:
    """Accuracy in percent, the mean over the last rounds, seed by seed."""
    found: list[Value] = []
    for run in runs:
        late = run.metrics["cloud_round"].to_numpy() > run.metrics["cloud_round"][-1] - LAST
        found.append(100 * float(run.metrics["accuracy"].to_numpy()[late].mean()))
    return found


def at_round(runs: Sequence[Run], cloud_round: int) -> list[Value]:
    """Accuracy in percent after so many cloud rounds, seed by seed; None if that was not evaluated."""
    found: list[Value] = []
    for run in runs:
        here = run.metrics.filter(run.metrics["cloud_round"] == cloud_round)["accuracy"]
        found.append(100 * float(here[0]) if len(here) else None)
    return found


def by_round(runs: Runs, pairs: Mapping[str, Sequence[tuple[str, str]]]) -> Table:
    """Differences in points after few and many rounds; labels (data, scheme, share or reading)."""
    one = next(iter(runs.values()))[0].metrics["cloud_round"]
    shown = [t for t in ROUNDS if t in one.to_list()]
    rows = [
        (
            f"{data}, {share if isinstance(share, str) else percent(share)}: {a} – {b}",
            *(spread(apart(at_round(runs[data, b, share], t), at_round(runs[data, a, share], t))) for t in shown),
        )
        for data, of in pairs.items()
        for share in dict.fromkeys(h for d, _, h in runs if d == data)
        for a, b in of
        if (data, a, share) in runs and (data, b, share) in runs
    ]
    columns = ("points after so many cloud rounds", *map(str, shown))
    return Table(title="Gains by round", columns=columns, rows=tuple(rows))


def last(runs: Sequence[Run], column: str) -> list[Value]:
    """A measure at the end, seed by seed."""
    return [float(run.metrics[column][-1]) for run in runs]


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def accuracies(runs: Runs, schemes: Sequence[str], title: str) -> Table:
    """A row for every dataset and share, a column for every scheme."""
    rows = [
        (f"{data}, {percent(share)}", *(spread(final(runs[data, s, share])) for s in schemes))
        for data, share in dict.fromkeys((d, h) for d, _, h in runs)
    ]
    return Table(title=title, columns=("devices with two classes", *schemes), rows=tuple(rows))


def better_than(
    runs: Runs, data: str, share: float, better: str, worse: str, *, own: bool = False, what: str = ""
) -> Claim:
    """The claim that one scheme is more accurate than another. what: by what."""
    gain = apart(final(runs[data, worse, share]), final(runs[data, better, share]))
    text = f"{data}, {percent(share)}: {what}{better} is more accurate than {worse} (points)"
    return Claim(text=text, verdict=verdicts.at_least(gain, 1e-9), own=own)


def _gains(runs: Runs, published: dict[str, dict[tuple[str, str], float]], share: float, title: str) -> Table:
    """Differences in points beside the published ones."""
    rows = []
    for data, pairs in published.items():
        for (a, b), value in pairs.items():
            gain = apart(final(runs[data, b, share]), final(runs[data, a, share]))
            rows.append((f"{data}: {a} – {b}", spread(gain), f"{value:+.3f}"))
    return Table(title=title, columns=("points", "ours", "published"), rows=tuple(rows))


def _shares(runs: Runs) -> list[float]:
    return sorted({share for _, _, share in runs})


def fig_4(runs: Runs) -> Outcome:
    shares = _shares(runs)
    claims, rows = [], []
    for data, pairs in FIG_4.items():
        for (better, worse), (low, high) in pairs.items():
            claims += [better_than(runs, data, share, better, worse) for share in shares]
            gains = [apart(final(runs[data, worse, h]), final(runs[data, better, h])) for h in shares]
            text = f"{data}: {better} gains more on {worse} the more devices have two classes (points)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(apart(gains[0], gains[-1]), 1e-9)))
            published = f"{low:+.3f}" if shares[0] == 0 else "–"
            rows.append((f"{data}: {better} – {worse}", spread(gains[0]), published, spread(gains[-1]), f"{high:+.3f}"))
    columns = ("points", percent(shares[0]), "published", percent(shares[-1]), "published")
    gain = Table(title="Gains at the lowest and the highest share", columns=columns, rows=tuple(rows))
    series = tuple(
        Series(
            label=f"{data}, {s}",
            x=tuple(100 * h for h in shares),
            y=tuple(mean(final(runs[data, s, h])) for h in shares),
            colour=i,
            dashed=data != "MNIST",
        )
        for data in DATA
        for i, s in enumerate(UNITS)
    )
    plot = Plot(
        key="fig4",
        caption="Test accuracy against the share of devices with two classes, mean over seeds; dashed: Fashion-MNIST.",
        x_label="devices with two classes, %",
        y_label="test accuracy, %",
        series=series,
    )
    accuracy = accuracies(runs, list(UNITS), "Accuracy in %")
    early = by_round(runs, {data: list(pairs) for data, pairs in FIG_4.items()})
    ours = _shown_gains(runs, {data: list(pairs) for data, pairs in FIG_4.items()}, shares[-1])
    return Outcome(claims=tuple(claims), tables=(accuracy, gain, early), plots=(plot,), ours=ours)


def _shown_gains(runs: Runs, pairs: Mapping[str, Sequence[tuple[str, str]]], share: float) -> str:
    """Differences of means in points, in one line."""
    shown = [
        f"{data}: "
        + ", ".join(
            f"{a} – {b} {mean(apart(final(runs[data, b, share]), final(runs[data, a, share]))):+.1f}" for a, b in of
        )
        for data, of in pairs.items()
    ]
    return f"Points at {percent(share)}: {'; '.join(shown)}."


def fig_5(runs: Runs) -> Outcome:
    low, high = _shares(runs)[0], _shares(runs)[-1]
    claims = []
    for data in DATA:
        best = GATED[0]
        claims += [
            better_than(runs, data, high, "Config 4", "Benchmark 2"),
            better_than(runs, data, high, best, "Config 4"),
            better_than(runs, data, high, best, "Benchmark 2"),
        ]
        if low == 0:
            claims.append(better_than(runs, data, low, "Benchmark 2", "Config 4"))
        falling = [final(runs[data, s, high]) for s in GATED[::-1]]
        text = f"{data}, {percent(high)}: accuracy falls as the threshold rises (from the highest to the lowest)"
        claims.append(Claim(text=text, verdict=verdicts.rising(falling, slack=1.0)))
    tables = (
        accuracies(runs, list(UPDATES), "Accuracy in %"),
        _gains(runs, FIG_5, high, f"Gains with two classes at {percent(high)} of the devices"),
        costs(runs, UPDATES, high),
        by_round(runs, {data: list(pairs) for data, pairs in FIG_5.items()}),
    )
    ours = _shown_gains(runs, {data: list(pairs) for data, pairs in FIG_5.items()}, high)
    plot = _curves(runs, UPDATES, high, "fig5", "time_s")
    return Outcome(claims=tuple(claims), tables=tables, plots=(plot,), ours=ours)


def fig_6(runs: Runs) -> Outcome:
    claims = []
    for data, pairs in FIG_6.items():
        for better, worse in pairs:
            claim = better_than(runs, data, 1.0, better, worse)
            updates = [mean(last(runs[data, s, 1.0], "rounds_mean")) for s in (better, worse)]
            cause = f"with {updates[0]:.1f} updates of a cluster in a cloud round against {updates[1]:.1f}"
            claims.append(Claim(text=f"{claim.text[:-9]}, {cause} (points)", verdict=claim.verdict))
        claims += [
            better_than(
                runs, data, 1.0, WAITING, "Benchmark 2", own=True, what="powers alone, no update beyond the wait: "
            ),
            better_than(runs, data, 1.0, "Config 5", WAITING, own=True, what="updates beyond the wait alone: "),
        ]
        joules = {s: last(runs[data, s, 1.0], "energy_j") for s in BUDGET}
        for s in ("Benchmark 3", "Config 5", WAITING):
            over = [number_of(r) - 1 for r in verdicts.ratios(joules["Benchmark 2"], joules[s]) if r is not None]
            text = f"{data}: {s} spends no more energy than Benchmark 2 (share that is over, the most of all seeds)"
            state = verdicts.HOLDS if max(over) < 1e-6 else verdicts.FAILS
            verdict = Verdict(state, f"{max(over):+.1e}", len(over))
            claims.append(Claim(text=text, verdict=verdict, because="it is the budget of problem P1"))
    tables = (
        accuracies(runs, list(BUDGET), "Accuracy in %"),
        _gains(runs, FIG_6, 1.0, "Gains with noise and one budget of energy"),
        costs(runs, BUDGET, 1.0),
    )
    split = [("Config 5", "Benchmark 2"), (WAITING, "Benchmark 2"), ("Config 5", "Benchmark 3")]
    ours = _shown_gains(runs, dict.fromkeys(FIG_6, split), 1.0)
    plot = _curves(runs, BUDGET, 1.0, "fig6", "energy_j")
    return Outcome(claims=tuple(claims), tables=tables, plots=(plot,), ours=ours)


def costs(runs: Runs, schemes: Sequence[str] | dict[str, str], share: float) -> Table:
    """What the whole run took: more updates take more, which a comparison by rounds does not show."""
    rows = [
        (
            f"{data}, {s}",
            spread(last(runs[data, s, share], "rounds_mean")),
            spread(last(runs[data, s, share], "energy_j")),
            spread(last(runs[data, s, share], "time_s")),
        )
        for data in DATA
        for s in schemes
    ]
    columns = ("", "mean updates of a cluster", "joules", "simulated seconds")
    return Table(title=f"Cost at {percent(share)}", columns=columns, rows=tuple(rows))


def _curves(runs: Runs, schemes: Sequence[str] | dict[str, str], share: float, key: str, x: str) -> Plot:
    series = []
    for data in DATA:
        for i, s in enumerate(schemes):
            same = runs[data, s, share]
            accuracy = np.array([run.metrics["accuracy"].to_numpy() for run in same])
            series.append(
                Series(
                    label=f"{data}, {s}",
                    x=tuple(np.mean([run.metrics[x].to_numpy() for run in same], axis=0).tolist()),
                    y=tuple(accuracy.mean(axis=0).tolist()),
                    low=tuple(accuracy.min(axis=0).tolist()),
                    high=tuple(accuracy.max(axis=0).tolist()),
                    colour=i,
                    dashed=data != "MNIST",
                )
            )
    what, unit = {"time_s": ("simulated time", "s"), "energy_j": ("energy", "J")}[x]
    caption = f"Test accuracy against {what}, two classes at {percent(share)} of the devices; dashed: Fashion-MNIST."
    return Plot(key=key, caption=caption, x_label=f"{what}, {unit}", y_label="test accuracy", series=tuple(series))
