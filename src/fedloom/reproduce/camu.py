"""CAMU: clusters of like data, weights by labels, gated extra updates, powers by need. Figures 4 to 6.

30 devices in two regions, 41 to 71 m from a base station of 15 antennas; leaders of clusters send one after the other with
0.5 W in 1 MHz. A share of the devices has two classes, the others all of them. An update is a pass over a device's data in five
batches. The figures are known by the published differences only.

Published: the geometry of one region, antennas, gains, carrier, exponent, the network but for its widths, 0.5 W. Not
published, and ours as described in docs/methods/camu.md: the second region, noise (10 fW instead of 0.1 mW, which leaves
nothing to learn from), speeds (a tenth of the devices 0.25 GHz, a fifth 0.5, three tenths 1, the rest 2, each within 10 %),
shares, rounds, learning rate 0.1 with SGD, the budgets and constants of P1. P1 is solved exactly, not by PPO. Figures 4 and 5
have no noise. Config 5 may do more updates than fit while the slowest cluster does one, as its problem allows; Benchmark 2 may
not. So that powers and updates can be told apart, Fig. 6 has Config 5 within that wait too. Accuracy is the mean over the last
ten cloud rounds. Laptop scale: 4,000 training images, 30 cloud rounds, at most 5 extra updates, thresholds in proportion to the
data; differences below one point mean nothing there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.paper import Claim, Item, Outcome, Paper, Plot, Reading, Runs, Series, Setup, Setups, Table
from fedloom.reproduce.verdicts import Value, Verdict, apart, mean, number_of, spread

DATA = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist"}
UNITS = {"Benchmark 1": "camu_no_clusters_by_size", "Config 2": "camu_no_clusters", "Config 1": "camu_single"}
THRESHOLDS = (5000, 10000, 15000)
GATED = tuple(f"Config 3, {t:,}" for t in THRESHOLDS)
UPDATES = {
    "Config 4": "camu_single",
    "Benchmark 2": "camu_ungated",
    **{name: f"camu_gated:threshold={t}" for name, t in zip(GATED, THRESHOLDS)},
}
WAITING = "Config 5 within the wait"
BUDGET = {
    "Benchmark 2": "camu_ungated",
    "Benchmark 3": "camu_updates_only",
    "Config 5": "camu",
    WAITING: "camu:limit=waiting",
}
SHARES = {"laptop": (0.0, 0.5, 1.0), "paper": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
FIG_4 = {  # at the lowest and the highest heterogeneity, in points
    "MNIST": {("Config 2", "Benchmark 1"): (0.255, 6.262), ("Config 1", "Config 2"): (0.507, 6.615)},
    "Fashion-MNIST": {("Config 2", "Benchmark 1"): (0.431, 0.858), ("Config 1", "Config 2"): (0.427, 4.645)},
}
FIG_5 = {  # with two classes at every device
    "MNIST": {
        ("Benchmark 2", "Config 4"): -4.468,
        (GATED[0], "Config 4"): 1.527,
        (GATED[0], "Benchmark 2"): 5.995,
    },
    "Fashion-MNIST": {
        ("Benchmark 2", "Config 4"): -2.252,
        (GATED[0], "Config 4"): 2.573,
        (GATED[0], "Benchmark 2"): 4.825,
    },
}
FIG_6 = {
    "MNIST": {("Config 5", "Benchmark 2"): 2.910, ("Config 5", "Benchmark 3"): 5.198},
    "Fashion-MNIST": {("Config 5", "Benchmark 2"): 4.407, ("Config 5", "Benchmark 3"): 3.820},
}
LAST = 10  # cloud rounds that a final accuracy is the mean of


def setup(data: str, method: str, share: float, scale: str, *, noisy: bool = False) -> Setup:
    """One of the paper's experiments; share: of the devices with two classes."""
    small = scale == "laptop"
    cap = ":cap=5" if small and method not in ("camu_no_clusters_by_size", "camu_no_clusters", "camu_single") else ""
    scenario: dict[str, Any] = {
        "name": "camu",
        "model_bits": 32 * 21880,
        "fleet": {
            "n_devices": 30,
            "placement": {
                "kind": "rectangles",
                "regions_m": [[-10, 0, -5, 5], [10, 20, -5, 5]],
                "counts": [15, 15],
                "z_m": 0,
            },
            "server_m": [-50, 0, 10],
            "device_device": {"kind": "free"},
            "device_cloud": {
                "via": "direct",
                "up": {
                    "kind": "radio",
                    "power_w": 0.5,
                    "bandwidth_hz": 1e6,
                    "noise_dbm_hz": -170,
                    "antennas": 15,
                    "path_loss": {"kind": "free-space"},
                },
                "down": {"kind": "free"},
                "noisy": noisy,
            },
            "compute": {
                "law": {
                    "kind": "classes",
                    "values": [0.25e9, 0.5e9, 1e9, 2e9],
                    "shares": [0.1, 0.2, 0.3, 0.4],
                    "spread": 0.1,
                },
                "unit": "cycles-per-second",
                "cycles_per_sample": 1e5,
                "power_w": 0.05,
            },
        },
        "task": {
            "dataset": DATA[data],
            **({"data_limit": 4000} if small else {}),
            "partition": {"kind": "mixed", "skewed_share": share, "classes_per_client": 2},
            "model": {"kind": "cnn-bn"},
        },
        "training": {
            "batch_size": 27 if small else 400,
            "local_epochs": 1,
            "edge_rounds": 1,
            "cloud_rounds": 30 if small else 200,
            "lr": 0.1,
        },
        "evaluation": {"every": 2, "local_samples": 0, "models": "global"},
    }
    return Setup(scenario=scenario, method=method + cap)


