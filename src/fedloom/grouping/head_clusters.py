"""Clusters under fixed heads, and what moves and swaps of devices would change (DDC, eq. 17).

With w(m), the weight of a cluster of m devices (alpha / k / m^2, or alpha / U / m; see `head_problem`), S_n the sum of all
cosines inside cluster n and r_un the sum of cosines of device u with the members of n (itself included if it is one):

    u leaves a      S_a -> S_a - 2 r_ua + 1           u joins b      S_b -> S_b + 2 r_ub + 1
    move  u: a -> b
        lam (d_ub - d_ua) + w(m_a - 1) (S_a - 2 r_ua + 1) - w(m_a) S_a + w(m_b + 1) (S_b + 2 r_ub + 1) - w(m_b) S_b
    swap  u in a, v in b
        lam (d_ub + d_va - d_ua - d_vb) + 2 w(m_a) (r_va - r_ua - c_uv + 1) + 2 w(m_b) (r_ub - r_vb - c_uv + 1)

S_n and r_un come from the vector sums of the clusters, so no matrix of all pairs is needed. Swaps keep sizes and are
possible at full capacity. A swap is what each of the two gains by going, and 2 (w(m_a) + w(m_b)) (1 - c_uv) >= 0 on top:
pairs whose gains do not help even without that are never looked at, which leaves a few percent of all.

U devices, k heads, q coordinates of unit gradients; costs are in the units of Psi.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping.head_problem import HeadProblem
from fedloom.grouping.head_scores import cluster_sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

ROUNDING = 1e-12  # of psi, at least of 1: a change must lower it by more


class Clustering:
    """Devices in clusters under fixed heads, with the sums that price a change. It changes in place.

    columns (k,): the heads' places among the candidates. cluster (U,): 0..k-1.
    """

    def __init__(self, problem: HeadProblem, columns: Ints, cluster: Ints) -> None:
        self.problem, self.columns = problem, columns
        self.heads = problem.candidates[columns]
        self.cost = problem.cost[:, columns]  # (U, k)
        self.room = problem.capacity[columns]
        self.weight = problem.weights(len(columns))
        self.free = np.ones(problem.n_devices, dtype=np.bool_)
        if problem.own_cluster:
            self.free[self.heads] = False
        self.cluster = cluster.copy()
        self.rebuild()

    @property
    def assign(self) -> Ints:
        return np.asarray(self.heads[self.cluster])

    def rebuild(self) -> None:
        """All sums anew from `cluster`."""
        k = len(self.columns)
        self.size = np.bincount(self.cluster, minlength=k)
        self.sums, self.square = cluster_sums(self.problem, self.cluster, k)
        full = self.size >= self.room
        self.join_slope = 2 * self.weight[self.size + 1]  # what joining costs is affine in r
        self.join_fixed = self.weight[self.size + 1] * (self.square + 1) - self.weight[self.size] * self.square
        self.join_fixed[full] = np.inf
        r_own = np.einsum("uq,uq->u", self.problem.rows, self.sums[self.cluster])
        self.leaving = self.price_leaving(np.arange(len(self.cluster)), r_own)
        own = self.cost[np.arange(len(self.cluster)), self.cluster].sum()
        self.value = float(own + self.weight[self.size] @ self.square)  # psi
        self.rounding = ROUNDING * max(1.0, abs(self.value))

    def descend(self, n_swap_rounds: int | None = None, changed: Mask | None = None) -> None:
        """Moves and swaps until neither helps. changed (k,): clusters that may have something to gain, by default all."""
        k = len(self.columns)
        to_move = np.ones(k, dtype=np.bool_) if changed is None else changed
        to_swap = to_move.copy()
        while True:
            while to_move.any():
                to_move = self.move_round(to_move)
                to_swap |= to_move
            if n_swap_rounds == 0 or not to_swap.any():
                break
            n_swap_rounds = None if n_swap_rounds is None else n_swap_rounds - 1
            to_swap = self.swap_round(to_swap)
            to_move = to_swap.copy()
        self.rebuild()

    def move_round(self, changed: Mask) -> Mask:
        """Moves that help, out of or into `changed` clusters (k,); the clusters that changed by them.

        Since the last round no other clusters may have changed.
        """
        best = self._best_moves(changed)
        order = np.argsort(best, kind="stable")
        now = np.zeros(len(changed), dtype=np.bool_)
        for u in order[: np.count_nonzero(best < -self.rounding)].tolist():
            a = int(self.cluster[u])
            r = self.sums @ self.problem.rows[u]  # (k,)
            price = self.join_slope * r
            price += self.join_fixed
            price += self.cost[u]
            price[a] = np.inf
            b = int(price.argmin())
            size, square, r_own = self.size[a], self.square[a], r[a] + self.problem.remainder[u]
            if size == 1:
                continue
            change = price[b] - self.cost[u, a] - self.weight[size] * square
            change += self.weight[size - 1] * (square - 2 * r_own + 1)
            if change < -self.rounding:
                self._apply_move(u, a, b, r_own, r[b])
                self.value += float(change)
                now[a] = now[b] = True
        return now

    def swap_round(self, changed: Mask) -> Mask:
        """Swaps that help, with one of `changed` clusters (k,); the clusters that changed by them.

        Pairs of clusters are taken one after the other, those first that promise most, until no swap between them helps.
        """
        now = np.zeros(len(changed), dtype=np.bool_)
        order = np.argsort(self.cluster, kind="stable")
        order = order[self.free[order]]
        first = np.searchsorted(self.cluster[order], np.arange(len(changed) + 1))
        members = [order[i:j] for i, j in pairwise(first)]
        for a, b in self._promising_pairs(changed, order, first):
            if self._swap_between(a, b, members[a], members[b]):
                now[a] = now[b] = True
        return now

    def price_leaving(self, devices: Ints, r_own: Floats) -> Floats:
        """(devices,): the change of psi if they were gone, r_own without the remainder; infinite for who may not leave."""
        a = self.cluster[devices]
        size, square = self.size[a], self.square[a]
        r_own = r_own + self.problem.remainder[devices]
        price = self.weight[size - 1] * (square - 2 * r_own + 1) - self.weight[size] * square - self.cost[devices, a]
        price[(size == 1) | ~self.free[devices]] = np.inf
        return np.asarray(price)

    def price_joining(self, devices: Ints) -> tuple[Floats, Floats]:
        """(devices, k): the change of psi if they were one more in each cluster, infinite if full; and r."""
        everybody = len(devices) == len(self.cluster)
        r = (self.problem.rows if everybody else self.problem.rows[devices]) @ self.sums.T
        price = r * self.join_slope
        price += self.join_fixed
        price += self.cost if everybody else self.cost[devices]
        return price, r

    def price_going(self) -> Floats:
        """(U, k): what a swap with a member of n changes psi by, but for the 2 (w(m_a) + w(m_n)) (1 - c_uv) >= 0 that it
        adds for both. Infinite for who must stay."""
        weight = self.weight[self.size]
        price = self.problem.rows @ self.sums.T
        price *= 2 * weight
        price += self.cost
        staying = price[np.arange(len(price)), self.cluster] + 2 * weight[self.cluster] * self.problem.remainder
        staying[~self.free] = -np.inf
        price -= staying[:, None]
        return np.asarray(price)

    def _best_moves(self, changed: Mask) -> Floats:
        """(U,): the change of psi by the best move of each device, out of or into a changed cluster."""
        inside = changed[self.cluster]
        devices = np.flatnonzero(inside)
        price, r = self.price_joining(devices)
        here = np.arange(len(devices)), self.cluster[devices]
        self.leaving[devices] = self.price_leaving(devices, r[here])
        price[here] = np.inf
        best = np.empty(len(inside))
        best[devices] = price.min(axis=1)
        into = np.flatnonzero(changed)
        if len(into) < len(changed):
            joining = self.problem.rows @ self.sums[into].T
            joining *= self.join_slope[into]
            joining += self.join_fixed[into]
            joining += self.cost[:, into]
            best[~inside] = joining.min(axis=1)[~inside]
        return best + self.leaving

    def _promising_pairs(self, changed: Mask, order: Ints, first: Ints) -> list[tuple[int, int]]:
        """Pairs of clusters between which a swap may help, the most promising first.

        order: free devices by cluster, those of cluster c from first[c] to first[c + 1]. As c_uv <= 1, the best gain in each
        direction is a bound.
        """
        k = len(changed)
        best = np.full((k, k), np.inf)  # (a, b): of all members of a that go to b
        some = np.flatnonzero(first[1:] > first[:-1])
        if len(some):
            best[some] = np.minimum.reduceat(self.price_going()[order], first[some], axis=0)
        promise = np.triu(best + best.T, 1)
        promise[~(changed[:, None] | changed)] = 0.0
        a, b = np.nonzero(promise < -self.rounding)
        rank = np.argsort(promise[a, b], kind="stable")
        return list(zip(a[rank].tolist(), b[rank].tolist()))

    def _swap_between(self, a: int, b: int, first: Ints, second: Ints) -> bool:
        """The best swap between clusters a and b, again and again while one helps; their free members are updated."""
        n = len(first)
        members = np.concatenate((first, second))
        rows, lost = self.problem.rows[members], self.problem.remainder[members]
        fare = self.cost[members, b] - self.cost[members, a]
        r = rows @ self.sums[[a, b]].T  # (members, 2)
        weight_a, weight_b = 2 * self.weight[self.size[a]], 2 * self.weight[self.size[b]]
        near: Floats | None = None  # cosines (first, second)
        made = False
        while True:
            price = fare + weight_b * r[:, 1] - weight_a * r[:, 0]  # of going from a to b
            going, coming = price[:n] - weight_a * lost[:n], -price[n:] - weight_b * lost[n:]
            one = np.flatnonzero(going < -self.rounding - coming.min())  # as c_uv <= 1, no others can help
            two = np.flatnonzero(coming < -self.rounding - going.min())
            if not len(one) or not len(two):
                break
            if near is None:
                near = rows[:n] @ rows[n:].T
            change = near[one[:, None], two]
            change *= -weight_a - weight_b
            change += (going[one] + (weight_a + weight_b))[:, None]
            change += coming[two]
            best = int(change.argmin())
            if not change.flat[best] < -self.rounding:
                break
            made = True
            self.value += float(change.flat[best])
            i, j = int(one[best // len(two)]), int(two[best % len(two)])
            apart = 1 - near[i, j]
            self.square[a] += 2 * (r[n + j, 0] - r[i, 0] - lost[i] + apart)
            self.square[b] += 2 * (r[i, 1] - r[n + j, 1] - lost[n + j] + apart)
            turn = rows[n + j] - rows[i]
            self.sums[a] += turn
            self.sums[b] -= turn
            step = rows @ turn
            r[:, 0] += step
            r[:, 1] -= step
            for each in (members, rows, lost, fare, r):
                each[[i, n + j]] = each[[n + j, i]]
            near[i] = rows[n:] @ rows[i]
            near[:, j] = rows[:n] @ rows[n + j]
        if made:
            first[:], second[:] = members[:n], members[n:]
            self.cluster[first], self.cluster[second] = a, b
            self._reprice(a)
            self._reprice(b)
        return made

    def _apply_move(self, u: int, a: int, b: int, r_own: float, r_other: float) -> None:
        row = self.problem.rows[u]
        self.cluster[u] = b
        self.sums[a] -= row
        self.sums[b] += row
        self.square[a] += 1 - 2 * r_own
        self.square[b] += 1 + 2 * r_other
        self.size[a] -= 1
        self.size[b] += 1
        self._reprice(a)
        self._reprice(b)

    def _reprice(self, c: int) -> None:
        size, square = self.size[c], self.square[c]
        weight = self.weight[size + 1]
        self.join_slope[c] = 2 * weight
        self.join_fixed[c] = np.inf if size >= self.room[c] else weight * (square + 1) - self.weight[size] * square
