"""Covers and who shares a clock."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.grouping import Topology


def groups_by_union_find(cover, host):
    """Aggregators on one host or with a common client, pair by pair."""
    parent = list(range(len(cover)))

    def root(n):
        while parent[n] != n:
            n = parent[n]
        return n

    for a in range(len(cover)):
        for b in range(a):
            if host[a] == host[b] or any(x and y for x, y in zip(cover[a], cover[b])):
                parent[root(a)] = root(b)
    members = {}
    for n in range(len(cover)):
        members.setdefault(root(n), []).append(n)
    return sorted(members.values())


@given(st.integers(1, 9), st.integers(1, 20), st.floats(0, 0.4), st.integers(1, 9), st.integers(0, 2**32))
@settings(deadline=None)
def test_pace_groups_match_a_union_find(n_aggregators, n_clients, density, n_hosts, seed):
    rng = np.random.default_rng(seed)
    cover = rng.uniform(size=(n_aggregators, n_clients)) < density
    cover[rng.integers(n_aggregators), rng.integers(n_clients)] = True
    host = rng.integers(0, n_hosts, n_aggregators)
    groups = Topology(cover=cover, kind="edge", host=host).pace_groups()
    assert [g.tolist() for g in groups] == groups_by_union_find(cover, host)  # sorted, each and among themselves
    assert all(g.dtype == np.int64 for g in groups)


def test_pace_groups_by_hand():
    # 0 and 2 share client 1; 1 and 3 share a host; 4 is alone and has nobody
    cover = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
    topology = Topology(cover=cover, kind="edge", host=np.array([0, 1, 2, 1, 4]))
    assert [g.tolist() for g in topology.pace_groups()] == [[0, 2], [1, 3], [4]]
    assert topology.n_aggregators == 5
    np.testing.assert_array_equal(topology.n_reached, [1, 2, 1, 1])


def test_separate_cells_each_have_their_own_clock():
    topology = Topology(cover=np.eye(3, dtype=bool), kind="edge", host=np.arange(3))
    assert [g.tolist() for g in topology.pace_groups()] == [[0], [1], [2]]


def test_heads_must_be_members_of_their_clusters():
    cover = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]], dtype=bool)
    with pytest.raises(ValueError, match=r"the heads of clusters \[1, 2\] must be members of their own clusters"):
        Topology(cover=cover, kind="head", host=np.array([1, 0, 2]))
    Topology(cover=cover, kind="head", host=np.array([1, 3, 0]))
    Topology(cover=cover, kind="edge", host=np.array([1, 0, 2]))  # a cell is no client


@pytest.mark.parametrize("host", [4, -1])
def test_a_head_that_is_no_device_is_refused(host):
    cover = np.array([[1, 1, 0, 1]], dtype=bool)
    with pytest.raises(ValueError, match="head"):
        Topology(cover=cover, kind="head", host=np.array([host]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "fog"}, "kind of aggregators must be one of edge, head, cloud; got 'fog'"),
        (
            {"cover": np.ones((2, 3), dtype=int)},
            "cover must be bool of shape (N, K) and host of shape (N,), got int64 (2, 3) and (2,)",
        ),
        (
            {"cover": np.ones(3, dtype=bool)},
            "cover must be bool of shape (N, K) and host of shape (N,), got bool (3,) and (2,)",
        ),
        (
            {"host": np.arange(3)},
            "cover must be bool of shape (N, K) and host of shape (N,), got bool (2, 3) and (3,)",
        ),
    ],
)
def test_a_topology_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Topology(**{"cover": np.ones((2, 3), dtype=bool), "kind": "edge", "host": np.arange(2), **change})


def test_without_a_host_its_clients_stay_idle_unless_they_have_another_aggregator():
    cover = np.array([[True, True, False], [False, True, True]])
    topology = Topology(cover=cover, kind="edge", host=np.array([4, 7]))
    left = topology.without(np.array([4]))
    assert left.cover.tolist() == [[False, False, False], [False, True, True]]
    assert left.host.tolist() == [4, 7] and left.n_reached.tolist() == [0, 1, 1]
    assert topology.without(np.array([9])) is topology


def test_if_nobody_were_left_without_a_host_all_is_as_it_was():
    topology = Topology(cover=np.array([[True, True]]), kind="edge", host=np.array([0]))
    assert topology.without(np.array([0])) is topology


def test_a_head_that_is_not_there_needs_no_cluster():
    topology = Topology.of_heads([np.array([0, 1]), np.array([2])], np.array([0, 2]), 3)
    assert topology.without(np.array([0])).cover.tolist() == [[False] * 3, [False, False, True]]


def test_clients_that_are_not_there_are_left_out_and_clusters_without_their_head():
    cover = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
    here, reach = np.array([True, False, True, True]), np.array([[1, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)
    of = {kind: Topology(cover=cover, kind=kind, host=np.array([0, 1])) for kind in ("edge", "cloud")}
    assert of["edge"].of_those(here, reach).cover.tolist() == [[True, False, False, False], [False, False, False, True]]
    assert of["cloud"].of_those(here, reach).cover.tolist() == [[True, False, False, False], [False, False, True, True]]
    heads = Topology(cover=cover, kind="head", host=np.array([1, 3]))
    assert heads.of_those(here, reach).cover.tolist() == [[False] * 4, [False, False, True, True]]
    everybody = np.ones(4, dtype=bool)
    assert heads.of_those(everybody, reach) is heads
    assert not of["cloud"].of_those(~everybody, reach).cover.any()


def test_who_was_nowhere_joins_where_a_host_has_one_aggregator_and_is_idle_where_it_has_clusters():
    one = Topology(cover=np.array([[1, 0], [0, 0]], dtype=bool), kind="edge", host=np.arange(2), follow=True)
    assert one.at_home(np.array([1, 1])).cover.tolist() == [[False, False], [True, True]]
    cover = np.array([[0, 0], [1, 0], [0, 0], [0, 0]], dtype=bool)
    two = Topology(cover=cover, kind="edge", host=np.array([0, 0, 1, 1]), follow=True)
    assert two.at_home(np.array([1, 1])).cover.tolist() == [[False] * 2, [False] * 2, [False] * 2, [True, False]]
