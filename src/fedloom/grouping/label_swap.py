"""Clusters by label swaps: every cluster's labels like everybody's, links and speeds ignored (Benchmark B of LTC).

A trial takes two clusters and swaps a member of one with a member of the other, by chance among the swaps with

    skew_1' + skew_2' <= skew_1 + skew_2          skew_c = sum_k |p_c(k) - p(k)|, see `directions`

so sizes stay as they are and the sum of all skews never grows. As published a swap may leave the sum as it is; `strict`
takes only those that lower it. The idea is that of D-Cliques.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.directions import SAME, Skew
from fedloom.grouping.local_search import Change, check_clusters, local_search, random_clusters, trials_for

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelSwapResult:
    """clusters: N sorted arrays of clients. skew (N,), in [0, 2]. accepted: the swaps in order. n_trials: trials made."""

    clusters: list[Ints]
    skew: Floats
    accepted: list[Change]
    n_trials: int


def label_swap(
    label_counts: ArrayLike,
    *,
    n_clusters: int,
    n_trials: int | None = None,
    strict: bool = False,
    choice: str = "random",
    patience: int | None = None,
    start: Sequence[ArrayLike] | None = None,
    rng: np.random.Generator,
) -> LabelSwapResult:
    """Clusters of equal size, up to one, whose labels are spread as those of all clients.

    label_counts (K, C): samples of each client and label. n_trials: by default as for `swap_search`. choice "best": the
    swap that lowers the sum most. patience: ends the search after so many trials in a row without a swap. start:
    clusters to begin with, which keep their sizes; otherwise random ones. Heads and round times follow from
    `heads_and_times`.
    """
    counts = _check.array("label counts", label_counts, (None, None))
    first = (
        random_clusters(len(counts), n_clusters, rng)
        if start is None
        else check_clusters(start, len(counts), n_clusters)
    )
    found = local_search(
        [Skew(counts, counts.sum(axis=1))],
        _less_skew if strict else _no_more_skew,
        first,
        bounds=None,
        n_trials=trials_for(len(counts), n_clusters) if n_trials is None else n_trials,
        choice=choice,
        patience=patience,
        rng=rng,
    )
    return LabelSwapResult(
        clusters=found.clusters, skew=found.values[0], accepted=found.accepted, n_trials=found.n_trials
    )


def _no_more_skew(after: Sequence[Floats]) -> tuple[Mask, Floats]:
    """Skews of a pair after each change, (2, n1 + 1, n2 + 1) -> which are as good at least, and what they add."""
    change = _added_skew(after)
    return change <= SAME, change


def _less_skew(after: Sequence[Floats]) -> tuple[Mask, Floats]:
    change = _added_skew(after)
    return change < -SAME, change


def _added_skew(after: Sequence[Floats]) -> Floats:
    total = after[0].sum(axis=0)
    return np.asarray(total - total[-1, -1])
