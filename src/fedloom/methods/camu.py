"""CAMU: clusters of like data, weights by how common their labels are, extra updates for those worth it, powers by need.

    clusters     devices that hear each other, then devices of like labels       `fedloom.grouping.affinity`
    ln v_c       = ln |D_c| + 1 / max(W_c, floor)                                 contribution (CAMU, eq. 14)
    G_c          = v_c / sum_j v_j                                                weight of a cluster's model (CAMU, eq. 4)
    n_c          = floor(t_max / t_c) - 1                                         updates that fit into the wait, at most `cap`
    N_c          = 1 + [v_c >= threshold] n_c                                     updates in a cloud round (CAMU, eqs 15, 16)
    P_c, n_c     of least GAP for the energy of n_c at equal powers               problem P1, `fedloom.methods.camu_powers`

P. Sun, E. Liu, W. Ni, Y. Geng, K. Yu, R. Wang, A. Jamalipour, "Cluster-Aware Multi-Round Update for Wireless Federated Learning
in Heterogeneous Environments". W_c: transport distance of the cluster's labels to everybody's. An update is the scenario's local
work of all members, averaged at the leader, so it is an edge round; leaders send one after the other when the slowest cluster
is ready. Powers and noise are those of the radio link of devices to the cloud; `device_cloud.noisy` adds the noise of it to what
leaders send.

The compared schemes are compositions of the same parts:

    method              Configuration 5     clusters, eq. 4, updates and powers by P1, gate on
    updates_only        Benchmark 3         clusters, eq. 4, updates by P1 at the link's power, no gate
    gated               Configuration 3     clusters, eq. 4, 1 + S_c n_c updates
    ungated             Benchmark 2         the same with a threshold of 0
    single              Configurations 1, 4 the same with a threshold of infinity
    no_clusters         Configuration 2     every device by itself, eq. 4, one update
    no_clusters_by_size Benchmark 1         every device by itself, by data size, one update: FedAvg

Ours where the publication is silent: the signs of similarities, the floor, thresholds relative to 60,000 samples, the power
budget of P1, and its constants mu, L, delta, which hardly move its optimum; see docs/methods/camu.md.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping import Need, Topology, View, dual_segment
from fedloom.grouping.affinity import LABELS, LEADERS, MOST_CLIENTS, RADIO
from fedloom.methods.camu_powers import (
    SOLVERS,
    Constants,
    cluster_value,
    noted,
    open_gates,
    own_powers,
    power_problem,
    solved,
    update_s,
)
from fedloom.methods.parts import Allotment, Allotting, Barrier, CloudLinear, Group, Grouping, Method, WeighCloud
from fedloom.mixing import CloudWeights, Reports, by_total, contribution_weights, label_transport, log_contribution
from fedloom.mixing.wasserstein import FLOOR, METRICS
from fedloom.pacing import extra_updates, local_updates
from fedloom.radio import channel_gains, snr_matrix

Floats = NDArray[np.float64]

NEEDS = frozenset({Need.SIZES, Need.LABELS, Need.POSITIONS, Need.SPEEDS})
MOST_UPDATES = 1000  # of a cluster in a cloud round


def cluster(radio: str = "db_gap", labels: str = "neg_sq", leader: str = "exemplar") -> Group:
    """Grouping by radio, then by labels. All devices are taken to send with the same power, so that distances alone say who
    hears whom: neither gain, noise nor exponent matters."""
    _check.one_of("radio", radio, RADIO)
    _check.one_of("labels", labels, LABELS)
    _check.one_of("leader", leader, LEADERS)

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.active)
        _check.few_enough("affinity propagation", len(who), MOST_CLIENTS)
        position_m = view.position_m[who]
        snr = snr_matrix(1.0, channel_gains(position_m, view.server_m), 1.0)
        found = dual_segment(snr, view.label_counts[who], position_m, radio=radio, labels=labels, leader=leader)
        notes = found.topology().notes
        clusters = [who[members] for members in found.clusters]
        return Topology.of_heads(clusters, who[found.heads], len(view.active), notes)

    return group


def alone(view: View, rng: np.random.Generator) -> Topology:
    """Every device is a cluster of its own and sends to the base station itself."""
    who = np.flatnonzero(view.active)
    return Topology.of_heads([np.array([k]) for k in who], who, len(view.active))


def by_contribution(floor: float = FLOOR, metric: str = "index") -> WeighCloud:
    """Weights G_c of clusters (CAMU, eq. 4); one that nobody belongs to, as its head is silent, counts nothing."""

    def weigh(reports: Reports) -> CloudWeights:
        assert reports.label_counts is not None and reports.cluster is not None
        used, edge = reports.total > 0, np.zeros(len(reports.total))
        w = label_transport(reports.label_counts[reports.cluster[used]], metric=metric)
        edge[used] = contribution_weights(log_contribution(reports.total[used], w, floor=floor))
        return CloudWeights(own=0.0, edge=edge)

    return weigh


def in_turn(ready_s: Floats, upload_s: Floats) -> Floats:
    """Leaders send one after the other from when all are ready, in their order: when each has arrived; all (N,).

    >>> in_turn(np.array([3.0, 1.0]), np.array([0.5, 0.25])).tolist()
    [3.5, 3.75]
    """
    return np.asarray(ready_s.max() + np.cumsum(upload_s))


def method(
    threshold: float = 5000.0,
    scaled: bool = True,
    solver: str = "direct",
    cap: int = 9,
    limit: str = "cap",
    power_factor: float = 2.0,
    horizon: int | None = None,
    mu: float = 0.1,
    smooth: float = 2.0,
    delta: float = 1.5,
    delta_c: float = 1.2,
    floor: float = FLOOR,
    metric: str = "index",
    radio: str = "db_gap",
    labels: str = "neg_sq",
    leader: str = "exemplar",
    reading: str = "default",
    bound: str = "printed",
    own_power: bool = False,
    link_energy: bool = False,
) -> Method:
    """Configuration 5: updates and powers by P1, with the energy of a round of `ungated` at the links' own powers.

    threshold: of the contribution, for 60,000 samples in all if `scaled`, else as it is. solver: of P1, "direct" (exact), "ppo"
    (as published), or "updates" (exact, at the links' own powers). cap: most extra updates; limit "waiting": nor more than
    fit while the slowest cluster does one. power_factor: power budget over the sum of the links' own powers. horizon: rounds
    P1 looks at, by default for ever. mu, smooth, delta, delta_c: constants of its bound. floor, metric: of the distance of
    labels. radio, labels, leader: readings of the clustering. reading, bound: of P1, see `Problem`; "literal" powers, bits and
    joules of an update (eq. 23b, which counts the model's q parameters where the text speaks of samples) are for P1 alone, the
    ledger books what is really spent. own_power: no leader sends above the power of its own link, where P1 keeps to their sum
    alone; link_energy: the budget and an update count the links inside clusters too (both ours, and what plans use).
    """
    _check.one_of("solver", solver, SOLVERS)
    constants = Constants(
        cap=cap,
        limit=limit,
        power_factor=power_factor,
        horizon=horizon,
        mu=mu,
        smooth=smooth,
        delta=delta,
        delta_c=delta_c,
        reading=reading,
        bound=bound,
        link_energy=link_energy,
    )

    def allot(view: View, topology: Topology, rng: np.random.Generator) -> Allotment:
        value = cluster_value(view, topology, floor, metric)
        is_open = open_gates(view, value, threshold, scaled)
        waiting = extra_updates(update_s(view, topology), cap=cap)
        problem = power_problem(view, topology, value, is_open, waiting, constants)
        found = solved(problem, solver, own_powers(view, topology), waiting, rng, own_power)
        updates = 1 + np.rint(found.n_extra).astype(np.int64)
        notes = noted(value, is_open, updates)
        notes |= {"head_power_w": found.power_w, "gap": found.gap, "budget_j": problem.energy_budget_j}
        return Allotment(edge_rounds=updates, power_w=found.power_w, notes=notes)

    base = gated(threshold, scaled, cap, floor, metric, radio, labels, leader)
    summary = "device clusters that hear each other and have like labels; gated extra updates and powers of least error"
    return base.with_(name="camu", summary=summary, needs=NEEDS | {Need.LINKS}, allot=Allotting(allot))


def updates_only(
    cap: int = 9,
    limit: str = "cap",
    horizon: int | None = None,
    floor: float = FLOOR,
    metric: str = "index",
    leader: str = "exemplar",
) -> Method:
    """Benchmark 3: all energy that is left goes into updates, at the links' own powers, without a gate. Options as `method`."""
    found = method(
        0.0, solver="updates", cap=cap, limit=limit, horizon=horizon, floor=floor, metric=metric, leader=leader
    )
    return found.with_(name="camu_updates_only", summary="camu that spends its energy on updates alone, without a gate")


def gated(
    threshold: float = 5000.0,
    scaled: bool = True,
    cap: int = 9,
    floor: float = FLOOR,
    metric: str = "index",
    radio: str = "db_gap",
    labels: str = "neg_sq",
    leader: str = "exemplar",
    upload_time: bool = False,
) -> Method:
    """Configuration 3: extra updates that fit into the wait, if a cluster's contribution reaches `threshold`. Options as in
    `method`. upload_time: clusters wait for the slowest to upload too."""
    _check.positive("threshold", threshold, zero=True)
    _check.whole("cap", cap, least=0)
    if cap > MOST_UPDATES:
        raise ValueError(f"cap must be at most {MOST_UPDATES:,} extra updates in a cloud round, got {cap:,}")
    _check.positive("floor", floor)
    _check.one_of("metric", metric, METRICS)

    def allot(view: View, topology: Topology, rng: np.random.Generator) -> Allotment:
        value = cluster_value(view, topology, floor, metric)
        is_open = open_gates(view, value, threshold, scaled)
        upload_s = view.uplink.pick(topology.host).seconds(view.up_bits) if upload_time else None
        updates = local_updates(extra_updates(update_s(view, topology), upload_s=upload_s, cap=cap), is_open)
        return Allotment(edge_rounds=updates, notes=noted(value, is_open, updates))

    return Method(
        name="camu_gated",
        summary="camu with the extra updates that fit into the wait for the slowest cluster, gated by contribution",
        group=Grouping(cluster(radio, labels, leader), when="once"),
        needs=NEEDS | ({Need.LINKS} if upload_time else set()),
        cloud=Barrier(uplink=in_turn),
        merge_cloud=CloudLinear(by_contribution(floor, metric)),
        allot=Allotting(allot),
    )


def ungated(
    cap: int = 9, floor: float = FLOOR, metric: str = "index", leader: str = "exemplar", upload_time: bool = False
) -> Method:
    """Benchmark 2: as `gated` for all clusters."""
    summary = "camu with the extra updates that fit into the wait, of all clusters"
    found = gated(0.0, cap=cap, floor=floor, metric=metric, leader=leader, upload_time=upload_time)
    return found.with_(name="camu_ungated", summary=summary)


def single(floor: float = FLOOR, metric: str = "index", leader: str = "exemplar") -> Method:
    """Configurations 1 and 4: as `gated` for no cluster, one update each."""
    summary = "camu with one update of every cluster"
    return gated(np.inf, floor=floor, metric=metric, leader=leader).with_(name="camu_single", summary=summary)


def no_clusters(floor: float = FLOOR, metric: str = "index") -> Method:
    """Configuration 2: every device by itself, one update, weights by contribution."""
    return single(floor, metric).with_(
        name="camu_no_clusters",
        summary="camu without clusters: one update of every device, weights by contribution",
        group=Grouping(alone, when="once"),
    )


def no_clusters_by_size() -> Method:
    """Benchmark 1: every device by itself, one update, weights by data size."""
    return no_clusters().with_(
        name="camu_no_clusters_by_size",
        summary="FedAvg by devices that send one after the other: one update, weights by data size",
        merge_cloud=CloudLinear(by_total),
    )
