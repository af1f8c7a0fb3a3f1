"""The model with the closest neighbours, or the mean of several such.

    score(i) = sum_{j -> i} ||v_i - v_j||^2        over the m - f - 2 models j closest to i, without i
    Krum:        the model with the least score
    multi-Krum:  the mean of the `keep` models with the least scores

P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient
Descent", 2017 (NeurIPS), here of models in the place of gradients. f of the models may be hostile, m >= 2 f + 3. The mean of
several is by weights; keeping all is the plain mean.

Models that are not finite were some of the f. Fewer models than 2 f + 3: `by_score` refuses; a rule must go on when few have
come, and compares as if they were to withstand as many as so few can, (m - 3) // 2. One or two models cannot judge each other:
their mean by weights. Of models with the same score (the closest pair of three, always) the one that is closer to all others
comes first. m models, P values.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.mixing.order import Rows, column_median
from fedloom.mixing.robust.votes import Rule, Votes
from fedloom.mixing.weights import Floats

BLOCK = 1 << 20  # values that are looked at together


def krum(f: int = 1) -> Rule:
    """f: hostile models at most."""
    return multi_krum(f, keep=1)


def multi_krum(f: int = 1, keep: int | None = None) -> Rule:
    """f: hostile models at most; keep: so many are averaged, or all of them if fewer come; m - f unless it is said."""
    _check.whole("f", f, least=0)
    if keep is not None:
        _check.whole("keep", keep)

    def rule(votes: Votes) -> Floats:
        m, hostile = len(votes.rows), max(0, f - votes.n_sick)
        n = min(m, max(1, m - hostile) if keep is None else keep)
        if m < 3 or n == m:
            return votes.mean()
        kept = np.zeros(m, dtype=np.bool_)
        kept[by_score(squared_distances(votes.rows), withstood(m, hostile))[:n]] = True
        return votes.mean(kept)

    return rule


def withstood(m: int, f: int, each: int = 2) -> int:
    """f, or as many as m models can withstand, if each * f + 3 are needed for f."""
    return max(0, min(f, (m - 3) // each))


def by_score(squares: Floats, f: int) -> NDArray[np.int64]:
    """Models (m,), the one with the closest neighbours first; squares (m, m): distances squared. m >= 2 f + 3.

    >>> by_score(squared_distances(np.array([[0], [1], [2.5], [90]], dtype=np.float32)), 0).tolist()  # 1 + 6.25, 1 + 2.25, ...
    [1, 0, 2, 3]
    """
    m = len(squares)
    if m < 2 * f + 3:
        raise ValueError(
            f"Krum withstands {f} hostile models among at least {2 * f + 3}, got {m}; use a smaller f, let more clients take "
            f"part, or take coordinate_median, which does with any number"
        )
    return ranked(squares, m - f - 2)


def ranked(squares: Floats, n_neighbours: int) -> NDArray[np.int64]:
    """By the sum over so many neighbours; if that is the same, over all."""
    ascending = np.sort(squares, axis=1)  # the first is the model itself
    return np.lexsort((ascending.sum(axis=1), ascending[:, 1 : 1 + n_neighbours].sum(axis=1)))


def squared_distances(rows: Rows) -> Floats:
    """||v_i - v_j||^2 (m, m) of rows (m, P), with 0 in the diagonal.

    From inner products around the median, which no outlier moves: around a far model, or 0, the small distances would be
    differences of large numbers.
    """
    m, centre = len(rows), column_median(rows).astype(np.float64)
    gram = np.zeros((m, m))
    step = max(1, BLOCK // m)
    for low in range(0, rows.shape[1], step):
        block = rows[:, low : low + step] - centre[low : low + step]
        gram += block @ block.T
    square = gram.diagonal()
    found = np.maximum(square[:, None] + square[None, :] - 2 * gram, 0.0)
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)
