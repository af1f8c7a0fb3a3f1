"""The fleet in any cloud round."""

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom import radio
from fedloom.fleet import Fleet, FleetSettings, Link, Snapshot, cells

LINE = {"kind": "grid", "shape": "line", "n": 5, "spacing_m": 1000, "radius_m": 600}
MOBILE = {
    "n_devices": 200,
    "cells": LINE,
    "placement": {"kind": "cells"},
    "mobility": {"p_stay": 0.5, "neighbours": "ring"},
    "device_edge": {"up": {"kind": "radio"}},
}
THREE = {"n_devices": 57, "cells": {"kind": "grid"}, "placement": {"kind": "three-cells"}}


def fleet(seed=0, **fields):
    return Fleet.from_settings(FleetSettings.model_validate(fields), seed)


def arrays_of(snapshot):
    """Every array of a snapshot, by name."""
    out = {}
    for field in dataclasses.fields(Snapshot):
        value = getattr(snapshot, field.name)
        if isinstance(value, np.ndarray):
            out[field.name] = value
        elif isinstance(value, Link):
            out |= {f"{field.name}.fixed": value.fixed_s, f"{field.name}.rate": value.rate_bit_s}
    return out | {"d2d.fixed": snapshot.d2d.fixed_s, "d2d.rate": snapshot.d2d.rate_bit_s}


def assert_same(a, b):
    first, second = arrays_of(a), arrays_of(b)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_message_costs_fixed_time_plus_bits_over_rate():
    link = Link(fixed_s=np.array([1.0, 0.0, 2.0]), rate_bit_s=np.array([10.0, np.inf, 0.0]), power_w=3.0)
    np.testing.assert_array_equal(link.seconds(20), [3, 0, np.inf])
    np.testing.assert_array_equal(link.energy_j(20), [9, 0, np.inf])
    np.testing.assert_array_equal(dataclasses.replace(link, power_w=0.0).energy_j(20), [0, 0, 0])


def test_shapes_and_types():
    snapshot = fleet(**THREE).snapshot(0)
    assert snapshot.position_m.shape == (57, 2)
    assert snapshot.cell_m.shape == (3, 2)
    assert snapshot.server_m.shape == (2,)
    assert snapshot.in_reach.shape == (3, 57)
    for link, shape in [
        (snapshot.edge_up, (3, 57)),
        (snapshot.edge_down, (3, 57)),
        (snapshot.backhaul_up, (3,)),
        (snapshot.backhaul_down, (3,)),
        (snapshot.cloud_up, (57,)),
        (snapshot.cloud_down, (57,)),
        (snapshot.d2d, (57, 57)),
    ]:
        assert link.fixed_s.shape == link.rate_bit_s.shape == link.seconds(8.0).shape == shape
    assert snapshot.compute.shape == snapshot.home.shape == snapshot.active.shape == (57,)
    assert snapshot.active.all()


def test_every_array_is_read_only():
    busy = fleet(**MOBILE, redraw={"links": "cloud-round", "compute": "cloud-round"})
    for t in (0, 1):
        for name, value in arrays_of(busy.snapshot(t)).items():
            assert not value.flags.writeable, name
    with pytest.raises(ValueError, match="read-only"):
        busy.snapshot(0).home[0] = 1


