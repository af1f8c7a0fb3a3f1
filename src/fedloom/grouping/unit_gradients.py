"""Cosines of gradients, without the matrix of all pairs.

    c_uv = <g_u, g_v> / (|g_u| |g_v|)                                        (DDC, eq. 5)

Unit gradients are kept as rows (U, q) and a remainder (U,): device u is its row and a private coordinate of length
sqrt(remainder_u), orthogonal to everybody. So c_uv = <row_u, row_v> for u != v, and c_uu = |row_u|^2 + remainder_u = 1 always.
A zero gradient is all remainder: its cosine with everybody else is 0. A factor of low rank puts what it loses into the
remainder, our choice: scaling rows back to length 1 would double the largest error of the cosines. U devices, p parameters.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping.directions import gram_matrix

Floats = NDArray[np.float64]

RANK = 64  # enough for cosines of first gradients to about 1e-3
RANK_ROUNDING = 1e-13  # eigenvalues of cosines below this share of the largest are 0


def unit_rows(
    gradients: NDArray[np.floating], *, rank: int | None = None, rng: np.random.Generator | None = None
) -> tuple[Floats, Floats]:
    """Rows (U, q) and remainder (U,) with c_uv = <row_u, row_v> for u != v and |row_u|^2 + remainder_u = 1 (eq. 5).

    gradients (U, p), finite. Without rank the cosines are exact, with q at most min(U, p). With rank, q is at most that:
    rows are projected onto the leading singular directions, found by a randomised SVD with one number from rng; what is
    lost goes to the remainder. 64 is enough for cosines of first gradients to about 1e-3.

    >>> rows, remainder = unit_rows(np.array([[2.0, 0.0], [3.0, 4.0], [0.0, 0.0]]))
    >>> (rows @ rows.T).round(12).tolist(), remainder.tolist()
    ([[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.0]], [0.0, 0.0, 1.0])
    """
    g = np.asarray(gradients)
    if g.dtype != np.float32:
        g = g.astype(np.float64, copy=False)
    if g.ndim != 2:
        raise ValueError(f"gradients must have shape (U, p), got {g.shape}")
    largest = np.abs(g).max(axis=1, initial=0.0).astype(np.float64)
    lost = np.flatnonzero(~np.isfinite(largest))
    if len(lost):
        raise ValueError(f"gradients must be finite, but those of devices {lost[:10].tolist()} are not")
    there = largest > 0
    n, p = g.shape
    _check.wholes(rank=rank)
    if rank is not None and rank < min(n, p):
        rows = _leading_directions(g, largest, rank, rng)
        return rows, np.clip(1 - (rows**2).sum(axis=1), 0.0, 1.0)
    if p <= n:
        rows = g / np.where(there, largest, 1.0)[:, None]  # first by the largest entry: squares cannot overflow
        rows /= np.where(there, np.linalg.norm(rows, axis=1), 1.0)[:, None]
        return rows, np.where(there, 0.0, 1.0)
    inner = gram_matrix(g, 1 / np.where(there, largest, 1.0))
    length = np.sqrt(np.where(there, inner.diagonal(), 1.0))
    value, vector = np.linalg.eigh(inner / length / length[:, None])
    kept = value > RANK_ROUNDING * max(1.0, float(value[-1]))
    rows = vector[:, kept] * np.sqrt(value[kept])
    rows /= np.where(there, np.linalg.norm(rows, axis=1), 1.0)[:, None]
    rows[~there] = 0.0
    return rows, np.where(there, 0.0, 1.0)


def cosine_matrix(gradients: NDArray[np.floating]) -> Floats:
    """c (U, U), eq. 5, in [-1, 1]: 1 on the diagonal, 0 between a zero gradient and all others."""
    rows, _ = unit_rows(gradients)
    out = np.clip(rows @ rows.T, -1.0, 1.0)
    np.fill_diagonal(out, 1.0)
    return out


def _leading_directions(g: NDArray[np.floating], largest: Floats, rank: int, rng: np.random.Generator | None) -> Floats:
    """Unit gradients (U, p) in the coordinates of their `rank` leading directions: no row is longer than 1."""
    from sklearn.utils.extmath import randomized_svd  # takes long to import

    if rng is None:
        raise ValueError(f"a factor of rank {rank} is drawn by chance and needs rng")
    unit = g / np.where(largest > 0, largest, 1.0)[:, None].astype(g.dtype)
    length = np.sqrt(np.einsum("up,up->u", unit, unit, dtype=np.float64))
    unit /= np.where(length > 0, length, 1.0)[:, None].astype(unit.dtype)
    _, _, directions = randomized_svd(unit, rank, n_iter=4, random_state=int(rng.integers(2**31)))
    return np.asarray(unit @ directions.T, dtype=np.float64)
