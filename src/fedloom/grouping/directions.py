"""How far a cluster's learning direction is from everybody's: measures that a local search makes small.

    theta_c = arccos(S_c Phi / (|S_c| |Phi|)),  S_c = sum_{i in c} |D_i| phi_i,  Phi = sum_i |D_i| phi_i       (LTC, eq. 3)
    skew_c  = sum_k |p_c(k) - p(k)|,  p_c(k) = sum_{i in c} L_ik / sum_{i in c} |D_i|                  (LTC, section 5.4.3)

A client's direction phi_i (d,) is its model update, a part of it, or its mean prediction: other features, the same angle.
L_ik: samples of label k at client i. Neither changes if all sizes are multiplied by the same number.

A measure knows the clusters of a search and gives its value for both clusters of a pair after every possible exchange of
two members, from sums it keeps: for the angle from the Gram matrix of the |D_i| phi_i, so that the length d of a
feature matters only once. K clients, N clusters. Client K stands for nobody, so that a move is an exchange too.

Our choices: a sum that is shorter than a millionth of the longest client's has no direction and is at pi/2; cosines that
rounding cannot tell from 1 or -1 are 1 or -1 (within 1e-12, or more where a sum nearly cancels), because an angle of 1e-8
instead of 0 would be infinitely worse; skews below 1e-12 are 0; a cluster without samples has no labels, p_c = 0 and
skew 1, the middle of the range as pi/2 is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORT = 1e-6  # of the longest client's: no direction
SAME = 1e-12  # differences that are rounding
BLUR = 1e-2  # of the square of the longest client's: shorter sums have lost digits
BLOCK = 1 << 22  # numbers of a block of features in float64: 32 MB


class Angle:
    """theta_c, rad, in [0, pi], of features (K, d) weighted by n_samples (K,) >= 0."""

    def __init__(self, features: ArrayLike, n_samples: Floats) -> None:
        n = len(n_samples)
        _check.positive("n_samples", n_samples, zero=True)
        self._gram = np.zeros((n + 1, n + 1))
        self._gram[:n, :n] = gram_matrix(features, n_samples)
        self._own = self._gram.diagonal().copy()  # |psi_i|^2
        self._pull = self._gram.sum(axis=1)  # psi_i Phi
        self._total = float(self._pull.sum())  # |Phi|^2
        self._longest = float(self._own.max())
        self._floor = SHORT**2 * self._longest

    def restart(self, clusters: Sequence[Ints]) -> Floats:
        self._reach = np.stack([self._gram[c].sum(axis=0) for c in clusters])  # (N, K + 1): S_c psi_j
        self._along = np.array([self._pull[c].sum() for c in clusters])  # (N,): S_c Phi
        self._square = np.array([row[c].sum() for row, c in zip(self._reach, clusters)])  # (N,): |S_c|^2
        return self._angles(self._along.copy(), self._square.copy())

    def after(self, c1: int, c2: int, first: Ints, second: Ints) -> Floats:
        inner = self._gram.take((first * len(self._own))[:, None] + second)  # psi_i psi_j
        grow = self._own[first][:, None] + self._own[second] - 2 * inner  # |psi_j - psi_i|^2
        turn = self._pull[second] - self._pull[first][:, None]
        one, two = 2 * self._reach[c1], 2 * self._reach[c2]
        along, square = np.empty((2, *grow.shape)), np.empty((2, *grow.shape))
        np.add(self._along[c1], turn, out=along[0])
        np.subtract(self._along[c2], turn, out=along[1])
        np.add(grow + (self._square[c1] - one[first])[:, None], one[second], out=square[0])
        np.subtract(grow + (self._square[c2] + two[first])[:, None], two[second], out=square[1])
        return self._angles(along, square)

    def apply(self, c1: int, c2: int, leaves: int, joins: int) -> None:
        turn = self._gram[joins] - self._gram[leaves]
        grow = self._own[joins] + self._own[leaves] - 2 * self._gram[joins, leaves]
        self._square[c1] += grow + 2 * (self._reach[c1, joins] - self._reach[c1, leaves])
        self._square[c2] += grow - 2 * (self._reach[c2, joins] - self._reach[c2, leaves])
        self._along[c1] += self._pull[joins] - self._pull[leaves]
        self._along[c2] -= self._pull[joins] - self._pull[leaves]
        self._reach[c1] += turn
        self._reach[c2] -= turn

    def _angles(self, along: Floats, square: Floats) -> Floats:
        """arccos(along / sqrt(square |Phi|^2)) with the edge cases above; the arguments may be overwritten."""
        if self._total <= self._floor:
            return np.full(along.shape, np.pi / 2)
        short = square <= self._floor
        if short.any():
            along[short], square[short] = 0.0, 1.0
        cosine = along / np.sqrt(square * self._total)
        if max(cosine.max(), -cosine.min()) > 1 - BLUR:
            blur = BLUR * self._longest / np.minimum(square, self._total)
            parallel = 1 - np.abs(cosine) <= SAME * np.maximum(1.0, blur)
            cosine[parallel] = np.sign(cosine[parallel])
        return np.asarray(np.arccos(cosine))


class Skew:
    """skew_c, in [0, 2], of label counts (K, C), whose rows sum to n_samples (K,)."""

    def __init__(self, label_counts: ArrayLike, n_samples: Floats) -> None:
        n = len(n_samples)
        counts = _check.array("label counts", label_counts, (n, None))
        _check.positive("label counts", counts, zero=True)
        wrong = np.flatnonzero(~np.isclose(counts.sum(axis=1), n_samples, rtol=1e-9, atol=0))
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                f"the label counts of a client must sum to its n_samples, got {counts[i].sum():g} "
                f"and {n_samples[i]:g} for client {i}"
            )
        self._counts = np.zeros((counts.shape[1], n + 1))  # (C, K + 1)
        self._counts[:, :n] = counts.T
        everybody = self._counts.sum(axis=1)
        self._share = everybody / (everybody.sum() or 1.0)  # (C,)

    def restart(self, clusters: Sequence[Ints]) -> Floats:
        self._sum = np.stack([self._counts[:, c].sum(axis=1) for c in clusters], axis=1)  # (C, N)
        return self._skews(self._sum, self._share[:, None])

    def after(self, c1: int, c2: int, first: Ints, second: Ints) -> Floats:
        turn = self._counts[:, None, second] - self._counts[:, first, None]  # (C, n1 + 1, n2 + 1)
        one = self._skews(self._sum[:, c1, None, None] + turn, self._share[:, None, None])
        two = self._skews(self._sum[:, c2, None, None] - turn, self._share[:, None, None])
        return np.stack([one, two])

    def apply(self, c1: int, c2: int, leaves: int, joins: int) -> None:
        turn = self._counts[:, joins] - self._counts[:, leaves]
        self._sum[:, c1] += turn
        self._sum[:, c2] -= turn

    @staticmethod
    def _skews(counts: Floats, share: Floats) -> Floats:
        """(C, ...) -> (...)"""
        total = counts.sum(axis=0)
        skew = np.abs(counts / np.where(total > 0, total, 1.0) - share).sum(axis=0)
        return np.where(skew < SAME, 0.0, skew)


def gram_matrix(features: ArrayLike, n_samples: Floats) -> Floats:
    """Inner products (K, K) of n_samples[i] * features[i], summed in float64 in blocks of columns of features (K, d)."""
    rows = np.asarray(features)
    if rows.ndim != 2 or len(rows) != len(n_samples):
        raise ValueError(f"features must have shape ({len(n_samples)}, d), got {rows.shape}")
    out = np.zeros((len(rows), len(rows)))
    step = max(1, BLOCK // len(rows))
    for start in range(0, rows.shape[1], step):
        block = n_samples[:, None] * rows[:, start : start + step]
        out += block @ block.T
    lost = np.flatnonzero(~np.isfinite(out.diagonal()))
    if len(lost):
        raise ValueError(f"features must be finite, but those of clients {lost.tolist()} are not")
    return out
