"""LTC: device clusters by learning direction and round time. Tables 6 to 12 and Figures 7, 9 and 13.

20 devices (30 with Dirichlet data) in clusters of about five, time-boxed cloud rounds: 80 units of time to collect features,
then as many cluster rounds as fit into 120. A model takes 15 units over a link of rate 1; rates are 3, or drawn from 1 to 5
for every pair and cloud round. A client trains one epoch in a round, 10 batches of 16 in a unit of time. Data are named by the
standard deviation of client sizes (of 2,500 in the mean) and classes per client, or by the Dirichlet concentration.

A: spectral clusters of similar clients; A+: of complementary ones; B: clusters by label swaps; 1.1, 1.2, 2 and 3: the swap
search under its four criteria. Numbers of clusters, size bounds, work per round and model size are not published; ours are the
readings described in docs/methods/ltc.md. Laptop scale: 10,000 training images, two classes per client (a setting that is in
none of the published tables), learning rate 0.02, ten cloud rounds; the magnet with 40,000 instead of 900,000 points, a smaller
network and learning rate 0.3. A guess at the middle of the box is 68 mm off; the published claims are about 5 mm and 6 degrees.

Images are standardised per channel. The paper does not say how its inputs are scaled, and it matters: with pixels in [0, 1]
and everything else the same, our first rows of Tables 6 and 7 ended at 31.0 to 32.2 % for all four methods (3 seeds), and of
eight comparisons only one, 1.2 above A+ with links from 1 to 5, was larger than its spread. We standardised after seeing
that, and after one run each of A and 1.1 with the first of these seeds: the choice is not independent of the result.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom import bounds
from fedloom.record.outperform import largest_feature_time, never_limit, rounds_to, threshold_text
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.paper import Claim, Item, Outcome, Paper, Plot, Reading, Runs, Series, Setup, Setups, Table
from fedloom.reproduce.verdicts import Beyond, Value, Values, Verdict, apart, mean, ratios, spread

METHODS = {"A": "fedmds", "A+": "fedmds_plus", "1.1": "ltc", "1.2": "ltc:solution=1.2"}
SIGMA = {  # kernel widths of A and A+, by the data
    "4 classes": ("sigma=0.5", "sigma_t=0.5:sigma_ft=0.8"),
    "7 classes": ("sigma=1.5", "sigma_t=1.0:sigma_ft=0.8"),
    "Dirichlet": ("sigma=1.5", "sigma_t=1.5:sigma_ft=1.0"),
}
DATA: dict[str, dict[str, Any]] = {
    **{
        f"{std}, {classes}": {
            "n": 20,
            "kind": "4 classes" if classes < 7 else "7 classes",
            "partition": {
                "kind": "sizes",
                "relative_std": std / 2500,
                "relative_least": 0.1,
                "classes_per_client": classes,
            },
        }
        for std, classes in ((750, 4), (750, 7), (1250, 4), (1250, 7), (1600, 2), (750, 2))
    },
    **{
        f"Dir({alpha:g})": {
            "n": 30,
            "kind": "Dirichlet",
            "partition": {"kind": "dirichlet", "concentration": alpha, "min_samples": 16},
        }
        for alpha in (0.05, 0.1, 0.5)
    },
}
ROWS = ("750, 4", "750, 7", "1250, 4", "1250, 7", "Dir(0.1)", "Dir(0.5)")
SMALL = "750, 2"  # at laptop scale: 0.3 times the mean size, two classes
TABLE_6 = {
    "750, 4": (42.1, 44.0, 44.7, 44.9),
    "750, 7": (47.7, 49.2, 49.6, 49.5),
    "1250, 4": (41.9, 44.5, 44.5, 44.7),
    "1250, 7": (48.3, 49.3, 49.2, 49.3),
    "Dir(0.1)": (41.1, 42.8, 42.8, 42.7),
    "Dir(0.5)": (49.8, 50.5, 50.4, 50.3),
}
TABLE_7 = {
    "750, 4": (42.0, 43.7, 45.0, 45.0),
    "750, 7": (47.6, 48.8, 49.9, 49.9),
    "1250, 4": (41.8, 43.5, 44.5, 44.6),
    "1250, 7": (47.8, 48.8, 49.5, 49.5),
    "Dir(0.1)": (40.8, 42.6, 42.8, 42.7),
    "Dir(0.5)": (49.5, 49.9, 50.6, 50.5),
}
TABLE_8 = {
    "750, 4": (1.59, 1.74, 1.74, 1.76),
    "750, 7": (1.98, 2.05, 2.02, 2.03),
    "1250, 4": (1.49, 1.71, 1.75, 1.75),
    "1250, 7": (1.94, 2.01, 2.02, 2.01),
    "Dir(0.1)": (1.58, 1.65, 1.74, 1.75),
    "Dir(0.5)": (2.19, 2.11, 2.13, 2.16),
}
TABLE_9 = {
    "750, 4": ((7.63, 4.25, 3.92, 4.02), (8.34, 11.78, 12.18, 12.07)),
    "750, 7": ((3.84, 2.36, 2.06, 2.30), (4.69, 6.12, 6.36, 6.26)),
    "1250, 4": ((7.81, 4.48, 5.13, 4.98), (8.08, 11.76, 11.84, 11.78)),
    "1250, 7": ((3.92, 2.54, 2.66, 2.69), (4.57, 6.05, 6.20, 6.14)),
    "Dir(0.1)": ((9.67, 5.78, 5.81, 5.98), (10.75, 14.97, 15.43, 15.36)),
    "Dir(0.5)": ((4.16, 2.72, 2.09, 2.26), (5.63, 7.03, 7.28, 7.23)),
}
TABLE_10 = {  # solutions 1.1, 2 and 3 for each round time
    "750, 4": ((45.4, 43.6, 44.5), (46.8, 44.6, 46.1), (47.2, 44.7, 46.7), (47.1, 45.1, 46.4)),
    "750, 7": ((49.9, 47.9, 49.2), (51.4, 49.4, 50.7), (52.0, 50.0, 51.1), (52.1, 50.1, 51.0)),
    "1250, 4": ((44.8, 43.7, 44.6), (45.9, 45.0, 45.8), (46.6, 45.2, 46.5), (46.4, 45.3, 46.5)),
    "1250, 7": ((49.7, 48.5, 49.0), (51.3, 50.1, 50.9), (51.8, 50.3, 51.4), (51.5, 50.3, 51.3)),
    "1600, 2": ((39.2, 37.6, 38.3), (39.8, 38.7, 39.2), (40.7, 37.7, 38.9), (40.3, 39.1, 39.6)),
    "Dir(0.05)": ((34.8, 32.7, 33.7), (36.1, 34.3, 34.9), (36.4, 34.7, 35.6), (35.4, 33.5, 34.0)),
    "Dir(0.1)": ((42.7, 41.1, 42.0), (43.5, 42.6, 43.1), (44.1, 42.7, 44.0), (44.3, 43.5, 44.1)),
    "Dir(0.5)": ((49.5, 47.4, 48.4), (50.9, 48.6, 49.7), (51.4, 49.2, 50.1), (51.5, 49.1, 50.3)),
}
ROUNDS_NEEDED = {  # Tables 11 and 12: cloud rounds to the accuracy of 1.1 after 16
    "Dir(0.1)": {"crop": 16.7, "B": 22.3, "pred": 22.3, "skew": 21.2},
    "Dir(0.5)": {"crop": 16.8, "B": 22.6, "pred": 21.1, "skew": 21.0},
    "750, 4": {"crop": 17.4, "B": 21.2, "pred": 20.8, "skew": 19.2},
    "750, 7": {"crop": 16.7, "B": 21.6, "pred": 20.6, "skew": 19.9},
    "1250, 4": {"crop": 16.4, "B": 20.4, "pred": 20.2, "skew": 19.0},
    "1250, 7": {"crop": 16.1, "B": 20.9, "pred": 20.1, "skew": 19.3},
}
ROUND_TIMES = (90, 120, 150, 180)
FEATURES = {
    "1.1": "ltc",
    "crop": "ltc:feature=crop",
    "skew": "ltc:feature=skew",
    "pred": "ltc:feature=prediction",
    "B": "dcliques",
}
UNTRAINED = ("B", "pred", "skew")  # features that need no training, Table 12
MOST_FEATURE_TIME = {"B": 11.1, "pred": 13.6, "skew": 21.2}  # largest published thresholds, of 50
HEADLINE = 6.0  # per cent of accuracy above A, where data are unbalanced
SAVED = 16.0  # per cent of time, on the magnet
FIG_5 = (0.4, 25.0)  # an accuracy, and per cent of the time of A that is saved until then
MAGNET_TARGETS = {"position_mm": (5.0, "mm"), "angle_deg": (6.0, "degrees")}


def method_of(name: str, data: str, box_s: float = 120, feature_s: float = 80) -> str:
    """The method behind a column, with the options that go with the data."""
    times = f":box_s={box_s:g}"
    if name in ("A", "A+"):
        kernel = SIGMA[DATA[data]["kind"]][0 if name == "A" else 1]
        return f"{METHODS[name]}:{kernel}{times}:feature_s={feature_s:g}"
    if name in ("B", "random"):
        return {"B": "dcliques", "random": "random_clusters"}[name] + times
    chosen = METHODS.get(name) or FEATURES.get(name) or f"ltc:solution={name}"
    return f"{chosen}{times}:feature_s={feature_s:g}"


def setup(
    data: str,
    name: str,
    scale: str,
    *,
    links: tuple[int, int],
    speed: tuple[int, int] | None = None,
    cloud_rounds: int | None = None,
    box_s: float = 120,
    feature_s: float = 80,
    theory: bool = False,
) -> Setup:
    """One of the paper's experiments on CIFAR-10."""
    small = scale == "laptop"
    low, high = speed or (10, 10)
    if small:
        low, high = max(1, low // 5), max(1, high // 5)
    scenario = {
        "name": "ltc",
        "model_bits": 15,
        "fleet": {
            "n_devices": DATA[data]["n"],
            "device_device": {"kind": "drawn", "low": links[0], "high": links[1]},
            "head_broadcast": "free",
            "device_edge": {"up": {"kind": "free"}, "down": {"kind": "free"}},
            "compute": {
                "law": {"kind": "uniform", "low": low, "high": high, "integer": True},
                "unit": "steps-per-second",
            },
            "redraw": {"links": "cloud-round", "compute": "cloud-round"},
        },
        "task": {
            "dataset": "cifar10",
            **({"data_limit": 10000} if small else {}),
            "standardise": True,
            "partition": DATA[data]["partition"],
            "model": {"kind": "lenet5"},
        },
        "training": {
            "batch_size": 16,
            "local_epochs": 1,
            "cloud_rounds": cloud_rounds or (10 if small else 12),
            "lr": 0.02 if small else 0.004,
        },
        "evaluation": {"local_samples": 0, "theory": theory},
    }
    return Setup(scenario=scenario, method=method_of(name, data, box_s, feature_s))


# What runs say


def final(runs: Sequence[Run]) -> list[Value]:
    """Accuracy in percent at the end, seed by seed."""
    return [100 * float(run.metrics["accuracy"][-1]) for run in runs]


def over_all(runs: Sequence[Run]) -> list[Value]:
    """Mean accuracy in percent over all cloud rounds, seed by seed."""
    return [100 * float(np.mean(run.metrics["accuracy"].to_numpy()[1:])) for run in runs]


def mean_of(runs: Sequence[Run], column: str) -> list[Value]:
    """Mean of a measure over all cloud rounds, seed by seed."""
    return [float(np.mean(run.metrics[column].drop_nulls().to_numpy())) for run in runs]


def gain_percent(base: Values, ours: Values) -> list[Value]:
    """By how many per cent ours are above the base, seed by seed."""
    return [None if r is None else 100 * (verdicts.number_of(r) - 1) for r in ratios(base, ours)]


def time_saved(
    base: Sequence[Run], ours: Sequence[Run], column: str, target: float, lower: bool = False
) -> list[Value]:
    """Per cent of the base's simulated time to a target that ours do not need, seed by seed; None if one does not arrive."""

    def seconds(run: Run) -> float | None:
        r = rounds_to(run.metrics[column].to_numpy(), target, lower_is_better=lower)
        at = run.metrics["time_s"].to_numpy()
        return None if math.isinf(r) else float(np.interp(r, np.arange(len(at)), at))

    shares = ratios([seconds(run) for run in base], [seconds(run) for run in ours])
    return [None if r is None else 100 * (1 - verdicts.number_of(r)) for r in shares]


def _rows(runs: Runs) -> list[str]:
    return list(dict.fromkeys(label[0] for label in runs))


def _accuracy_setups(scale: str, links: tuple[int, int], rows: Sequence[str], theory: bool) -> Setups:
    rows = (SMALL,) if scale == "laptop" else rows
    return {(d, m): setup(d, m, scale, links=links, theory=theory) for d in rows for m in METHODS}


def _accuracies(runs: Runs, published: Mapping[str, tuple[float, ...]], key: str, uniform: bool) -> Outcome:
    rows: list[tuple[str, ...]] = []
    claims = []
    gains = {}
    for data in _rows(runs):
        found = {m: final(runs[data, m]) for m in METHODS}
        known = published.get(data)
        rows.append((data, *(spread(found[m]) for m in METHODS)))
        rows.append((f"{data}, all rounds", *(spread(over_all(runs[data, m])) for m in METHODS)))
        if known:
            rows.append((f"{data}, published", *(f"{v:.1f}" for v in known)))
            off = [apart([p] * len(found[m]), found[m]) for m, p in zip(METHODS, known)]
            each = [verdicts.within(o, -2, 2) for o in off]
            shown = ", ".join(f"{m} {v.measured}" for m, v in zip(METHODS, each))
            text = f"{data}: accuracies within 2 points of the published ones (points from them)"
            claims.append(
                Claim(text=text, verdict=Verdict(verdicts.worst(*each), shown, min(v.n for v in each)), absolute=True)
            )
        for m in ("A+", "1.1", "1.2"):
            text = f"{data}: {m} is more accurate than A (points)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found["A"], found[m]), 1e-9)))
        for m in ("1.1", "1.2"):
            gains[data, m] = gain_percent(found["A"], found[m])
            if _unbalanced(data):
                text = f"{data}: {m} is at least {HEADLINE:g} % more accurate than A (the paper's headline; %)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(gains[data, m], HEADLINE), absolute=True))
            if uniform:
                text = f"{data}: A+ ties with {m} (within one point)"
                claims.append(Claim(text=text, verdict=verdicts.within(apart(found["A+"], found[m]), -1, 1)))
            else:
                text = f"{data}: {m} is more accurate than A+ (points)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found["A+"], found[m]), 1e-9)))
        if uniform and _unbalanced(data):
            target, least = FIG_5
            saved = time_saved(runs[data, "A"], runs[data, "1.1"], "accuracy", target)
            text = f"{data}: 1.1 reaches {100 * target:.0f} % in {least:g} % less time than A (Fig. 5; % saved)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(saved, least), absolute=True))
    table = Table(title="Accuracy in %", columns=("data", *METHODS), rows=tuple(rows))
    ours = "Above A: " + "; ".join(f"{data}: {m} {mean(v):+.1f} %" for (data, m), v in gains.items()) + "."
    return Outcome(claims=tuple(claims), tables=(table, _clusters_table(runs)), plots=(_curves(runs, key),), ours=ours)


def _unbalanced(data: str) -> bool:
    """Where the paper's headline is about: few classes at every client."""
    return data.endswith((", 4", ", 2"))


def _clusters_table(runs: Runs) -> Table:
    """What the clusters were like."""
    rows = [
        (
            f"{data}, {m}",
            spread(mean_of(same, "rounds_mean")),
            spread(mean_of(same, "round_s")),
            spread(mean_of(same, "theta")) if "theta" in same[0].metrics.columns else "–",
        )
        for (data, m, *_), same in runs.items()
        if "rounds_mean" in same[0].metrics.columns
    ]
    return Table(title="Clusters", columns=("", "rounds in a box", "round time", "angle to all"), rows=tuple(rows))


def _curves(runs: Runs, key: str) -> Plot:
    series = []
    for i, (label, same) in enumerate(runs.items()):
        accuracy = np.array([run.metrics["accuracy"].to_numpy() for run in same])
        series.append(
            Series(
                label=", ".join(map(str, label[1:] if len(_rows(runs)) == 1 else label)),
                x=tuple(float(v) for v in same[0].metrics["time_s"]),
                y=tuple(accuracy.mean(axis=0).tolist()),
                low=tuple(accuracy.min(axis=0).tolist()),
                high=tuple(accuracy.max(axis=0).tolist()),
                colour=i,
            )
        )
    caption = "Test accuracy against simulated time; lines are means over seeds, whiskers or bands go from the least to the most."
    return Plot(key=key, caption=caption, x_label="time", y_label="test accuracy", series=tuple(series))


def _table_8(runs: Runs) -> Outcome:
    rows, claims = [], []
    for data in _rows(runs):
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
    first = _rows(runs)[0]
    shown = ", ".join(f"{m} {mean([_loss_gap(run) for run in runs[first, m]]):.2f}" for m in METHODS)
    return Outcome(claims=tuple(claims), tables=(table,), ours=f"{first}: {shown} x 10^-4.")


def _loss_gap(run: Run) -> float:
    """The loss-gap term of the bound x 10^4."""
    return float(1e4 * bounds.loss_gap(run.metrics["train_loss"].to_numpy(), run.metrics["step_mass"].to_numpy()[1:]))


def _table_9(runs: Runs) -> Outcome:
    rows, claims, shown = [], [], []
    for data in _rows(runs):
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


def _table_10_setups(scale: str) -> Setups:
    rows = (SMALL,) if scale == "laptop" else (*ROWS[:4], "1600, 2", "Dir(0.05)", *ROWS[4:])
    return {
        (d, m, t): setup(d, m, scale, links=(1, 5), box_s=t)
        for d in rows
        for m in ("1.1", "2", "3")
        for t in ROUND_TIMES
    }


def _table_10(runs: Runs) -> Outcome:
    rows, claims = [], []
    names = ("1.1", "2", "3")
    ahead: list[float] = []
    for data in _rows(runs):
        for i, m in enumerate(names):
            rows.append((f"{data}, {m}", *(spread(final(runs[data, m, t])) for t in ROUND_TIMES)))
            if data in TABLE_10:
                rows.append((f"{data}, {m}, published", *(f"{cell[i]:.1f}" for cell in TABLE_10[data])))
            rows.append((f"{data}, {m}, all rounds", *(spread(over_all(runs[data, m, t])) for t in ROUND_TIMES)))
        for t in ROUND_TIMES:
            found = {m: final(runs[data, m, t]) for m in names}
            ahead.append(mean(apart(found["3"], found["1.1"])))
            for better, worse in (("1.1", "3"), ("3", "2")):
                text = f"{data}, {t}: {better} is more accurate than {worse} at the end (points)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(apart(found[worse], found[better]), 1e-9)))
    columns = ("accuracy in %", *(f"box {t}" for t in ROUND_TIMES))
    table = Table(title="Criteria under varying links", columns=columns, rows=tuple(rows))
    ours = f"1.1 ends {min(ahead):+.1f} to {max(ahead):+.1f} points above 3."
    return Outcome(claims=tuple(claims), tables=(table,), ours=ours)


def _features_setups(scale: str) -> Setups:
    rows = (SMALL,) if scale == "laptop" else ("Dir(0.1)", "Dir(0.5)", *ROWS[:4])
    rounds = 14 if scale == "laptop" else 24
    return {
        (d, m): setup(d, m, scale, links=(1, 5), speed=(5, 15), cloud_rounds=rounds, box_s=100, feature_s=50)
        for d in rows
        for m in FEATURES
    }


def _more_rounds(runs: Runs, data: str, reference: int) -> dict[str, list[Value]]:
    """Rounds beyond `reference` that each feature needs to the accuracy of 1.1 after so many, seed by seed."""
    found: dict[str, list[Value]] = {m: [] for m in FEATURES if m != "1.1"}
    for m, more in found.items():
        for ours, other in zip(runs[data, "1.1"], runs[data, m]):
            accuracy = other.metrics["accuracy"].to_numpy()
            needed = rounds_to(accuracy, float(ours.metrics["accuracy"][reference]))
            more.append(Beyond(len(accuracy) - 1.0 - reference) if math.isinf(needed) else needed - reference)
    return found


def _reference(runs: Runs, data: str) -> int:
    """The cloud rounds of 1.1 that others are measured by: 16, or five fewer than there are."""
    return min(16, len(runs[data, "1.1"][0].metrics) - 5)


def _features(runs: Runs, names: Sequence[str], claims_of: Any, key: str) -> Outcome:
    """Tables 11 and 12: rounds needed with other features, and how cheap these must be to win."""
    rows, claims, shown = [], [], []
    for data in _rows(runs):
        reference = _reference(runs, data)
        more = _more_rounds(runs, data, reference)
        claims += claims_of(data, reference, more)
        for m in names:
            whole = [None if v is None or isinstance(v, Beyond) else reference + v for v in more[m]]
            most = [None if r is None else largest_feature_time(r, rounds_reference=reference) for r in whole]
            never = [None if r is None else never_limit(r, rounds_reference=reference) for r in whole]
            known = ROUNDS_NEEDED.get(data, {}).get(m)
            published = "–" if known is None else f"{known:.1f}, {threshold_text(largest_feature_time(known))}"
            rows.append((f"{data}, {m}", verdicts.span(more[m]), spread(most), spread(never), published))
            shown.append(f"{data}, {m}: {verdicts.span(more[m])} more")
    columns = ("", "more rounds", "feature time below which it wins", "time of 1.1 below which it cannot")
    table = Table(
        title=f"Cloud rounds to the accuracy of 1.1 after {reference}, beyond these; of time 50 for the features of 1.1",
        columns=(*columns, "published (after 16): rounds, feature time"),
        rows=tuple(rows),
    )
    plots = (_curves({label: same for label, same in runs.items() if label[1] in ("1.1", *names)}, key),)
    return Outcome(claims=tuple(claims), tables=(table,), plots=plots, ours="; ".join(shown) + ".")


def _crop_claims(data: str, reference: int, more: Mapping[str, Values]) -> list[Claim]:
    text = f"{data}: with crop about one more round than with the whole update ({reference} rounds; 0 to 2 more)"
    return [Claim(text=text, verdict=verdicts.within(more["crop"], 0.0, 2.0))]


def _untrained_claims(data: str, reference: int, more: Mapping[str, Values]) -> list[Claim]:
    claims = [
        Claim(
            text=f"{data}: {worse} needs more rounds than {better} (rounds)",
            verdict=verdicts.at_least(apart(more[better], more[worse]), 1e-9),
        )
        for better, worse in (("crop", "skew"), ("skew", "pred"), ("pred", "B"))
    ]
    for m in UNTRAINED:
        # T_max falls with the rounds needed, so a run that never gets there has a smaller one than if it had at its end
        times: list[Value] = []
        for v in more[m]:
            if v is None:
                times.append(None)
                continue
            t = largest_feature_time(reference + verdicts.number_of(v), rounds_reference=reference)
            times.append(Beyond(t, -1) if isinstance(v, Beyond) else t)
        text = f"{data}: {m} wins only if its features take less than {MOST_FEATURE_TIME[m]:g} of 50 (the largest published)"
        claims.append(Claim(text=text, verdict=verdicts.at_most(times, MOST_FEATURE_TIME[m]), absolute=True))
    return claims


# The magnet


def magnet_setup(name: str, scale: str, classes: int, relative_std: float, links: tuple[int, int]) -> Setup:
    """Tracking a magnet: 24 devices in five clusters, eight virtual labels."""
    small = scale == "laptop"
    data = "750, 4"  # the kernel widths of A were searched on images only
    scenario = {
        "name": "ltc",
        "model_bits": 15,
        "fleet": {
            "n_devices": 24,
            "device_device": {"kind": "drawn", "low": links[0], "high": links[1]},
            "head_broadcast": "free",
            "device_edge": {"up": {"kind": "free"}, "down": {"kind": "free"}},
            "compute": {"law": {"kind": "fixed", "value": 3.2 if small else 80}, "unit": "steps-per-second"},
            "redraw": {"links": "cloud-round"},
        },
        "task": {
            "dataset": "magnet",
            "magnet": {"n_train": 40000, "n_test": 4000} if small else {"n_train": 900000, "n_test": 100000},
            "partition": {
                "kind": "sizes",
                "relative_std": relative_std,
                "relative_least": 0.1,
                "classes_per_client": classes,
            },
            "model": {"kind": "mlp", "hidden": [256, 256] if small else [2048, 2048, 2048]},
        },
        "training": {
            "batch_size": 32,
            "local_epochs": 1,
            "cloud_rounds": 12,
            "lr": 0.3 if small else 0.004,
        },
    }
    return Setup(scenario=scenario, method=method_of(name, data, box_s=80, feature_s=80))


def _magnet_setups(scale: str, names: Sequence[str], classes: int, std: float, links: tuple[int, int]) -> Setups:
    return {("magnet", m): magnet_setup(m, scale, classes, std, links) for m in names}


def _magnet(runs: Runs, better: str, worse: Sequence[str], key: str, headline: bool = False) -> Outcome:
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
    columns = ("", "after 12 cloud rounds", f"% of its time to the last error of {worse[0]} that {better} saves")
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


UNIFORM, VARYING = (3, 3), (1, 5)

READINGS = (
    Reading(
        of="scale of the inputs",
        tried="pixels in [0, 1]",
        outcome="first rows of Tables 6 and 7: 31.0 to 32.2 % for all four methods (3 seeds), hardly a difference",
    ),
    Reading(
        of="scale of the inputs",
        tried="standardised per channel",
        outcome="kept; chosen after seeing the other, and one run each of A and 1.1",
    ),
    Reading(
        of="learning rate for the magnet at laptop scale",
        tried="0.02",
        outcome="ends at 46 mm, an untrained model: says nothing about errors below 5 mm",
    ),
    Reading(
        of="learning rate for the magnet at laptop scale",
        tried="0.3",
        outcome="kept; ends at 14.6 mm and 11.5 degrees (1.1, one seed)",
    ),
)

PAPER = Paper(
    key="ltc",
    name="LTC",
    title="Hierarchical Federated Learning in Device-to-Device Networks with Learning-Topology Co-Optimization",
    authors=("Wu", "Boban", "Dressler"),
    where="IEEE Transactions on Mobile Computing, 2026",
    readings=READINGS,
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        Item(
            key="table6",
            title="Table 6: accuracy on CIFAR-10 with equal links (paper scale: its first row)",
            published="1.1 and 1.2 are at least 6 % more accurate than A where data are unbalanced, and reach 40 % in 25 % "
            "less time; A+ ties with them.",
            setups=lambda scale: _accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=lambda runs: _accuracies(runs, TABLE_6, "table6", uniform=True),
        ),
        Item(
            key="table7",
            title="Table 7: accuracy on CIFAR-10 with links from 1 to 5 (paper scale: its first row)",
            published="1.1 and 1.2 are better than A+, which is better than A; by 6.3 to 7.3 % than A where data are unbalanced.",
            setups=lambda scale: _accuracy_setups(scale, VARYING, ROWS[:1], theory=False),
            judge=lambda runs: _accuracies(runs, TABLE_7, "table7", uniform=False),
        ),
        Item(
            key="table8",
            title="Table 8: loss-gap term of the bound",
            published="About 1.6 to 1.8 x 10^-4 in the first row, not larger for A than for the others.",
            setups=lambda scale: _accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=_table_8,
        ),
        Item(
            key="table9",
            title="Table 9: gradient mismatch",
            published="A+, 1.1, 1.2 have clusters closer to all clients, and clients farther from their cluster, than A.",
            setups=lambda scale: _accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=_table_9,
        ),
        Item(
            key="table10",
            title="Table 10: three criteria under varying links",
            published="At the end 1.1 is better than 3 in all cells but one of 32, and 3 better than 2 in all.",
            setups=_table_10_setups,
            judge=_table_10,
        ),
        Item(
            key="table11",
            title="Table 11: a cropped update instead of the whole",
            published="About one more cloud round (0.1 to 1.4 after 16): it wins if it takes less than 36.0 to 48.6 of 50.",
            setups=_features_setups,
            judge=lambda runs: _features(runs, ("crop",), _crop_claims, "table11"),
            seeds={"laptop": 3},
        ),
        Item(
            key="table12",
            title="Table 12: features that need no training",
            published="B needs about five more cloud rounds (4.4 to 6.6 after 16), pred one more than skew (3.0 to 5.2): "
            "they win only if they take less than 3.5 to 21.2 of 50, or never.",
            setups=_features_setups,
            judge=lambda runs: _features(runs, UNTRAINED, _untrained_claims, "table12"),
            seeds={"laptop": 3},
        ),
        Item(
            key="fig7",
            title="Fig. 7: magnet tracking, A and 1.1 with equal links",
            published="A needs about two more cloud rounds than 1.1: 18 % of the time to 5 mm is saved, 16.7 % to 6 degrees.",
            setups=lambda scale: _magnet_setups(scale, ("1.1", "A"), 3, 0.3, UNIFORM),
            judge=lambda runs: _magnet(runs, "1.1", ("A",), "fig7", headline=True),
        ),
        Item(
            key="fig9",
            title="Fig. 9: magnet tracking, criteria 1.1, 2 and 3 with varying links",
            published="Neither 2 nor 3 beats 1.1.",
            setups=lambda scale: _magnet_setups(scale, ("1.1", "3", "2"), 2, 0.48, VARYING),
            judge=lambda runs: _magnet(runs, "1.1", ("3", "2"), "fig9"),
        ),
        Item(
            key="fig13",
            title="Fig. 13: magnet tracking, update and label features",
            published="Updates (1.1) are clearly better than virtual labels (skew).",
            setups=lambda scale: _magnet_setups(scale, ("1.1", "skew"), 3, 0.3, VARYING),
            judge=lambda runs: _magnet(runs, "1.1", ("skew",), "fig13"),
        ),
        Item(
            key="table6-all",
            title="Table 6, all rows",
            published="As Table 6.",
            setups=lambda scale: _accuracy_setups(scale, UNIFORM, ROWS, theory=True),
            judge=lambda runs: _accuracies(runs, TABLE_6, "table6-all", uniform=True),
            scales=("paper",),
        ),
        Item(
            key="table7-all",
            title="Table 7, all rows",
            published="As Table 7.",
            setups=lambda scale: _accuracy_setups(scale, VARYING, ROWS, theory=False),
            judge=lambda runs: _accuracies(runs, TABLE_7, "table7-all", uniform=False),
            scales=("paper",),
        ),
    ),
)
