"""How clients in overlaps bridge aggregators, and which of their links to give up.

    B_kn = cover_nk / |S_k|                          where client k starts                       (HHFL, eq. 7)
    A_nk = cover_nk p_k / (|S_k| o_n)                how much client k counts at aggregator n    (HHFL, eq. 9)
    o_n  = sum_k cover_nk p_k / |S_k|                how much aggregator n counts in the cloud   (HHFL, eq. 10)
    Q    = A B,  lambda2 = its second eigenvalue     how slowly aggregators agree by themselves

Why the split by |S_k|: by it o A = p, a client keeps its share p_k = n_k / sum n of the global model whatever it reaches,
and p (B A) = p, o (A B) = o: an edge round alone does not move the mean. sum_n o_n |v_n - mean|^2, the disagreement of
the aggregators, shrinks by at least lambda2^2 in an edge round without gradients; without overlaps lambda2 = 1.

N aggregators, K clients; cover (N, K) bool, n_samples (K,) at least 0. Clients that report to nobody take no part: p is
taken over the others.
The published text has the weights; matrices, lambda2 and the policies for giving up links are ours.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Homes = NDArray[np.integer]

POLICIES = ("random", "cap_first", "least_bridging")
TIE = 1e-12  # factors that differ by less are equal: symmetric links differ in rounding only


def start_matrix(cover: Mask) -> Floats:
    """B (K, N): the plain mean of the aggregators a client reports to, no data weights. Nobody: a row of zeros.

    >>> start_matrix(np.array([[True, True, False], [False, True, True]])).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    _check_cover(cover)
    return np.asarray(cover.T / cover.sum(axis=0).clip(min=1)[:, None])


def edge_matrix(cover: Mask, n_samples: ArrayLike, split: bool = True) -> Floats:
    """A (N, K): how much each client counts at each aggregator. Rows sum to 1; an aggregator without samples: zeros.

    Without `split` a client counts in full wherever it reports (FedMes), and p is not conserved.
    """
    samples = _samples_at(cover, n_samples, split)
    total = samples.sum(axis=1, keepdims=True)
    return np.asarray(samples / np.where(total > 0, total, 1))


def edge_shares(cover: Mask, n_samples: ArrayLike) -> Floats:
    """o (N,): how much each aggregator counts in the cloud; sums to 1, and is 0 for an aggregator without samples."""
    samples = _samples_at(cover, n_samples, split=True).sum(axis=1)
    return np.asarray(samples / samples.sum())


def mixing_factor(cover: Mask, n_samples: ArrayLike) -> float:
    """lambda2 of A B, in [0, 1]: 0 is full agreement after one edge round, 1 is none at all.

    Exactly 1.0 if the overlaps do not connect all aggregators, exactly 0.0 for a single one. Aggregators without
    samples are left out. A B is similar to the symmetric matrix of entries sum_k p_k B_kn B_km / sqrt(o_n o_m), so its
    eigenvalues are real, and they are computed from that one.

    >>> base = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
    >>> round(24 * mixing_factor(base, [30, 20, 50]), 9)  # by hand: 19/24
    19.0
    """
    _samples_at(cover, n_samples, split=True)
    return float(_factors(_shared(cover, np.asarray(n_samples, dtype=np.float64))[None])[0])


