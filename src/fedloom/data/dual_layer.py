"""Label skew twice: between edges and between the clients of an edge (CSAHFL, section 4.1).

    EIID        every edge has all classes, a client two of them
    ENIID50%    every edge has half of the classes, a client two of these
    ENIID30%    every edge has three of ten

The three settings are the paper's, how classes are dealt is ours. Those of the edges are dealt from decks, so that each class
is found at as many edges as any other, but for one.
Within an edge each client in turn gets the set of classes (of two: the pair) that has the least

    (times used so far, largest count of holders among its classes, sum of these counts, a random number)

so that sets and classes are used evenly. Then every client gets the same number q of samples of each of its classes, or
every class is cut evenly among its holders (`fedloom.data.partition.by_label_sets`). Clients that move take their data with
them. A client's test set is all test samples of the labels it holds (`fedloom.data.local_tests` without a number).
"""

from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check
from fedloom.data.edge_cases import as_homes
from fedloom.data.partition import deal_classes

Dealing = Literal["deck", "random"]

MOST_SETS = 20_000  # that one edge chooses from


def dual_layer_sets(
    home: ArrayLike,
    n_classes: int,
    classes_per_edge: int,
    classes_per_client: int = 2,
    *,
    rng: np.random.Generator,
    dealing: Dealing = "deck",
) -> list[list[int]]:
    """The classes of each client: K sorted lists of distinct numbers in 0..n_classes-1.

    home               (K,) the edge each client belongs to, from 0; clients that belong to none (-1) choose from all
                       classes. The number of edges is the largest home + 1.
    dealing            "deck" as above; "random" draws the classes of every edge on its own, and then a class may be
                       missing everywhere: see `missing_classes`

    >>> dual_layer_sets([0, 0, 0], 10, 10, 10, rng=np.random.default_rng(0)) == [list(range(10))] * 3
    True
    """
    homes = as_homes(home)
    _check.whole("classes_per_client", classes_per_client)
    if classes_per_client > classes_per_edge:
        raise ValueError(
            f"a client has its classes from its edge: classes_per_client must be at most classes_per_edge, "
            f"{classes_per_edge}, got {classes_per_client}"
        )
    of_edge = edge_classes(int(homes.max()) + 1, n_classes, classes_per_edge, rng, dealing)
    sets: list[list[int]] = [[] for _ in homes]
    for edge in np.unique(homes).tolist():
        members = np.flatnonzero(homes == edge).tolist()
        pool = of_edge[edge] if edge >= 0 else list(range(n_classes))
        for k, classes in zip(members, even_sets(pool, len(members), classes_per_client, rng)):
            sets[k] = classes
    return sets


def edge_classes(
    n_edges: int, n_classes: int, per_edge: int, rng: np.random.Generator, dealing: Dealing = "deck"
) -> list[list[int]]:
    """The classes of each edge: sorted lists of `per_edge` of 0..n_classes-1."""
    _check.one_of("dealing", dealing, ("deck", "random"))
    _check.whole("classes_per_edge", per_edge)
    if per_edge > n_classes:
        raise ValueError(f"classes_per_edge must be at most the number of classes, {n_classes}, got {per_edge}")
    if n_edges == 0:
        return []
    if dealing == "deck":
        return deal_classes(range(n_classes), n_edges, per_edge, rng)
    return [np.sort(rng.choice(n_classes, per_edge, replace=False)).tolist() for _ in range(n_edges)]


def even_sets(classes: list[int], n_clients: int, per_client: int, rng: np.random.Generator) -> list[list[int]]:
    """`per_client` of the classes for each of the clients of one edge, evenly; see above."""
    n_sets = comb(len(classes), per_client)
    if n_sets > MOST_SETS:
        raise ValueError(
            f"there are {n_sets:,} ways to choose {per_client} of {len(classes)} classes, more than {MOST_SETS:,}; use fewer "
            "classes per client or per edge, or partition kind 'classes'"
        )
    choices = np.array(list(combinations(range(len(classes)), per_client)))  # (S, per_client)
    n_used, n_holders = np.zeros(n_sets, dtype=np.int64), np.zeros(len(classes), dtype=np.int64)
    sets = []
    for _ in range(n_clients):
        held = n_holders[choices]
        order = np.lexsort((rng.random(n_sets), held.sum(axis=1), held.max(axis=1), n_used))  # the last key comes first
        best = int(order[0])
        n_used[best] += 1
        n_holders[choices[best]] += 1
        sets.append([classes[c] for c in choices[best]])
    return sets


def missing_classes(sets: list[list[int]], n_classes: int) -> list[int]:
    """Classes that no client holds."""
    held = {c for classes in sets for c in classes}
    return [c for c in range(n_classes) if c not in held]
