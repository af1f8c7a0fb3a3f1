"""What conspirators work out together of the changes (k, P) that they know."""

import numpy as np
from numpy.typing import NDArray

from fedloom.attacks.alie import a_little, supporters_z
from fedloom.attacks.ipm import inner_product
from fedloom.attacks.min_max import min_max
from fedloom.attacks.settings import Alie, Ipm, MinMax

Floats = NDArray[np.float64]


def together(attack: Alie | Ipm | MinMax, changes: Floats, n: int, m: int) -> Floats:
    """The change (P,) that all of them send; of n clients m conspire."""
    match attack:
        case Alie():
            return a_little(changes, supporters_z(n, m) if attack.z is None else attack.z)
        case Ipm():
            return inner_product(changes, attack.factor)
        case MinMax():
            return min_max(changes, attack.direction)
