"""Clients of different sizes.

    target_sizes           sizes with a wanted standard deviation
    by_sizes               samples for given sizes, labels as they come
    by_sizes_and_classes   samples for given sizes, a few classes for each client

Symbols: K clients, C classes, N_c samples of class c, n_k samples of client k.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.data.partition import Indices, as_labels, deal_classes, largest_remainder


def target_sizes(
    total: int,
    n_clients: int,
    std: float,
    *,
    rng: np.random.Generator | None = None,
    direction: ArrayLike | None = None,
    least: float | None = None,
) -> NDArray[np.int64]:
    """Sizes (K,) with sum `total`, none below `least`, and population standard deviation `std`.

    direction   (K,) which clients are to be large; only differences count; by default N(0, 1) from `rng`
    least       lower bound, by default max(1, 0.1 total / K)

    For s >= 0 let n(s) be the projection of total/K + s direction on {sum n = total, n >= least}, that is
    n_k = max(least, total/K + s direction_k - tau). Its standard deviation grows with s; s is found by
    bisection. Largest remainders then make whole numbers of it, which moves the standard deviation by less
    than 1, and a size below a `least` that is no whole number by less than 1.
    Feasible if std <= (total/K - least) sqrt(K - 1), when all clients but one have the least.
    """
    _check.whole("total", total)
    _check.whole("n_clients", n_clients)
    _check.positive("std", std, zero=True)
    mean = total / n_clients
    low = max(1.0, 0.1 * mean) if least is None else float(least)
    _check.positive("least", low, zero=True)
    most = (mean - low) * np.sqrt(n_clients - 1)
    if low > mean or std > most * (1 + 1e-12):
        raise ValueError(
            f"sizes of {n_clients} clients with sum {total} and none below {low:g} can have "
            f"a standard deviation of at most {max(most, 0):g}, got {std:g}; ask for less or lower `least`"
        )
    if std == 0:
        return largest_remainder(np.ones(n_clients, np.int64), total)
    if direction is None:
        if rng is None:
            raise ValueError("give rng, to draw the direction, or the direction itself")
        direction = rng.standard_normal(n_clients)
    g = _check.array("direction", direction, (n_clients,))
    if g.std() == 0:
        raise ValueError("direction must not be the same for all clients")

    def sizes(s: float) -> NDArray[np.float64]:
        return _project(mean + s * g, total, low)

    # The projection brings points closer together, so std(n(s)) <= s std(g): the first s is not too large.
    small = large = std / float(g.std())
    while sizes(large).std() < std * (1 - 1e-12):
        small, large = large, 2 * large
        if not large < 1e12 * total / float(g.std()):
            raise ValueError(
                f"no sizes along this direction have a standard deviation of {std:g}: "
                "its largest entries are equal; draw another direction"
            )
    for _ in range(200):
        middle = (small + large) / 2
        if sizes(middle).std() < std:
            small = middle
        else:
            large = middle
    return _round_to(sizes(large), total)


def by_sizes(n_samples: int, sizes: ArrayLike, rng: np.random.Generator) -> list[Indices]:
    """Client k gets sizes[k] random samples; samples beyond the sum of the sizes are not used."""
    _check.whole("n_samples", n_samples)
    wanted = _sizes(sizes, n_samples)
    deck = rng.permutation(n_samples)
    return [np.sort(deck[a:b]) for a, b in pairwise(np.r_[0, np.cumsum(wanted)])]


def by_sizes_and_classes(
    labels: ArrayLike,
    sizes: ArrayLike,
    classes_per_client: int,
    rng: np.random.Generator,
    *,
    min_share: float = 0.2,
    n_draws: int = 50,
) -> list[Indices]:
    """Client k gets about sizes[k] samples of `classes_per_client` random classes, as evenly as possible.

    With m = classes_per_client, n_k the size and x_kc the samples of class c for client k, over the classes
    the client holds, a linear programme minimises

        sum_k |sum_c x_kc - n_k| + 1e-3 sum_kc |x_kc - n_k / m|
        subject to  sum_k x_kc <= N_c,  x_kc >= min_share n_k / m.

    Without the second term and the minimum share a solver returns a vertex, where most clients hold one or
    two classes only. The draw of classes is repeated if a class has no holder or the sizes miss by more than
    one sample in all, `n_draws` times; the best draw is kept, so sizes may be missed if the data cannot give
    them. Whole numbers are found without changing a size that was met, or using a class more than there
    is of it.
    """
    y = as_labels(labels)
    wanted = _sizes(sizes, len(y))
    classes, available = np.unique(y, return_counts=True)
    _check.whole("classes_per_client", classes_per_client)
    if classes_per_client > len(classes):
        raise ValueError(
            f"classes per client must be at most the number of classes, {len(classes)}, got {classes_per_client}"
        )
    if not 0 <= min_share <= 1:
        raise ValueError(f"min_share must lie in 0..1, got {min_share:g}")
    _check.whole("n_draws", n_draws)
    best: tuple[float, NDArray[np.float64]] | None = None
    for _ in range(n_draws):
        holds = _draw_holders(len(wanted), len(classes), classes_per_client, rng)
        solved = _fill(holds, wanted, available, min_share)
        if solved is not None and (best is None or solved[0] < best[0]):
            best = solved
        if best is not None and best[0] <= 1:
            break
    if best is None:
        raise ValueError(
            f"in {n_draws} draws of {classes_per_client} classes a client, some class could not give "
            f"each holder min_share = {min_share:g} of an even share; lower min_share or the sizes"
        )
    count = _round_cells(best[1], available)
    parts: list[list[Indices]] = [[] for _ in wanted]
    for c, column in zip(classes, count.T):
        deck = rng.permutation(np.flatnonzero(y == c))
        for k, share in enumerate(np.split(deck, np.cumsum(column))[:-1]):
            parts[k].append(share)
    return [np.sort(np.concatenate(part)) for part in parts]


def _round_to(sizes: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Largest remainder for real sizes (K,) that sum to `total` up to rounding errors."""
    down = np.floor(sizes)
    order = np.argsort(down - sizes, kind="stable")
    out = down.astype(np.int64)
    out[order[: total - int(out.sum())]] += 1
    return out


