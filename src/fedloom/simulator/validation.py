"""Training samples that no client has: a bound on staleness goes by the accuracy on them, never by that on test samples."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom import data
from fedloom._random import stream

VALIDATION = 2000  # samples at most


def spare_samples(
    method: str, dataset: data.Dataset, parts: Sequence[NDArray[np.integer]], seed: int
) -> NDArray[np.integer]:
    """At most VALIDATION of them, by chance. method: its name, for the message if there are none."""
    spare = np.setdiff1d(np.arange(len(dataset.y_train)), np.concatenate(parts))
    if not (len(spare) and dataset.one_class):
        raise ValueError(
            f"{method} adapts its bound on staleness by the accuracy on training samples that no client has, and here the "
            f"clients have all {len(dataset.y_train)} (or there are no classes); take a partition that leaves some, or keep "
            f"the bound fixed (adapt=false)"
        )
    return stream(seed, "validation").permutation(spare)[:VALIDATION]
