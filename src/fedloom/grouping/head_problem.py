"""Heads and members as a problem: who may head a cluster, and what reporting to whom costs (DDC, eq. 16 to 18).

    Psi = lam (sum_u d_u,h(u) + sum_n d_n,cs) + alpha c(C),      lam = (1 - alpha) / D_ref

h(u): the head device u reports to; d_n,cs: metres from head n to the server, paid once per head; c(C): how alike the gradients
in a cluster are, see `head_scores`. D_ref by `normalise`:

    fedavg         sum_u d_u,cs, the distance if everybody talked to the server: both parts are shares; our default
    literal        1 m, as published in (16): metres against cosines, which leaves alpha without effect until it is almost 1
    literal_eq18   as published in (18): the same, but the server's part weighs 1, whatever alpha is
    energy         joules of uploads in place of metres, members every tau1 rounds and heads every tau2; D_ref is what
                   everybody's upload to the server costs per round. Ours

weighting "cluster": c(C) is the mean of Q_n over clusters, as published. It can be undercut by a few small clusters that
cancel and one large rest; "size" is the mean over devices, which is never below the mean of all cosines.

U devices, N candidates for heads, k heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.unit_gradients import unit_rows
from fedloom.radio import distances

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMALISE = ("fedavg", "literal", "literal_eq18", "energy")
WEIGHTINGS = ("cluster", "size")


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadProblem:
    """Who may head a cluster, and what reporting to whom costs. Made by `head_problem`, which checks it.

    candidates (N,): devices, rising. capacity (N,): most devices a head may serve, itself included. distance_m (U, N),
    server_m (N,): metres. cost (U, N), server_cost (N,): what they add to Psi. alpha in [0, 1]. rows (U, q),
    remainder (U,): unit gradients, see above; without gradients q = 0 and remainder = 0. own_cluster: a head is in its own
    cluster; without, every head only needs somebody.
    """

    candidates: Ints
    capacity: Ints
    distance_m: Floats
    server_m: Floats
    cost: Floats
    server_cost: Floats
    alpha: float
    rows: Floats
    remainder: Floats
    weighting: str
    own_cluster: bool

    @property
    def n_devices(self) -> int:
        return len(self.rows)

    @property
    def has_gradients(self) -> bool:
        return bool(self.rows.shape[1] or self.remainder.any())

    def weights(self, k: int) -> Floats:
        """What S_n of a cluster of m devices is multiplied by in Psi, for m = 0, ..., U + 1 and k clusters; 0 for none."""
        if self.weighting == "cluster":
            return self._inverse_square * (self.alpha / k)
        return self._inverse * (self.alpha / self.n_devices)

    @cached_property
    def _inverse(self) -> Floats:
        return np.concatenate(([0.0], 1 / np.arange(1.0, self.n_devices + 2)))

    @cached_property
    def _inverse_square(self) -> Floats:
        return self._inverse**2

    def columns(self, heads: ArrayLike) -> Ints:
        """Where in `candidates` the heads (k,) are, in their order."""
        wanted = np.asarray(heads, dtype=np.int64)
        if wanted.ndim != 1 or not len(wanted) or len(np.unique(wanted)) < len(wanted):
            raise ValueError(f"heads must be a list of different devices, at least one; got {wanted.tolist()}")
        place = np.searchsorted(self.candidates, wanted).clip(max=len(self.candidates) - 1)
        strange = wanted[self.candidates[place] != wanted]
        if len(strange):
            raise ValueError(f"heads must be among the candidates, but devices {strange[:10].tolist()} are not")
        return np.asarray(place, dtype=np.int64)


def head_problem(
    position_m: ArrayLike,
    server_m: ArrayLike,
    gradients: NDArray[np.floating] | None = None,
    *,
    alpha: float = 0.5,
    candidates: ArrayLike | None = None,
    capacity: ArrayLike | None = None,
    normalise: str = "fedavg",
    energy_j: Callable[[Floats], Floats] | tuple[Floats, Floats] | None = None,
    tau1: int = 1,
    tau2: int = 2,
    weighting: str = "cluster",
    own_cluster: bool = True,
    rank: int | None = None,
    rng: np.random.Generator | None = None,
) -> HeadProblem:
    """A problem for `associate`, `select_heads` and the exact solvers.

    position_m (U, D), server_m (D,): coordinates, metres. gradients (U, p): one per device at a common model; without
    them alpha must be 0. candidates: devices that may be heads, by default all. capacity: one number or one per device
    (U,), of which those of candidates count; by default no limit. energy_j, for normalise "energy": joules of one upload
    over so many metres, array in, array out, or of one upload from device to device (U, U) and to the server (U,); with tau1
    and tau2, rounds between uploads. rank: most columns of `rows`, see
    `unit_rows`; it needs rng.
    """
    position = _check.array("position_m", position_m, (None, None))
    n = len(position)
    if not n:
        raise ValueError("position_m must have at least one device, got none")
    server = _check.array("server_m", server_m, (position.shape[1],))
    _check.one_of("normalise", normalise, NORMALISE)
    _check.one_of("weighting", weighting, WEIGHTINGS)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha:g}")
    if gradients is None and alpha > 0:
        raise ValueError(f"alpha weighs the cosines of gradients and must be 0 without gradients, got {alpha:g}")
    chosen = _candidates(candidates, n)
    rows, remainder = _directions(gradients, n, rank, rng)
    to_head = distances(position, position[chosen])
    to_server = distances(position, server[None])[:, 0]
    if normalise == "energy":
        cost, server_cost, reference = _energies(to_head, to_server, chosen, energy_j, tau1, tau2)
    elif energy_j is not None:
        raise ValueError(f'energy_j is for normalise "energy" and would be ignored by "{normalise}"')
    else:
        cost, server_cost, reference = to_head, to_server, float(to_server.sum()) if normalise == "fedavg" else 1.0
    if not reference > 0:
        raise ValueError(f'normalise "{normalise}" divides by what all reports to the server cost, which is 0')
    lam = (1 - alpha) / reference
    return HeadProblem(
        candidates=chosen,
        capacity=_capacities(capacity, n)[chosen],
        distance_m=to_head,
        server_m=to_server[chosen],
        cost=lam * cost,
        server_cost=(1.0 if normalise == "literal_eq18" else lam) * server_cost[chosen],
        alpha=float(alpha),
        rows=rows,
        remainder=remainder,
        weighting=weighting,
        own_cluster=own_cluster,
    )


def draw_candidates(
    n_devices: int, rng: np.random.Generator, *, share: float = 0.3, score: ArrayLike | None = None
) -> Ints:
    """Devices that may be heads, rising: a share of all, rounded up, uniformly or those of the highest score (U,).

    The published text leaves them open; a share of 0.3 is our choice. Ties of scores go to the lowest devices.
    """
    _check.whole("n_devices", n_devices)
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share:g}")
    count = int(np.ceil(share * n_devices - 1e-9))
    if score is None:
        return np.sort(rng.choice(n_devices, count, replace=False))
    by_score = np.argsort(-_check.array("score", score, (n_devices,)), kind="stable")
    return np.sort(by_score[:count])


def check_capacity(problem: HeadProblem, columns: Ints) -> None:
    room = int(problem.capacity[columns].sum())
    if room < problem.n_devices:
        raise ValueError(
            f"heads {problem.candidates[columns][:10].tolist()} have room for {room} of {problem.n_devices} devices; "
            f"take more heads or larger capacities"
        )


def _candidates(candidates: ArrayLike | None, n: int) -> Ints:
    if candidates is None:
        return np.arange(n)
    given = np.asarray(candidates)
    chosen = np.unique(given)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given) or len(chosen) < len(given):
        raise ValueError(f"candidates must be a list of different devices, at least one; got {given.tolist()}")
    if chosen[0] < 0 or chosen[-1] >= n:
        raise ValueError(f"candidates must be devices from 0 to {n - 1}, got {chosen[[0, -1]].tolist()} among them")
    return np.asarray(chosen, dtype=np.int64)


def _directions(
    gradients: NDArray[np.floating] | None, n: int, rank: int | None, rng: np.random.Generator | None
) -> tuple[Floats, Floats]:
    """Rows (U, r) and remainder (U,) of the gradients' cosines, see `unit_rows`; none and 0 without gradients."""
    if gradients is None:
        return np.zeros((n, 0)), np.zeros(n)
    if len(gradients) != n:
        raise ValueError(f"gradients must have a row for each of the {n} devices, got {len(gradients)}")
    return unit_rows(gradients, rank=rank, rng=rng)


