"""Clients whose data span nearly the same directions: signatures, their angles, clusters (CSAHFL, section 3.3).

    U_i     = the first p left singular vectors of X_i (d, n_i)                              (5)
    cos(theta_ij) = the largest singular value of Q_i^T Q_j,   Q = orthonormal basis of U    (4, 6)

    metric "principal"      theta_ij, the smallest angle between the two spans: 0 to 90 degrees
    metric "pairwise"       the smallest angle between a vector of one and a vector of the other: 0 to 180 degrees. It
                            depends on the signs of singular vectors, which are arbitrary.
    metric "pairwise_abs"   the same between lines, whatever the signs: 0 to 90 degrees

Then agglomerative clustering: the two closest clusters merge as long as their distance is at most beta. One matrix of
distances serves any beta, and no label is seen; the signatures themselves are disclosed, unless noise is added to them.

Left out: mean removal (it would change every angle) and angles of more than the closest directions. K clients, d features.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Metric = Literal["principal", "pairwise", "pairwise_abs"]
Linkage = Literal["complete", "average", "single"]

MOST_CLIENTS = {"whole": 15_000, "per_class": 5000}  # 10,000 take a few minutes and 3 GB; 4,000 with classes likewise
MOST_DIRECTIONS = 50  # of 50 clients with 784 inputs each take some ten seconds
METRICS = ("principal", "pairwise", "pairwise_abs")
LINKAGES = {"complete": "complete", "average": "weighted", "single": "single"}  # as scipy calls them
TINY = 1e-12  # relative to the largest: a direction this weak is rounding
WEAK = 1e-2  # relative to the largest: below, squared singular values have lost more than four digits
NEAR = np.cos(np.radians(0.1))  # above, arccos loses digits; at the bound it is still exact to 1e-10 degrees
ROWS_AT_ONCE = 128  # clients of which the products with all others are held at a time


def signature(x: ArrayLike, rank: int = 3) -> Floats:
    """Eq. (5): the first `rank` left singular vectors (d, rank) of a client's data.

    x: its training inputs, one sample a row (n, d...), scaled but not centred. A client whose data have fewer
    independent directions than `rank` has as many columns as there are. The signs are arbitrary.

    >>> abs(signature([[3.0, 0.0], [0.0, 1.0]], rank=1)).tolist()
    [[1.0], [0.0]]
    """
    _check.whole("rank", rank)
    samples = np.asarray(x, dtype=np.float64)
    if samples.ndim < 2 or samples.size == 0:
        raise ValueError(f"x must hold samples of shape (n, d...), got {samples.shape}")
    flat = _check.array("x", samples.reshape(len(samples), -1), (None, None))
    vectors, size = _leading(flat, rank)
    n_directions = int((size > TINY * size[0]).sum()) if size[0] > 0 else 0
    if not n_directions:
        raise ValueError("x is zero throughout and has no direction; leave the client out")
    return vectors[:, : min(rank, n_directions)]


def signatures(
    x: Sequence[ArrayLike],
    rank: int = 3,
    labels: Sequence[ArrayLike] | None = None,
) -> list[Floats]:
    """Signatures of K clients, each (d, p). x: K arrays (n_k, d...).

    Without `labels` one of all the client's data ("whole"). With labels, K arrays (n_k,), one for each of its classes,
    side by side in the order of the classes ("per class"): (d, rank classes), not orthonormal.
    """
    if labels is None:
        return [_of_client(k, samples, rank) for k, samples in enumerate(x)]
    if len(labels) != len(x):
        raise ValueError(f"labels must have one array for each of the {len(x)} clients, got {len(labels)}")
    found = []
    for k, (samples, own) in enumerate(zip(x, labels)):
        y, inputs = np.asarray(own), np.asarray(samples)
        if y.shape != inputs.shape[:1]:
            raise ValueError(f"client {k} has {inputs.shape[:1]} samples but labels of shape {y.shape}")
        found.append(np.hstack([_of_client(k, inputs[y == c], rank) for c in np.unique(y)]))
    return found


def check_directions(name: str, rank: int) -> None:
    """A whole number of directions that angles between all clients can be had of in a reasonable time."""
    _check.whole(name, rank)
    if rank > MOST_DIRECTIONS:
        raise ValueError(
            f"{name} must be at most {MOST_DIRECTIONS} directions of a signature (3 as published), got {rank:,}; the work of "
            f"comparing two clients grows with the square of it"
        )


def noisy_signatures(signatures: Sequence[ArrayLike], noise: float, rng: np.random.Generator) -> list[Floats]:
    """Signatures with Gaussian noise, orthonormal again: less is disclosed, and angles grow.

    noise: standard deviation of each entry times sqrt(d), the length of the noise on a unit vector. It leaves the tangent
    of the angle between a vector and its noisy self near `noise`, whatever d. No guarantee of differential privacy is
    derived from it.
    """
    _check.positive("noise", noise, zero=True)
    bases = [_basis(k, s) for k, s in enumerate(signatures)]
    return [_basis(k, u + rng.normal(0.0, noise / np.sqrt(len(u)), u.shape)) for k, u in enumerate(bases)]


def proximity(signatures: Sequence[ArrayLike], metric: Metric = "principal") -> Floats:
    """Angles between the signatures of K clients in degrees: symmetric (K, K), zero diagonal.

    signatures: K arrays (d, p_k), of any p_k. "principal" makes them orthonormal first, the others take unit vectors.
    All products come from one matrix product, and those of equal size share one call for their singular values. Angles
    are exact to about 1e-9 degrees also near 0, where an arccos has no digits left: there the sine is used.

    >>> east, plane = [[1.0], [0.0], [0.0]], [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    >>> proximity([east, plane]).round(9).tolist()
    [[0.0, 45.0], [45.0, 0.0]]
    """
    _check.one_of("metric", metric, METRICS)
    if not len(signatures):
        raise ValueError("signatures must be those of at least one client, got none")
    bases = [_basis(k, s) if metric == "principal" else _unit_vectors(k, s) for k, s in enumerate(signatures)]
    d = {len(u) for u in bases}
    if len(d) > 1:
        raise ValueError(f"all signatures must have the same number of features d, got {sorted(d)}")
    n_clients = len(bases)
    angles = np.zeros((n_clients, n_clients))
    of_width: dict[int, list[int]] = {}
    for k, u in enumerate(bases):
        of_width.setdefault(u.shape[1], []).append(k)
    blocks = {p: (np.array(members), np.stack([bases[k].T for k in members])) for p, members in of_width.items()}
    for p, (rows, u) in blocks.items():
        for q, (columns, v) in blocks.items():
            if p > q:
                continue
            for first in range(0, len(rows), ROWS_AT_ONCE):
                some = slice(first, first + ROWS_AT_ONCE)
                skip = first if p == q else 0  # what is left of it is the mirror image
                found = _angles(u[some], v[skip:], metric)
                angles[np.ix_(rows[some], columns[skip:])] = found
                angles[np.ix_(columns[skip:], rows[some])] = found.T
    for first in range(0, n_clients, ROWS_AT_ONCE):  # both halves were found, but for rounding; without another matrix
        some = slice(first, first + ROWS_AT_ONCE)
        corner = np.triu(angles[some, some], 1)
        angles[some, some] = corner + corner.T
        angles[some.stop :, some] = angles[some, some.stop :].T
    return angles


def merge_tree(proximity: ArrayLike, linkage: Linkage = "complete") -> Floats:
    """The merges (K - 1, 4) of agglomerative clustering, in scipy's format, from distances (K, K).

    linkage: the distance of two clusters is the largest of their members' ("complete") or the smallest ("single"), or
    the plain mean of the two rows at every merge, whatever the clusters' sizes ("average", known as WPGMA).
    """
    from scipy.cluster import hierarchy  # takes long to import
    from scipy.spatial.distance import squareform

    _check.one_of("linkage", linkage, tuple(LINKAGES))
    distance = _distances(proximity)
    if len(distance) == 1:
        return np.zeros((0, 4))
    return np.asarray(hierarchy.linkage(squareform(distance, checks=False), LINKAGES[linkage]))


def angle_clusters(
    proximity: ArrayLike,
    *,
    beta_deg: float | None = None,
    n_clusters: int | None = None,
    linkage: Linkage = "complete",
) -> Ints:
    """The cluster of each client (K,), from 0 in the order of their lowest clients; distances (K, K) in degrees.

    Give one of the two: clusters no farther apart than `beta_deg` merge (<=), or merging goes on until `n_clusters` are
    left. Where distances are tied there may be no way to have exactly `n_clusters`; then there are fewer.

    >>> angle_clusters([[0, 5, 40], [5, 0, 50], [40, 50, 0]], beta_deg=20)
    array([0, 0, 1])
    """
    from scipy.cluster import hierarchy  # takes long to import

    if (beta_deg is None) == (n_clusters is None):
        raise ValueError(f"give either beta_deg or n_clusters, got beta_deg {beta_deg} and n_clusters {n_clusters}")
    tree = merge_tree(proximity, linkage)
    n_clients = len(tree) + 1
    if beta_deg is not None:
        _check.positive("beta_deg", beta_deg, zero=True)
    else:
        _check.whole("n_clusters", n_clusters or 0)
        if (n_clusters or 0) > n_clients:
            raise ValueError(f"n_clusters must be at most the number of clients, {n_clients}; got {n_clusters}")
    if n_clients == 1:
        return np.zeros(1, dtype=np.int64)
    if beta_deg is not None:
        label = hierarchy.fcluster(tree, beta_deg, "distance")
    else:
        label = hierarchy.fcluster(tree, n_clusters, "maxclust")
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def cluster_counts(proximity: ArrayLike, beta_deg: ArrayLike, linkage: Linkage = "complete") -> Ints:
    """Number of clusters (m,) for each of the betas (m,), from one tree. It never rises with beta."""
    betas = _check.array("beta_deg", beta_deg, (None,))
    _check.positive("beta_deg", betas, zero=True)
    heights = merge_tree(proximity, linkage)[:, 2]  # ascending for all three linkages
    return np.asarray(len(heights) + 1 - np.searchsorted(heights, betas, side="right"), dtype=np.int64)


def _distances(proximity: ArrayLike) -> Floats:
    distance = _check.array("proximity", proximity, (None, None))
    _check.positive("proximity", distance, zero=True)
    n, m = distance.shape
    if n != m or n == 0 or (distance != distance.T).any() or distance.diagonal().any():
        raise ValueError(f"proximity must be symmetric (K, K) with a zero diagonal, got shape {distance.shape}")
    return distance


def _of_client(k: int, samples: ArrayLike, rank: int) -> Floats:
    try:
        return signature(samples, rank)
    except ValueError as error:
        raise ValueError(f"client {k}: {error}") from None


def _leading(rows: Floats, rank: int) -> tuple[Floats, Floats]:
    """The leading right singular vectors (d, p) of rows (n, d) and their singular values (p,), largest first.

    From the smaller Gram matrix, several times quicker than all singular vectors; it squares the values, so where the
    last one wanted is much smaller than the first, the decomposition itself is taken.
    """
    from scipy.linalg import eigh  # takes long to import

    n, d = rows.shape
    m = min(n, d)
    gram = rows @ rows.T if n < d else rows.T @ rows
    values, vectors = eigh(gram, subset_by_index=[max(m - rank, 0), m - 1])
    size = np.sqrt(values[::-1].clip(0))
    if size[-1] > WEAK * size[0]:
        vectors = vectors[:, ::-1]
        return (rows.T @ vectors / size if n < d else vectors), size
    _, size, right = np.linalg.svd(rows, full_matrices=False)
    return right.T, size


def _unit_vectors(k: int, vectors: ArrayLike) -> Floats:
    """(d, p) with columns of length 1."""
    u = _check.array(f"signature of client {k}", vectors, (None, None))
    length = np.linalg.norm(u, axis=0)
    if u.shape[1] == 0 or not length.all():
        raise ValueError(f"the signature of client {k} must have one or more columns and none of them zero")
    return np.asarray(u / length)


def _basis(k: int, vectors: ArrayLike) -> Floats:
    """Orthonormal columns with the span of the vectors (d, p); fewer if they are dependent."""
    u = _unit_vectors(k, vectors)
    gram = u.T @ u
    if len(u) >= u.shape[1] and np.abs(gram - np.eye(len(gram))).max() < TINY:
        return u
    q, r = np.linalg.qr(u)
    if len(u) >= u.shape[1] and np.abs(r.diagonal()).min() > 1e-6:
        return np.asarray(q)
    left, size, _ = np.linalg.svd(u, full_matrices=False)
    return np.asarray(left[:, size > TINY * size[0]])


def _angles(u: Floats, v: Floats, metric: Metric) -> Floats:
    """Degrees (m, n) between m signatures u (m, p, d) and n signatures v (n, q, d), p <= q."""
    m, p, d = u.shape
    n, q, _ = v.shape
    products = (u.reshape(m * p, d) @ v.reshape(n * q, d).T).reshape(m, p, n, q).transpose(0, 2, 1, 3)
    if metric != "principal":
        return _pairwise(u, v, products.reshape(m, n, p * q), metric == "pairwise_abs")
    gram = products @ products.swapaxes(2, 3)  # its largest eigenvalue is exact to rounding; only small ones are not
    cosine = np.sqrt(np.linalg.eigvalsh(gram)[..., -1].clip(0, 1))
    angle = np.degrees(np.arccos(cosine))
    for i, j in _pieces(cosine > NEAR):
        # a basis vector of one span less its projection on the other: singular values are the sines of all angles
        rest = u[i] - products[i, j] @ v[j]  # (.., p, d)
        sine = np.linalg.svd(np.linalg.qr(rest.swapaxes(1, 2), mode="r"), compute_uv=False)[:, -1]
        angle[i, j] = np.degrees(np.arcsin(sine.clip(0, 1)))
    return np.asarray(angle)


def _pairwise(u: Floats, v: Floats, products: Floats, absolute: bool) -> Floats:
    """The smallest angle of two vectors (or lines), degrees (m, n); products (m, n, p q) of all vectors."""
    if absolute:
        products = np.abs(products)
    closest = products.argmax(axis=2)
    cosine = np.take_along_axis(products, closest[..., None], axis=2)[..., 0]
    angle = np.degrees(np.arccos(cosine.clip(-1, 1)))
    for i, j in _pieces(np.abs(cosine) > NEAR):
        a, b = np.divmod(closest[i, j], v.shape[1])
        one, other = u[i, a], v[j, b]
        # half the angle of two unit vectors, from the diagonals of their rhombus
        exact = 2 * np.arctan2(np.linalg.norm(one - other, axis=1), np.linalg.norm(one + other, axis=1))
        angle[i, j] = np.degrees(np.minimum(exact, np.pi - exact) if absolute else exact)
    return np.asarray(angle)


def _pieces(mask: NDArray[np.bool_], at_once: int = 1024) -> Iterator[tuple[Ints, Ints]]:
    """Rows and columns of the pairs in a mask (m, n), a few at a time."""
    rows, columns = np.nonzero(mask)
    for first in range(0, len(rows), at_once):
        yield rows[first : first + at_once], columns[first : first + at_once]