def limit_links(
    cover: Mask,
    home: Homes,
    n_samples: ArrayLike,
    *,
    max_links: int | None = None,
    link_budget: int | None = None,
    disable_links: Sequence[tuple[int, int]] = (),
    policy: str = "cap_first",
    rng: np.random.Generator,
) -> Mask:
    """A smaller cover (N, K): links switched off, but never a client's link home (HHFL, section IV-B3,
    leaves open which; the policies are ours).

    home (K,): the aggregator a client keeps, -1 for a client without links. First `disable_links`, pairs (client,
    aggregator), go; then clients keep `max_links` each: home, and the aggregators that follow it in cyclic order (1 is
    HierFAVG); then links go until `link_budget` are left in all, by `policy`:

    random          any link but those home, with equal chances; the only policy that uses `rng`
    cap_first       a link of the client with most links (ties: the highest client), the last in cyclic order from home
    least_bridging  the link whose loss leaves the smallest mixing factor, one after the other (ties: the highest client,
                    then the highest aggregator; 1e-12 apart is a tie). Once the overlaps do not connect all
                    aggregators, every link is a tie.
    """
    cover = cover.copy()
    weight = _check_weights(cover, n_samples)
    _check_homes(cover, home)
    _check.one_of("policy for links", policy, POLICIES)
    check_pairs(disable_links)
    for client, aggregator in disable_links:
        _check_link(cover, home, client, aggregator)
    for client, aggregator in disable_links:
        cover[aggregator, client] = False
    if max_links is not None:
        _check.whole("max_links", max_links)
        cover &= _rank_from_home(cover, home) < max_links
    if link_budget is None:
        return cover
    _check.whole("link_budget", link_budget, least=0)
    n_active = int(cover.any(axis=0).sum())
    if link_budget < n_active:
        raise ValueError(
            f"link_budget must leave each of the {n_active} active clients its link home, got {link_budget}; "
            f"ask for at least {n_active}"
        )
    excess = max(0, int(cover.sum()) - link_budget)
    if policy == "least_bridging":
        return _least_bridging(cover, home, weight, excess)
    rank = _rank_from_home(cover, home)
    aggregators, clients = np.nonzero(cover & (rank > 0))
    if policy == "random":
        order = rng.permutation(len(clients)) if excess else np.arange(0)
    else:  # falling ranks: the same as the last link of the client with most links, again and again
        order = np.lexsort((-clients, -rank[aggregators, clients]))
    cover[aggregators[order[:excess]], clients[order[:excess]]] = False
    return cover


def _samples_at(cover: Mask, n_samples: ArrayLike, split: bool) -> Floats:
    """Samples (N, K) that each client brings to each aggregator."""
    weight = _check_weights(cover, n_samples)
    if not weight[cover.any(axis=0)].any():
        raise ValueError("no client that reports to an aggregator has samples; nothing could be averaged")
    return np.asarray(cover * (weight / cover.sum(axis=0).clip(min=1) if split else weight))


def _shared(cover: Mask, weight: Floats) -> Floats:
    """sum_k n_k B_kn B_km (N, N), symmetric: A B before its rows are scaled to sum 1; its row sums are o up to scale."""
    start = start_matrix(cover)
    return np.asarray((start.T * weight) @ start)


def _factors(shared: Floats) -> Floats:
    """The mixing factors (m,) of m matrices (m, N, N) as `_shared` makes them."""
    n = shared.shape[1]
    if n == 1:
        return np.zeros(len(shared))
    own = shared.sum(axis=2)  # (m, N)
    used = own > 0
    linked = shared > 0
    for _ in range(int(n - 1).bit_length()):  # each turn doubles the length of the paths
        linked = np.matmul(linked.astype(np.float32), linked.astype(np.float32)) > 0
    connected = (linked | ~used[:, :, None] | ~used[:, None, :]).all(axis=(1, 2))
    scale = 1 / np.sqrt(np.where(used, own, 1))
    # An unused aggregator is a row of zeros and adds an eigenvalue 0, which is never above the second: none is below 0.
    second = np.linalg.eigvalsh(shared * scale[:, :, None] * scale[:, None, :])[:, -2].clip(0, 1)
    return np.where(connected, second, 1.0)


def _rank_from_home(cover: Mask, home: Homes) -> NDArray[np.int64]:
    """(N, K): the place of each link among its client's, in cyclic order from home (0). Without meaning off the cover."""
    n_aggregators = len(cover)
    turn = (np.arange(n_aggregators)[:, None] + home.clip(min=0)) % n_aggregators  # (N, K): the j-th from home
    place = np.take_along_axis(cover, turn, axis=0).cumsum(axis=0) - 1
    rank = np.empty_like(place)
    np.put_along_axis(rank, turn, place, axis=0)
    return rank


