"""DDC's scores from its equations, in plain loops, and the instances that the tests of heads share."""

import itertools

import numpy as np

from fedloom.grouping.head_problem import head_problem

POSITION = np.array([[0, 0], [30, 40], [60, 0], [60, 80], [0, 80], [30, 0]], dtype=float)
SERVER = np.array([30.0, 1000.0])
GRADIENTS = np.array([[2, 0], [3, 4], [0, 5], [-4, 3], [0, -3], [8, 6]], dtype=float)


def instance_a(**options):
    """The first instance by hand."""
    return head_problem(
        POSITION, SERVER, GRADIENTS, **{"alpha": 0.5, "candidates": [0, 2, 3, 4], "capacity": 4} | options
    )


def disc(n, rng):
    """Devices in a disc of 100 m, the server 1 km away, gradients of skewed labels."""
    radius, angle = 100 * np.sqrt(rng.uniform(size=n)), rng.uniform(0, 2 * np.pi, n)
    labels = rng.dirichlet(np.full(10, 0.5), n)
    gradients = labels - 0.7 * labels.mean(axis=0) + 0.02 * rng.normal(size=labels.shape)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), np.array([1000.0, 0.0]), gradients


def naive_cosines(gradients):
    """Eq. 5, pair by pair; a zero gradient has cosine 0 with all others and 1 with itself."""
    n = len(gradients)
    cosine = np.eye(n)
    for u, v in itertools.permutations(range(n), 2):
        lengths = np.linalg.norm(gradients[u]) * np.linalg.norm(gradients[v])
        cosine[u, v] = gradients[u] @ gradients[v] / lengths if lengths > 0 else 0.0
    return cosine


def naive_q(cosine, assign):
    """Q_n of each head, rising: the mean of all cosines in its cluster, ordered pairs, own ones too."""
    clusters = [np.flatnonzero(np.asarray(assign) == head) for head in np.unique(assign)]
    return np.array([sum(cosine[u, v] for u in c for v in c) / len(c) ** 2 for c in clusters])


def naive_objective(problem, cosine, assign):
    """Psi of a problem's costs: members, the server once per head, and the mean of Q over clusters or devices."""
    place = {int(n): i for i, n in enumerate(problem.candidates)}
    value = sum(problem.cost[u, place[int(n)]] for u, n in enumerate(assign))
    heads, size = np.unique(assign, return_counts=True)
    value += sum(problem.server_cost[place[int(n)]] for n in heads)
    share = np.full(len(heads), 1 / len(heads)) if problem.weighting == "cluster" else size / len(assign)
    return value + problem.alpha * float(share @ naive_q(cosine, assign))


def random_assignment(problem, heads, rng):
    """By chance, within capacities; heads at home, unless they need not be: then anywhere, but nobody without devices."""
    room = {int(n): int(v) for n, v in zip(problem.candidates, problem.capacity)}
    left = {int(n): room[int(n)] - 1 for n in heads}
    assign = np.full(problem.n_devices, -1)
    assign[heads] = heads
    for u in rng.permutation(np.flatnonzero(assign < 0)):
        assign[u] = rng.choice([n for n in left if left[n] > 0])
        left[int(assign[u])] -= 1
    if not problem.own_cluster:
        assign = rng.permutation(assign)
    return assign


def check_valid(problem, found):
    """Everybody has one of the heads, heads have themselves, and nobody has too many."""
    assert set(found.assign.tolist()) == set(found.heads.tolist()) <= set(problem.candidates.tolist())
    assert found.heads.tolist() == sorted(found.heads.tolist())
    if problem.own_cluster:
        assert found.assign[found.heads].tolist() == found.heads.tolist()
    for head, members in zip(found.heads, found.clusters):
        np.testing.assert_array_equal(members, np.flatnonzero(found.assign == head))
        assert len(members) <= problem.capacity[problem.columns([head])[0]]
