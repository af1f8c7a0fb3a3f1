"""Samples drawn with replacement: as many clients as wanted, however few samples there are.

Clients draw independently, so two of them may hold the same sample, and one may hold it twice; in fleets of many thousand
clients on a small dataset that is the only way to have enough. Symbols: K clients, n samples of each.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.data.partition import Indices, as_labels, deal_classes


def drawn(n_samples: int, n_clients: int, samples_per_client: int, rng: np.random.Generator) -> list[Indices]:
    """K sorted arrays of n indices in 0..n_samples-1, all equally likely."""
    _check.whole("n_samples", n_samples)
    _check.whole("n_clients", n_clients)
    _check.whole("samples_per_client", samples_per_client)
    return list(np.sort(rng.integers(0, n_samples, (n_clients, samples_per_client)), axis=1))


def drawn_by_classes(
    labels: ArrayLike, n_clients: int, samples_per_client: int, classes_per_client: int, rng: np.random.Generator
) -> list[Indices]:
    """The same out of `classes_per_client` classes a client, dealt as in `by_classes`, each of them equally likely.

    labels (n,): class of each sample.
    """
    y = as_labels(labels)
    _check.whole("n_clients", n_clients)
    _check.whole("samples_per_client", samples_per_client)
    classes, size = np.unique(y, return_counts=True)
    hands = np.array(deal_classes(list(range(len(classes))), n_clients, classes_per_client, rng))  # (K, m)
    picked = rng.integers(0, classes_per_client, (n_clients, samples_per_client))
    chosen = np.take_along_axis(hands, picked, axis=1)  # (K, n) which class
    by_class: NDArray[np.int64] = np.argsort(y, kind="stable")
    first = np.cumsum(size) - size
    at = first[chosen] + (rng.random(chosen.shape) * size[chosen]).astype(np.int64)
    return list(np.sort(by_class[at], axis=1))
