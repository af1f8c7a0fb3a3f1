"""How long a round of a cluster takes, and which member is its head.

    T_ij = t'_i + t''_ij,  T_ii = t'_i           what client i needs for a round if j is the head
    T_c  = min_{j in c} max_{i in c} T_ij        the head is the member that has everything soonest       (LTC, eqs 4, 5)

t'_i: computing; t''_ij: what the link takes in a round, as published the upload alone, because the head's model comes in no
time; where it does not, the download too (`View.exchange_s`). A round lasts until the slowest member has arrived at the best
head, whatever the others do: links are used side by side. K clients, N clusters; seconds throughout, infinite where a link is
down. T_c is not monotone: a new, well-connected member may become head and shorten the round.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WORK = 1 << 15  # numbers in a buffer: 256 kB, well inside a second-level cache


def round_matrix(compute_s: ArrayLike, exchange_s: ArrayLike) -> Floats:
    """T (K, K), s: row = sender, column = head. compute_s (K,), finite; exchange_s (K, K), its diagonal is ignored.

    >>> round_matrix([4.0, 10.0], [[0.0, 4.0], [4.0, 0.0]]).tolist()
    [[4.0, 8.0], [14.0, 10.0]]
    """
    compute = _check.array("compute_s", compute_s, (None,))
    _check.positive("compute_s", compute, zero=True)
    link = _check.array("exchange_s", exchange_s, (len(compute), len(compute)), finite=False).copy()
    np.fill_diagonal(link, 0.0)
    _check.positive("exchange_s", link, zero=True)
    return compute[:, None] + link


def heads_and_times(t: Floats, clusters: Sequence[ArrayLike]) -> tuple[Ints, Floats]:
    """Heads (N,) and round times (N,), s, of clusters of at least one client each (eqs 4, 5).

    The lowest of equally good heads. A cluster in which nobody hears all others takes infinitely long and is headed by
    its lowest client.

    >>> t = round_matrix([4.0, 10.0, 6.0], [[0, 4, 12], [4, 0, np.inf], [12, np.inf, 0]])
    >>> heads, times = heads_and_times(t, [[0, 1, 2], [2]])  # all in time: head 0 after 4, 14 and 18 s
    >>> heads.tolist(), times.tolist()
    ([0, 2], [18.0, 6.0])
    """
    heads, times = [], []
    for members in clusters:
        rows = np.sort(np.asarray(members, dtype=np.int64))
        if not len(rows):
            raise ValueError("a cluster without clients has no head; leave it out")
        last = t[rows[:, None], rows].max(axis=0)  # (n,): when the last member has arrived, if the head were ...
        best = int(last.argmin())
        heads.append(int(rows[best]))
        times.append(float(last[best]))
    return np.array(heads, dtype=np.int64), np.array(times)


class RoundTimes:
    """T_c as a measure for a local search: round times after any exchange between two clusters, without the heads.

    t (K, K), s; times above cap_s count as cap_s, so that a dead cluster is very slow and not infinitely bad. Client K
    stands for nobody: it sends nothing and is never a head.
    """

    def __init__(self, t: Floats, cap_s: float) -> None:
        n = len(t)
        self._t = t
        self._cap_s = cap_s
        arrival = np.full((n + 1, n + 1), np.inf)  # row = head, column = sender
        arrival[:, n] = -np.inf
        arrival[n, n] = np.inf
        arrival[:n, :n] = t.T
        self._arrival, self._width = arrival.ravel(), n + 1
        self._work = np.empty(WORK)

    def restart(self, clusters: Sequence[Ints]) -> Floats:
        """Round times (N,)."""
        return np.minimum(heads_and_times(self._t, clusters)[1], self._cap_s)

    def after(self, c1: int, c2: int, first: Ints, second: Ints) -> Floats:
        """Round times (2, n1 + 1, n2 + 1) of both clusters after first[i] and second[j] changed places.

        first, second: members and, at the end, nobody. If i leaves and j joins, a member k that stays has everything
        when the last of j and of the others without i has arrived; j itself is a head like that as well.
        """
        both = np.concatenate((first, second))
        arrival = self._arrival.take((both * self._width)[:, None] + both)  # (head, sender)
        own = arrival.diagonal()
        old, new = slice(len(first) - 1), slice(len(first), len(both) - 1)  # members of c1, of c2
        one, two = slice(len(first)), slice(len(first), len(both))  # and nobody
        out = np.empty((2, len(first), len(second)))
        last = _without_each(arrival[:, old])  # (head, i)
        _fill_diagonal(last[old], np.inf)  # who leaves is no head
        self._soonest(last[old], arrival[old, two], out[0])
        np.minimum(out[0], np.maximum(last[two].T, own[two]), out=out[0])
        last = _without_each(arrival[:, new])  # (head, j)
        _fill_diagonal(last[new], np.inf)
        self._soonest(arrival[new, one], last[new], out[1])
        np.minimum(out[1], np.maximum(last[one], own[one, None]), out=out[1])
        return np.minimum(out, self._cap_s, out=out)

    def apply(self, c1: int, c2: int, leaves: int, joins: int) -> None:
        """Nothing is kept from one exchange to the next."""

    def _soonest(self, a: Floats, b: Floats, out: Floats) -> None:
        """out_ij = min_k max(a_ki, b_kj), for as many i at a time as fit into a buffer that stays in the cache."""
        n_heads, n_columns = b.shape
        step = max(1, WORK // (n_heads * n_columns))
        if n_heads * n_columns > len(self._work):
            self._work = np.empty(n_heads * n_columns)
        for i in range(0, len(out), step):
            some = a[:, i : i + step, None]
            work = self._work[: some.size * n_columns].reshape(n_heads, -1, n_columns)
            np.minimum.reduce(np.maximum(some, b[:, None, :], out=work), axis=0, out=out[i : i + step])


def _without_each(block: Floats) -> Floats:
    """(m, n) -> (m, n + 1): row maxima without column 0, ..., without column n - 1, and of all columns."""
    rows = np.arange(len(block))
    largest = block.argmax(axis=1)
    rest = block.copy()
    rest[rows, largest] = -np.inf
    out = np.empty((len(block), block.shape[1] + 1))
    out[:] = block[rows, largest][:, None]
    out[rows, largest] = rest.max(axis=1)
    return out


def _fill_diagonal(block: Floats, value: float) -> None:
    """Of a block (n, n + 1) of contiguous rows, which is overwritten."""
    block.reshape(-1)[:: block.shape[1] + 1] = value
