"""How much receiver noise: the published power (CAMU, section V-A) leaves nothing to learn from, so it is chosen by what it
does. The calibration is ours.

    std = sqrt(sum_c G_c^2 sigma^2 / (P_c |h_c|^2))          of the noise on every parameter of the averaged model

With a small learning rate noise adds up like a random walk: std sqrt(T) should stay below about 0.05 for T rounds. What
accuracy it costs is found by runs: `calibrate_noise` looks for the noise at which a scheme loses 3 to 5 points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check
from fedloom.radio import noise_std


def aggregate_noise_std(
    weight: ArrayLike, power_w: ArrayLike, gain: ArrayLike, noise_w: float, reading: str = "default"
) -> float:
    """std of the noise on each parameter of a cloud model; weight, leaders' power_w and gain of their uplinks: (C,)."""
    g = _check.array("weight", weight, (None,))
    return float(np.sqrt((g**2 * noise_std(power_w, gain, noise_w, reading) ** 2).sum()))


def noise_for_std(
    std: float, weight: ArrayLike, power_w: ArrayLike, gain: ArrayLike, reading: str = "default"
) -> float:
    """The receiver noise in watt that gives the cloud model a noise of `std`."""
    _check.positive("std", std)
    return (std / aggregate_noise_std(weight, power_w, gain, 1.0, reading)) ** 2


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """noise_w: the noise found; loss: what it costs, in accuracy; runs: all (noise, accuracy), the first without noise."""

    noise_w: float
    loss: float
    runs: tuple[tuple[float, float], ...]


def calibrate_noise(
    accuracy: Callable[[float], float],
    *,
    least: float = 0.03,
    most: float = 0.05,
    start_w: float = 1e-14,
    n_runs: int = 12,
) -> Calibration:
    """The noise in watt that costs between `least` and `most` of accuracy.

    accuracy: noise in watt -> accuracy in [0, 1] of a run with it, 0 W for none; a run each. The noise is multiplied or
    divided by ten until the loss is on both sides, then halved in decibels. Refused after n_runs runs, with what they
    gave.
    """
    _check.positive("start_w", start_w)
    _check.positive("least", least)
    _check.whole("n_runs", n_runs, least=2)
    if not least < most:
        raise ValueError(f"least must be below most, got {least:g} and {most:g}")
    clean = accuracy(0.0)
    runs = [(0.0, clean)]
    low, high, noise_w = 0.0, np.inf, start_w
    while len(runs) < n_runs:
        runs.append((noise_w, accuracy(noise_w)))
        loss = clean - runs[-1][1]
        if least <= loss <= most:
            return Calibration(noise_w=noise_w, loss=loss, runs=tuple(runs))
        low, high = (noise_w, high) if loss < least else (low, noise_w)
        if high == np.inf:
            noise_w *= 10
        elif low == 0:
            noise_w /= 10
        else:
            noise_w = float(np.sqrt(low * high))
    told = ", ".join(f"{w:.3g} W: {a:.4f}" for w, a in runs)
    raise ValueError(
        f"no noise cost between {least:g} and {most:g} of accuracy in {n_runs} runs ({told}); take more runs, a start_w "
        "nearer to where it matters, or more seeds in each accuracy if it jumps"
    )
