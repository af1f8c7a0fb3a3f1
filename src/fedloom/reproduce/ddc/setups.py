"""The experiments of DDC: the settings of every run."""

from collections.abc import Sequence
from typing import Any

from fedloom.reproduce.ddc.published import (
    ALPHAS,
    CAPACITIES,
    CIFAR,
    DATASETS,
    FASHION,
    METHODS,
    PROPOSED,
    ROUNDS,
    SELDOM,
    TAU,
)
from fedloom.reproduce.paper import Setup, Setups

HARD_TAU, HARD_ROUNDS = (1, 10), 40
HARD_AT = (10, 20, 40)
NETWORK: dict[tuple[str, str], dict[str, Any]] = {
    (FASHION, "laptop"): {"kind": "mlp", "hidden": [34], "pool": 2},
    (FASHION, "paper"): {"kind": "cnn-small"},
    (CIFAR, "laptop"): {"kind": "cnn-small", "channels": [8, 16]},
    (CIFAR, "paper"): {"kind": "cnn-small", "channels": [8, 16]},
}
POWER_W, BAND_HZ = 0.01, 1e6
LINK = {"kind": "radio", "power_w": POWER_W, "bandwidth_hz": BAND_HZ, "noise_dbm_hz": -173.0}


def setup(
    name: str,
    scale: str,
    *,
    data: str = FASHION,
    n: int = 100,
    options: str = "",
    rounds: int | None = None,
    limit: int | None = None,
    tau: tuple[int, int] = TAU,
    concentration: float = 0.5,
    least: int = 32,
    local_steps: int | None = None,
    lr: float = 0.01,
    every: int = 1,
) -> Setup:
    """One of the paper's experiments: a method by its name there, with further options.

    rounds, limit: by default those of the scale. least: samples of a device, fewer in proportion if data are limited.
    local_steps: mini-batches of a round, by default an epoch.
    """
    if scale == "laptop" and data == CIFAR:
        rounds, limit = rounds or 40, limit or 5000
    rounds = rounds or (100 if scale == "laptop" else ROUNDS)
    work, averages = (tau[1], 1) if name == SELDOM else (tau[0], tau[1] // tau[0])
    unit = {"local_epochs": work} if local_steps is None else {"local_steps": work * local_steps}
    scenario = {
        "name": "ddc",
        "model_bits": 224_000,
        "fleet": {
            "n_devices": n,
            "placement": {"kind": "disc", "radius_m": 100.0},
            "server_m": [1000.0, 0.0],
            "device_device": LINK,
            "head_broadcast": "free",
            "device_cloud": {"via": "direct", "up": LINK, "down": {"kind": "free"}},
        },
        "task": {
            "dataset": DATASETS[data],
            **({"data_limit": limit} if limit else {}),
            "partition": {
                "kind": "dirichlet",
                "concentration": concentration,
                "min_samples": least if limit is None else max(1, least * limit // 60_000),
            },
            "model": NETWORK[data, scale],
        },
        "training": {
            "batch_size": 32,
            **unit,
            "edge_rounds": averages,
            "cloud_rounds": rounds // tau[1],
            "lr": lr,
        },
        "evaluation": {"local_samples": 0, "every": every},
    }
    return Setup(scenario=scenario, method=METHODS[name] + options)


def priced(name: str, scale: str, **settings: Any) -> Setup:
    """A single cloud round: enough for who clusters with whom and what it costs."""
    limit = 10_000 if scale == "laptop" else None
    return setup(name, scale, rounds=TAU[1], limit=limit, **settings)


def trained(name: str, scale: str, data: str = FASHION, options: str = "") -> Setup:
    """All rounds."""
    if data == CIFAR:  # few steps on few images, so at laptop scale larger ones
        return setup(name, scale, data=data, options=options, every=2, lr=0.1 if scale == "laptop" else 0.01)
    return setup(name, scale, data=data, options=options, every=5)


def methods_setups(scale: str, data: Sequence[str]) -> Setups:
    """All methods on these data, by label (data, method)."""
    return {(d, m): trained(m, scale, d) for d in data for m in METHODS}


def table_2_setups(scale: str) -> Setups:
    """Capacity 20 is trained, 10 only at paper scale; the other weighting of c(C) is priced."""
    labelled: dict[tuple[int, str, float], Setup] = {}
    for capacity in CAPACITIES:
        make = trained if capacity == CAPACITIES[0] or scale == "paper" else priced
        of_capacity = f":capacity={capacity}" if capacity != CAPACITIES[0] else ""
        for alpha in ALPHAS:
            options = of_capacity + (f":alpha={alpha:g}" if alpha != 0.5 else "")
            labelled[capacity, "cluster", alpha] = make(PROPOSED, scale, options=options)
        options = f"{of_capacity}:weighting=size"
        labelled[capacity, "size", 0.5] = priced(PROPOSED, scale, options=options)
    return labelled


def hard_setups(scale: str) -> Setups:
    """Few classes per device, rare global averages, 19 mini-batches a round, learning rate 0.05."""
    settings: dict[str, Any] = {"concentration": 0.1, "least": 10, "local_steps": 19, "lr": 0.05}
    return {("hard", m): setup(m, scale, rounds=HARD_ROUNDS, tau=HARD_TAU, **settings) for m in METHODS}