def _capacities(capacity: ArrayLike | None, n: int) -> Ints:
    """(U,) whole numbers from 1 to U."""
    if capacity is None:
        return np.full(n, n)
    given = np.asarray(capacity)
    if given.shape not in ((), (n,)) or given.dtype.kind not in "iu" or (given < 1).any():
        raise ValueError(f"capacity must be one whole number of at least 1 or one per device ({n}), got {capacity!r}")
    return np.asarray(np.minimum(np.broadcast_to(given, n), n), dtype=np.int64)


def _energies(
    to_head: Floats,
    to_server: Floats,
    candidates: Ints,
    energy_j: Callable[[Floats], Floats] | tuple[Floats, Floats] | None,
    tau1: int,
    tau2: int,
) -> tuple[Floats, Floats, float]:
    """Joules per round of members (U, N) and of heads (U,), and of everybody at the server. A head's own upload is free."""
    if energy_j is None:
        raise ValueError('normalise "energy" needs energy_j, the joules of one upload over so many metres')
    _check.whole("tau1", tau1)
    _check.whole("tau2", tau2)
    if isinstance(energy_j, tuple):
        between = _check.array("energy_j of members", energy_j[0], (len(to_head), len(to_head)))
        of_members, of_server = between[:, candidates], energy_j[1]
    else:
        of_members, of_server = energy_j(to_head), energy_j(to_server)
    member = _check.array("energy_j of members", of_members, to_head.shape).copy()
    server = _check.array("energy_j to the server", of_server, to_server.shape)
    _check.positive("energy_j", member, zero=True)
    _check.positive("energy_j", server, zero=True)
    member[candidates, np.arange(len(candidates))] = 0.0
    return member / tau1, server / tau2, float(server.sum())
