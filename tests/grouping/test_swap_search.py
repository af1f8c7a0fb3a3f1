"""Swap search: cases by hand, the trade-off, and the fast search against one written from the paper."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_swap_search import SOLUTIONS, Z, angle_of, exchange, metrics, naive_swap_search, pays, round_time, skew_of
from test_round_time import links

from fedloom.grouping import complementary_clusters, heads_and_times, random_clusters, round_matrix, swap_search
from fedloom.grouping import local_search as loop
from fedloom.grouping.directions import Angle
from fedloom.grouping.local_search import _listed, trials_for
from fedloom.grouping.round_time import RoundTimes
from fedloom.grouping.swap_search import relative_change, trade_off, valid

INF = np.inf

TRADES = [
    # mu1, mu2, mu1', mu2', z, r1, r2, valid
    (1, 1, 0.9, 0.9, 1.05, -0.1, -0.1, True),
    (1, 1, 1, 0.99, 1.05, 0, -0.01, True),
    (1, 1, 1, 1, 1.05, 0, 0, False),
    (1, 1, 1.1, 0.895, 1.05, 0.1, -0.105, True),
    (1, 1, 1.1, 0.896, 1.05, 0.1, -0.104, False),
    (1, 1, 0.79, 1.2, 1.05, -0.21, 0.2, True),
    (1, 1, 0.79, 1.2, 1.8, -0.21, 0.2, False),
    (1, 1, 0.64, 1.2, 1.8, -0.36, 0.2, True),
    (2, 50, 2.2, 44, 1.05, 0.1, -0.12, True),
    (0.5, 40, 0.55, 36, 1.05, 0.1, -0.1, False),
    (0, 30, 0, 29, 1.05, 0, -1 / 30, True),
    (0, 30, 0.01, 10, 1.05, INF, -2 / 3, False),
    (0.4, 1200, 0.6, 60, 1.05, 0.5, -0.95, True),
    (0.4, 1200, 0.79, 60, 1.05, 0.975, -0.95, False),
    (1, 1, 1.05, 1.05, 1.05, 0.05, 0.05, False),
]

G4_PHI = np.array([[1, 0], [0.8, 0.2], [0.9, -0.3], [0, 1], [0.2, 0.9], [-0.2, 0.8]])
G4_SIZES = np.array([100, 80, 120, 90, 110, 100], dtype=float)
G4_COMPUTE = [10, 14, 8, 12, 6, 9]
G4_RATES = dict(zip([(i, j) for i in range(6) for j in range(i + 1, 6)], [3, 5, 1, 2, 4, 1, 5, 2, 3, 2, 4, 5, 1, 3, 2]))
G4_LINK = links(6, G4_RATES, 15)
G4_CLUSTERS = [[0, 2, 4], [1, 3, 5]]
CANDIDATES = [
    # leaves, joins, theta1', theta2', T1', T2', heads, valid for 1.1, 1.2, 2, 3
    (0, 1, 0.350921, 0.393320, 21.5, 17, (4, 5), "--Y-"),
    (0, 3, 0.128859, 0.149631, 19.5, 15, (2, 1), "YYYY"),
    (0, 5, 0.177467, 0.163834, 12, 15, (2, 1), "YYYY"),
    (2, 1, 0.183881, 0.252081, 15, 15.5, (1, 3), "YYYY"),
    (2, 3, 0.259956, 0.361672, 25, 19, (3, 5), "--Y-"),
    (2, 5, 0.315221, 0.351127, 13.5, 17, (0, 3), "YYYY"),
    (4, 1, 0.811031, 0.825728, 19, 17, (0, 5), "----"),
    (4, 3, 0.483626, 0.506804, 19.5, 14, (2, 1), "--Y-"),
    (4, 5, 0.507729, 0.435950, 12.75, 15, (0, 1), "Y-YY"),
    (0, None, 0.286369, 0.174357, 9.75, 15, (2, 1), "YYYY"),
    (2, None, 0.055934, 0.041142, 13.5, 17, (0, 3), "YYYY"),
    (4, None, 0.909013, 0.605595, 11, 15, (0, 1), "----"),
    (None, 1, 0.475127, 0.950272, 19, 14, (0, 3), "----"),
    (None, 3, 0.150635, 0.403401, 19.5, 14, (2, 1), "YYYY"),
    (None, 5, 0.139806, 0.289973, 13, 15, (2, 1), "YYYY"),
]


def rng(seed=0):
    return np.random.default_rng(seed)


def changes(result):
    return [(c.trial, c.first, c.second, c.leaves, c.joins) for c in result.accepted]


def as_lists(clusters):
    return [c.tolist() for c in clusters]


@pytest.mark.parametrize("row", TRADES, ids=str)
def test_g2(row):
    mu1, mu2, new1, new2, z, r1, r2, expected = row
    assert relative_change(mu1, new1) == pytest.approx(r1, abs=1e-12)
    assert relative_change(mu2, new2) == pytest.approx(r2, abs=1e-12)
    assert valid(mu1, mu2, new1, new2, z) == expected
    assert valid(mu2, mu1, new2, new1, z) == expected


def test_g2_at_once():
    mu1, mu2, new1, new2, z, _, _, expected = map(np.array, zip(*TRADES))
    for each in set(z.tolist()):
        np.testing.assert_array_equal(valid(mu1, mu2, new1, new2, each)[z == each], expected[z == each])


metric_values = st.floats(1e-3, 1e3)


@given(*[metric_values] * 4, st.floats(1, 5), st.sampled_from([0.5, 3.0, 1024.0]), st.floats(1, 4))
def test_the_trade_off_is_symmetric_free_of_units_and_harder_with_z(mu1, mu2, new1, new2, z, unit, more):
    one = bool(valid(mu1, mu2, new1, new2, z))
    assert one == valid(mu2, mu1, new2, new1, z)
    r1, r2 = float(relative_change(mu1, new1)), float(relative_change(mu2, new2))
    if min(abs(z * r1 + r2), abs(z * r2 + r1), abs(r1), abs(r2)) > 1e-9:  # nearer to the boundary rounding may decide
        assert one == valid(unit * mu1, mu2, unit * new1, new2, z) == valid(mu1, unit * mu2, new1, unit * new2, z)
        assert valid(mu1, mu2, new1, new2, INF) == (new1 < mu1 and new2 < mu2)
    assert one or not valid(mu1, mu2, new1, new2, z * more)
    assert one or not valid(mu1, mu2, new1, new2, INF)
    if one:
        assert new1 * new2 < mu1 * mu2


@given(st.integers(0, 2**32), st.sampled_from([1.0, 1.05, 1.8]))
@settings(max_examples=20)
def test_the_trade_off_equals_a_scan_over_alpha(seed, z):
    mu1, mu2, new1, new2 = rng(seed).uniform(0.5, 1.5, (4, 200))
    alpha = np.linspace(0, 3, 3001)[1:, None]

    def possible(a, b, new_a, new_b):
        return ((new_a <= (1 + alpha) * a) & (new_b <= (1 - z * alpha) * b)).any(axis=0)

    scanned = possible(mu1, mu2, new1, new2) | possible(mu2, mu1, new2, new1)
    closed = valid(mu1, mu2, new1, new2, z)
    r1, r2 = new1 / mu1 - 1, new2 / mu2 - 1
    close = np.minimum(np.abs(z * r1 + r2), np.abs(z * r2 + r1)) < 3e-3  # between two alphas of the scan
    close |= np.minimum(np.abs(r1), np.abs(r2)) < 3e-3
    assert close.mean() < 0.1
    np.testing.assert_array_equal(scanned[~close], closed[~close])


def g4_tables():
    measures = [Angle(G4_PHI, G4_SIZES), RoundTimes(round_matrix(G4_COMPUTE, G4_LINK), 1200.0)]
    clusters = [np.array(c) for c in G4_CLUSTERS]
    before = np.stack([m.restart(clusters) for m in measures])
    return before, [m.after(0, 1, *(np.append(c, 6) for c in clusters)) for m in measures]


def test_g4_start():
    before, _ = g4_tables()
    np.testing.assert_allclose(before, [[0.470278, 0.600874], [13, 15]], rtol=0, atol=1e-6)
    heads, _ = heads_and_times(round_matrix(G4_COMPUTE, G4_LINK), G4_CLUSTERS)
    assert heads.tolist() == [2, 1]
    assert (before[0] / before[1]).sum() == pytest.approx(0.076233, abs=1e-6)


def test_g4_every_candidate():
    _, (theta, times) = g4_tables()
    for row, (leaves, joins, theta1, theta2, t1, t2, heads, _) in enumerate(CANDIDATES):
        assert [_listed(theta[0])[row], _listed(theta[1])[row]] == pytest.approx([theta1, theta2], abs=1e-6)
        assert [_listed(times[0])[row], _listed(times[1])[row]] == [t1, t2]
        pair = [exchange(G4_CLUSTERS[0], leaves, joins), exchange(G4_CLUSTERS[1], joins, leaves)]
        assert heads_and_times(round_matrix(G4_COMPUTE, G4_LINK), pair)[0].tolist() == list(heads)
    for column, solution in enumerate(SOLUTIONS):
        accept, _ = trade_off(solution, Z[solution])([theta, times])
        assert "".join("-Y"[int(ok)] for ok in _listed(accept)) == "".join(row[7][column] for row in CANDIDATES)


@pytest.mark.parametrize(("solution", "score"), list(zip(SOLUTIONS, [-0.820086, -1.640795, -1.823275, -0.824618])))
def test_g4_best(solution, score):
    _, after = g4_tables()
    accept, scores = trade_off(solution, Z[solution])(after)
    allowed = np.where(_listed(accept), _listed(scores), INF)
    assert allowed.argmin() == 10 and allowed.min() == pytest.approx(score, abs=1e-6)
    found = swap_search(
        G4_PHI, G4_SIZES, G4_COMPUTE, G4_LINK, n_clusters=2, size_min=2, size_max=4, n_trials=1, solution=solution,
        choice="best", start=G4_CLUSTERS, t_cap=1200, rng=rng(),
    )  # fmt: skip
    (change,) = found.accepted
    assert {change.leaves, change.joins} == {2, None} and change.trial == 1
    assert sorted(as_lists(found.clusters)) == [[0, 4], [1, 2, 3, 5]]


def g4_ring():
    i = np.arange(12)
    phi = np.stack([np.cos(2 * np.pi * i / 5), np.sin(2 * np.pi * i / 5), np.full(12, 0.3)], axis=1)
    return phi, 50 + 10 * (i % 4), 5 + 7 * i % 11, 15 / (1 + (i[:, None] + i) % 5)


def test_g4_trajectory():
    settings = {"n_clusters": 3, "size_min": 2, "size_max": 6, "t_cap": 1200}
    start = swap_search(*g4_ring(), n_trials=0, **settings, rng=rng(0))
    assert as_lists(start.clusters) == [[0, 4, 9, 10], [2, 3, 5, 8], [1, 6, 7, 11]]
    assert start.theta == pytest.approx([1.318129, 1.305574, 0.822452], abs=1e-6)
    assert start.round_s.tolist() == [14.75, 18.75, 17] and not start.accepted
    found = swap_search(*g4_ring(), n_trials=40, **settings, rng=rng(0))
    assert len(found.accepted) == 15 and found.n_trials == 40
    assert as_lists(found.clusters) == [[0, 1, 7, 9], [3, 5, 6], [2, 4, 8, 10, 11]]
    assert found.theta == pytest.approx([0.136525, 0.133959, 0.081684], abs=1e-6)
    assert found.round_s.tolist() == [19.5, 17, 14] and found.heads.tolist() == [0, 3, 10]
    found = swap_search(*g4_ring(), n_trials=40, solution="3", **settings, rng=rng(0))
    assert len(found.accepted) == 8 and found.round_s.tolist() == [20.5, 20, 15]
    assert as_lists(found.clusters) == [[1, 2, 4, 6, 9], [0, 7, 8, 10], [3, 5, 11]]


@st.composite
def searches(draw):
    """Everything `swap_search` takes but the generator: ties, zeros, dead links, singletons, every option."""
    random = rng(draw(st.integers(0, 2**32)))  # all by one number: hypothesis alone would prefer the smallest instances

    def one_of(*options):
        return options[random.integers(len(options))]

    n = int(random.integers(2, 18))
    n_clusters = int(random.integers(1 if n < 4 else 2, min(n, 5) + 1))
    metric = one_of("angle", "angle", "skew")
    if metric == "skew":
        features = random.integers(0, 5, (n, random.integers(1, 6)))
        features[random.uniform(size=n) < one_of(0.0, 0.2)] = 0
        n_samples = features.sum(axis=1)
    else:
        shape = n, random.integers(1, 6)
        features = one_of(random.normal(size=shape), random.integers(-2, 3, shape).astype(float))
        features[random.uniform(size=n) < one_of(0.0, 0.0, 0.0, 0.3, 1.0)] = 0
        n_samples = random.integers(one_of(0, 1), 6, n)
    if one_of(True, False):
        compute, rate = random.integers(1, 6, n).astype(float), random.integers(1, 6, (n, n)).astype(float)
    else:
        compute, rate = random.uniform(1, 6, n), random.uniform(1, 6, (n, n))
    rate[random.uniform(size=(n, n)) < one_of(0.0, 0.0, 0.05, 0.3)] = 0
    with np.errstate(divide="ignore"):
        link = 12 / np.minimum(rate, rate.T)
    start = None
    if one_of(True, False):  # sizes as they come, singletons among them
        where = np.concatenate([np.arange(n_clusters), random.integers(n_clusters, size=n - n_clusters)])
        start = [np.flatnonzero(where == c).tolist() for c in range(n_clusters)]
    size_min = one_of(1, 2, 3)
    options = {
        "n_clusters": n_clusters,
        "size_min": size_min,
        "size_max": one_of(size_min, n // 2 + 3, n + 3),
        "n_trials": one_of(1, 30, 30, 50),
        "solution": one_of(*SOLUTIONS),
        "choice": one_of("random", "best"),
        "patience": one_of(None, None, None, 4),
        "t_cap": one_of(1000.0, 12.0),
        "metric": metric,
        "start": start,
    }
    return features, n_samples, compute, link, options, one_of(None, None, INF, 1.0, 3.0)


@pytest.mark.slow
@given(searches(), st.integers(0, 2**32))
@settings(max_examples=150)
def test_the_fast_search_takes_the_same_path_as_the_one_from_the_paper(search, seed):
    features, n_samples, compute, link, options, z = search
    fast, slow = rng(seed), rng(seed)
    how = {"strict": True} if z == INF else {"z": z}
    found = swap_search(features, n_samples, compute, link, **options, **how, rng=fast)
    t = round_matrix(compute, link)
    clusters, values, accepted = naive_swap_search(features, n_samples, t, **options, z=z, rng=slow)
    assert changes(found) == accepted
    assert as_lists(found.clusters) == clusters
    np.testing.assert_allclose(found.theta, values[:, 0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(np.minimum(found.round_s, options["t_cap"]), values[:, 1])
    np.testing.assert_array_equal(found.heads, heads_and_times(t, clusters)[0])
    assert fast.integers(2**62) == slow.integers(2**62)  # as much was drawn


def test_the_searches_above_are_worth_comparing():
    """Enough of them change something, and every kind of change occurs."""
    kinds, n_changed = set(), []

    @given(searches(), st.integers(0, 2**32))
    @settings(max_examples=250, database=None)
    def collect(search, seed):
        features, n_samples, compute, link, options, _ = search
        found = swap_search(features, n_samples, compute, link, **options, rng=rng(seed))
        n_changed.append(len(found.accepted))
        kinds.update((options["solution"], c.leaves is None, c.joins is None) for c in found.accepted)

    collect()
    assert np.mean(np.array(n_changed) >= 3) > 0.25
    assert len(kinds) == 4 * 3


@given(searches(), st.integers(0, 2**32))
def test_every_change_pays_and_keeps_the_partition(search, seed):
    features, n_samples, compute, link, options, z = search
    how = {"strict": True} if z == INF else {"z": z}
    solution = options["solution"]
    z = Z[solution] if z is None else z
    t = round_matrix(compute, link)
    features = np.asarray(features, dtype=float)
    direction = skew_of(features) if options["metric"] == "skew" else angle_of(n_samples[:, None] * features)
    n = len(t)

    def evaluate(members):
        return direction(members), min(round_time(t, members), options["t_cap"])

    found = swap_search(features, n_samples, compute, link, **options, **how, rng=rng(seed))
    begin = options["start"] or as_lists(random_clusters(n, options["n_clusters"], rng(seed)))
    clusters = [list(c) for c in begin]
    low, high = options["size_min"], options["size_max"]
    inside = all(low <= len(c) <= high for c in clusters)
    for change in found.accepted:
        pair = clusters[change.first], clusters[change.second]
        assert change.leaves is None or change.leaves in pair[0]
        assert change.joins is None or change.joins in pair[1]
        new = (
            exchange(pair[0], change.leaves, change.joins),
            exchange(pair[1], change.joins, change.leaves),
        )
        before, after = ([evaluate(c) for c in p] for p in (pair, new))
        judged = list(zip(metrics(solution, before), metrics(solution, after)))
        assert all(pays(mu, mu_new, z) for mu, mu_new in judged)
        if all(min(mu) > 0 for mu, _ in judged):  # the product of the metrics is smaller
            assert all(a[0] * a[1] < b[0] * b[1] for b, a in judged)
        clusters[change.first], clusters[change.second] = new
        assert sorted(k for c in clusters for k in c) == list(range(n)) and all(clusters)
        assert not inside or all(low <= len(c) <= high for c in clusters)
    assert as_lists(found.clusters) == clusters


@pytest.mark.parametrize("seed", range(5))
def test_solution_1_2_lowers_the_product_over_all_clusters_with_every_change(seed):
    random = rng(seed)
    phi, sizes, compute = random.normal(size=(40, 8)), random.integers(1, 50, 40), random.uniform(1, 5, 40)
    link = random.uniform(1, 5, (40, 40))
    t, direction = round_matrix(compute, link), angle_of(sizes[:, None] * phi)
    clusters = as_lists(random_clusters(40, 5, rng(seed)))
    found = swap_search(phi, sizes, compute, link, n_clusters=5, solution="1.2", n_trials=200, rng=rng(seed))
    totals = [sum(np.log(direction(c) * round_time(t, c)) for c in clusters)]
    for change in found.accepted:
        one, two = clusters[change.first], clusters[change.second]
        clusters[change.first] = exchange(one, change.leaves, change.joins)
        clusters[change.second] = exchange(two, change.joins, change.leaves)
        totals.append(sum(np.log(direction(c) * round_time(t, c)) for c in clusters))
    assert len(totals) > 10 and (np.diff(totals) < 0).all()


def world(n=30, seed=0):
    random = rng(seed)
    return random.normal(size=(n, 6)), random.integers(1, 50, n), random.uniform(1, 5, n), random.uniform(1, 5, (n, n))


def test_the_same_seed_gives_the_same_and_the_input_is_kept():
    inputs = world()
    copies = [x.copy() for x in inputs]
    start = [np.arange(c, 30, 4)[::-1] for c in range(4)]
    one, two = (swap_search(*inputs, n_clusters=4, start=start, rng=rng(3)) for _ in range(2))
    assert one.accepted == two.accepted and as_lists(one.clusters) == as_lists(two.clusters)
    for x, copy in zip([*inputs, *start], [*copies, *(np.arange(c, 30, 4)[::-1] for c in range(4))]):
        np.testing.assert_array_equal(x, copy)
    assert changes(one) != changes(swap_search(*inputs, n_clusters=4, start=start, rng=rng(4)))


def test_names_of_clients_do_not_matter_when_the_best_change_is_made():
    phi, sizes, compute, link = world()
    start = [list(range(c, 30, 4)) for c in range(4)]
    name = rng(1).permutation(30)
    old = np.argsort(name)  # who is called k now
    one = swap_search(phi, sizes, compute, link, n_clusters=4, start=start, choice="best", rng=rng(2))
    two = swap_search(
        phi[old], sizes[old], compute[old], link[np.ix_(old, old)], n_clusters=4, start=[name[c] for c in start],
        choice="best", rng=rng(2),
    )  # fmt: skip
    assert len(one.accepted) > 10
    assert [sorted(name[c].tolist()) for c in one.clusters] == as_lists(two.clusters)
    np.testing.assert_allclose(one.theta, two.theta, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(one.round_s, two.round_s)


def test_scale_of_features_sizes_and_time_does_not_matter():
    phi, sizes, compute, link = world()
    one = swap_search(phi, sizes, compute, link, n_clusters=4, rng=rng(2))
    two = swap_search((64 * phi).astype(np.float32), 8 * sizes, 2 * compute, 2 * link, n_clusters=4, rng=rng(2))
    three = swap_search(phi.astype(np.float32), sizes, compute, link, n_clusters=4, rng=rng(2))
    assert len(one.accepted) > 10 and two.accepted == three.accepted
    np.testing.assert_array_equal(two.round_s, 2 * three.round_s)


def test_sums_are_formed_anew_without_a_trace(monkeypatch):
    plain = swap_search(*world(60), n_clusters=6, n_trials=600, rng=rng(1))
    monkeypatch.setattr(loop, "REFRESH", 7)
    assert len(plain.accepted) > 50
    assert swap_search(*world(60), n_clusters=6, n_trials=600, rng=rng(1)).accepted == plain.accepted


def test_patience_ends_the_search():
    settled = swap_search(*world(), n_clusters=3, n_trials=5000, patience=30, rng=rng(1))
    assert settled.accepted[-1].trial + 30 == settled.n_trials < 5000


def test_the_best_change_is_the_first_of_those_that_differ_by_rounding_only():
    def judge(after):
        score = np.ones(after[0].shape[1:])
        score[1, 0], score[1, 1] = -1.0, -1.0 - 1e-11
        return np.ones(score.shape, dtype=bool), score

    search = {"bounds": (1, 4), "n_trials": 1, "choice": "best", "patience": None}
    start = [np.array([0, 1]), np.array([2, 3])]
    found = loop.local_search([Angle(np.ones((4, 1)), np.ones(4))], judge, start, **search, rng=rng(0))
    (change,) = found.accepted
    first, second = start[change.first], start[change.second]
    assert (change.leaves, change.joins) == (first[1], second[0])


def test_one_cluster_is_returned_as_it_is():
    phi, sizes, compute, link = world(5)
    found = swap_search(phi, sizes, compute, link, n_clusters=1, rng=rng())
    assert as_lists(found.clusters) == [[0, 1, 2, 3, 4]]
    assert found.n_trials == 0 and found.theta == 0
    assert (found.heads, found.round_s) == heads_and_times(round_matrix(compute, link), [[0, 1, 2, 3, 4]])


def test_features_that_are_all_zero_leave_the_search_to_the_round_times():
    _, sizes, compute, link = world()
    start = random_clusters(30, 4, rng(5))
    t = round_matrix(compute, link)
    found = swap_search(np.zeros((30, 3)), sizes, compute, link, n_clusters=4, start=start, n_trials=300, rng=rng())
    assert found.theta.tolist() == [np.pi / 2] * 4
    assert found.round_s.sum() < heads_and_times(t, start)[1].sum() - 1


def test_dead_clusters_come_to_life():
    # Two islands without a link between them, mixed at the start: any cluster with both is dead.
    link = np.where(np.arange(8)[:, None] // 4 == np.arange(8) // 4, 1.0, INF)
    phi, sizes = rng(0).normal(size=(8, 3)), np.full(8, 10)
    start = [[0, 1, 4, 5], [2, 3, 6, 7]]
    mixed = heads_and_times(round_matrix(np.ones(8), link), start)
    assert np.isinf(mixed[1]).all() and mixed[0].tolist() == [0, 2]
    found = swap_search(
        phi, sizes, np.ones(8), link, n_clusters=2, start=start, size_min=1, size_max=8, n_trials=200, rng=rng(1)
    )  # fmt: skip
    assert np.isfinite(found.round_s).any()


def test_the_cap_is_ten_times_the_slowest_live_link_by_default():
    # The slowest arrival is 10 + 1 s, so the dead cluster {0, 1} counts 110 s. How much worse the angles may get to bring
    # it to life depends on that.
    link = np.ones((4, 4))
    link[0, 1] = link[1, 0] = INF
    compute = np.array([1.0, 1.0, 1.0, 10.0])

    def search(seed, t_cap):
        phi = rng(seed).normal(size=(4, 2))
        options = {"n_clusters": 2, "start": [[0, 1], [2, 3]], "n_trials": 1, "t_cap": t_cap}
        return swap_search(phi, np.ones(4), compute, link, **options, rng=rng(seed)).accepted

    default = [search(seed, None) for seed in range(200)]
    assert default == [search(seed, 110.0) for seed in range(200)]
    assert default != [search(seed, 50.0) for seed in range(200)]


def test_sizes_are_bounded_by_half_and_one_and_a_half_of_the_mean():
    found = swap_search(*world(), n_clusters=3, n_trials=400, rng=rng(1))  # mean 10: 5 to 15
    sizes = {len(c) for c in found.clusters}
    assert min(sizes) >= 5 and max(sizes) <= 15 and len(sizes) > 1
    lone = swap_search(*world(8), n_clusters=4, n_trials=400, rng=rng(1))  # mean 2: 2 to 3, so no moves from 2
    assert [len(c) for c in lone.clusters] == [2, 2, 2, 2] and all(
        None not in (c.leaves, c.joins) for c in lone.accepted
    )


def test_a_start_with_complementary_clusters():
    phi, sizes, compute, link = world(24)
    start = complementary_clusters(phi, compute, n_clusters=4, sigma_t=0.5, sigma_ft=0.8, rng=rng(0))
    found = swap_search(phi, sizes, compute, link, n_clusters=len(start), start=start, rng=rng(0))
    assert len(found.accepted) > 0
    nothing = swap_search(phi, sizes, compute, link, n_clusters=len(start), start=start, n_trials=0, rng=rng(0))
    assert as_lists(nothing.clusters) == as_lists(start)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_random_clusters_are_a_partition_of_near_equal_sizes(n, n_clusters, seed):
    n_clusters = min(n, n_clusters)
    clusters = random_clusters(n, n_clusters, rng(seed))
    assert len(clusters) == n_clusters and np.ptp([len(c) for c in clusters]) <= 1
    assert sorted(np.concatenate(clusters).tolist()) == list(range(n))
    assert all((np.diff(c) > 0).all() for c in clusters)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be a whole number of at least 1, got 0"),
        ({"n_clusters": 7}, "n_clusters must be at most the number of clients, 6; got 7"),
        ({"solution": "4"}, "solution must be one of 1.1, 1.2, 2, 3; got '4'"),
        ({"metric": "cosine"}, "metric must be one of angle, skew; got 'cosine'"),
        ({"choice": "first"}, "choice must be one of random, best; got 'first'"),
        ({"z": 0.9}, "z must be at least 1, so that a change never loses more than it gains; got 0.9"),
        ({"z": 2.0, "strict": True}, "strict lets nothing get worse and has no use for z, got z = 2"),
        ({"size_min": 4, "size_max": 3}, "size_min must be at most size_max, got 4 and 3"),
        ({"size_min": 0}, "size_min must be a whole number of at least 1, got 0"),
        ({"n_trials": -1}, "n_trials must be a whole number of at least 0, got -1"),
        ({"patience": 0}, "patience must be a whole number of at least 1, got 0"),
        ({"t_cap": INF}, "t_cap must be above 0 and finite, so that dead clusters can be compared, got inf"),
        ({"t_cap": 0.0}, "t_cap must be above 0 and finite"),
        ({"start": [[0, 1, 2, 3, 4, 5]]}, "start must have 2 clusters with members, got sizes [6]"),
        ({"start": [[0, 1, 2, 3, 4, 5], []]}, "start must have 2 clusters with members, got sizes [6, 0]"),
        ({"start": [[0, 1, 2], [3, 4, 4]]}, "start must have every client from 0 to 5 in exactly one cluster"),
        ({"n_samples": [1, 2]}, "n_samples must have shape (6), got (2,)"),
        ({"features": np.ones((5, 2))}, "features must have shape (6, d), got (5, 2)"),
        ({"metric": "skew"}, "label counts must be at least 0"),
        ({"compute_s": [1, 1, 1, 1, 1, 0], "solution": "2"}, "divides by round times, must be above 0, got 0"),
    ],
    ids=lambda x: None,
)
def test_wrong_arguments_say_what_is_wrong(change, message):
    arguments = {
        "features": G4_PHI,
        "n_samples": G4_SIZES,
        "compute_s": G4_COMPUTE,
        "exchange_s": G4_LINK,
        "n_clusters": 2,
    }
    with pytest.raises(ValueError, match=re.escape(message)):
        swap_search(**arguments | change, rng=rng())


def test_trials_grow_with_the_fleet_and_a_number_asked_for_wins():
    assert [trials_for(n, max(2, n // 5)) for n in (4, 20, 30, 60, 200)] == [80, 80, 80, 226, 1377]
    assert trials_for(1000, 200) == 10_000 and trials_for(1000, 2) == 100
    assert swap_search(*world(60), n_clusters=12, rng=rng(1)).n_trials == 226
    assert swap_search(*world(60), n_clusters=12, n_trials=7, rng=rng(1)).n_trials == 7


def test_a_search_of_200_clients_goes_most_of_the_way_by_itself():
    start, default, long = (swap_search(*world(200), n_clusters=40, n_trials=n, rng=rng(1)) for n in (0, None, 8000))
    for value in ("theta", "round_s"):
        first, found, best = (getattr(r, value).mean() for r in (start, default, long))
        assert first - found > 0.75 * (first - best)
