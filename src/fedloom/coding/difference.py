"""What is coded is not a model but its difference to one that both sides know, which is smaller and has its mean near 0.

    d = w - r        where a value is trained; w itself elsewhere (statistics of BatchNorm go as they are)
    w' = r + d'      of what arrives; d' itself elsewhere

For an upload r is the model the client began with, which its aggregator sent. Float32 arithmetic, in both worlds.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Row


def difference(row: Row, reference: Row, trainable: NDArray[np.bool_] | None = None) -> Row:
    """d (P,) of a model w (P,) to a reference r (P,). trainable (P,): all, if it is not given."""
    out = row - reference
    return out if trainable is None else np.where(trainable, out, row)


def restored(sent: Row, reference: Row, trainable: NDArray[np.bool_] | None = None) -> Row:
    """The model w' (P,) of a difference d' (P,) that arrived."""
    out = reference + sent
    return out if trainable is None else np.where(trainable, out, sent)
