"""Overlaps as matrices: cases by hand, invariants, and which links go under a limit."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.grouping import Topology, edge_matrix, edge_shares, limit_links, mixing_factor, start_matrix
from fedloom.grouping.bridging import POLICIES, TIE
from fedloom.mixing import mean_of_aggregators

SMALL = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
SMALL_HOME = np.array([0, 0, 1])
SMALL_SIZES = np.array([30, 20, 50])


def rng(seed=0):
    return np.random.default_rng(seed)


def three_cells(n_overlap=15):
    """Cover (3, 57) and homes in canonical numbering: client 19 n + k of home n, k = 14, 15 with the next cell, 16, 17
    with the previous, 18 with both; 17, 15, 16, 14, 18 become exclusive in turn, or 13, 12, ... join, next, prev, ..."""
    pairs = {14: (1,), 15: (1,), 16: (-1,), 17: (-1,), 18: (1, -1)}
    for k in (17, 15, 16, 14, 18)[: max(0, 5 - n_overlap // 3)]:
        del pairs[k]
    for j in range(n_overlap // 3 - 5):
        pairs[13 - j] = (1,) if j % 2 == 0 else (-1,)
    cover = np.zeros((3, 57), dtype=bool)
    for n in range(3):
        for k in range(19):
            for turn in (0, *pairs.get(k, ())):
                cover[(n + turn) % 3, 19 * n + k] = True
    return cover, np.repeat(np.arange(3), 19)


@st.composite
def worlds(draw, max_aggregators=6, max_clients=14, idle=True):
    """A cover, homes and sizes. Some clients report to nobody (home -1), and an aggregator may have nobody."""
    n_aggregators, n_clients = draw(st.integers(1, max_aggregators)), draw(st.integers(1, max_clients))
    random = rng(draw(st.integers(0, 2**32)))
    cover = random.uniform(size=(n_aggregators, n_clients)) < draw(st.floats(0.0, 0.9))
    home = random.integers(n_aggregators, size=n_clients)
    cover[home, np.arange(n_clients)] = True
    if idle:
        away = random.uniform(size=n_clients) < 0.2
        away[random.integers(n_clients)] = False
        cover[:, away], home[away] = False, -1
    n_samples = random.integers(1, draw(st.sampled_from([2, 4, 1000])), size=n_clients)  # 2: all equal
    return cover, home, n_samples


def shares(cover, n_samples):
    """p (K,), zero for clients that report to nobody."""
    counted = np.where(cover.any(axis=0), n_samples, 0)
    return counted / counted.sum()


def factor_by_eigenvalues(cover, n_samples):
    """The second eigenvalue of A B as it stands, by the solver for any matrix."""
    used = cover.any(axis=1)
    values = np.linalg.eigvals((edge_matrix(cover, n_samples) @ start_matrix(cover))[np.ix_(used, used)])
    assert np.abs(values.imag).max() < 1e-9
    return np.sort(values.real)[-2] if used.sum() > 1 else 0.0


def connected(cover):
    """All aggregators that have clients are linked through clients, by spreading from the first."""
    used = set(np.flatnonzero(cover.any(axis=1)).tolist())
    reached = {min(used)}
    for _ in cover:
        for k in range(cover.shape[1]):
            mine = set(np.flatnonzero(cover[:, k]).tolist())
            reached |= mine if mine & reached else set()
    return reached == used


def test_gc1():
    a, b = edge_matrix(SMALL, SMALL_SIZES), start_matrix(SMALL)
    # p_i/|S_i| = .3, .1, .5: o = (.4, .6)
    np.testing.assert_allclose(edge_shares(SMALL, SMALL_SIZES), [0.4, 0.6], rtol=1e-14)
    np.testing.assert_allclose(a, [[3 / 4, 1 / 4, 0], [0, 1 / 6, 5 / 6]], rtol=1e-14)
    np.testing.assert_array_equal(b, [[1, 0], [1 / 2, 1 / 2], [0, 1]])
    np.testing.assert_allclose(b @ a, [[3 / 4, 1 / 4, 0], [3 / 8, 5 / 24, 5 / 12], [0, 1 / 6, 5 / 6]], rtol=1e-14)
    np.testing.assert_allclose(a @ b, [[7 / 8, 1 / 8], [1 / 12, 11 / 12]], rtol=1e-14)
    assert mixing_factor(SMALL, SMALL_SIZES) == pytest.approx(19 / 24, rel=1e-14)  # trace 7/8 + 11/12 - 1


def test_gc1_with_a_link_disabled():
    cover = limit_links(SMALL, SMALL_HOME, SMALL_SIZES, disable_links=[(1, 1)], rng=rng())
    np.testing.assert_array_equal(cover, [[1, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(edge_shares(cover, SMALL_SIZES), [0.5, 0.5], rtol=1e-15)
    np.testing.assert_allclose(edge_matrix(cover, SMALL_SIZES), [[3 / 5, 2 / 5, 0], [0, 0, 1]], rtol=1e-15)
    np.testing.assert_array_equal(edge_matrix(cover, SMALL_SIZES) @ start_matrix(cover), np.eye(2))
    assert mixing_factor(cover, SMALL_SIZES) == 1.0


def test_plain_weights_count_an_overlap_client_in_full():
    a = edge_matrix(SMALL, SMALL_SIZES, split=False)  # 30, 20 and 20, 50
    np.testing.assert_allclose(a, [[3 / 5, 2 / 5, 0], [0, 2 / 7, 5 / 7]], rtol=1e-15)
    np.testing.assert_allclose(a @ [0.62, 1.36, 1.2925], [0.916, 1.3117857143], rtol=1e-10)  # FedMes at t = 2, by hand


def test_gc3_weights_and_four_rounds_without_gradients():
    cover, _ = three_cells()
    equal = np.ones(57)
    regions, counts = np.unique(cover, axis=1, return_counts=True)
    by_region = {tuple(np.flatnonzero(r).tolist()): c for r, c in zip(regions.T, counts.tolist())}
    assert by_region == {(0,): 14, (1,): 14, (2,): 14, (0, 1): 4, (1, 2): 4, (0, 2): 4, (0, 1, 2): 3}
    a = edge_matrix(cover, equal)
    np.testing.assert_allclose(edge_shares(cover, equal), np.full(3, 1 / 3), rtol=1e-14)
    np.testing.assert_allclose(a[cover], (np.array([np.nan, 1 / 19, 1 / 38, 1 / 57])[cover.sum(axis=0)] * cover)[cover])
    q = a @ start_matrix(cover)
    np.testing.assert_allclose(q, np.full((3, 3), 4 / 57) + np.eye(3) * 45 / 57, rtol=1e-13)
    assert mixing_factor(cover, equal) == pytest.approx(15 / 19, rel=1e-14)
    models = np.array([1.0, 0.0, 0.0])
    models = q @ models
    np.testing.assert_allclose(models, [49 / 57, 4 / 57, 4 / 57], rtol=1e-13)
    for _ in range(3):
        models = q @ models
    np.testing.assert_allclose(models, np.array([231571, 79696, 79696]) / 390963, rtol=1e-13)


def test_gc3_modified_topology():
    cover, _ = three_cells(21)
    q = edge_matrix(cover, np.ones(57)) @ start_matrix(cover)
    np.testing.assert_allclose(q, np.full((3, 3), 11 / 114) + np.eye(3) * (46 / 57 - 11 / 114), rtol=1e-13)


def test_gc3_with_two_links_at_most():
    cover, home = three_cells()
    capped = limit_links(cover, home, np.ones(57), max_links=2, rng=rng())
    assert capped.sum() == 72
    np.testing.assert_array_equal(capped[:, 18], [True, True, False])  # home 0 and the next
    np.testing.assert_array_equal(capped[:, 56], [True, False, True])  # home 2 and the next, cyclically 0
    q = edge_matrix(capped, np.ones(57)) @ start_matrix(capped)
    np.testing.assert_allclose(q, np.full((3, 3), 5 / 76) + np.eye(3) * (33 / 38 - 5 / 76), rtol=1e-13)
    assert mixing_factor(capped, np.ones(57)) == pytest.approx(61 / 76, rel=1e-14)


@pytest.mark.parametrize(
    ("n_overlap", "n_links", "factor"),
    [(0, 57, Fraction(1)), (3, 63, Fraction(18, 19)), (15, 75, Fraction(15, 19)), (21, 81, Fraction(27, 38)),
     (57, 117, Fraction(9, 38))],
)  # fmt: skip
def test_the_overlap_sweep_of_section_5(n_overlap, n_links, factor):
    cover, _ = three_cells(n_overlap)
    assert (cover.sum(axis=0) > 1).sum() == n_overlap and cover.sum() == n_links
    assert mixing_factor(cover, np.full(57, 902)) == pytest.approx(float(factor), rel=1e-13)


@given(worlds())
def test_weights_are_stochastic_and_conserve_every_share(world):
    cover, _, n_samples = world
    a, b, o, p = (
        edge_matrix(cover, n_samples), start_matrix(cover), edge_shares(cover, n_samples), shares(cover, n_samples),
    )  # fmt: skip
    np.testing.assert_allclose(a.sum(axis=1), cover.any(axis=1), rtol=1e-12)
    np.testing.assert_allclose(b.sum(axis=1), cover.any(axis=0), rtol=1e-12)
    assert o.sum() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(o @ a, p, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(p @ b, o, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(p @ (b @ a), p, rtol=1e-12, atol=1e-15)  # Lemma 2: the mean stays
    np.testing.assert_allclose(o @ (a @ b), o, rtol=1e-12, atol=1e-15)
    mutual = p[:, None] * (b @ a)
    np.testing.assert_allclose(mutual, mutual.T, rtol=1e-12, atol=1e-15)  # reversible


@given(worlds())
def test_the_mixing_factor_is_the_second_eigenvalue(world):
    cover, _, n_samples = world
    factor = mixing_factor(cover, n_samples)
    assert 0 <= factor <= 1
    assert factor == pytest.approx(factor_by_eigenvalues(cover, n_samples), abs=1e-9)
    if cover.any(axis=1).sum() == 1:
        assert factor == 0.0
    elif not connected(cover):
        assert factor == 1.0
    else:
        assert factor < 1


@given(worlds(), st.integers(0, 2**32))
def test_without_gradients_aggregators_agree_by_the_mixing_factor(world, seed):
    cover, _, n_samples = world
    o, q = edge_shares(cover, n_samples), edge_matrix(cover, n_samples) @ start_matrix(cover)
    models = rng(seed).normal(size=(len(cover), 3))
    after = q @ models
    mean = o @ models
    np.testing.assert_allclose(o @ after, mean, rtol=1e-10, atol=1e-12)
    before_spread, after_spread = (o @ ((m - mean) ** 2).sum(axis=1) for m in (models, after))
    assert after_spread <= mixing_factor(cover, n_samples) ** 2 * before_spread * (1 + 1e-9) + 1e-18


def test_the_factor_is_reached_by_the_slowest_direction():
    o, q = edge_shares(SMALL, SMALL_SIZES), edge_matrix(SMALL, SMALL_SIZES) @ start_matrix(SMALL)
    models = np.array([0.6, -0.4])  # o-mean zero: the second eigenvector
    np.testing.assert_allclose(q @ models, 19 / 24 * models, rtol=1e-13)
    assert o @ models == pytest.approx(0, abs=1e-16)


@given(worlds(), st.integers(2, 50), st.integers(0, 2**32))
def test_scaling_sizes_and_relabelling_change_nothing_else(world, scale, seed):
    cover, _, n_samples = world
    np.testing.assert_allclose(edge_matrix(cover, n_samples * scale), edge_matrix(cover, n_samples), rtol=1e-12)
    np.testing.assert_allclose(edge_shares(cover, n_samples * scale), edge_shares(cover, n_samples), rtol=1e-12)
    rows, columns = rng(seed).permutation(cover.shape[0]), rng(seed + 1).permutation(cover.shape[1])
    other, sizes = cover[np.ix_(rows, columns)], n_samples[columns]
    np.testing.assert_allclose(
        edge_matrix(other, sizes), edge_matrix(cover, n_samples)[np.ix_(rows, columns)], rtol=1e-12
    )
    np.testing.assert_array_equal(start_matrix(other), start_matrix(cover)[np.ix_(columns, rows)])
    np.testing.assert_allclose(edge_shares(other, sizes), edge_shares(cover, n_samples)[rows], rtol=1e-12)
    factor = mixing_factor(cover, n_samples)
    assert mixing_factor(other, sizes) == pytest.approx(factor, abs=1e-12)
    assert mixing_factor(cover, n_samples * scale) == pytest.approx(factor, abs=1e-12)


@given(worlds())
def test_clients_start_from_the_same_bits_as_by_mean_of_aggregators(world):
    cover, _, _ = world
    by_hand = cover.T / cover.sum(axis=0).clip(min=1)[:, None]
    topology = Topology(cover=cover, kind="edge", host=np.arange(len(cover)))
    for b in (start_matrix(cover), mean_of_aggregators(topology)):
        assert b.dtype == np.float64 and b.tobytes() == by_hand.tobytes() and b.shape == by_hand.shape


@pytest.mark.parametrize("n_aggregators", [2, 3, 4, 5, 8, 9, 17])
def test_a_chain_of_overlaps_connects_its_ends(n_aggregators):
    chain = np.eye(n_aggregators, dtype=bool) | np.eye(n_aggregators, k=-1, dtype=bool)
    factor = mixing_factor(chain, np.ones(n_aggregators))
    assert factor == pytest.approx(factor_by_eigenvalues(chain, np.ones(n_aggregators)), abs=1e-9) and factor < 1
    chain[1, 0] = False  # 0 is alone
    assert mixing_factor(chain, np.ones(n_aggregators)) == 1.0


def test_clients_without_samples_bridge_nothing():
    assert mixing_factor(SMALL, [30, 0, 50]) == 1.0
    np.testing.assert_array_equal(edge_matrix(SMALL, [0, 0, 50]), [[0, 0, 0], [0, 0, 1]])
    assert mixing_factor(SMALL, [0, 0, 50]) == 0.0  # one aggregator has samples


def test_empty_aggregators_and_idle_clients_are_left_out():
    wide = np.zeros((4, 5), dtype=bool)
    wide[np.ix_([1, 3], [0, 2, 4])] = SMALL
    sizes = [30, 7, 20, 9, 50]
    assert mixing_factor(wide, sizes) == pytest.approx(19 / 24, rel=1e-13)
    np.testing.assert_allclose(edge_shares(wide, sizes), [0, 0.4, 0, 0.6], rtol=1e-13)
    assert mixing_factor(np.ones((1, 3), dtype=bool), [1, 2, 3]) == 0.0


def removals_by_cap_first(cover, home, budget):
    """One link at a time, as the rule reads."""
    cover, n_aggregators = cover.copy(), len(cover)
    while cover.sum() > budget:
        count = cover.sum(axis=0)
        client = max(k for k in range(len(count)) if count[k] == count.max())
        last = [(home[client] + j) % n_aggregators for j in range(n_aggregators)]
        last = [n for n in last if cover[n, client]][-1]
        cover[last, client] = False
    return cover


def removals_by_least_bridging(cover, home, n_samples, budget):
    """One link at a time, every link of every client tried on the whole cover."""
    cover = cover.copy()
    while cover.sum() > budget:
        tried = {}
        for n, k in np.argwhere(cover).tolist():
            if home[k] != n:
                without = cover.copy()
                without[n, k] = False
                tried[k, n] = mixing_factor(without, n_samples)
        client, aggregator = max(link for link, factor in tried.items() if factor <= min(tried.values()) + TIE)
        cover[aggregator, client] = False
    return cover


@given(worlds(), st.floats(0, 1), st.sampled_from(POLICIES), st.integers(1, 4), st.integers(0, 2**32))
def test_limits_hold_and_no_share_changes(world, tightness, policy, max_links, seed):
    cover, home, n_samples = world
    n_active = int(cover.any(axis=0).sum())
    budget = round(n_active + tightness * (cover.sum() - n_active))
    before = cover.copy()
    left = limit_links(
        cover, home, n_samples, max_links=max_links, link_budget=budget, policy=policy, rng=rng(seed)
    )  # fmt: skip
    np.testing.assert_array_equal(cover, before)
    assert not (left & ~cover).any()
    assert left.sum() == min(budget, np.minimum(cover.sum(axis=0), max_links).sum())
    assert left.sum(axis=0).max() <= max_links and left.sum(axis=0).sum() == left.sum(axis=1).sum()
    active = np.flatnonzero(home >= 0)
    assert left[home[active], active].all() and not left[:, home < 0].any()
    np.testing.assert_allclose(
        edge_shares(left, n_samples) @ edge_matrix(left, n_samples), shares(cover, n_samples), rtol=1e-12, atol=1e-15
    )


@given(worlds())
def test_one_link_each_is_the_home_association(world):
    cover, home, n_samples = world
    at_home = np.arange(len(cover))[:, None] == home
    np.testing.assert_array_equal(limit_links(cover, home, n_samples, max_links=1, rng=rng()), at_home)
    for policy in POLICIES:
        budget = int(at_home.sum())
        left = limit_links(cover, home, n_samples, link_budget=budget, policy=policy, rng=rng())
        np.testing.assert_array_equal(left, at_home)


@given(worlds(), st.integers(0, 30))
def test_cap_first_takes_one_link_after_the_other_from_who_has_most(world, n_gone):
    cover, home, n_samples = world
    budget = max(int(cover.sum()) - n_gone, int(cover.any(axis=0).sum()))
    left = limit_links(cover, home, n_samples, link_budget=budget, rng=rng())
    np.testing.assert_array_equal(left, removals_by_cap_first(cover, home, budget))


@given(worlds(max_aggregators=5, max_clients=10), st.integers(0, 8))
@settings(max_examples=60)
def test_least_bridging_equals_trying_every_link_on_the_whole_cover(world, n_gone):
    cover, home, n_samples = world
    budget = max(int(cover.sum()) - n_gone, int(cover.any(axis=0).sum()))
    left = limit_links(cover, home, n_samples, link_budget=budget, policy="least_bridging", rng=rng())
    np.testing.assert_array_equal(left, removals_by_least_bridging(cover, home, n_samples, budget))


def test_least_bridging_on_the_base_topology():
    cover, home = three_cells()
    left = limit_links(cover, home, np.ones(57), link_budget=69, policy="least_bridging", rng=rng())
    np.testing.assert_array_equal(left, removals_by_least_bridging(cover, home, np.ones(57), 69))
    by_cap = limit_links(cover, home, np.ones(57), link_budget=69, rng=rng())
    assert mixing_factor(left, np.ones(57)) <= mixing_factor(by_cap, np.ones(57))


def test_least_bridging_breaks_ties_by_the_highest_client_then_aggregator():
    # Three aggregators, two like triples: any of the four links is as good as another, client 4 comes first, then ES 2.
    cover = np.array([[1, 0, 0, 1, 1], [0, 1, 0, 1, 1], [0, 0, 1, 1, 1]], dtype=bool)
    home = np.array([0, 1, 2, 0, 0])
    left = limit_links(cover, home, np.ones(5), link_budget=8, policy="least_bridging", rng=rng())
    assert np.argwhere(cover & ~left).tolist() == [[2, 4]]


def test_cap_first_by_hand():
    # Client 2 has three links and loses the last one from its home 1 (order 1, 2, 0); then all have two: the highest.
    cover = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]], dtype=bool)
    home = np.array([0, 1, 1, 2])
    one = limit_links(cover, home, np.ones(4), link_budget=8, rng=rng())
    assert np.argwhere(cover & ~one).tolist() == [[0, 2]]
    two = limit_links(cover, home, np.ones(4), link_budget=7, rng=rng())
    assert np.argwhere(one & ~two).tolist() == [[1, 3]]


def test_random_removal_is_by_the_generator_and_even():
    cover, home = np.ones((3, 2), dtype=bool), np.array([0, 1])
    gone = np.zeros((3, 2))
    for seed in range(400):
        left = limit_links(cover, home, np.ones(2), link_budget=5, policy="random", rng=rng(seed))
        again = limit_links(cover, home, np.ones(2), link_budget=5, policy="random", rng=rng(seed))
        np.testing.assert_array_equal(left, again)
        gone += ~left
    assert gone[0, 0] == gone[1, 1] == 0
    assert gone[[0, 1, 2, 2], [1, 0, 0, 1]] == pytest.approx([100] * 4, abs=40)  # deviation 8.7


def test_links_are_disabled_before_the_cap_and_the_cap_comes_before_the_budget():
    cover, home = np.ones((4, 2), dtype=bool), np.array([0, 0])
    left = limit_links(cover, home, np.ones(2), disable_links=[(1, 1)], max_links=3, link_budget=4, rng=rng())
    # client 1 keeps 0, 2, 3 of 0, 2, 3; client 0 keeps 0, 1, 2; then 3 goes from client 1, and 2 from client 0
    np.testing.assert_array_equal(left, [[1, 1], [1, 0], [0, 1], [0, 0]])


def test_no_limit_is_a_copy():
    left = limit_links(SMALL, SMALL_HOME, SMALL_SIZES, rng=rng())
    np.testing.assert_array_equal(left, SMALL)
    assert not np.shares_memory(left, SMALL)
    cover, home = three_cells()
    generator = rng()
    limit_links(cover, home, np.ones(57), link_budget=75, policy="random", rng=generator)
    assert generator.integers(2**62) == rng().integers(2**62)  # nothing to remove, nothing drawn


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"disable_links": [(1, 0)]}, "disable_links names (1, 0), the link home of client 1, which is never removed"),
        ({"disable_links": [(0, 1)]}, "client 0 and aggregator 1, which is no link; that client reports to: [0]"),
        ({"disable_links": [(9, 1)]}, "which is no link; that client reports to: no client of that number"),
        ({"disable_links": [(1, -1)]}, "client 1 and aggregator -1, which is no link; that client reports to: [0, 1]"),
        ({"max_links": 0}, "max_links must be a whole number of at least 1, got 0"),
        ({"link_budget": 2}, "link_budget must leave each of the 3 active clients its link home, got 2"),
        ({"link_budget": 3.5}, "link_budget must be a whole number of at least 0, got 3.5"),
        ({"policy": "best"}, "policy for links must be one of random, cap_first, least_bridging; got 'best'"),
        ({"home": np.array([0, -1, 1])}, "client 1 has home -1, expected one of the aggregators it reports to, [0, 1]"),
        ({"home": np.array([1, 0, 1])}, "client 0 has home 1, expected one of the aggregators it reports to, [0]"),
        ({"home": np.array([0, 0])}, "home must be whole numbers of shape (3,), got int64 (2,)"),
        ({"n_samples": [1, 2]}, "n_samples must have shape (3), got (2,)"),
        ({"n_samples": [1, -2, 1]}, "n_samples must be at least 0, got -2"),
        ({"cover": SMALL.astype(int)}, "cover must be bool of shape (N, K), got int64 (2, 3)"),
    ],
    ids=lambda x: None,
)
def test_wrong_limits_say_what_is_wrong(change, message):
    arguments = {"cover": SMALL, "home": SMALL_HOME, "n_samples": SMALL_SIZES, "rng": rng()} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        limit_links(**arguments)


@pytest.mark.parametrize("function", [edge_matrix, edge_shares, mixing_factor])
def test_nobody_with_samples_is_refused(function):
    for cover, n_samples in ((SMALL, [0, 0, 0]), (np.zeros((2, 3), dtype=bool), [1, 1, 1])):
        with pytest.raises(ValueError, match="no client that reports to an aggregator has samples"):
            function(cover, n_samples)