def _least_bridging(cover: Mask, home: Homes, weight: Floats, excess: int) -> Mask:
    """`cover` without `excess` links, each time the one whose loss leaves the smallest mixing factor."""
    cover = cover.copy()
    for _ in range(excess):
        clients, aggregators = _kinds_of_links(cover, home, weight)
        factor = _factors_without(cover, weight, clients, aggregators)
        tied = np.flatnonzero(factor <= factor.min() + TIE)
        best = tied[np.lexsort((aggregators[tied], clients[tied]))[-1]]
        cover[aggregators[best], clients[best]] = False
    return cover


def _kinds_of_links(cover: Mask, home: Homes, weight: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links (clients, aggregators) that may go. Of clients with equal links, home and samples only the highest."""
    alike = {
        (cover[:, k].tobytes(), int(home[k]), float(weight[k])): k
        for k in np.flatnonzero(cover.sum(axis=0) > 1).tolist()
    }
    links = [(k, n) for k in alike.values() for n in np.flatnonzero(cover[:, k]).tolist() if n != home[k]]
    clients, aggregators = np.array(links, dtype=np.int64).reshape(-1, 2).T
    return clients, aggregators


def _factors_without(cover: Mask, weight: Floats, clients: NDArray[np.int64], aggregators: NDArray[np.int64]) -> Floats:
    """Mixing factors (m,) if one link went: `_shared` is updated per link, not rebuilt over all clients.

    The client's other aggregators only gain; the row of the one that loses it is summed anew, because a difference
    would leave rounding where nothing is left.
    """
    size = cover.sum(axis=0)
    spread = weight / size.clip(min=1) ** 2  # (K,): what a client adds to each pair of its aggregators
    shared = np.repeat(_shared(cover, weight)[None], len(clients), axis=0)  # (m, N, N)
    for one, k, n in zip(shared, clients, aggregators):
        others = cover[:, k].copy()
        others[n] = False
        one[np.ix_(others, others)] += weight[k] / (size[k] - 1) ** 2 - spread[k]
        left = np.where(cover[n], spread, 0.0)
        left[k] = 0.0
        one[n] = one[:, n] = cover @ left
    return _factors(shared)


def _check_cover(cover: Mask) -> None:
    if cover.ndim != 2 or cover.dtype != np.bool_:
        raise ValueError(f"cover must be bool of shape (N, K), got {cover.dtype} {cover.shape}")


def _check_weights(cover: Mask, n_samples: ArrayLike) -> Floats:
    _check_cover(cover)
    weight = _check.array("n_samples", n_samples, (cover.shape[1],))
    _check.positive("n_samples", weight, zero=True)
    return weight


def _check_homes(cover: Mask, home: Homes) -> None:
    n_aggregators, n_clients = cover.shape
    if home.shape != (n_clients,) or not np.issubdtype(home.dtype, np.integer):
        raise ValueError(f"home must be whole numbers of shape ({n_clients},), got {home.dtype} {home.shape}")
    for k in np.flatnonzero(cover.any(axis=0)).tolist():
        if not (0 <= home[k] < n_aggregators and cover[home[k], k]):
            reached = np.flatnonzero(cover[:, k]).tolist()
            raise ValueError(f"client {k} has home {home[k]}, expected one of the aggregators it reports to, {reached}")


def check_pairs(links: Sequence[tuple[int, int]]) -> None:
    """Links to switch off must be pairs of whole numbers (client, aggregator)."""
    for i, pair in enumerate(links):
        if not (isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(v, int | np.integer) for v in pair)):
            raise ValueError(
                f"disable_links must be pairs of numbers, [[client, aggregator], ...], got {pair!r} as number {i}; "
                f"a single pair needs brackets of its own, [[18, 1]]"
            )


def _check_link(cover: Mask, home: Homes, client: int, aggregator: int) -> None:
    n_aggregators, n_clients = cover.shape
    if not (0 <= client < n_clients and 0 <= aggregator < n_aggregators and cover[aggregator, client]):
        reached = np.flatnonzero(cover[:, client]).tolist() if 0 <= client < n_clients else "no client of that number"
        raise ValueError(
            f"disable_links names ({client}, {aggregator}), client {client} and aggregator {aggregator}, which is no "
            f"link; that client reports to: {reached}"
        )
    if home[client] == aggregator:
        raise ValueError(
            f"disable_links names ({client}, {aggregator}), the link home of client {client}, which is never removed"
        )
