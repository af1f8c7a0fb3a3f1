"""DDC: clusters around heads whose members learn in different directions and stand near by.

    c_uv = <grad F_u, grad F_v> / (|grad F_u| |grad F_v|)                    at the cloud's first model             (5)
    c(C) = (1/k) sum_n (1/m_n^2) sum_{u,v in C_n} c_uv                       likeness inside clusters, low is good  (15)
    d(C) = sum_n ([sum_{u in C_n} d_un] + d_n,cs)                            metres, the server once per head       (6)
    min  (1 - alpha) d(C) / D_ref + alpha c(C)                               over heads and members                 (16)

Chen, Xu, Ding, Wang, "Data- and distance-aware clustering for scalable wireless federated learning", Frontiers in
Communications and Networks 7, 2026, doi 10.3389/frcmn.2026.1748815. Before training, every device sends its gradient at the
first model and its position; heads are opened, exchanged and closed among the candidates, and devices associated with them, see
`fedloom.grouping.head_selection`.
Then clusters stay as they are: members average at their head every tau1 rounds, heads at the server every tau2. A round is what
the scenario calls local work, tau1 = 1, and tau2 its number of edge rounds.

The published text leaves candidates, capacities and the scale of the two terms open; the defaults here are our choices: a
share of 0.3 of all devices drawn by chance, at most a fifth of all devices in a cluster, and distances relative to those of
everybody to the server. A head is a member of its own cluster and counts in its capacity.
"""

import math

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View, draw_candidates, head_problem, select_heads
from fedloom.grouping.head_problem import NORMALISE, WEIGHTINGS
from fedloom.grouping.head_selection import SEARCHES, HeadSelection
from fedloom.grouping.unit_gradients import RANK
from fedloom.methods.parts import Barrier, Grouping, Method

SHARE = 5  # by default a head serves at most one in so many devices
MOST_DRAWN = 100  # candidates, if no number is asked for and capacity does not need more
EXACT_UP_TO = 1000  # devices whose cosines are exact by default, else of rank RANK


def method(
    alpha: float = 0.5,
    normalise: str = "fedavg",
    weighting: str = "cluster",
    capacity: int | None = None,
    candidate_share: float = 0.3,
    n_candidates: int | None = None,
    search: str = "auto",
    n_best: int | None = None,
    max_cycles: int | None = None,
    rank: int | None = None,
    warmup_rounds: int = 0,
    score: bool = False,
) -> Method:
    """alpha: weight of c(C), 0 to 1. normalise: D_ref, "fedavg", "literal", "literal_eq18" or "energy". weighting: c(C) as the
    mean over clusters ("cluster") or devices ("size"). capacity: most devices of a head, itself included, by default a
    fifth of all. Candidates for heads are drawn: a share, up to 100 but never fewer than capacity needs, or a number. search,
    n_best, max_cycles: of the search for heads. rank: most columns of the gradients, by default 64 above 1,000 devices.
    warmup_rounds: cloud rounds of FedAvg before gradients are taken. score: collect gradients at alpha = 0 too, only to
    note c(C)."""
    _check.one_of("normalise", normalise, NORMALISE)
    _check.one_of("weighting", weighting, WEIGHTINGS)
    _check.one_of("search", search, SEARCHES)
    _check_share("alpha", alpha, zero=True)
    _check_share("candidate_share", candidate_share)
    _check.wholes(capacity=capacity, n_candidates=n_candidates, n_best=n_best, rank=rank)
    _check.wholes(max_cycles=max_cycles, least=0)
    with_gradients = alpha > 0 or score

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.active)
        n = len(who)
        room = capacity_for(n, capacity)
        energy_j = (view.link_j[np.ix_(who, who)], view.cloud_j[who]) if normalise == "energy" else None
        problem = head_problem(
            view.position_m[who],
            view.server_m,
            view.features("gradient")[who] if with_gradients else None,
            alpha=alpha,
            candidates=draw_candidates(n, rng, share=_n_candidates(n, room, candidate_share, n_candidates) / n),
            capacity=room,
            normalise=normalise,
            energy_j=energy_j,
            tau2=view.edge_rounds,
            weighting=weighting,
            rank=RANK if rank is None and n > EXACT_UP_TO else rank,
            rng=rng,
        )
        found = select_heads(problem, search=search, n_best=n_best, max_cycles=max_cycles, rng=rng)
        clusters = [who[c] for c in found.clusters]
        return Topology.of_heads(clusters, who[found.heads], len(view.active), _notes(found))

    needs = {Need.SIZES, Need.POSITIONS}
    needs |= {Need.GRADIENTS} if with_gradients else set()
    needs |= {Need.LINKS} if normalise == "energy" else set()
    return Method(
        name="ddc",
        summary="device clusters around heads, of unlike gradients and short distances, once",
        group=Grouping(group, when="once"),
        needs=frozenset(needs),
        cloud=Barrier(warmup=warmup_rounds),
    )


def capacity_for(n_devices: int, capacity: int | None) -> int:
    """The most devices of a head: a fifth of all, rounded up, if nothing else is asked for."""
    return math.ceil(n_devices / SHARE) if capacity is None else capacity


def heads_for(n_devices: int, n_clusters: int | None, capacity: int | None) -> int:
    """The number of clusters asked for, or the fewest that capacity allows."""
    return math.ceil(n_devices / capacity_for(n_devices, capacity)) if n_clusters is None else n_clusters


def _notes(found: HeadSelection) -> dict[str, float]:
    """Figures to be recorded of the clusters."""
    scores, n_members = found.scores, sum(map(len, found.clusters)) - len(found.heads)
    notes = {"objective": scores.objective, "member_m": scores.member_m / max(1, n_members)}
    if scores.cosine is not None and scores.cosine_by_size is not None:
        notes |= {"cosine": scores.cosine, "cosine_by_size": scores.cosine_by_size}
    return notes


def _n_candidates(n_devices: int, room: int, share: float, wanted: int | None) -> int:
    needed = math.ceil(n_devices / room)
    if wanted is None:
        return max(needed, min(MOST_DRAWN, math.ceil(share * n_devices - 1e-9)))
    if wanted > n_devices:
        raise ValueError(f"n_candidates must be at most the number of devices, {n_devices}, got {wanted}")
    if wanted < needed:
        raise ValueError(
            f"{wanted} candidates with a capacity of {room} devices have room for {wanted * room} of {n_devices}; "
            f"take n_candidates of at least {needed}, or a larger capacity"
        )
    return wanted


def _check_share(name: str, value: float, zero: bool = False) -> None:
    if not (0 <= value <= 1 and (zero or value)):
        raise ValueError(f"{name} must be {'between 0 and 1' if zero else 'above 0 and at most 1'}, got {value:g}")
