"""Seconds of clusters whose links share bands, many at once: what the simulator's air does, whose bands these are
(`fedloom.fleet.bands`).

The links of a cluster share one band, both ways; those of heads with the server one up and one down. Models go out together, in
the order of devices, and come back as they are ready.

    own      no link waits
    time     one after the other, in the order in which they are ready
    equal    all at once; both ways, who comes back slows down who still fetches, so that it is played event by event

With time and equal a band is busy as long as there is anything to send, so that the last of the same reports is there at the
same moment with both.

m devices of N clusters.
"""

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.bands import EqualShares, finish_s
from fedloom.fleet.settings.air import Sharing, ToServer

LONGEST_S = 1e15  # a link that never ends takes so long, so that what waits for it can be counted
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def back_s(
    sharing: Sharing, at: Ints, n: int, fetch_s: Floats, steps_s: Floats, return_s: Floats, is_head: Bools
) -> Floats:
    """(m,) seconds of an edge round until each device has fetched, computed and returned; at (m,): its cluster, of n. fetch_s,
    return_s (m,): of its links alone; a head has none and sends nothing."""
    if sharing.sharing == "own":
        return fetch_s + steps_s + return_s
    fetch_s, return_s = np.minimum(fetch_s, LONGEST_S), np.minimum(return_s, LONGEST_S)
    if sharing.sharing == "time":
        return _in_turn_s(at, n, fetch_s, steps_s, return_s, is_head)
    out = steps_s.copy()
    for members in _members(at, np.flatnonzero(~is_head)):
        out[members] = _side_by_side_s(fetch_s[members].tolist(), steps_s[members].tolist(), return_s[members].tolist())
    return out


def reported_s(cloud: ToServer, down_s: Floats, work_s: Floats, up_s: Floats) -> Floats:
    """(N,) seconds until the report of each cluster is there, of those that fetch a model together, in this order, work for
    work_s (N,) and report; down_s, up_s (N,): of their links alone."""
    if cloud.down.sharing == "time":
        down_s = np.cumsum(np.minimum(down_s, LONGEST_S))
    elif cloud.down.sharing == "equal":
        down_s = _together_s(np.minimum(down_s, LONGEST_S))
    ready_s = down_s + work_s
    if cloud.up.sharing == "own":
        return ready_s + up_s
    ready_s, up_s = np.minimum(ready_s, LONGEST_S), np.minimum(up_s, LONGEST_S)
    if cloud.up.sharing == "equal":
        return np.array(finish_s(cloud.up, ready_s.tolist(), up_s.tolist()))
    order = np.argsort(ready_s, kind="stable")
    out = np.empty(len(ready_s))
    out[order] = _queued_s(ready_s[order][None], up_s[order][None], np.zeros(1))[0]
    return out


def last_s(cloud: ToServer, down_s: Floats, work_s: Floats, up_s: Floats) -> float:
    """The last of `reported_s`, in less time."""
    if cloud.up.sharing == "equal":  # as long as in turn
        cloud = ToServer(up=Sharing(sharing="time"), down=cloud.down)
    return float(reported_s(cloud, down_s, work_s, up_s).max())


def _together_s(alone_s: Floats) -> Floats:
    """(N,) when messages are there that share a band equally from the start: of any two, each has the time of the shorter."""
    order = np.argsort(alone_s, kind="stable")
    ranked = alone_s[order]
    out = np.empty(len(alone_s))
    out[order] = np.cumsum(ranked) + ranked * np.arange(len(ranked) - 1, -1, -1)
    return out


def _queued_s(ready_s: Floats, alone_s: Floats, free_s: Floats) -> Floats:
    """(N, w) when messages are done that go one after the other, ready in this order, in bands that are free from free_s (N,)
    on: after all before it since the band was last idle."""
    sent_s = np.cumsum(alone_s, axis=1)
    begun_s = np.maximum.accumulate(ready_s - (sent_s - alone_s), axis=1)
    return np.asarray(np.maximum(begun_s, free_s[:, None]) + sent_s)


def _in_turn_s(at: Ints, n: int, fetch_s: Floats, steps_s: Floats, return_s: Floats, is_head: Bools) -> Floats:
    """`back_s` where links take turns: models go out one after the other; then, or when one is ready, they come back."""
    out = steps_s.copy()
    some = np.flatnonzero(~is_head)
    if not len(some):
        return out
    some = some[np.argsort(at[some], kind="stable")]
    size = np.bincount(at[some], minlength=n)
    row, column = at[some], np.arange(len(some)) - np.repeat(np.cumsum(size) - size, size)
    wide = int(size.max())
    fetch, ready, back = np.zeros((n, wide)), np.full((n, wide), np.inf), np.zeros((n, wide))
    fetch[row, column], back[row, column] = fetch_s[some], return_s[some]
    fetched_s = np.cumsum(fetch, axis=1)
    ready[row, column] = fetched_s[row, column] + steps_s[some]
    order = np.argsort(ready, axis=1, kind="stable")  # who is not there comes last
    ready, back = np.take_along_axis(ready, order, axis=1), np.take_along_axis(back, order, axis=1)
    done = np.empty((n, wide))
    np.put_along_axis(done, order, _queued_s(ready, back, fetched_s[:, -1]), axis=1)
    out[some] = done[row, column]
    return out


def _side_by_side_s(fetch_s: list[float], steps_s: list[float], return_s: list[float]) -> list[float]:
    """`back_s` of the members of one cluster whose links are used at once."""
    shared: EqualShares[tuple[int, bool]] = EqualShares()
    out, ready = [0.0] * len(fetch_s), list[tuple[float, int]]()
    for i, alone_s in enumerate(fetch_s):
        shared.join(0.0, alone_s, (i, False))
    while ready or shared.next_s < math.inf:
        if ready and ready[0][0] <= shared.next_s:
            at_s, i = heapq.heappop(ready)
            shared.join(at_s, return_s[i], (i, True))
            continue
        now_s = shared.next_s
        for i, returned in shared.done():
            if returned:
                out[i] = now_s
            else:
                heapq.heappush(ready, (now_s + steps_s[i], i))
    return out


def _members(at: Ints, some: Ints) -> list[Ints]:
    """The devices `some` of each cluster that has any, rising."""
    some = some[np.argsort(at[some], kind="stable")]
    return np.split(some, np.flatnonzero(np.diff(at[some])) + 1) if len(some) else []
