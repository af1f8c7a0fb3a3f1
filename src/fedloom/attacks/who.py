"""Who is hostile: drawn by the seed and the device alone, so that every method and every defence faces the same.

A larger share holds the smaller ones: devices are taken in the order of their lots, uniform numbers by (seed, "hostile", device).
"""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import uniform_of

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def hostile_devices(share: float, where: str, in_reach: Mask, home: Ints, seed: int) -> Ints:
    """So many of K devices, round(share K), at least one; sorted. in_reach (N, K), home (K,): at the start.

    anywhere: by lot. one-cell: those of one home cell, by lot, then if it has too few those of another, cells by lot.
    bridging: those in reach of several cells, by lot; ValueError if there are fewer.
    """
    n_devices = len(home)
    n = max(1, round(share * n_devices))
    lots = uniform_of(seed, "hostile", np.arange(n_devices))
    if where == "bridging":
        among = np.flatnonzero(in_reach.sum(axis=0) > 1)
        if len(among) < n:
            raise ValueError(
                f"hostile.clients: {n} bridging devices are wanted (share {share:g} of {n_devices}), and {len(among)} are in "
                f"reach of several cells; take a smaller share, or where: anywhere"
            )
        return np.sort(among[np.argsort(lots[among], kind="stable")[:n]])
    if where == "one-cell":
        cells = np.arange(len(in_reach))
        rank = np.argsort(np.argsort(uniform_of(seed, "hostile cell", cells), kind="stable"))
        of_home = np.where(home >= 0, rank[home], len(cells))  # who is in no cell comes last
        return np.sort(np.lexsort((lots, of_home))[:n])
    return np.sort(np.argsort(lots, kind="stable")[:n])


def hostile_cells(share: float, n_cells: int, seed: int) -> Ints:
    """So many of N edge servers, round(share N), at least one; sorted."""
    lots = uniform_of(seed, "hostile edge", np.arange(n_cells))
    return np.sort(np.argsort(lots, kind="stable")[: max(1, round(share * n_cells))])
