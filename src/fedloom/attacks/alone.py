"""What a hostile participant makes of a change d (P,) by itself; z: standard normal numbers (P,).

sign-flip    -factor d              C. Xie et al. 2019 and many others
scale         factor d              boosting, model replacement (Bagdasaryan et al. 2020)
noise         d + std z             Blanchard et al. 2017 send noise alone: keep=False
free-rider    std z                 Y. Fraboni, R. Vidal, M. Lorenzi, "Free-rider Attacks on Model Aggregation in Federated
                                    Learning", AISTATS 2021: nothing, or in disguise
not-finite    NaN                   broken rather than hostile
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedloom.attacks.settings import (
    Attack,
    Backdoor,
    FreeRider,
    LabelFlip,
    Noise,
    NotFinite,
    Replay,
    Scale,
    SignFlip,
    Withhold,
)

Floats = NDArray[np.float64]
Row = NDArray[np.float32]
Mask = NDArray[np.bool_]


def altered(
    attack: Attack, row: Row, start: Row, trainable: Mask | None, rng: Callable[[], np.random.Generator]
) -> Row:
    """What is sent (P,) in place of a model (P,) that began as `start` (P,); values that are not trained stay as they are. It may
    not be finite."""
    if isinstance(attack, FreeRider) and attack.std == 0.0:
        return start  # to the sign of a zero
    with np.errstate(over="ignore", invalid="ignore"):
        change = alone(attack, row.astype(np.float64) - start, rng)
        sent = (start + change).astype(np.float32)
    return sent if trainable is None else np.where(trainable, sent, row)


def alone(attack: Attack, change: Floats, rng: Callable[[], np.random.Generator]) -> Floats:
    """The change (P,) that is sent in place of `change` (P,). rng: makes the generator, for those who draw.

    >>> alone(SignFlip(kind="sign-flip", factor=2.0), np.array([1.0, -3.0]), np.random.default_rng).tolist()
    [-2.0, 6.0]
    """
    match attack:
        case SignFlip():
            return -attack.factor * change
        case Scale() | Backdoor():
            return attack.factor * change
        case Noise():
            noise = attack.std * rng().standard_normal(len(change))
            return change + noise if attack.keep else noise
        case FreeRider() if attack.std:
            return attack.std * rng().standard_normal(len(change))
        case FreeRider() | Withhold():
            return np.zeros_like(change)
        case NotFinite():
            return np.full_like(change, np.nan)
        case LabelFlip() | Replay():
            return change
        case other:
            raise ValueError(f"{other.kind} is worked out by several together")
