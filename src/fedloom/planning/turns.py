"""Who stands in for a head, and how members of a cluster take turns as its head, so that batteries last longer.

    stand-in    the member under whom a cloud round of the cluster takes least time, then least energy
    turns       shares x_h of the rounds, sum 1, of least  max_k sum_h x_h joules_k(h) / battery_k        a linear program

A member leads only if it may be a head, has room for the cluster, and a cloud round of the cluster then takes no longer than
that of the whole plan does already: turns cost no time. Where bands at the server are shared, clusters wait for each other there:
then neither the edge rounds of the cluster nor its links with the server may take longer than under the plan's head. Of a large
cluster the MOST_LEADERS that drain it least are looked at.

m members of a cluster, h of them that may lead it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import Costs, Prices, costs_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_LEADERS = 30
LEAST_SHARE = 1e-3  # of the rounds, that is worth a turn


@dataclass(frozen=True, kw_only=True, eq=False)
class Turns:
    """Of a cluster. stand_in: a device, -1 if nobody can. leaders (h,), share (h,) of the rounds, falling: the plan's head alone
    if turns help nobody. drain (m,): of the batteries of members in a cloud round, rising members."""

    head: int
    members: Ints
    stand_in: int
    leaders: Ints
    share: Floats
    drain: Floats


def turns_of(prices: Prices, head: Ints, rotate: bool) -> list[Turns]:
    """Of every cluster of heads (K,), -1 for who takes no part; heads rising. rotate: take turns."""
    some = np.flatnonzero(head >= 0)
    plan = costs_of(prices, some, head[some])
    limit_s = float(plan.seconds.max())
    return [_of_cluster(prices, some[plan.at == c], int(h), limit_s, rotate) for c, h in enumerate(plan.host)]


def most_drain(turns: list[Turns]) -> float:
    """Of a battery, in a cloud round."""
    return max(float(one.drain.max()) for one in turns)


def _of_cluster(prices: Prices, members: Ints, head: int, limit_s: float, rotate: bool) -> Turns:
    devices = prices.devices
    able = members[devices.candidate[members] & (devices.capacity[members] >= len(members))]
    able = np.union1d(able, [head])
    under = [costs_of(prices, members, np.full(len(members), leader)) for leader in able.tolist()]
    seconds, joules = np.array([(one.seconds[0], one.total_j[0]) for one in under]).T
    drain = np.stack([one.drain for one in under], axis=1)  # (m, h)
    others = np.flatnonzero(able != head)
    stand_in = int(able[others[np.lexsort((joules[others], seconds[others]))[0]]]) if len(others) else -1
    alone = int(np.flatnonzero(able == head)[0])
    leaders, share = np.array([head]), np.ones(1)
    spent = drain[:, alone]
    if rotate and len(others):
        in_time = np.flatnonzero(_no_later(prices, able, under, alone, limit_s) | (able == head))
        in_time = in_time[np.argsort(drain[:, in_time].max(axis=0), kind="stable")[:MOST_LEADERS]]
        in_time = np.union1d(in_time, [alone])
        found = _shares(drain[:, in_time])
        used = found > LEAST_SHARE
        shared = found[used] / found[used].sum()
        then = drain[:, in_time[used]] @ shared
        if then.max() < spent.max() * (1 - 1e-6):
            order = np.argsort(-shared, kind="stable")
            leaders, share, spent = able[in_time[used]][order], shared[order], then
    return Turns(head=head, members=members, stand_in=stand_in, leaders=leaders, share=share, drain=spent)


def _no_later(prices: Prices, able: Ints, under: list[Costs], alone: int, limit_s: float) -> NDArray[np.bool_]:
    """(h,) with which leaders the cloud round of all is no longer; alone: which of them is the plan's head."""
    work_s = np.array([one.work_s[0] for one in under])
    parts = prices.cloud_down_s[able], work_s, prices.cloud_up_s[able]
    if prices.devices.air.cloud.up.sharing == "own":
        return np.asarray(sum(parts) <= limit_s * (1 + 1e-9))
    return np.asarray(np.all([part <= part[alone] * (1 + 1e-9) for part in parts], axis=0))


def _shares(drain: Floats) -> Floats:
    """(h,) of least most drain; drain (m, h) of each member under each leader."""
    from scipy.optimize import linprog  # takes long to import

    m, h = drain.shape
    scale = float(drain.max()) or 1.0
    found = linprog(
        np.append(np.zeros(h), 1.0),
        A_ub=np.column_stack([drain / scale, -np.ones(m)]),
        b_ub=np.zeros(m),
        A_eq=np.append(np.ones(h), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (h + 1),
        method="highs",
    )
    return np.asarray(found.x[:h]) if found.success else np.zeros(h)
