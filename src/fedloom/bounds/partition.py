"""Clusters that the bounds are about: every client in exactly one, none empty."""

import numpy as np
from numpy.typing import NDArray


def check_partition(cover: NDArray[np.bool_], member: str) -> None:
    """Refuse a cover (N, K) that is no partition of K clients in N clusters. member: what a client is called in messages."""
    if cover.ndim != 2 or cover.dtype != np.bool_ or not cover.size:
        raise ValueError(f"cover must be a bool array of shape (N, K), got {cover.dtype} {cover.shape}")
    wrong = np.flatnonzero(cover.sum(axis=0) != 1).tolist()
    if wrong:
        raise ValueError(
            f"every {member} must be in exactly one cluster; {member}s {wrong[:10]} are in none or in several"
        )
    empty = np.flatnonzero(~cover.any(axis=1)).tolist()
    if empty:
        raise ValueError(f"clusters {empty[:10]} have no {member}s; leave them out")
