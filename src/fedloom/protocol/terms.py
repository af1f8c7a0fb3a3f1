"""What a federation has agreed on, and what is known of the devices in an edge round."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedloom._random import uniform_of
from fedloom.grouping import Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TIE = 1e-9  # seconds: what is this close together happens at the same time, and arrivals come first


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """K clients: samples of each (K,), of each class (K, C), and the steps that belong together in its work (K,): an epoch, or 1.

    participation: share of an aggregator's clients that is sampled in every edge round; clients_per_round: or so many of every
    host (at the cloud: as many as all `n_cells` together would). seed: lots are drawn from it, the same for every method.
    """

    n_samples: Ints
    label_counts: Ints
    unit_steps: Ints
    seed: int
    participation: float = 1.0
    clients_per_round: int | None = None
    n_cells: int = 1

    def share(self, n_clients: int) -> int:
        """How many of so many clients of one host are sampled."""
        return self.clients_per_round or max(1, round(self.participation * n_clients))

    def wanted(self, topology: Topology, aggregators: Ints, n_members: int, n_groups: int) -> int:
        """How many of the members of a group are sampled for an edge round."""
        if self.clients_per_round is None:
            return self.share(n_members)
        if topology.kind == "cloud":
            return max(1, self.clients_per_round * self.n_cells // n_groups)
        return self.clients_per_round * len(np.unique(topology.host[aggregators]))

    def drawn(self, idle: Ints, wanted: int, edge_round: int, merges: int = 0) -> Ints:
        """`wanted` of the idle clients (m,), sorted: those with the lowest lots. A client's lot in an edge round (and after so
        many merges in it) is its own, whichever group or method asks: two methods that choose among the same clients
        choose the same."""
        if wanted >= len(idle):
            return idle
        lots = uniform_of(self.seed, "sampling", idle, edge_round, merges)
        return np.sort(idle[np.argsort(lots, kind="stable")[: max(wanted, 0)]])


@dataclass(frozen=True, kw_only=True, eq=False)
class Attendance:
    """Who is where in an edge round, and how long things take as predicted, for K clients and N aggregators in groups.

    group_of (K,): the group of each client, -1 for none; n_reached (K,): aggregators it reports to, at least 1; step_s (K,):
    seconds of a local step; link_s (K,): seconds to fetch a model and return it, with the air for itself. together_s: where air
    is shared, these seconds (m,) of clients (m,) that are sent together for steps (m,), if nobody else sends meanwhile.
    """

    topology: Topology
    group_of: Ints
    n_reached: Ints
    step_s: Floats
    link_s: Floats
    together_s: Callable[[Ints, Ints], Floats] | None = None
    _members: dict[int, Ints] = field(default_factory=dict, init=False, repr=False)

    def members(self, group: int) -> Ints:
        """Clients of a group."""
        if group not in self._members:
            self._members[group] = np.flatnonzero(self.group_of == group)
        return self._members[group]

    def links_s(self, clients: Ints, steps: Ints) -> Floats:
        """Seconds (m,) that links take of clients which are sent together for steps (m,), as predicted."""
        return self.link_s[clients] if self.together_s is None else self.together_s(clients, steps)
