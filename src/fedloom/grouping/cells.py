"""Grouping by cells: everybody at the cloud, everybody at home, or everybody with every cell in reach."""

import numpy as np

from fedloom.grouping.topology import Topology
from fedloom.grouping.view import View


def one_cloud(view: View, rng: np.random.Generator) -> Topology:
    """No clusters: all active clients report to the cloud."""
    return Topology(cover=view.active[None, :].copy(), kind="cloud", host=np.zeros(1, dtype=np.int64))


def home_cells(view: View, rng: np.random.Generator) -> Topology:
    """Each client reports to the edge server of its home cell."""
    n_cells = len(view.in_reach)
    cover = (np.arange(n_cells)[:, None] == view.home[None, :]) & view.active
    return Topology(cover=cover, kind="edge", host=np.arange(n_cells), follow=True)


def all_cells(view: View, rng: np.random.Generator) -> Topology:
    """Each client reports to every edge server in reach, so clients in overlaps bridge cells."""
    return Topology(cover=view.in_reach, kind="edge", host=np.arange(len(view.in_reach)))
