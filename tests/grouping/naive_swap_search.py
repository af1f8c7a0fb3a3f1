"""Swap search written down from the paper: every candidate evaluated from scratch, one after the other."""

import math

import numpy as np

SOLUTIONS = ("1.1", "1.2", "2", "3")
Z = {"1.1": 1.05, "1.2": 1.05, "2": 1.05, "3": 1.8}
TOL, LEAST = 1e-12, 1e-9


def angle_of(psi):
    """members -> angle between the sum of psi over members and over all; psi (K, d): features times samples."""
    total, longest = psi.sum(axis=0), max((psi * psi).sum(axis=1))
    total_square = total @ total

    def angle(members):
        mine = psi[members].sum(axis=0)
        square = mine @ mine
        if min(square, total_square) <= 1e-12 * longest:
            return math.pi / 2
        cosine = mine @ total / math.sqrt(square * total_square)
        if 1 - abs(cosine) <= TOL * max(1, 1e-2 * longest / min(square, total_square)):
            cosine = round(cosine)
        return math.acos(cosine)

    return angle


def skew_of(counts):
    """members -> distance of their labels from those of all; counts (K, C)."""
    everybody = counts.sum(axis=0) / (counts.sum() or 1)

    def skew(members):
        mine = counts[members].sum(axis=0)
        value = np.abs(mine / (mine.sum() or 1) - everybody).sum()
        return 0.0 if value < TOL else float(value)

    return skew


def round_time(t, members):
    """Until the last member has arrived at the best head; t (K, K), row = sender."""
    return float(t[members][:, members].max(axis=0).min())


def change(old, new):
    if old > 0:
        return new / old - 1
    return math.inf if new > 0 else 0.0


def pays(mu, new, z):
    r1, r2 = change(mu[0], new[0]), change(mu[1], new[1])
    if z == math.inf:
        return max(r1, r2) <= LEAST and min(r1, r2) < -LEAST
    return (r2 < -LEAST and z * r1 + r2 <= TOL) or (r1 < -LEAST and z * r2 + r1 <= TOL)


def metrics(solution, values):
    """The pairs of metrics to be judged, of values ((direction, T) of cluster 1, of cluster 2)."""
    (d1, t1), (d2, t2) = values
    if solution == "1.2":
        return [(d1, t1), (d2, t2)]
    ratio = d1 / t1 + d2 / t2 if solution != "1.1" else None
    return [{"1.1": (d1 + d2, t1 + t2), "2": (d1 + d2, ratio), "3": (t1 + t2, ratio)}[solution]]


def candidates(first, second, size_min, size_max):
    """(leaves first, joins first), None for nobody, in the order of the list."""
    yield from ((p, q) for p in first for q in second)
    if len(first) > size_min and len(second) < size_max:
        yield from ((p, None) for p in first)
    if len(second) > size_min and len(first) < size_max:
        yield from ((None, q) for q in second)


def exchange(members, leaves, joins):
    return sorted([k for k in members if k != leaves] + ([] if joins is None else [joins]))


def naive_swap_search(
    features, n_samples, t, *, n_clusters, size_min, size_max, n_trials, t_cap, rng, solution="1.1", z=None,
    choice="random", patience=None, start=None, metric="angle",
):  # fmt: skip
    """Clusters, their values (direction, capped T), and accepted changes (trial, c1, c2, leaves, joins)."""
    z = Z[solution] if z is None else z
    rows = np.asarray(features, dtype=float)
    direction = angle_of(np.asarray(n_samples)[:, None] * rows) if metric == "angle" else skew_of(rows)

    def evaluate(members):
        return direction(members), min(round_time(t, members), t_cap)

    if start is None:
        order = rng.permutation(len(t))
        clusters = [sorted(order[c::n_clusters].tolist()) for c in range(n_clusters)]
    else:
        clusters = [sorted(c) for c in start]
    values = [evaluate(c) for c in clusters]
    accepted, idle = [], 0
    for trial in range(1, n_trials + 1):
        if len(clusters) == 1 or idle == patience:
            break
        c1, c2 = rng.choice(len(clusters), 2, replace=False).tolist()
        before = metrics(solution, (values[c1], values[c2]))
        good = []
        for leaves, joins in candidates(clusters[c1], clusters[c2], size_min, size_max):
            pair = exchange(clusters[c1], leaves, joins), exchange(clusters[c2], joins, leaves)
            new_values = evaluate(pair[0]), evaluate(pair[1])
            after = metrics(solution, new_values)
            if all(pays(mu, new, z) for mu, new in zip(before, after)):
                score = sum(change(a, b) for mu, new in zip(before, after) for a, b in zip(mu, new))
                good.append((score, leaves, joins, pair, new_values))
        idle += 1
        if not good:
            continue
        if choice == "random":
            chosen = good[rng.integers(len(good))]
        else:
            lowest = min(g[0] for g in good)
            chosen = next(g for g in good if g[0] <= lowest + LEAST)
        _, leaves, joins, (clusters[c1], clusters[c2]), (values[c1], values[c2]) = chosen
        accepted.append((trial, c1, c2, leaves, joins))
        idle = 0
    return clusters, np.array(values), accepted
