"""Local search over partitions: take two clusters, list every exchange of two members and every move of one, make one.

What a change is worth is a matter of measures, one number per cluster each, and of a judge that compares the numbers of a
pair before and after. A measure gives them for all changes of a pair at once, as tables (n1 + 1, n2 + 1): entry (i, j)
is the swap of the i-th member of the first cluster with the j-th of the second. The last row and column stand for
nobody, client K, so that a move is a swap with nobody, and the last entry of all is the pair as it is. K clients, N
clusters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Judge = Callable[[Sequence[Floats]], tuple[Mask, Floats]]

CHOICES = ("random", "best")
TIE = 1e-9  # scores that differ by less are equal: they may differ in rounding only
TRIALS = 80  # as published (LTC, section 5.3), for 20 to 30 clients in 4 to 6 clusters
TRIALS_OF_CLUSTER = 50  # at most, if no number is asked for: more gain little for their time
MOST_TRIALS = 1_000_000  # some minutes
REFRESH = 1000  # changes after which sums are formed anew, against drift


class Measure(Protocol):
    """One number per cluster, at least 0, the smaller the better."""

    def restart(self, clusters: Sequence[Ints]) -> Floats:
        """Values (N,) of these clusters, which are the ones the search has from now on."""

    def after(self, c1: int, c2: int, first: Ints, second: Ints) -> Floats:
        """Values (2, n1 + 1, n2 + 1) of clusters c1 and c2 after first[i] and second[j] changed places.

        first, second: the members of c1 and c2 and, at the end, nobody (K). What an emptied cluster gets is not used.
        """

    def apply(self, c1: int, c2: int, leaves: int, joins: int) -> None:
        """`leaves` goes from c1 to c2 and `joins` from c2 to c1; one of them may be nobody (K)."""


@dataclass(frozen=True, slots=True)
class Change:
    """In `trial`, client `leaves` went from cluster `first` to `second` and `joins` the other way; None: a move."""

    trial: int
    first: int
    second: int
    leaves: int | None
    joins: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """Where a local search ended: sorted clusters, values (measures, N), changes made, trials made."""

    clusters: list[Ints]
    values: Floats
    accepted: list[Change]
    n_trials: int


def random_clusters(n_clients: int, n_clusters: int, rng: np.random.Generator) -> list[Ints]:
    """A partition of 0..n_clients - 1 by chance into clusters whose sizes differ by at most one."""
    _check.whole("n_clients", n_clients)
    check_count(n_clients, n_clusters)
    order = rng.permutation(n_clients)
    return [np.sort(order[c::n_clusters]) for c in range(n_clusters)]


def trials_for(n_clients: int, n_clusters: int) -> int:
    """Trials of a search if no number is asked for: 80 (K / 30)^1.5, at least 80 and at most 50 for each cluster (or 80).

    The published 80 leave most of a large fleet as it was drawn. Measured (skewed labels, clusters of five, mean over clusters
    before, after 80 and after these trials):

        clients   trials     theta, rad               T, s                     processor time
             30       80     0.62   0.35   0.35       28.2   22.5   22.5       0.03 s
            100      487     0.61   0.48   0.33       28.7   25.1   22.9       0.2 s
            200    1,377     0.61   0.53   0.31       29.8   26.6   22.4       0.5 s
          1,000   10,000     0.64   0.62   0.32       29.5   28.7   21.1       3.5 s

    >>> [trials_for(k, k // 5) for k in (20, 30, 200, 1000)]
    [80, 80, 1377, 10000]
    """
    wanted = TRIALS * (n_clients / 30) ** 1.5
    return max(TRIALS, min(int(wanted + 0.5), TRIALS_OF_CLUSTER * n_clusters))


def local_search(
    measures: Sequence[Measure],
    judge: Judge,
    clusters: Sequence[Ints],
    *,
    bounds: tuple[int, int] | None,
    n_trials: int,
    choice: str,
    patience: int | None,
    rng: np.random.Generator,
) -> Search:
    """Change pairs of clusters for the better, `n_trials` times.

    judge: values of the pair after every change, (2, n1 + 1, n2 + 1) for each measure -> which changes are acceptable,
    and their scores, the smaller the better. bounds: smallest and largest size that moves may lead to; None:
    no moves. Changes are listed as swaps (p, q) with p in the first cluster outside and q in the second inside, then
    moves of each p, then moves of each q.
    """
    check_trials(n_trials)
    _check.one_of("choice", choice, CHOICES)
    _check.wholes(patience=patience)
    nobody = sum(len(c) for c in clusters)
    members = [np.append(c, nobody) for c in clusters]
    for measure in measures:
        measure.restart(clusters)
    accepted: list[Change] = []
    trial = idle = 0
    while trial < n_trials and len(clusters) > 1 and (patience is None or idle < patience):
        trial += 1
        idle += 1
        c1, c2 = rng.choice(len(clusters), 2, replace=False).tolist()
        first, second = members[c1], members[c2]
        n1, n2 = len(first) - 1, len(second) - 1
        after = [m.after(c1, c2, first, second) for m in measures]
        accept, score = judge(after)
        if bounds is None or n1 <= bounds[0] or n2 >= bounds[1]:
            accept[:, n2] = False
        if bounds is None or n2 <= bounds[0] or n1 >= bounds[1]:
            accept[n1] = False
        chosen = _chosen(accept, score, choice, rng)
        if chosen is None:
            continue
        i, j = _place(chosen, n1, n2)
        leaves, joins = int(first[i]), int(second[j])
        members[c1] = np.array(sorted({*first.tolist()} - {leaves} | {joins, nobody}))
        members[c2] = np.array(sorted({*second.tolist()} - {joins} | {leaves, nobody}))
        gone, come = (None if k == nobody else k for k in (leaves, joins))
        accepted.append(Change(trial, c1, c2, gone, come))
        for measure in measures:
            measure.apply(c1, c2, leaves, joins)
            if len(accepted) % REFRESH == 0:
                measure.restart([c[:-1] for c in members])
        idle = 0
    clusters = [c[:-1] for c in members]
    values = np.stack([m.restart(clusters) for m in measures])
    return Search(clusters=clusters, values=values, accepted=accepted, n_trials=trial)


def check_clusters(clusters: Sequence[ArrayLike], n_clients: int, n_clusters: int) -> list[Ints]:
    """`clusters` as sorted arrays; they must be a partition of all clients into so many clusters, none of them empty."""
    check_count(n_clients, n_clusters)
    out = [np.sort(np.asarray(c, dtype=np.int64)) for c in clusters]
    if len(out) != n_clusters or not all(len(c) for c in out):
        raise ValueError(
            f"start must have {n_clusters} clusters with members, got sizes {[len(c) for c in out]}; "
            f"n_clusters must be the number of clusters to start with"
        )
    if not np.array_equal(np.sort(np.concatenate(out)), np.arange(n_clients)):
        raise ValueError(f"start must have every client from 0 to {n_clients - 1} in exactly one cluster")
    return out


def check_trials(n_trials: int) -> None:
    """A whole number that a search can be expected to end with."""
    _check.whole("n_trials", n_trials, least=0)
    if n_trials > MOST_TRIALS:
        raise ValueError(
            f"n_trials must be at most {MOST_TRIALS:,}, got {n_trials:,}; a search gains little after 10 a client"
        )


def check_count(n_clients: int, n_clusters: int) -> None:
    """There may be as many clusters as clients."""
    _check.whole("n_clusters", n_clusters)
    if n_clusters > n_clients:
        raise ValueError(f"n_clusters must be at most the number of clients, {n_clients}; got {n_clusters}")


def _chosen(accept: NDArray[np.bool_], score: Floats, choice: str, rng: np.random.Generator) -> int | None:
    """Which of the acceptable changes, by its place in the list; None if there is none. Both (n1 + 1, n2 + 1)."""
    candidates = np.flatnonzero(_listed(accept))
    if not len(candidates):
        return None
    if choice == "random":
        return int(candidates[rng.integers(len(candidates))])
    scores = _listed(score)[candidates]
    return int(candidates[np.argmax(scores <= scores.min() + TIE)])


def _listed(table: NDArray[np.generic]) -> NDArray[np.generic]:
    """(n1 + 1, n2 + 1) -> (n1 n2 + n1 + n2,): swaps row by row, moves out of the first, moves into it."""
    return np.concatenate((table[:-1, :-1].ravel(), table[:-1, -1], table[-1, :-1]))


def _place(index: int, n1: int, n2: int) -> tuple[int, int]:
    """Where in the table an entry of the list is."""
    if index < n1 * n2:
        return divmod(index, n2)
    index -= n1 * n2
    return (index, n2) if index < n1 else (n1, index - n1)