def test_three_cells_are_the_published_topology():
    snapshot = fleet(**THREE).snapshot(0)
    n_cells = snapshot.in_reach.sum(axis=0)
    assert np.bincount(n_cells).tolist() == [0, 42, 12, 3]
    assert np.bincount(snapshot.home).tolist() == [19, 19, 19]
    np.testing.assert_array_equal(snapshot.home, np.arange(57) // 19)
    assert snapshot.in_reach[snapshot.home, np.arange(57)].all()


@pytest.mark.parametrize("homes", ["even", "nearest", "random"])
def test_homes_are_in_reach_by_every_rule(homes):
    snapshot = fleet(n_devices=23, cells=LINE, placement={"kind": "cells"}, homes=homes).snapshot(0)
    assert snapshot.in_reach[snapshot.home, np.arange(23)].all()
    if homes == "even":
        assert np.bincount(snapshot.home).tolist() == [5, 5, 5, 4, 4]
    if homes == "nearest":
        np.testing.assert_array_equal(snapshot.home, radio.distances(snapshot.cell_m, snapshot.position_m).argmin(0))


def test_overlapping_cells_deal_even_homes_to_devices_at_coordinates():
    positions = [[0.0, float(i)] for i in range(8)]
    cell_settings = {"kind": "explicit", "centres_m": [[-5, 0], [5, 0]], "radius_m": [100, 100]}
    place = {"kind": "coordinates", "positions_m": positions}
    deals = [fleet(s, n_devices=8, cells=cell_settings, placement=place).snapshot(0).home for s in range(4)]
    assert all(np.bincount(home).tolist() == [4, 4] for home in deals)
    assert len({tuple(home) for home in deals}) > 1


def test_uncovered_devices_are_an_error_or_dropped():
    place = {"kind": "coordinates", "positions_m": [[0, 0], [9000, 0], [1000, 0]]}
    with pytest.raises(ValueError, match=r"devices \[1\] are in reach of none of the 5 cells"):
        fleet(n_devices=3, cells=LINE, placement=place)
    snapshot = fleet(n_devices=3, cells=LINE, placement=place, uncovered="drop").snapshot(0)
    assert snapshot.active.tolist() == [True, False, True]
    assert snapshot.home.tolist() == [0, -1, 1]
    assert not snapshot.in_reach[:, 1].any()
    assert np.isinf(snapshot.edge_up.seconds(1.0)[:, 1]).all()
    nobody = {"kind": "coordinates", "positions_m": [[9000, 0]]}
    with pytest.raises(ValueError, match=r"devices \[0\] are in reach of none"):
        fleet(n_devices=1, cells=LINE, placement=nobody, uncovered="drop")


def test_a_dropped_device_stays_where_it_is_when_others_move():
    place = {"kind": "coordinates", "positions_m": [[0, 0], [9000, 0], [1000, 0]]}
    mobile = fleet(n_devices=3, cells=LINE, placement=place, uncovered="drop", mobility={"p_stay": 0.0})
    later = mobile.snapshot(7)
    assert later.active.tolist() == [True, False, True]
    assert later.home[1] == -1
    assert later.position_m[1].tolist() == [9000, 0]


def test_out_of_reach_links_cannot_be_used():
    snapshot = fleet(**THREE).snapshot(0)
    seconds = snapshot.edge_up.seconds(1e7)
    assert (seconds[snapshot.in_reach] == 1.0).all()
    assert np.isinf(seconds[~snapshot.in_reach]).all()


def test_radio_links_use_the_distance_of_their_ends():
    place = {"kind": "coordinates", "positions_m": [[20, 0], [120, 0]]}
    link = {"kind": "radio", "power_w": 0.01, "bandwidth_hz": 1e6, "noise_dbm_hz": -173}
    snapshot = fleet(
        n_devices=2,
        placement=place,
        device_edge={"up": link},
        device_device=link,
        edge_cloud={"up": link},
        device_cloud={"via": "direct", "up": link},
        server_m=[1020, 0],
    ).snapshot(0)
    assert snapshot.edge_up.energy_j(224_000)[0, 0] == pytest.approx(0.000114714619, rel=1e-8)
    assert snapshot.d2d.energy_j(224_000)[0, 1] == pytest.approx(0.00020746355, rel=1e-7)
    assert snapshot.cloud_up.energy_j(224_000)[0] == pytest.approx(0.00576580053, rel=1e-8)
    assert snapshot.cloud_up.energy_j(224_000)[1] == pytest.approx(0.004108388, rel=1e-5)  # 900 m
    assert snapshot.backhaul_up.rate_bit_s[0] < snapshot.cloud_up.rate_bit_s[0]  # 1020 m
    assert not snapshot.cloud_via_edge


def test_the_geometry_of_camu_has_a_height():
    loss = {"kind": "free-space", "gain_rx": 15}
    snapshot = fleet(
        n_devices=2,
        cells={"kind": "explicit", "centres_m": [[-50, 0, 10]], "radius_m": 100},
        placement={"kind": "coordinates", "positions_m": [[-50, 49], [-50, -49]]},
        device_edge={
            "up": {
                "kind": "radio",
                "power_w": 0.5,
                "bandwidth_hz": 1e6,
                "noise_dbm_hz": -170,
                "path_loss": loss,
            }
        },
    ).snapshot(0)
    assert snapshot.position_m.shape == (2, 3)
    distance = (49**2 + 10**2) ** 0.5  # 50.01 m
    snr = 1075.9881482 * (50 / distance) ** 3.76
    np.testing.assert_allclose(snapshot.edge_up.rate_bit_s, 1e6 * np.log2(1 + snr), rtol=1e-8)


def test_via_edge_there_is_no_link_of_ones_own():
    snapshot = fleet(n_devices=3, edge_cloud={"up": {"kind": "fixed", "seconds": 10}}).snapshot(0)
    assert snapshot.cloud_via_edge
    assert snapshot.cloud_up.seconds(1e9).tolist() == [0, 0, 0]
    assert snapshot.cloud_down.energy_j(1e9).tolist() == [0, 0, 0]
    assert snapshot.backhaul_up.seconds(1e9).tolist() == [10]


@pytest.mark.parametrize(
    "link",
    [
        {"kind": "free"},
        {"kind": "fixed", "seconds": 3},
        {"kind": "rate", "bit_s": 5},
        {"kind": "rate", "bit_s": 5, "sigma": 0.5},
        {"kind": "radio"},
        {"kind": "drawn", "low": 0, "high": 3},
        {"kind": "drawn", "low": 0.5, "high": 3, "integer": False, "unit_bit_s": 1e6},
    ],
    ids=lambda link: "-".join(map(str, link.values())),
)
def test_peer_links_are_symmetric_and_free_to_oneself(link):
    snapshot = fleet(n_devices=12, device_device=link).snapshot(0)
    seconds = snapshot.d2d.seconds(100.0)
    np.testing.assert_array_equal(seconds, seconds.T)
    assert not seconds.diagonal().any()
    if link["kind"] == "fixed":
        assert (seconds[~np.eye(12, dtype=bool)] == 3).all()


def test_drawn_peer_links_are_in_their_unit():
    link = {"kind": "drawn", "low": 3, "high": 3, "unit_bit_s": 1e6}
    assert fleet(n_devices=2, device_device=link).snapshot(0).d2d.rate_bit_s[0, 1] == 3e6


def test_peer_links_follow_the_devices_that_move():
    mobile = fleet(**{**MOBILE, "device_device": {"kind": "radio"}})
    for t in (0, 1, 2, 0):
        snapshot = mobile.snapshot(t)
        nearest = radio.distances(snapshot.position_m, snapshot.position_m)[0].argsort()
        assert (np.diff(snapshot.d2d.rate_bit_s[0, nearest[1:]]) <= 0).all()


def test_given_peer_links():
    link = {"kind": "given", "matrix_bit_s": [[0, 10], [10, 0]], "power_w": 2}
    d2d = fleet(n_devices=2, device_device=link).snapshot(0).d2d
    np.testing.assert_array_equal(d2d.seconds(50), [[0, 5], [5, 0]])
    np.testing.assert_array_equal(d2d.energy_j(50), [[0, 10], [10, 0]])


def test_a_varying_rate_has_the_given_median_and_one_factor_per_device():
    cell_settings = {"kind": "explicit", "centres_m": [[-5, 0], [5, 0]], "radius_m": 1000}
    up = {"kind": "rate", "bit_s": 1e6, "sigma": 0.3}
    snapshot = fleet(n_devices=4000, cells=cell_settings, device_edge={"up": up, "down": up}).snapshot(0)
    logs = np.log(snapshot.edge_up.rate_bit_s / 1e6)
    np.testing.assert_array_equal(logs[0], logs[1])
    assert logs[0].mean() == pytest.approx(0, abs=0.02)
    assert logs[0].std() == pytest.approx(0.3, abs=0.02)
    assert (snapshot.edge_down.rate_bit_s != snapshot.edge_up.rate_bit_s).all()


def test_a_static_fleet_is_one_object():
    still = fleet(**THREE)
    assert still.snapshot(0) is still.snapshot(99)


@pytest.mark.parametrize("part", ["links", "compute"])
def test_only_what_is_to_be_redrawn_changes(part):
    link = {"kind": "drawn", "low": 1, "high": 1000}
    law = {"law": {"kind": "uniform", "low": 1, "high": 2}}
    drawn = fleet(n_devices=10, device_device=link, compute=law, redraw={part: "cloud-round"})
    first, second = drawn.snapshot(0), drawn.snapshot(1)
    assert (first.d2d.rate_bit_s != second.d2d.rate_bit_s).any() == (part == "links")
    assert (first.compute != second.compute).any() == (part == "compute")
    np.testing.assert_array_equal(first.position_m, second.position_m)
    assert_same(first, drawn.snapshot(0))


def test_seeds_and_seeds_alone_decide():
    assert_same(fleet(3, **MOBILE).snapshot(4), fleet(3, **MOBILE).snapshot(4))
    a, b = fleet(3, **MOBILE).snapshot(0), fleet(4, **MOBILE).snapshot(0)
    assert (a.position_m != b.position_m).all()


@given(st.integers(0, 2**31), st.lists(st.integers(0, 12), min_size=1, max_size=6))
@settings(max_examples=20, deadline=None)
def test_rounds_may_be_asked_for_in_any_order(seed, rounds):
    busy = {
        **MOBILE,
        "n_devices": 30,
        "redraw": {"links": "cloud-round", "compute": "cloud-round"},
        "device_device": {"kind": "radio"},
        "compute": {"law": {"kind": "normal", "mean": 63, "std": 40, "low": 2, "high": 128}},
    }
    one = fleet(seed, **busy)
    early = [one.snapshot(t) for t in rounds]
    for t, snapshot in zip(rounds, early):
        assert_same(snapshot, fleet(seed, **busy).snapshot(t))


@given(st.integers(0, 2**31), st.sampled_from(["ring", "path", "complete", "adjacent"]), st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_moving_keeps_every_device_and_its_home_in_reach(seed, neighbours, p_stay):
    mobile = fleet(seed, **{**MOBILE, "mobility": {"p_stay": p_stay, "neighbours": neighbours}})
    before = mobile.snapshot(0)
    for t in range(1, 6):
        now = mobile.snapshot(t)
        assert now.active.all()
        assert now.in_reach[now.home, np.arange(200)].all()
        np.testing.assert_array_equal(now.in_reach, cells.reach(now.position_m, now.cell_m, now.radius_m))
        moved = now.home != before.home
        np.testing.assert_array_equal((now.position_m != before.position_m).any(axis=1), moved)
        before = now


def test_a_ring_keeps_its_share_of_devices_at_home_after_three_moves():
    # 40 devices start in each of 5 cells; 12.5 of them are at home after three moves, on average
    at_home = []
    for seed in range(60):
        mobile = fleet(seed, **{**MOBILE, "device_edge": {}})
        at_home.append((mobile.snapshot(3).home == mobile.snapshot(0).home).sum() / 5)
    assert np.mean(at_home) == pytest.approx(12.5, abs=0.4)


def test_a_device_that_moves_is_anywhere_in_its_new_cell_at_its_own_height():
    cell_settings = {"kind": "explicit", "centres_m": [[0, 0, 30], [500, 0, 30]], "radius_m": 50}
    place = {"kind": "rectangles", "regions_m": [[-10, 10, -10, 10]], "counts": [3000], "z_m": 10}
    mobile = fleet(n_devices=3000, cells=cell_settings, placement=place, mobility={"p_stay": 0.0})
    now = mobile.snapshot(1)
    assert (now.home == 1).all()
    assert (now.position_m[:, 2] == 10).all()
    r = np.hypot(*(now.position_m[:, :2] - (500, 0)).T)
    ground = (50**2 - 20**2) ** 0.5
    assert r.max() <= ground
    assert (r < ground / 2).mean() == pytest.approx(0.25, abs=0.03)


def test_a_cell_too_high_for_its_radius_is_named():
    cell_settings = {"kind": "explicit", "centres_m": [[0, 0, 10], [0, 0, 60]], "radius_m": 50}
    with pytest.raises(ValueError, match=r"cell 1 \(height 60 m, radius 50 m\) does not reach devices at a height"):
        fleet(n_devices=4, cells=cell_settings, placement={"kind": "cells"})


def test_a_table_says_where_devices_are_and_what_they_have(tmp_path):
    file = tmp_path / "fleet.csv"
    file.write_text(
        "id,x_m,y_m,z_m,tx_power_w,steps_per_s,up_bit_s\na,0,0,1,0.1,5,2e6\nb,300,0,2,0.01,20,4e6\n", encoding="utf-8"
    )
    radio, direct = {"kind": "radio"}, {"via": "direct", "up": {"kind": "radio"}, "down": {"kind": "radio"}}
    settings = FleetSettings(table=str(file), device_device=radio, device_cloud=direct)
    assert settings.n_devices == 2 and settings.devices.power_w == (0.1, 0.01)
    assert FleetSettings.model_validate(settings.model_dump(mode="json")) == settings  # it holds what it needs
    now = Fleet.from_settings(settings, 0).snapshot(0)
    assert now.position_m.tolist() == [[0, 0, 1], [300, 0, 2]]
    assert now.step_seconds(20, [40, 40]).tolist() == [0.2, 0.05]
    assert now.cloud_up.rate_bit_s.tolist() == [2e6, 4e6] and now.cloud_up.power_w.tolist() == [0.1, 0.01]
    alone = [
        Fleet.from_settings(
            FleetSettings(
                n_devices=2,
                placement={"kind": "coordinates", "positions_m": now.position_m.tolist()},
                device_device={"kind": "radio", "power_w": watt},
            ),
            0,
        ).snapshot(0)
        for watt in (0.1, 0.01)
    ]
    for k, other in enumerate(alone):  # a device sends as if all had its power
        assert now.d2d.rate_bit_s[k].tolist() == other.d2d.rate_bit_s[k].tolist()
    assert now.d2d.rate_bit_s[0, 1] > now.d2d.rate_bit_s[1, 0]
    assert (now.d2d_reports == now.d2d_reports.T).all()  # nobody is taken for a liar
    with pytest.raises(ValueError, match=r"fleet\.csv has 2 devices, but n_devices is 3; leave n_devices out"):
        FleetSettings(table=str(file), n_devices=3)
    with pytest.raises(ValueError, match=r"power_w must have a value for each of 3 devices, got 1"):
        FleetSettings(n_devices=3, devices={"power_w": [1.0]})
    assert "devices" not in FleetSettings(n_devices=3).model_dump()  # so that runs are who they were


def test_rectangles_and_squares_are_placed():
    place = {"kind": "rectangles", "regions_m": [[-10, 0, -5, 5], [10, 20, -5, 5]], "counts": [15, 15]}
    x = fleet(n_devices=30, placement=place).snapshot(0).position_m[:, 0]
    assert (x[:15] <= 0).all()
    assert (x[15:] >= 10).all()
    square = fleet(n_devices=30, placement={"kind": "square", "side_m": 8}).snapshot(0)
    assert np.abs(square.position_m).max() <= 4


def test_the_compute_clock_of_csahfl():
    session = {"unit": "seconds-per-session", "session_epochs": 10}
    law = {"kind": "normal", "mean": 63, "std": 40, "low": 2, "high": 128}
    snapshot = fleet(n_devices=50, compute={"law": law, **session}).snapshot(0)
    samples = np.full(50, 120)
    step = snapshot.step_seconds(10, samples)  # 12 steps an epoch
    np.testing.assert_allclose(step * 10 * 12, snapshot.compute)


@pytest.mark.parametrize("bad", [-1, 1.5, True])
def test_a_cloud_round_is_a_whole_number(bad):
    with pytest.raises(ValueError, match="cloud_round must be a whole number of at least 0"):
        fleet(n_devices=1).snapshot(bad)


def test_a_hundred_rounds_of_a_thousand_static_devices_are_cheap():
    hexagon = {"kind": "grid", "shape": "hex", "n": 10}
    start = time.process_time()  # not wall time: others may be using the machine
    still = fleet(n_devices=1000, cells=hexagon, placement={"kind": "cells"}, device_edge={"up": {"kind": "radio"}})
    for t in range(100):
        still.snapshot(t)
    assert time.process_time() - start < 0.3
