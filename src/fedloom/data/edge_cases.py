"""Who holds which classes when the cells themselves are alike or not: the six data cases of HHFL
(sections V-B1 to V-B3).

    case 1       every client has all classes
    case 2       six classes per client, the cells alike
    case 3       two classes per client, the cells alike
    case 4       two classes per client, each cell misses three classes
    case 5, 6    two classes per client, each cell misses four (6: the same data on the modified topology)

How many classes clients hold in cases 1 to 3 and cells miss in cases 4 to 6 is the paper's; two classes per client in cases
4 to 6, and who holds which, are ours. A cell misses a class if none of the clients whose home it is holds it. Clients of a cell
are told apart by their position: the rank among those of the same home. In cases 1 to 3 position k of every cell holds the
classes (m k + j) mod C, j < m, so cells of the same size have identical label histograms.

Cases 4 to 6 are laid out by hand for the base layout: three cells of 19 clients in canonical order (positions
0-13 exclusive, 14 and 15 shared with the next cell, 16 and 17 with the previous one, 18 with both) and ten
classes. Cell n owns classes that no other cell has, and all share the classes 6 to 9:

    case 4       own {n}; 3 + n together with the next cell [qn], 3 + (n - 1) mod 3 with the previous one [qp]
    case 5, 6    own {2n, 2n + 1}

and clients in overlaps carry either the classes of their home (`overlap_data` "home", so that they bring
foreign classes to the cells in reach) or shared classes only ("shared", so that each cell misses its classes
in all of its reach). For any other number of cells N, clients or classes C, cell n misses the m classes
(n floor(C / N) + j) mod C, j < m, and the wheel of two classes per client runs over the rest.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.data.partition import wheel

OverlapData = Literal["home", "shared"]

CASES = range(1, 7)
N_MISSING = {4: 3, 5: 4, 6: 4}
BASE_CLASSES = 10
BASE_HOME = np.repeat(np.arange(3), 19)
COMMON = ([6, 7], [8, 9])


def edge_case_sets(case: int, home: ArrayLike, n_classes: int, overlap_data: OverlapData = "home") -> list[list[int]]:
    """The classes of each client: K sorted lists of distinct numbers in 0..n_classes-1.

    case           1 to 6, see above
    home           (K,) the cell each client belongs to, from 0; -1 for a client that belongs to none, which gets
                   the classes of the wheel at its index. N is the largest home + 1.
    overlap_data   "shared" is defined for the base layout only, which is recognised by `home` and `n_classes`
                   alone; in cases 1 to 3 no class belongs to a cell and both give the same

    >>> edge_case_sets(3, [0, 0, 1, 1], 10)
    [[0, 1], [2, 3], [0, 1], [2, 3]]
    >>> edge_case_sets(4, [0, 1], 10)  # cell 0 misses 0, 1, 2 and cell 1 misses 5, 6, 7
    [[3, 4], [0, 1]]
    """
    if isinstance(case, bool) or case not in CASES:
        raise ValueError(f"case must be one of 1, 2, 3, 4, 5, 6 (the data cases of HHFL); got {case!r}")
    _check.whole("n_classes", n_classes)
    _check.one_of("overlap_data", overlap_data, ("home", "shared"))
    homes = as_homes(home)
    base = n_classes == BASE_CLASSES and np.array_equal(homes, BASE_HOME)
    if overlap_data == "shared" and not base:
        raise ValueError(
            f'overlap_data "shared" is defined for three cells with 19 clients each in canonical order and '
            f"{BASE_CLASSES} classes; got {len(homes)} clients, {homes.max() + 1} cells and {n_classes} classes: "
            'use overlap_data "home" or the three-cells placement'
        )
    if case not in N_MISSING:
        return cells_alike(homes, n_classes, {1: n_classes, 2: 6, 3: 2}[case])
    if not base:
        return cells_missing(homes, n_classes, N_MISSING[case])
    of_cell = three_missing if case == 4 else four_missing
    return [classes for n in range(3) for classes in of_cell(n, overlap_data)]


def cells_alike(home: NDArray[np.int64], n_classes: int, classes_per_client: int) -> list[list[int]]:
    """Cases 1 to 3: one wheel over the positions of every cell. `home` (K,) -> K lists of classes."""
    if classes_per_client > n_classes:
        raise ValueError(
            f"a case with {classes_per_client} classes per client needs at least as many classes, got {n_classes}; "
            "use another case or dataset"
        )
    sets = wheel(len(home), classes_per_client, n_classes)
    return [sets[k] for k in _positions(home)]


def cells_missing(home: NDArray[np.int64], n_classes: int, n_missing: int) -> list[list[int]]:
    """Cases 4 to 6 for any layout: the wheel of two classes over those the client's cell does not miss.

    `home` (K,) -> K lists of classes. With more cells than classes the first missing class would be the same
    for all cells, which would make them alike: refused.
    """
    n_cells = int(home.max()) + 1
    if n_classes < n_missing + 2:
        raise ValueError(
            f"cells that miss {n_missing} classes with 2 classes per client need at least {n_missing + 2} classes, "
            f"got {n_classes}; use one of the cases 1 to 3 or another dataset"
        )
    if n_cells > n_classes:
        raise ValueError(
            f"cells can miss different classes only if there are at most as many cells as classes ({n_classes}), "
            f"got {n_cells} cells; use fewer cells or one of the cases 1 to 3"
        )
    every_class = list(range(n_classes))
    kept = {-1: every_class}
    for n in range(n_cells):
        missing = {(n * (n_classes // n_cells) + j) % n_classes for j in range(n_missing)}
        kept[n] = [c for c in every_class if c not in missing]
    slots = {size: wheel(len(home), 2, size) for size in {len(classes) for classes in kept.values()}}
    return [[kept[n][slot] for slot in slots[len(kept[n])][k]] for n, k in zip(home.tolist(), _positions(home))]


def three_missing(n: int, overlap_data: OverlapData) -> list[list[int]]:
    """Case 4 in the base layout: the classes of the 19 clients of cell `n`; it misses three."""
    with_next, with_previous = 3 + n, 3 + (n - 1) % 3
    a, b = [n, with_next], [n, with_previous]
    both = sorted([with_next, with_previous])
    c, d = COMMON
    if overlap_data == "home":
        sets = [a, b, c, d, a, b, c, d, a, b, c, d, b, both] + [a, c] + [b, d] + [a]
    else:
        sets = 5 * [a] + 5 * [b] + [both, c, d, d] + [c, d] + [c, d] + [c]
    return [list(classes) for classes in sets]


def four_missing(n: int, overlap_data: OverlapData) -> list[list[int]]:
    """Cases 5 and 6 in the base layout: the classes of the 19 clients of cell `n`; it misses four."""
    pattern = "UUCCUUCCUUCCUU" + "UC" + "UC" + "U" if overlap_data == "home" else 11 * "U" + 8 * "C"
    # U: the cell's own classes; C: classes of all, in turn the one and the other pair
    return [[2 * n, 2 * n + 1] if x == "U" else list(COMMON[pattern[:k].count("C") % 2]) for k, x in enumerate(pattern)]


def as_homes(home: ArrayLike) -> NDArray[np.int64]:
    """Home cells (K,) as int64, checked: from 0, or -1 for none."""
    homes = np.asarray(home)
    if homes.ndim != 1 or len(homes) == 0 or not np.issubdtype(homes.dtype, np.integer):
        raise ValueError(f"home must be whole numbers of shape (K,), one per client, got {homes.dtype} {homes.shape}")
    if homes.min() < -1:
        k = int(np.argmin(homes))
        raise ValueError(f"home must be a cell, from 0, or -1 for none; got {homes[k]} for client {k}")
    return homes.astype(np.int64, copy=False)


def _positions(home: NDArray[np.int64]) -> list[int]:
    """Rank of each client among those of the same home (K,); the index of a client without a home."""
    n_before = dict.fromkeys(home.tolist(), 0)
    positions = []
    for k, n in enumerate(home.tolist()):
        positions.append(k if n == -1 else n_before[n])
        n_before[n] += 1
    return positions
