"""Round times and heads: a case by hand, and what holds for any fleet."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_swap_search import exchange, round_time

from fedloom.grouping import heads_and_times, round_matrix
from fedloom.grouping.round_time import WORK, RoundTimes
from fedloom.pacing import rounds_in_box

INF = np.inf


def links(n, pairs, size):
    """Seconds (n, n) to send `size` over throughputs {(i, j): rate}; rate 0 is a link that is down."""
    seconds = np.zeros((n, n))
    for (i, j), rate in pairs.items():
        seconds[i, j] = seconds[j, i] = size / rate if rate else INF
    return seconds


G1_COMPUTE = [4, 10, 6, 12, 5]
G1_LINK = links(
    5,
    {(0, 1): 3, (0, 2): 1, (0, 3): 4, (0, 4): 2, (1, 2): 0, (1, 3): 2, (1, 4): 4, (2, 3): 3, (2, 4): 4, (3, 4): 1},
    12,
)


@st.composite
def fleets(draw, max_clients=12):
    """compute_s (K,) above 0 and symmetric exchange_s (K, K), some infinite; whole numbers (ties) or not."""
    n = draw(st.integers(1, max_clients))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        compute, rate = rng.integers(1, 8, n).astype(float), rng.integers(1, 6, (n, n)).astype(float)
    else:
        compute, rate = rng.uniform(0.1, 8, n), rng.uniform(0.1, 6, (n, n))
    rate[rng.uniform(size=(n, n)) < draw(st.sampled_from([0.0, 0.2, 0.8]))] = 0
    rate = np.minimum(rate, rate.T)
    with np.errstate(divide="ignore"):
        return compute, 6 / rate


def test_g1():
    t = round_matrix(G1_COMPUTE, G1_LINK)
    np.testing.assert_array_equal(
        t,
        [[4, 8, 16, 7, 10], [14, 10, INF, 16, 13], [18, INF, 6, 10, 9], [15, 18, 16, 12, 24], [11, 8, 8, 17, 5]],
    )  # fmt: skip
    clusters = [[0, 1, 3], [2, 4], [0, 1, 2], [1, 2], [3], [0, 1, 2, 3, 4]]
    heads, times = heads_and_times(t, clusters)
    assert times.tolist() == [15, 8, 18, INF, 12, 17]
    assert heads.tolist() == [0, 2, 0, 1, 3, 3]
    assert [rounds_in_box(120, s) for s in times] == [8, 15, 6, 0, 10, 7]


def test_members_in_any_order_and_ties_to_the_lowest_client():
    t = round_matrix([1, 1, 1], np.full((3, 3), 2.0))  # all heads are equally good
    heads, times = heads_and_times(t, [[2, 0, 1], [2, 1]])
    assert heads.tolist() == [0, 1] and times.tolist() == [3, 3]


def test_the_diagonal_of_the_links_is_ignored_and_the_input_kept():
    link = np.array([[INF, 2.0], [3.0, np.nan]])
    before = link.copy()
    assert round_matrix([1, 5], link).tolist() == [[1, 3], [8, 5]]
    np.testing.assert_array_equal(link, before)


@given(fleets(), st.integers(0, 2**32))
def test_round_times_of_any_cluster(fleet, seed):
    compute, link = fleet
    rng = np.random.default_rng(seed)
    members = np.flatnonzero(rng.uniform(size=len(compute)) < 0.6)
    members = members if len(members) else np.array([0])
    t = round_matrix(compute, link)
    (head,), (time,) = heads_and_times(t, [members])
    # by the definition, with loops
    arrivals = {j: max(t[i, j] for i in members) for j in members}
    assert time == min(arrivals.values()) and head == min(j for j in arrivals if arrivals[j] == time)
    assert time >= compute[members].max()
    if len(members) == 1:
        assert time == compute[members[0]]
    faster = np.minimum(link, rng.uniform(0, 6, link.shape))
    assert heads_and_times(round_matrix(compute, faster), [members])[1][0] <= time
    assert heads_and_times(round_matrix(4 * compute, 4 * link), [members])[1][0] == 4 * time
    r = rounds_in_box(50.0, time)
    assert r == 0 if time > 50 * (1 + 1e-9) else r * time <= 50 * (1 + 1e-8) < (r + 1) * time * (1 + 1e-8)


def test_a_well_connected_member_can_shorten_a_round():
    t = round_matrix([1, 1, 1], links(3, {(0, 1): 1, (0, 2): 6, (1, 2): 6}, 6))
    assert heads_and_times(t, [[0, 1], [0, 1, 2]])[1].tolist() == [7, 2]


@given(fleets(), st.integers(0, 2**32), st.sampled_from([1e9, 4.0]))
def test_times_after_every_change_equal_those_of_the_changed_clusters(fleet, seed, cap):
    compute, link = fleet
    n = len(compute)
    t = round_matrix(compute, link)
    order = np.random.default_rng(seed).permutation(n)
    cut = 1 + seed % max(1, n - 1)
    if cut >= n:
        return
    first, second = np.sort(order[:cut]), np.sort(order[cut:])
    table = RoundTimes(t, cap).after(0, 1, np.append(first, n), np.append(second, n))
    assert table.shape == (2, len(first) + 1, len(second) + 1)
    for i, leaves in enumerate([*first.tolist(), None]):
        for j, joins in enumerate([*second.tolist(), None]):
            for c, members in enumerate((exchange(first, leaves, joins), exchange(second, joins, leaves))):
                if members:
                    assert table[c, i, j] == min(round_time(t, members), cap)


def test_clusters_too_large_for_the_buffer_give_the_same():
    rng = np.random.default_rng(0)
    n1, n2 = 12, 230  # the second cluster alone is larger than the buffer, one row at a time
    assert n2 * (n2 + 1) > WORK
    n = n1 + n2
    t = round_matrix(rng.uniform(1, 2, n), rng.uniform(1, 5, (n, n)))
    first, second = np.arange(n1), np.arange(n1, n)
    table = RoundTimes(t, 1e9).after(0, 1, np.append(first, n), np.append(second, n))
    back = RoundTimes(t, 1e9).after(1, 0, np.append(second, n), np.append(first, n))
    np.testing.assert_array_equal(table, back.transpose(0, 2, 1)[::-1])
    for i, j in [(0, 0), (3, 100), (11, 229), (5, 230), (12, 7)]:
        leaves, joins = [*first.tolist(), None][i], [*second.tolist(), None][j]
        assert table[0, i, j] == round_time(t, exchange(first, leaves, joins))
        assert table[1, i, j] == round_time(t, exchange(second, joins, leaves))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: round_matrix([1, INF], np.ones((2, 2))), "compute_s must be finite, got inf at index [1]"),
        (lambda: round_matrix([1, -2], np.ones((2, 2))), "compute_s must be at least 0, got -2"),
        (lambda: round_matrix([1, 2], np.ones((2, 3))), "exchange_s must have shape (2, 2), got (2, 3)"),
        (lambda: round_matrix([1, 2], [[0, -1], [1, 0]]), "exchange_s must be at least 0, got -1"),
        (lambda: round_matrix([1, 2], [[0, np.nan], [1, 0]]), "exchange_s must be at least 0, got nan"),
        (lambda: heads_and_times(np.ones((2, 2)), [[0], []]), "a cluster without clients has no head"),
    ],
    ids=lambda x: None,
)
def test_wrong_input_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
