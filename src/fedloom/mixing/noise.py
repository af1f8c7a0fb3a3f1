"""Noise on models that are merged: what is left of it in the mean, and when it drowns the model.

std = sqrt(sum_n w_n^2 nu_n^2)        of the mean sum_n w_n (v_n + nu_n z_n), z_n independent standard normal
"""

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check

LOUD = 1.0  # noise of the mean over the model's own size: measured, accuracy falls by some points at 0.9 and to chance at 3


def merged_noise_std(noise_std: ArrayLike, weight: ArrayLike) -> float:
    """Standard deviation of the noise on every parameter of a mean of models with noise_std (N,) and weights (N,).

    >>> merged_noise_std([0.3, 0.4], [1.0, 1.0])
    0.5
    """
    std = _check.array("noise_std", noise_std, (None,), finite=False)
    _check.positive("noise_std", std, zero=True)
    weights = _check.array("weight", weight, std.shape)
    used = weights != 0  # who does not count may be drowned altogether
    return float(np.sqrt(((weights[used] * std[used]) ** 2).sum()))


def noise_note(noise_std: ArrayLike, weight: ArrayLike, model_rms: float) -> str | None:
    """A remark if a merge adds as much noise as there is model, None otherwise.

    noise_std (N,): on every parameter of each model as it arrives; weight (N,): of each in the mean; model_rms: root mean square
    of the model's parameters, or what they will be about.
    """
    _check.positive("model_rms", model_rms, zero=True)
    std = merged_noise_std(noise_std, weight)
    if std <= LOUD * model_rms:
        return None
    return (
        f"noise of the uplink drowns the model: a merge adds noise of {std:.3g} to every parameter, and the model's own size is "
        f"{model_rms:.3g} (root mean square); send with more power (power_factor, or the power of the link), or less noise"
    )