def _project(point: NDArray[np.float64], total: float, low: float) -> NDArray[np.float64]:
    """The nearest point (K,) to `point` with sum `total` and no entry below `low`: max(low, point - tau)."""
    height = np.sort(point - low)[::-1]
    room = total - low * len(point)
    tau = (np.cumsum(height) - room) / np.arange(1, len(point) + 1)
    # the entries above `low` are the largest ones, as many as stay above it
    last = int(np.flatnonzero(height - tau >= 0)[-1]) if room > 0 else 0
    out: NDArray[np.float64] = np.maximum(low, point - tau[last])
    return out


def _draw_holders(n_clients: int, n_classes: int, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(K, C) which client holds which class: k uniform ones each, redrawn until every class has a holder.

    Few clients rarely cover all classes by chance; after 100 draws, or if they cannot, the classes are dealt.
    """
    for _ in range(100):
        order = rng.random((n_clients, n_classes)).argsort(axis=1)
        holds: NDArray[np.bool_] = order < k
        if holds.any(axis=0).all():
            return holds
    holds = np.zeros((n_clients, n_classes), dtype=np.bool_)
    for client, hand in enumerate(deal_classes(range(n_classes), n_clients, k, rng)):
        holds[client, hand] = True
    return holds


def _fill(
    holds: NDArray[np.bool_], sizes: NDArray[np.int64], available: NDArray[np.integer], min_share: float
) -> tuple[float, NDArray[np.float64]] | None:
    """The programme of `by_sizes_and_classes`: samples missed in all, and x (K, C); None if infeasible."""
    from scipy.optimize import linprog
    from scipy.sparse import bmat, coo_array, eye_array

    client, c = np.nonzero(holds)
    n_cells, n_clients = len(client), len(sizes)
    cells = np.arange(n_cells)
    even = sizes[client] / holds.sum(axis=1)[client]
    of_client = coo_array((np.ones(n_cells), (client, cells)), shape=(n_clients, n_cells))
    of_class = coo_array((np.ones(n_cells), (c, cells)), shape=(holds.shape[1], n_cells))
    one = eye_array(n_cells)
    miss = eye_array(n_clients)
    # unknowns: x, |x - even| (cells each), under, over (clients each)
    found: Any = linprog(
        np.r_[np.zeros(n_cells), np.full(n_cells, 1e-3), np.ones(2 * n_clients)],
        A_eq=bmat([[of_client, coo_array((n_clients, n_cells)), miss, -miss]]),
        b_eq=sizes,
        A_ub=bmat(
            [
                [
                    of_class,
                    None,
                    coo_array((holds.shape[1], n_clients)),
                    coo_array((holds.shape[1], n_clients)),
                ],
                [one, -one, None, None],
                [-one, -one, None, None],
            ]
        ),
        b_ub=np.r_[available, even, -even],
        bounds=[(min_share * e, None) for e in even] + [(0, None)] * (n_cells + 2 * n_clients),
        method="highs",
    )
    if not found.success:
        return None
    x = np.zeros(holds.shape)
    x[client, c] = found.x[:n_cells]
    return float(found.x[2 * n_cells :].sum()), x


def _round_cells(x: NDArray[np.float64], available: NDArray[np.integer]) -> NDArray[np.int64]:
    """Whole x (K, C): entries and row sums rounded up or down, and no column above its limit (C,).

    Which entries to round up is a transport problem, whose corner solutions are whole numbers; the fractions
    themselves show that it has a solution.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    down = np.floor(x + 1e-6)
    k, c = np.nonzero(x - down > 1e-6)
    count = down.astype(np.int64)
    if len(k) == 0:
        return count
    cells = np.arange(len(k))
    of_client = coo_array((np.ones(len(k)), (k, cells)), shape=(len(x), len(k)))
    of_class = coo_array((np.ones(len(k)), (c, cells)), shape=(len(available), len(k)))
    total = (x - down).sum(axis=1)
    found: Any = linprog(
        -(x - down)[k, c],  # rather those that are nearly up
        A_ub=vstack([of_class, of_client, -of_client]),
        b_ub=np.r_[available - down.sum(axis=0), np.ceil(total - 1e-4), -np.floor(total + 1e-4)],
        bounds=(0, 1),
        method="highs-ds",  # the simplex method ends in a corner
    )
    if not found.success:
        raise RuntimeError(f"could not round the samples of each client and class: {found.message}")
    count[k, c] += np.rint(found.x).astype(np.int64)
    return count


def _sizes(sizes: ArrayLike, n_samples: int) -> NDArray[np.int64]:
    wanted = np.asarray(sizes)
    if wanted.ndim != 1 or len(wanted) == 0 or not np.issubdtype(wanted.dtype, np.integer):
        raise ValueError(f"sizes must be whole numbers of shape (clients,), got {wanted.dtype} {wanted.shape}")
    if int(wanted.min()) < 1:
        raise ValueError(f"sizes must be at least 1, got {int(wanted.min())} for client {int(np.argmin(wanted))}")
    if int(wanted.sum()) > n_samples:
        raise ValueError(f"sizes must sum to at most the {n_samples} samples there are, got {int(wanted.sum())}")
    return wanted.astype(np.int64, copy=False)
