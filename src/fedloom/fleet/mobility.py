"""Devices that wander between cells: a Markov chain on the cells (CSAHFL, section 4.1).

    P_nn = p_stay,    P_nm = (1 - p_stay) / degree_n  for each neighbour m of n; who is a neighbour is ours

The stationary law is proportional to the number of neighbours whatever p_stay < 1.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.radio import distances

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def neighbours(kind: str, cells: int | ArrayLike) -> Mask:
    """Which cells a device of a cell may move to: symmetric (N, N), no cell is its own neighbour.

    `cells` is N or the centres (N, D). ring and path go by index, complete is all to all; adjacent goes by
    the centres: those no farther apart than 1.05 times the smallest distance of any two.
    """
    _check.one_of("kind", kind, ["ring", "path", "complete", "adjacent"])
    if isinstance(cells, int | np.integer):
        _check.whole("cells", int(cells))
        if kind == "adjacent":
            raise ValueError(f"neighbours adjacent needs the centres (cells, D), got the number {cells}")
        n = int(cells)
    else:
        centres = _check.array("cells", cells, (None, None))
        n = len(centres)
        if kind == "adjacent":
            return _adjacent(centres)
    index = np.arange(n)
    gap: NDArray[np.int64] = np.abs(index[:, None] - index)
    mask: Mask = gap > 0
    if kind == "ring":
        mask = mask & ((gap == 1) | (gap == n - 1))
    elif kind == "path":
        mask = gap == 1
    return mask


def transition(neighbours: Mask, p_stay: float) -> Array:
    """Probabilities (N, N) of moving from row to column, rows sum to 1. A cell without neighbours keeps all.

    >>> transition(np.array([[False, True], [True, False]]), 0.75).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    mask = _neighbour_mask(neighbours)
    if not 0 <= p_stay <= 1:
        raise ValueError(f"p_stay must be between 0 and 1, got {p_stay:g}")
    degree = mask.sum(axis=1)
    matrix: Array = mask * ((1 - p_stay) / np.maximum(degree, 1))[:, None]
    matrix[np.diag_indices(len(mask))] = np.where(degree > 0, p_stay, 1.0)
    return matrix


def stationary(neighbours: Mask) -> Array:
    """Where devices are found in the long run (N,), sum 1: in proportion to the number of neighbours.

    That is so whatever p_stay < 1 (with p_stay 0 on average over time), if every cell can be reached from every other.

    >>> stationary(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)).tolist()
    [0.25, 0.5, 0.25]
    """
    mask = _neighbour_mask(neighbours)
    if (mask != mask.T).any():
        i, j = np.argwhere(mask & ~mask.T)[0].tolist()
        raise ValueError(f"neighbours must be symmetric: cell {j} is a neighbour of {i}, but {i} is none of {j}")
    reached = np.zeros(len(mask), dtype=np.bool_)
    reached[:1] = True
    for _ in range(len(mask) - 1):
        reached |= mask[reached].any(axis=0)
    if not reached.all():
        lost = np.flatnonzero(~reached).tolist()
        raise ValueError(
            f"cells {lost} cannot be reached from cell 0, so where devices end depends on where they start"
        )
    degree = mask.sum(axis=1)
    return np.ones(1) if len(mask) == 1 else degree / degree.sum()


def move(home: NDArray[np.integer], transition: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """The homes (K,) one step later. A device without home (-1) keeps none."""
    matrix = _check.array("transition", transition, (None, None))
    cells = np.asarray(home, dtype=np.int64)
    bad = np.flatnonzero((cells < -1) | (cells >= len(matrix)))
    if len(bad):
        raise ValueError(f"device {bad[0]} has home {cells[bad[0]]}, expected -1..{len(matrix) - 1}")
    _check.positive("transition", matrix, zero=True)
    if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-9):
        raise ValueError("transition must be square (cells, cells) with rows that sum to 1")
    cumulative = matrix.cumsum(axis=1)
    # the last column becomes exactly 1, so rounding cannot lead to a cell of probability 0
    cumulative /= cumulative[:, -1:]
    lot = rng.uniform(size=len(cells))
    moved = (lot[:, None] >= cumulative[cells]).sum(axis=1)
    return np.where(cells < 0, cells, moved)


def _neighbour_mask(neighbours: Mask) -> Mask:
    mask = np.asarray(neighbours, dtype=np.bool_)
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        raise ValueError(f"neighbours must be square (cells, cells), got shape {mask.shape}")
    if mask.diagonal().any():
        own = int(mask.diagonal().argmax())
        raise ValueError(f"cell {own} must not be its own neighbour; p_stay says how many stay")
    return mask


def _adjacent(centres: Array) -> Mask:
    distance = distances(centres, centres)
    np.fill_diagonal(distance, np.inf)
    if (distance == 0).any():
        i, j = np.argwhere(distance == 0)[0].tolist()
        raise ValueError(f"cells {i} and {j} have the same centre; neighbours adjacent needs distinct ones")
    near: Mask = np.isfinite(distance) & (distance <= 1.05 * distance.min(initial=np.inf))
    return near
