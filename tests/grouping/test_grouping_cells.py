"""Grouping by cells on the three overlapping cells of HHFL, and what a view refuses to tell."""

import numpy as np
import pytest

from fedloom.fleet import Fleet, FleetSettings
from fedloom.grouping import Need, View, all_cells, home_cells, one_cloud

THREE = {"n_devices": 57, "cells": {"kind": "grid"}, "placement": {"kind": "three-cells"}}


def view_of(settings, needs=frozenset(), seed=0):
    snapshot = Fleet.from_settings(FleetSettings.model_validate(settings), seed).snapshot(0)
    k = snapshot.n_devices
    return View(
        needs=frozenset(needs), _snapshot=snapshot, cloud_round=0, all_n_samples=np.arange(1, k + 1),
        all_label_counts=np.ones((k, 10), dtype=np.int64), all_step_s=np.full(k, 0.01),
        all_work_s=np.ones(len(snapshot.home)),
        model_bits=8.0, up_bits=8.0, down_bits=8.0,
        collect=lambda kind, layers: np.zeros((len(snapshot.home), 1)),
    )  # fmt: skip


@pytest.fixture(params=[0, 1, 2])
def view(request):
    return view_of(THREE, seed=request.param)


def rng():
    return np.random.default_rng(0)


def test_one_cloud_takes_everybody(view):
    topology = one_cloud(view, rng())
    assert topology.kind == "cloud" and topology.cover.shape == (1, 57) and topology.cover.all()
    np.testing.assert_array_equal(topology.host, [0])
    assert len(topology.pace_groups()) == 1


def test_home_cells_take_nineteen_each_and_nobody_twice(view):
    topology = home_cells(view, rng())
    assert topology.kind == "edge"
    np.testing.assert_array_equal(topology.host, [0, 1, 2])
    np.testing.assert_array_equal(topology.n_reached, np.ones(57))
    np.testing.assert_array_equal(topology.cover.sum(axis=1), [19, 19, 19])
    np.testing.assert_array_equal(topology.cover.argmax(axis=0), view.home)
    assert [g.tolist() for g in topology.pace_groups()] == [[0], [1], [2]]


def test_all_cells_cover_the_regions_of_hhfl(view):
    topology = all_cells(view, rng())
    regions = {}
    for k in range(57):
        region = tuple(np.flatnonzero(topology.cover[:, k]).tolist())
        regions[region] = regions.get(region, 0) + 1
    assert regions == {(0,): 14, (1,): 14, (2,): 14, (0, 1): 4, (1, 2): 4, (0, 2): 4, (0, 1, 2): 3}
    np.testing.assert_array_equal(topology.cover.sum(axis=1), [25, 25, 25])  # 14 + 4 + 4 + 3
    assert topology.kind == "edge"
    np.testing.assert_array_equal(topology.host, [0, 1, 2])
    assert [g.tolist() for g in topology.pace_groups()] == [[0, 1, 2]]  # overlaps tie the clocks together


def test_homes_are_among_the_cells_in_reach(view):
    assert not (home_cells(view, rng()).cover & ~all_cells(view, rng()).cover).any()


def test_devices_out_of_reach_take_no_part():
    far = view_of({
        "n_devices": 4, "uncovered": "drop",
        "cells": {"kind": "explicit", "centres_m": [[0, 0], [1000, 0]], "radius_m": 400},
        "placement": {"kind": "coordinates", "positions_m": [[0, 0], [500, 0], [1000, 10], [-300, 0]]},
    })  # fmt: skip
    for group, n_aggregators in [(one_cloud, 1), (home_cells, 2), (all_cells, 2)]:
        topology = group(far, rng())
        assert topology.n_aggregators == n_aggregators
        np.testing.assert_array_equal(topology.n_reached, [1, 0, 1, 1])


def test_grouping_by_cells_draws_no_random_numbers_and_changes_nothing(view):
    generator = rng()
    before = view.in_reach.copy()
    for group in (one_cloud, home_cells, all_cells):
        first = group(view, generator)
        np.testing.assert_array_equal(first.cover, group(view, rng()).cover)
    assert generator.integers(2**62) == rng().integers(2**62)
    np.testing.assert_array_equal(before, view.in_reach)


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("n_samples", Need.SIZES),
        ("label_counts", Need.LABELS),
        ("position_m", Need.POSITIONS),
        ("step_s", Need.SPEEDS),
    ],
)
def test_a_view_tells_only_what_was_declared(name, need):
    others = set(Need) - {need}
    message = f"this method asked for {need.value} without declaring it; add Need.{need.name} to its needs"
    with pytest.raises(ValueError, match=message):
        getattr(view_of(THREE, others), name)
    assert len(getattr(view_of(THREE, {need}), name)) == 57


def test_cells_and_homes_need_no_declaration():
    blind = view_of(THREE)
    assert blind.in_reach.shape == (3, 57) and blind.home.shape == (57,)
    for group in (one_cloud, home_cells, all_cells):
        assert group(blind, rng()).cover.any()


MESH = {"n_devices": 6, "device_device": {"kind": "drawn", "low": 0, "high": 5}}


@pytest.mark.parametrize("seed", range(5))
def test_a_member_fetches_and_returns_a_model_over_its_link(seed):
    both = view_of(MESH, {Need.LINKS}, seed)
    np.testing.assert_array_equal(both.exchange_s, both.link_s.T + both.link_s)
    np.testing.assert_array_equal(both.exchange_s.diagonal(), np.zeros(6))
    assert (np.isinf(both.exchange_s) == np.isinf(both.link_s)).all()
    free = view_of({**MESH, "head_broadcast": "free"}, {Need.LINKS}, seed)
    np.testing.assert_array_equal(free.exchange_s, free.link_s)
    np.testing.assert_array_equal(free.link_s, both.link_s)


def test_times_of_links_must_be_declared():
    with pytest.raises(ValueError, match="asked for link rates without declaring it"):
        _ = view_of(MESH, set(Need) - {Need.LINKS}).exchange_s
