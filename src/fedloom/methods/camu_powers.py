"""What CAMU's clusters are worth, and the powers and updates of least error for the energy of waiting: problem P1.

    E          = sum_c P_c T_c(P_c) + (1 + n_c) e_c                             at the links' own powers: the budget of energy
    P_c, n_c   of least GAP with that energy, and powers of `power_factor` times the links' own in all    `fedloom.allocation`

T_c is the upload of a leader, e_c the joules of an update of all its members, n_c the extra updates that fit into the wait
for the slowest cluster. Views are those of the server, topologies have N clusters; see `fedloom.methods.camu`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.allocation import Allocation, Problem, allocate, learn_allocation
from fedloom.allocation.problem import BITS, BOUNDS, READINGS
from fedloom.fleet import Link
from fedloom.grouping import Topology, View
from fedloom.mixing import contribution, contribution_weights, label_transport, log_contribution
from fedloom.pacing import cluster_update_s, gate, scaled_threshold

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SOLVERS = ("direct", "ppo", "updates")
LIMITS = ("cap", "waiting")
MOST_CONSTANT = 1e6  # of the bound


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Options of `camu.method` that P1 is made with, described there."""

    cap: int
    limit: str
    power_factor: float
    horizon: int | None
    mu: float
    smooth: float
    delta: float
    delta_c: float
    reading: str
    bound: str
    link_energy: bool = False

    def __post_init__(self) -> None:
        _check.one_of("reading", self.reading, READINGS)
        _check.one_of("bound", self.bound, BOUNDS)
        _check.one_of("limit", self.limit, LIMITS)
        _check.positive("power_factor", self.power_factor)
        _check.wholes(horizon=self.horizon)
        for name, least in (("mu", 0.0), ("smooth", 0.0), ("delta", 1.0), ("delta_c", 1.0)):
            value = getattr(self, name)
            if not (least <= value <= MOST_CONSTANT and value > 0):
                raise ValueError(
                    f"{name} must be {'above 0' if not least else 'at least 1'} and at most {MOST_CONSTANT:g}, got {value:g}"
                )


def power_problem(
    view: View, topology: Topology, value: Floats, is_open: Mask, waiting: Ints, constants: Constants
) -> Problem:
    """P1 of clusters with ln v `value` (N,), of which those with open gates (N,) may do more than one update; waiting (N,):
    extra updates that fit into the wait, whose energy is the budget."""
    uplink, own_w = _uplink(view, topology), own_powers(view, topology)
    assert uplink.snr_per_w is not None and uplink.bandwidth_hz is not None
    n_params = max(1, round(view.model_bits / BITS))
    update_j = np.asarray(view.compute_power_w * (topology.cover @ _update_work_s(view, n_params, constants.reading)))
    if constants.link_energy:
        update_j = update_j + _links_j(view, topology)
    energy_j = float(uplink.energy_j(BITS * n_params).sum() + (1 + waiting) @ update_j)
    share = np.where(topology.cover, view.n_samples, 0) / (topology.cover @ view.n_samples)[:, None]
    problem = Problem(
        weight=contribution_weights(value),
        delta_c=np.full(len(value), constants.delta_c),
        concentration=(share**2).sum(axis=1),
        gain=uplink.snr_per_w,
        noise_w=1.0,  # the SNR for each watt is the gain for each watt of noise
        update_j=update_j,
        cap=np.where(is_open, waiting if constants.limit == "waiting" else constants.cap, 0).astype(np.float64),
        energy_budget_j=energy_j,
        power_budget_w=float(constants.power_factor * own_w.sum()),
        n_params=n_params,
        lr=view.lr,
        mu=constants.mu,
        smooth=constants.smooth,
        delta=constants.delta,
        horizon=constants.horizon,
        bandwidth_hz=uplink.bandwidth_hz,
        reading=constants.reading,
        bound=constants.bound,
    )
    if constants.reading != "literal":
        return problem
    power_w = float(constants.power_factor * problem.power_w(own_w))
    return replace(problem, energy_budget_j=problem.energy_j(own_w, waiting), power_budget_w=power_w)


def own_powers(view: View, topology: Topology) -> Floats:
    """(N,) W: the powers of the leaders' links to the cloud, as the fleet has them."""
    power_w = np.asarray(_uplink(view, topology).power_w, dtype=np.float64)
    return np.broadcast_to(power_w, (topology.n_aggregators,))


def solved(
    problem: Problem, solver: str, own_w: Floats, waiting: Ints, rng: np.random.Generator, own_power: bool = False
) -> Allocation:
    """Powers and extra updates; own_w (N,): the links' own powers, waiting (N,): extra updates that fit into the wait. own_power:
    nobody sends above its own; what powers above it would have cost goes into updates."""
    found = _solved(problem, solver, own_w, waiting, rng)
    if not own_power or (found.power_w <= own_w).all():
        return found
    return allocate(problem, power_w=np.minimum(found.power_w, own_w))


def _solved(problem: Problem, solver: str, own_w: Floats, waiting: Ints, rng: np.random.Generator) -> Allocation:
    if solver == "ppo":
        reference = own_w, np.minimum(waiting, problem.cap)
        return learn_allocation(problem, reference, seed=int(rng.integers(2**31))).best
    return allocate(problem, power_w=own_w if solver == "updates" else None)


def cluster_value(view: View, topology: Topology, floor: float, metric: str) -> Floats:
    """ln v (N,) of the clusters."""
    counts = topology.cover @ view.label_counts
    return log_contribution(topology.cover @ view.n_samples, label_transport(counts, metric=metric), floor=floor)


def open_gates(view: View, value: Floats, threshold: float, scaled: bool) -> Mask:
    """(N,) clusters whose contribution reaches the threshold, which is for 60,000 samples in all if `scaled`."""
    if scaled and np.isfinite(threshold):
        threshold = scaled_threshold(threshold, int(view.n_samples[view.active].sum()))
    return gate(value, threshold)


def update_s(view: View, topology: Topology) -> Floats:
    """t (N,): seconds of an update of each cluster; links inside clusters are not counted."""
    return cluster_update_s(topology.cover, view.work_s)


def _update_work_s(view: View, n_params: int, reading: str) -> Floats:
    """(K,): seconds of computing that P1 counts for an update of each device. As printed (eq. 23b) l_k q / f_k, the q parameters
    of the model in place of the device's samples, l_k / f_k being the seconds of a sample."""
    if reading != "literal":
        return view.work_s
    return np.asarray(view.work_s / np.maximum(view.n_samples, 1) * n_params)


def _links_j(view: View, topology: Topology) -> Floats:
    """(N,) joules of the links inside each cluster in an edge round: members to their leader, and back."""
    link_j = view.link_j
    both = link_j[topology.host] + link_j[:, topology.host].T  # (N, K)
    own = topology.host[:, None] == np.arange(topology.cover.shape[1])
    return np.asarray(np.where(topology.cover & ~own, both, 0.0).sum(axis=1))


def noted(value: Floats, is_open: Mask, updates: Ints) -> dict[str, float | Floats]:
    """What is recorded of the clusters; updates (N,): of each in a cloud round."""
    found = {"contribution": contribution(value), "cluster_updates": updates.astype(np.float64)}
    return found | {"open_gates": float(is_open.sum())}


def _uplink(view: View, topology: Topology) -> Link:
    """Of the leaders to the cloud."""
    return view.uplink.pick(topology.host)
