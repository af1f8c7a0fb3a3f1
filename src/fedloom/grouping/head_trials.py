"""What opening, exchanging or closing a head would be worth, from the clusters there are (DDC, ours).

With w, S, r as in `head_clusters`, W_an = lam sum_{u in C_a} d_un, h(c) the head of cluster c, and n a candidate in C_c:

    exchange   n' = h(a) closes, n opens and heads C_a
               n in C_a       W_an - W_an' + lam (d_n,cs - d_n',cs)
               else           as above + lam (d_n',h(c) - d_n,h(c) - d_n',n) + what the swap of n and n' does to the cosines,
                              because a head is in its own cluster; if it need not be, only the first line
    add        n opens, alone or with the devices that gain most by going with it: the change is computed from the sums
               of what leaves each cluster, with the weight of k + 1 clusters
    remove     h(a) closes and everybody in C_a goes where it is cheapest on its own, with the weight of k - 1 clusters

Exchange and add are exact for the clusters they describe, so the best association is at least as good; capacities are
ignored, and so is that members may move. Each trial also has its clusters, to start an association from: `after_...`.

U devices, N candidates, k heads. Clusters are in the order of `columns` (k,), the heads' places among the candidates.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping.association import fill_by_regret
from fedloom.grouping.head_clusters import Clustering
from fedloom.grouping.head_problem import HeadProblem
from fedloom.grouping.head_scores import cluster_sums, sum_by_cluster

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def exchange_estimates(now: Clustering) -> Floats:
    """(k, N): what Psi changes by if head a closes and candidate n opens; infinite where n is open."""
    problem, heads, columns = now.problem, now.heads, now.columns
    k, new = len(columns), problem.candidates
    clusters = np.arange(k)
    total = sum_by_cluster(problem.cost, now.cluster, k)  # W
    server = problem.server_cost
    out = total - total[clusters, columns][:, None] + server - server[columns][:, None]
    if problem.own_cluster:
        c = now.cluster[new]  # (N,)
        fare = problem.cost[heads[:, None], columns[c]] - problem.cost[new, columns[c]] - problem.cost[heads]
        rows, sums, lost = problem.rows, now.sums, problem.remainder
        r_new, r_old = rows[new] @ sums.T, rows[heads] @ sums.T  # (N, k), (k, k)
        apart = 1 - rows[heads] @ rows[new].T  # (k, N)
        weight = 2 * now.weight[now.size]
        own_old = (r_old[clusters, clusters] + lost[heads])[:, None]
        own_new = r_new[np.arange(len(new)), c] + lost[new]
        cosines = weight[:, None] * (r_new.T - own_old + apart) + weight[c] * (r_old[:, c] - own_new + apart)
        out += np.where(c == clusters[:, None], 0.0, fare + cosines)
    out[:, columns] = np.inf
    return np.asarray(out)


def add_estimates(now: Clustering) -> Floats:
    """(N,): what Psi changes by if candidate n opens, alone or with its company, whichever is better; infinite where it is
    open."""
    out = np.full(len(now.problem.candidates), np.inf)
    for n in np.setdiff1d(np.arange(len(out)), now.columns).tolist():
        together = company(now, n)
        alone = together[:1]
        out[n] = min(opening_change(now, n, alone), opening_change(now, n, together))
    return out


def company(now: Clustering, n: int) -> Ints:
    """The candidate at place n and those devices that gain most by going with it if it opens.

    They are at most U / (k + 1) and its capacity; gains are of distance and of what their clusters lose by them.
    """
    problem = now.problem
    new = problem.candidates[n]
    change = problem.cost[:, n] + now.leaving
    change[new] = np.inf
    n_more = min(len(change) // (len(now.columns) + 1), int(problem.capacity[n])) - 1
    if n_more < 1:
        return np.array([new])
    some = np.argpartition(change, n_more - 1)[:n_more]
    return np.append(new, some[change[some] < 0])


def opening_change(now: Clustering, n: int, members: Ints) -> float:
    """What Psi changes by if the candidate at place n opens and heads just these members, itself among them."""
    problem, k = now.problem, len(now.columns)
    c = now.cluster[members]
    donors, place = np.unique(c, return_inverse=True)
    gone = sum_by_cluster(problem.rows[members], place, len(donors))
    lost = problem.remainder[members]
    weight, size = problem.weights(k + 1), now.size.copy()
    size[donors] -= np.bincount(place)
    square = now.square.copy()
    square[donors] += (gone**2).sum(axis=1) - 2 * np.einsum("cq,cq->c", gone, now.sums[donors])
    square[donors] -= np.bincount(place, weights=lost)
    own = gone.sum(axis=0)
    change = weight[size] @ square + weight[len(members)] * (own @ own + lost.sum()) - now.weight[now.size] @ now.square
    change += (problem.cost[members, n] - now.cost[members, c]).sum() + problem.server_cost[n]
    return float(change)


def remove_estimates(now: Clustering) -> Floats:
    """(k,): what Psi changes by if head a closes; infinite for the only one."""
    problem, k = now.problem, len(now.columns)
    if k == 1:
        return np.full(1, np.inf)
    price = _joining(problem, now.columns, now.cluster, k - 1)
    here = np.arange(len(price)), now.cluster
    price[here] = np.inf
    out = np.bincount(now.cluster, weights=price.min(axis=1) - now.cost[here], minlength=k)
    weight = problem.weights(k - 1)
    part = weight[now.size] * now.square
    out += part.sum() - part - now.weight[now.size] @ now.square
    return np.asarray(out - problem.server_cost[now.columns])


def after_exchange(now: Clustering, a: int, n: int) -> tuple[Ints, Ints]:
    """Columns (k,) and clusters (U,) after head a closed and the candidate at place n took its cluster over."""
    columns, cluster = now.columns.copy(), now.cluster.copy()
    columns[a] = n
    old, new = now.heads[a], now.problem.candidates[n]
    if now.problem.own_cluster:
        cluster[old], cluster[new] = cluster[new], a
    return columns, _settled(now.problem, columns, cluster)


def after_add(now: Clustering, n: int) -> tuple[Ints, Ints]:
    """Columns (k + 1,) and clusters (U,) after the candidate at place n opened and took in its company."""
    columns, cluster = np.append(now.columns, n), now.cluster.copy()
    cluster[company(now, n)] = len(now.columns)
    return columns, _settled(now.problem, columns, cluster)


def after_remove(now: Clustering, a: int) -> tuple[Ints, Ints]:
    """Columns (k - 1,) and clusters (U,) after head a closed and its devices were given to the other clusters."""
    columns = np.delete(now.columns, a)
    cluster = now.cluster - (now.cluster > a)
    cluster[now.cluster == a] = -1
    return columns, _fill(now.problem, columns, cluster)


def _joining(problem: HeadProblem, columns: Ints, cluster: Ints, n_clusters: int) -> Floats:
    """(U, k): what each device would cost as one more in each cluster, with the weight of `n_clusters` clusters."""
    weight = problem.weights(n_clusters)
    size = np.bincount(cluster[cluster >= 0], minlength=len(columns))
    sums, square = cluster_sums(problem, cluster, len(columns))
    price = problem.rows @ sums.T
    price *= 2 * weight[size + 1]
    price += weight[size + 1] * (square + 1) - weight[size] * square
    price += problem.cost[:, columns]
    return np.asarray(price)


def _fill(problem: HeadProblem, columns: Ints, cluster: Ints) -> Ints:
    """Clusters (U,) with everybody who is in none (-1) in one that is cheap and has room."""
    return fill_by_regret(_joining(problem, columns, cluster, len(columns)), cluster, problem.capacity[columns])


def _settled(problem: HeadProblem, columns: Ints, cluster: Ints) -> Ints:
    """Clusters (U,) in which nobody is over capacity and no cluster is empty."""
    heads, room = problem.candidates[columns], problem.capacity[columns]
    size = np.bincount(cluster, minlength=len(columns))
    while not size.all():  # a head that went home stays there
        empty = np.flatnonzero(size == 0)
        cluster[heads[empty]] = empty
        size = np.bincount(cluster, minlength=len(columns))
    over = np.flatnonzero(size > room)
    if not len(over):
        return cluster
    cost = problem.cost[:, columns]
    elsewhere = np.where(np.arange(len(columns)) == cluster[:, None], np.inf, cost).min(axis=1)
    regret = elsewhere - cost[np.arange(len(cluster)), cluster]
    regret[heads] = np.inf
    for c in over.tolist():
        members = np.flatnonzero(cluster == c)
        cluster[members[np.argsort(regret[members], kind="stable")[: size[c] - room[c]]]] = -1
    return _fill(problem, columns, cluster)
