"""The experiments of CAMU: schemes, shares, published differences, and the settings of every run."""

from collections.abc import Sequence
from typing import Any

from fedloom.reproduce.paper import Setup, Setups

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
SHARES = {"laptop": (0.0, 0.5, 1.0), "paper": (0.5, 0.8, 1.0)}
SHORT_ROUNDS, SHORT_SHARE = 20, 0.8  # of runs that try readings
THEORY_SCHEMES = ("Config 4", GATED[-1], "Benchmark 2")  # which do ever more updates
THEORY_DATA, THEORY_IMAGES, THEORY_ROUNDS = "MNIST", 12_000, 50  # a device has as many as a batch
NEAR = "as kept"
READ_AS: dict[str, dict[str, Any]] = {
    NEAR: {},
    "with noise": {"noisy": True},
    "one class": {"classes": 1},
    "learning rate 0.0005": {"lr": 5e-4},
    "floor of weights 0.001": {"options": ":floor=0.001"},
}
PPO = "Config 5 by PPO"
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


def setup(
    data: str,
    method: str,
    share: float,
    scale: str,
    *,
    noisy: bool = False,
    classes: int = 2,
    lr: float = 0.1,
    rounds: int | None = None,
) -> Setup:
    """One of the paper's experiments; share: of the devices with two classes. rounds: by default those of the scale."""
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
            "partition": {"kind": "mixed", "skewed_share": share, "classes_per_client": classes},
            "model": {"kind": "cnn-bn"},
        },
        "training": {
            "batch_size": 27 if small else 400,
            "local_epochs": 1,
            "edge_rounds": 1,
            "cloud_rounds": rounds or (30 if small else 200),
            "lr": lr,
        },
        "evaluation": {"every": 2, "local_samples": 0, "models": "global"},
    }
    return Setup(scenario=scenario, method=method + cap)


def setups(scale: str, schemes: dict[str, str], shares: Sequence[float], noisy: bool = False) -> Setups:
    return {
        (data, name, share): setup(data, method, share, scale, noisy=noisy)
        for data in DATA
        for name, method in schemes.items()
        for share in shares
    }


def readings_setups(scale: str) -> Setups:
    """Short runs of the schemes of Fig. 4, read in one way after the other, by label (data, reading, scheme)."""
    labelled = {}
    for data in DATA:
        for reading, settings in READ_AS.items():
            other = dict(settings)
            options = other.pop("options", "")
            for name, method in UNITS.items():
                if options and name == "Benchmark 1":  # weights by size have no floor
                    continue
                made = setup(data, method + options, SHORT_SHARE, scale, rounds=SHORT_ROUNDS, **other)
                labelled[data, reading, name] = made
    return labelled


def ppo_setups(scale: str) -> Setups:
    """Short runs of Config 5 with both solvers of its problem and of Benchmark 2, by label (data, scheme, share)."""
    schemes = {"Benchmark 2": BUDGET["Benchmark 2"], "Config 5": "camu", PPO: "camu:solver=ppo"}
    return {
        (data, name, 1.0): setup(data, method, 1.0, scale, noisy=True, rounds=SHORT_ROUNDS)
        for data in DATA
        for name, method in schemes.items()
    }


def theory_setups(scale: str) -> Setups:
    """Schemes of Fig. 5 with as few images that an update is one step on all of a device's samples, by label (data, scheme)."""
    labelled = {}
    for name in THEORY_SCHEMES:
        method = UPDATES[name]
        scenario = dict(setup(THEORY_DATA, method, 1.0, scale, rounds=THEORY_ROUNDS).scenario)
        scenario["task"] = {**scenario["task"], "data_limit": THEORY_IMAGES}
        scenario["evaluation"] = {**scenario["evaluation"], "every": 1}
        labelled[THEORY_DATA, name] = Setup(scenario=scenario, method=method).with_theory()
    return labelled
