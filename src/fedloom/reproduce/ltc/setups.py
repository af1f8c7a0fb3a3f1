"""The experiments of LTC: data, methods behind the columns of its tables, and the settings of every run."""

from collections.abc import Sequence
from typing import Any

from fedloom.reproduce.paper import Setup, Setups

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
MORE_ROWS = ("1250, 4", "Dir(0.1)")  # the others where data are unbalanced
SMALL = "750, 2"  # at laptop scale: 0.3 times the mean size, two classes
ROUND_TIMES = (90, 120, 150, 180)
FEATURES = {
    "1.1": "ltc",
    "crop": "ltc:feature=crop",
    "skew": "ltc:feature=skew",
    "pred": "ltc:feature=prediction",
    "B": "dcliques",
}
UNTRAINED = ("B", "pred", "skew")  # features that need no training, Table 12

UNIFORM, VARYING = (3, 3), (1, 5)


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
        "evaluation": {"local_samples": 0, "theory": theory, "models": "global"},
    }
    return Setup(scenario=scenario, method=method_of(name, data, box_s, feature_s))


def accuracy_setups(scale: str, links: tuple[int, int], rows: Sequence[str], theory: bool) -> Setups:
    """By label (data, method); at laptop scale of the one setting there."""
    rows = (SMALL,) if scale == "laptop" else rows
    return {(d, m): setup(d, m, scale, links=links, theory=theory) for d in rows for m in METHODS}


def table_10_setups(scale: str) -> Setups:
    """By label (data, criterion, round time)."""
    rows = (SMALL,) if scale == "laptop" else ROWS[:1]
    return {
        (d, m, t): setup(d, m, scale, links=(1, 5), box_s=t)
        for d in rows
        for m in ("1.1", "2", "3")
        for t in ROUND_TIMES
    }


def features_setups(scale: str) -> Setups:
    """By label (data, feature)."""
    rows = (SMALL,) if scale == "laptop" else ROWS[:1]
    rounds = 14 if scale == "laptop" else 24
    return {
        (d, m): setup(d, m, scale, links=(1, 5), speed=(5, 15), cloud_rounds=rounds, box_s=100, feature_s=50)
        for d in rows
        for m in FEATURES
    }


def magnet_setup(name: str, scale: str, classes: int, relative_std: float, links: tuple[int, int]) -> Setup:
    """Tracking a magnet: 24 devices in five clusters, eight virtual labels. At paper scale of a middle size: a ninth of the
    points, networks a quarter as wide, a pass over a device's data in as much time."""
    small = scale == "laptop"
    data = "750, 4"  # the kernel widths of A were searched on images only
    scenario: dict[str, Any] = {
        "name": "ltc",
        "model_bits": 15,
        "fleet": {
            "n_devices": 24,
            "device_device": {"kind": "drawn", "low": links[0], "high": links[1]},
            "head_broadcast": "free",
            "device_edge": {"up": {"kind": "free"}, "down": {"kind": "free"}},
            "compute": {"law": {"kind": "fixed", "value": 3.2 if small else 9}, "unit": "steps-per-second"},
            "redraw": {"links": "cloud-round"},
        },
        "task": {
            "dataset": "magnet",
            "magnet": {"n_train": 40000, "n_test": 4000} if small else {"n_train": 100000, "n_test": 10000},
            "partition": {
                "kind": "sizes",
                "relative_std": relative_std,
                "relative_least": 0.1,
                "classes_per_client": classes,
            },
            "model": {"kind": "mlp", "hidden": [256, 256] if small else [512, 512, 512]},
        },
        "training": {
            "batch_size": 32,
            "local_epochs": 1,
            "cloud_rounds": 12 if small else 24,
            "lr": 0.3,
        },
    }
    if not small:  # errors of the last model of a round are all that is asked for
        scenario["evaluation"] = {"local_samples": 0, "models": "global"}
    return Setup(scenario=scenario, method=method_of(name, data, box_s=80, feature_s=80))


def magnet_setups(scale: str, names: Sequence[str], classes: int, std: float, links: tuple[int, int]) -> Setups:
    """By label ("magnet", method)."""
    return {("magnet", m): magnet_setup(m, scale, classes, std, links) for m in names}
