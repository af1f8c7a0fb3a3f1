"""Which cells a device is in reach of, and which of them is its home.

    in_reach_nk = |x_k - c_n| <= r_n

N cells, K devices; axis order (cell, device).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.radio import distances

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def reach(positions_m: ArrayLike, centres_m: ArrayLike, radius_m: ArrayLike) -> Mask:
    """Devices (K, D), centres (N, D), radius of all or of each cell (N,): in reach (N, K).

    >>> reach([[0, 0], [9, 0]], [[0, 0], [10, 0]], 9.0).tolist()
    [[True, True], [False, True]]
    """
    distance = distances(centres_m, positions_m)  # (N, K)
    return within(distance, radius_m)


def within(distance_m: Array, radius_m: ArrayLike) -> Mask:
    """In reach (N, K) of distances (N, K) and one radius or (N,)."""
    return distance_m <= per_cell_radius(radius_m, len(distance_m))[:, None]


def per_cell_radius(radius_m: ArrayLike, n_cells: int) -> Array:
    """One radius or (N,), above 0, infinite for a cell that reaches everybody: (N,)."""
    radius = np.asarray(radius_m, dtype=np.float64)
    if radius.shape not in ((), (n_cells,)):
        raise ValueError(f"radius_m must be one number or one per cell ({n_cells}), got shape {radius.shape}")
    _check.positive("radius_m", radius)
    return np.broadcast_to(radius, n_cells)


def check_covered(in_reach: Mask) -> None:
    """Every device must be in reach of a cell; `in_reach` (N, K)."""
    lost = np.flatnonzero(~np.asarray(in_reach).any(axis=0)).tolist()
    if lost:
        named = f"{lost[:10]} and {len(lost) - 10} more" if len(lost) > 10 else f"{lost}"
        others = "" if len(lost) == np.shape(in_reach)[1] else ", or leave them out (uncovered: drop)"
        raise ValueError(
            f"devices {named} are in reach of none of the {len(in_reach)} cells; enlarge radius_m, or move the "
            f"devices{others}"
        )


def deal_homes(
    in_reach: Mask,
    rule: str = "even",
    *,
    rng: np.random.Generator | None = None,
    distance_m: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """One home cell (K,) for every device, among the cells it is in reach of, `in_reach` (N, K).

    even: the devices of one region (those in reach of the same cells) are dealt at random and evenly over its
    cells; of a remainder, the cells with the fewest devices so far get one each, the lowest index first.
    Regions of few cells come first, so that the overlaps can level out what the exclusive areas left uneven.
    nearest: the cell with the least `distance_m` (N, K), the lowest index if tied. random: uniform.

    even and random need `rng`, nearest needs `distance_m`.
    """
    _check.one_of("rule", rule, ["even", "nearest", "random"])
    mask = np.asarray(in_reach, dtype=np.bool_)
    if mask.ndim != 2:
        raise ValueError(f"in_reach must have shape (cells, devices), got {mask.shape}")
    check_covered(mask)
    if rule == "nearest":
        if distance_m is None:
            raise ValueError("rule nearest needs distance_m (cells, devices)")
        distance = _check.array("distance_m", distance_m, mask.shape)
        nearest: NDArray[np.int64] = np.where(mask, distance, np.inf).argmin(axis=0)
        return nearest
    if rng is None:
        raise ValueError(f"rule {rule} needs rng, a numpy Generator")
    if rule == "random":
        lot = np.where(mask, rng.uniform(size=mask.shape), -1.0)
        drawn: NDArray[np.int64] = lot.argmax(axis=0)
        return drawn
    return _deal_evenly(mask, rng)


def _deal_evenly(mask: Mask, rng: np.random.Generator) -> NDArray[np.int64]:
    home = np.full(mask.shape[1], -1, dtype=np.int64)
    n_devices = np.zeros(len(mask), dtype=np.int64)
    regions, region_of = np.unique(mask.T, axis=0, return_inverse=True)  # (R, N), (K,)
    cells_of = [np.flatnonzero(region) for region in regions]
    for index in sorted(range(len(regions)), key=lambda i: (len(cells_of[i]), cells_of[i].tolist())):
        cells = cells_of[index]
        members = rng.permutation(np.flatnonzero(region_of == index))
        each, rest = divmod(len(members), len(cells))
        fewest = cells[np.argsort(n_devices[cells], kind="stable")[:rest]]
        dealt = np.concatenate([np.repeat(cells, each), fewest])
        home[members] = dealt
        n_devices += np.bincount(dealt, minlength=len(mask))
    return home