# What runs say


def final(runs: Sequence[Run]) -> list[Value]:
    """Accuracy in percent, the mean over the last rounds, seed by seed."""
    found: list[Value] = []
    for run in runs:
        late = run.metrics["cloud_round"].to_numpy() > run.metrics["cloud_round"][-1] - LAST
        found.append(100 * float(run.metrics["accuracy"].to_numpy()[late].mean()))
    return found


def last(runs: Sequence[Run], column: str) -> list[Value]:
    """A measure at the end, seed by seed."""
    return [float(run.metrics[column][-1]) for run in runs]


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def _accuracies(runs: Runs, schemes: Sequence[str], title: str) -> Table:
    """A row for every dataset and share, a column for every scheme."""
    rows = [
        (f"{data}, {percent(share)}", *(spread(final(runs[data, s, share])) for s in schemes))
        for data, share in dict.fromkeys((d, h) for d, _, h in runs)
    ]
    return Table(title=title, columns=("devices with two classes", *schemes), rows=tuple(rows))


def _better(
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


def _fig_4(runs: Runs) -> Outcome:
    shares = _shares(runs)
    claims, rows = [], []
    for data, pairs in FIG_4.items():
        for (better, worse), (low, high) in pairs.items():
            claims += [_better(runs, data, share, better, worse) for share in shares]
            gains = [apart(final(runs[data, worse, h]), final(runs[data, better, h])) for h in shares]
            text = f"{data}: {better} gains more on {worse} the more devices have two classes (points)"
            claims.append(Claim(text=text, verdict=verdicts.at_least(apart(gains[0], gains[-1]), 1e-9)))
            rows.append(
                (f"{data}: {better} – {worse}", spread(gains[0]), f"{low:+.3f}", spread(gains[-1]), f"{high:+.3f}")
            )
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
    accuracy = _accuracies(runs, list(UNITS), "Accuracy in %")
    ours = _shown_gains(runs, {data: list(pairs) for data, pairs in FIG_4.items()}, shares[-1])
    return Outcome(claims=tuple(claims), tables=(accuracy, gain), plots=(plot,), ours=ours)


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


def _fig_5(runs: Runs) -> Outcome:
    low, high = _shares(runs)[0], _shares(runs)[-1]
    claims = []
    for data in DATA:
        best = GATED[0]
        claims += [
            _better(runs, data, high, "Config 4", "Benchmark 2"),
            _better(runs, data, high, best, "Config 4"),
            _better(runs, data, high, best, "Benchmark 2"),
            _better(runs, data, low, "Benchmark 2", "Config 4"),
        ]
        falling = [final(runs[data, s, high]) for s in GATED[::-1]]
        text = f"{data}, {percent(high)}: accuracy falls as the threshold rises (from the highest to the lowest)"
        claims.append(Claim(text=text, verdict=verdicts.rising(falling, slack=1.0)))
    tables = (
        _accuracies(runs, list(UPDATES), "Accuracy in %"),
        _gains(runs, FIG_5, high, f"Gains with two classes at {percent(high)} of the devices"),
        _costs(runs, UPDATES, high),
    )
    ours = _shown_gains(runs, {data: list(pairs) for data, pairs in FIG_5.items()}, high)
    plot = _curves(runs, UPDATES, high, "fig5", "time_s")
    return Outcome(claims=tuple(claims), tables=tables, plots=(plot,), ours=ours)


def _fig_6(runs: Runs) -> Outcome:
    claims = []
    for data, pairs in FIG_6.items():
        for better, worse in pairs:
            claim = _better(runs, data, 1.0, better, worse)
            updates = [mean(last(runs[data, s, 1.0], "rounds_mean")) for s in (better, worse)]
            cause = f"with {updates[0]:.1f} updates of a cluster in a cloud round against {updates[1]:.1f}"
            claims.append(Claim(text=f"{claim.text[:-9]}, {cause} (points)", verdict=claim.verdict))
        claims += [
            _better(
                runs, data, 1.0, WAITING, "Benchmark 2", own=True, what="powers alone, no update beyond the wait: "
            ),
            _better(runs, data, 1.0, "Config 5", WAITING, own=True, what="updates beyond the wait alone: "),
        ]
        joules = {s: last(runs[data, s, 1.0], "energy_j") for s in BUDGET}
        for s in ("Benchmark 3", "Config 5", WAITING):
            over = [number_of(r) - 1 for r in verdicts.ratios(joules["Benchmark 2"], joules[s]) if r is not None]
            text = f"{data}: {s} spends no more energy than Benchmark 2 (share that is over, the most of all seeds)"
            state = verdicts.HOLDS if max(over) < 1e-6 else verdicts.FAILS
            verdict = Verdict(state, f"{max(over):+.1e}", len(over))
            claims.append(Claim(text=text, verdict=verdict, because="it is the budget of problem P1"))
    tables = (
        _accuracies(runs, list(BUDGET), "Accuracy in %"),
        _gains(runs, FIG_6, 1.0, "Gains with noise and one budget of energy"),
        _costs(runs, BUDGET, 1.0),
    )
    split = [("Config 5", "Benchmark 2"), (WAITING, "Benchmark 2"), ("Config 5", "Benchmark 3")]
    ours = _shown_gains(runs, dict.fromkeys(FIG_6, split), 1.0)
    plot = _curves(runs, BUDGET, 1.0, "fig6", "energy_j")
    return Outcome(claims=tuple(claims), tables=tables, plots=(plot,), ours=ours)


def _costs(runs: Runs, schemes: Sequence[str] | dict[str, str], share: float) -> Table:
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


def _setups(scale: str, schemes: dict[str, str], shares: Sequence[float], noisy: bool = False) -> Setups:
    return {
        (data, name, share): setup(data, method, share, scale, noisy=noisy)
        for data in DATA
        for name, method in schemes.items()
        for share in shares
    }


READINGS = (
    Reading(
        of="noise at the base station", tried="0.1 mW, as printed", outcome="-70 dB at 50 m: nothing to learn from"
    ),
    Reading(of="noise at the base station", tried="10 fW", outcome="kept"),
    Reading(of="where the second region is", tried="as printed: where the first is", outcome="one region"),
    Reading(of="where the second region is", tried="20 m further away", outcome="kept"),
    Reading(
        of="updates beyond the wait in Config 5",
        tried="allowed, up to the cap",
        outcome="kept, as its problem allows them; Fig. 6",
    ),
    Reading(
        of="updates beyond the wait in Config 5", tried="not allowed (`limit=waiting`)", outcome="beside it in Fig. 6"
    ),
)

PAPER = Paper(
    key="camu",
    name="CAMU",
    title="Cluster-Aware Multi-Round Update for Wireless Federated Learning in Heterogeneous Environments",
    authors=("Sun", "Liu", "Ni", "Geng", "Yu", "Wang", "Jamalipour"),
    where="arXiv 2505.06268, 2025",
    readings=READINGS,
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        Item(
            key="fig4",
            title="Fig. 4: clusters and weights by labels",
            published="Weights by labels (Config 2) beat FedAvg (Benchmark 1), clusters (Config 1) beat both, the more the more "
            "devices have few classes: by up to about 6 points each on MNIST, 1 and 5 on Fashion-MNIST.",
            setups=lambda scale: _setups(scale, UNITS, SHARES[scale]),
            judge=_fig_4,
        ),
        Item(
            key="fig5",
            title="Fig. 5: extra updates, with and without a gate",
            published="With few classes everywhere, extra updates of all clusters (Benchmark 2) lose 4.5 (MNIST) and 2.3 points "
            "to one update (Config 4), gated ones (Config 3) gain 1.5 and 2.6, the lowest threshold most; with alike data extra "
            "updates help.",
            setups=lambda scale: _setups(scale, UPDATES, SHARES[scale]),
            judge=_fig_5,
        ),
        Item(
            key="fig6",
            title="Fig. 6: powers and updates under one budget of energy, with noise",
            published="Config 5 beats Benchmark 2 by 2.9 (MNIST) and 4.4 points, Benchmark 3 by 5.2 and 3.8.",
            setups=lambda scale: _setups(scale, BUDGET, (1.0,), noisy=True),
            judge=_fig_6,
        ),
    ),
)
