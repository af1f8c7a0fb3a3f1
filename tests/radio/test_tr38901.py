"""Path loss, line of sight and walls of TR 38.901: by hand, against loops over the tables, and what they must have in common."""

import re

import by_the_tables
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.radio import penetration, tr38901

SCENARIOS = tuple(tr38901.SCENARIOS)
HZ = st.floats(0.5e9, 30e9)


def ways(scenario, ground_m, site_m=None, device_m=None, carrier_hz=3.5e9, **rest):
    usual = tr38901.SCENARIOS[scenario]
    return tr38901.Ways(
        scenario=scenario,
        ground_m=ground_m,
        site_height_m=usual.site_height_m if site_m is None else site_m,
        device_height_m=usual.device_height_m if device_m is None else device_m,
        carrier_hz=carrier_hz,
        **rest,
    )


def test_urban_micro_by_hand():
    """f = 3 GHz: d_bp = 4 (10 - 1) (1.5 - 1) 3e9 / 3e8 = 180 m, and 20 log10 3 = 9.542 dB, 21.3 log10 3 = 10.163 dB.

    100 m: d_3d = sqrt(100^2 + 8.5^2) = 100.3606, log10 = 2.001563; 32.4 + 42.033 + 9.542 = 83.975;
           22.4 + 35.3 x 2.001563 + 10.163 = 103.218.
    500 m: d_3d = 500.0722, log10 = 2.699033; 32.4 + 107.961 + 9.542 - 9.5 log10(180^2 + 8.5^2) = 149.904 - 42.859 = 107.044.
    """
    way = ways("umi", [100.0, 500.0], carrier_hz=3e9)
    assert way.breakpoint_m == pytest.approx(180.0, rel=1e-12)
    np.testing.assert_allclose(tr38901.loss_db(way, True), [83.975, 107.044], atol=1e-3)
    assert tr38901.loss_db(way, False)[0] == pytest.approx(103.218, abs=1e-3)


def test_an_open_office_by_hand():
    """10 m on the ground, 3 m and 1 m high: d_3d = sqrt(104) = 10.198, log10 = 1.008517; 32.4 + 17.447 + 20 log10 3.5 (10.881) =
    60.729; 17.3 + 38.3 x 1.008517 + 24.9 log10 3.5 (13.547) = 69.474."""
    way = ways("inh-open", [10.0])
    assert tr38901.loss_db(way, True) == pytest.approx(60.729, abs=1e-3)
    assert tr38901.loss_db(way, False) == pytest.approx(69.474, abs=1e-3)


@pytest.mark.parametrize("scenario", SCENARIOS)
@given(ground=st.floats(10, 5000), device=st.floats(1.5, 10), hz=HZ, h_e=st.just(1.0))
def test_path_loss_is_that_of_the_tables(scenario, ground, device, hz, h_e):
    usual = tr38901.SCENARIOS[scenario]
    way = ways(scenario, ground, device_m=device, carrier_hz=hz, environment_m=h_e)
    for sees, table in ((True, by_the_tables.los_db), (False, by_the_tables.nlos_db)):
        expected = table(scenario, ground, usual.site_height_m, device, hz / 1e9, h_e)
        assert tr38901.loss_db(way, sees) == pytest.approx(expected, abs=1e-9)


def test_the_environment_of_tall_devices_moves_the_breakpoint():
    """h_e = 18 m: 4 (25 - 18) (22.5 - 18) f / c, which with f = 3 GHz is 1,260 m; with h_e = 1 m it is 20,640 m."""
    heights = np.array([18.0, 1.0])
    way = ways("uma", [2000.0, 2000.0], device_m=22.5, carrier_hz=3e9, environment_m=heights)
    np.testing.assert_allclose(way.breakpoint_m, [1260.0, 20640.0], rtol=1e-12)
    expected = [by_the_tables.los_db("uma", 2000.0, 25.0, 22.5, 3.0, h_e) for h_e in heights]
    np.testing.assert_allclose(tr38901.loss_db(way, True), expected, atol=1e-9)


@pytest.mark.parametrize(("building", "street"), [(5.0, 20.0), (20.0, 10.0), (50.0, 50.0)])
def test_streets_and_buildings_of_rural_sites(building, street):
    way = ways("rma", [500.0], street_m=street, building_m=building)
    assert tr38901.loss_db(way, True) == pytest.approx(
        by_the_tables.los_db("rma", 500.0, 35.0, 1.5, 3.5, h=building), abs=1e-9
    )
    assert tr38901.loss_db(way, False) == pytest.approx(
        by_the_tables.nlos_db("rma", 500.0, 35.0, 1.5, 3.5, h=building, w=street), abs=1e-9
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
@given(hz=HZ, device=st.floats(0.1, 100), site=st.floats(0.1, 500))
def test_loss_grows_with_distance_and_is_larger_without_a_line_of_sight(scenario, hz, device, site):
    """Whatever the heights: also outside of the tables' ranges it is finite, and no link has a gain."""
    way = ways(scenario, np.geomspace(0.01, 2e4, 400), site, device, hz)
    with_it, without = tr38901.loss_db(way, True), tr38901.loss_db(way, False)
    assert np.isfinite(with_it).all() and np.isfinite(without).all()
    for loss in (with_it, without):
        assert (np.diff(loss) >= -1e-9).all()
        assert loss[0] > 0
    assert (without >= with_it).all()


@pytest.mark.parametrize("scenario", ["uma", "umi", "rma"])
def test_below_ten_metres_a_loss_no_longer_falls(scenario):
    assert tr38901.loss_db(ways(scenario, 0.0), True) == tr38901.loss_db(ways(scenario, 10.0), True)


def test_heights_outside_of_the_tables_count_as_the_nearest():
    low, least = ways("uma", 300.0, device_m=0.5), ways("uma", 300.0, device_m=1.5)
    assert low.breakpoint_m == least.breakpoint_m
    assert tr38901.loss_db(low, False) == pytest.approx(tr38901.loss_db(least, False), abs=0.1)  # d_3d is another


@pytest.mark.parametrize("scenario", SCENARIOS)
@given(ground=st.floats(0, 1e5), device=st.floats(0.1, 22.5))
def test_the_probability_of_a_line_of_sight_is_that_of_the_tables(scenario, ground, device):
    found = float(tr38901.line_of_sight_probability(scenario, ground, device))
    assert 0 <= found <= 1
    assert found == pytest.approx(by_the_tables.probability(scenario, ground, device), rel=1e-12)


@pytest.mark.parametrize(
    ("scenario", "sure_m"), [("uma", 18), ("umi", 18), ("rma", 10), ("inh-open", 5), ("inh-mixed", 1.2)]
)
def test_who_is_near_sees_the_site_and_who_is_far_hardly_does(scenario, sure_m):
    near, far = tr38901.line_of_sight_probability(scenario, [sure_m, 1e5])
    assert near == 1 and far < 0.001


def test_tall_devices_see_more():
    """d = 150 m, 23 m high: C' = 1, and 1.25 x 1.5^3 / e = 1.552 on top of one: 2.552 times as likely as below 13 m."""
    low, tall = tr38901.line_of_sight_probability("uma", 150.0, [1.5, 23.0])
    assert tall / low == pytest.approx(1 + 1.25 * 1.5**3 * np.exp(-1), rel=1e-12)


def test_the_environment_has_the_law_of_the_note():
    """22.5 m high at 200 m: C = 0.95^1.5 x 1.25 x 8 exp(-4/3) = 2.4408, so 1 m in 29.06 %; else 12, 15, 18 and 21 m alike."""
    drawn = (np.arange(100_000) + 0.5) / 100_000
    heights = tr38901.environment_height_m(200.0, 22.5, drawn)
    shares = [(heights == h).mean() for h in (1.0, 12.0, 15.0, 18.0, 21.0)]
    np.testing.assert_allclose(shares, [0.2906] + [(1 - 0.2906) / 4] * 4, atol=1e-4)
    assert (tr38901.environment_height_m(200.0, 12.9, drawn) == 1).all()
    assert set(tr38901.environment_height_m(200.0, 13.4, drawn)) == {1.0, 12.0}


def test_shadowing_has_the_tables_standard_deviations():
    """rma: 4 dB up to the breakpoint, 2 pi 35 x 1.5 x 3.5e9 / 3e8 = 3,848 m, and 6 dB beyond it."""
    rural = ways("rma", [3800.0, 3900.0])
    assert tr38901.shadow_std_db(rural, True).tolist() == [4, 6]
    assert tr38901.shadow_std_db(rural, False).tolist() == [8, 8]
    found = {s: [float(tr38901.shadow_std_db(ways(s, 50.0), sees)) for sees in (True, False)] for s in SCENARIOS}
    assert found == {"uma": [4, 6], "umi": [4, 7.82], "rma": [4, 8], "inh-open": [3, 8.03], "inh-mixed": [3, 8.03]}
    assert [float(tr38901.shadow_std_db(ways(s, 50.0), True, True)) for s in ("uma", "umi", "rma")] == [7, 7, 8]


def test_walls_by_hand():
    """f = 10 GHz. Low: glass 4 dB, concrete 45 dB: 5 - 10 log10(0.3 x 10^-0.4 + 0.7 x 10^-4.5) = 5 + 9.228 = 14.228 dB.
    High: coated glass 26 dB: 5 - 10 log10(0.7 x 10^-2.6 + 0.3 x 10^-4.5) = 5 + 27.526 = 32.526 dB.
    8 m behind it 4 dB more, and half a standard deviation of 4.4 or 6.5 dB."""
    assert penetration.wall_loss_db("low", 10e9) == pytest.approx(14.228, abs=1e-3)
    assert penetration.wall_loss_db("high", 10e9) == pytest.approx(32.526, abs=1e-3)
    assert penetration.penetration_db("low", 10e9, 8.0, 0.5) == pytest.approx(14.228 + 4 + 2.2, abs=1e-3)
    assert penetration.penetration_db("high", 10e9, 8.0, 0.5) == pytest.approx(32.526 + 4 + 3.25, abs=1e-3)


def test_how_deep_devices_are_in_buildings():
    """The smaller of two uniform numbers: a mean of a third."""
    u = (np.arange(1000) + 0.5) / 1000
    deep = penetration.inside_m(25.0, u[:, None], u[None, :])
    assert deep.mean() == pytest.approx(25 / 3, rel=1e-3) and deep.max() < 25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ways("umi", -1.0), "ground_m must be at least 0, got -1"),
        (lambda: ways("umi", 1.0, carrier_hz=0.0), "carrier_hz must be above 0, got 0"),
        (lambda: ways("rma", 1.0, building_m=0.0), "street_m and building_m must be above 0, got 0"),
        (
            lambda: tr38901.line_of_sight_probability("city", 1.0),
            "scenario must be one of uma, umi, rma, inh-open, inh-mixed",
        ),
        (lambda: tr38901.line_of_sight_probability("uma", np.nan), "ground_m must be at least 0, got nan"),
        (lambda: penetration.wall_loss_db("thick", 1e9), "kind must be one of low, high; got 'thick'"),
        (lambda: penetration.wall_loss_db("low", -1e9), "carrier_hz must be above 0, got -1e+09"),
        (lambda: penetration.penetration_db("low", 1e9, -1.0, 0.0), "inside_m must be at least 0, got -1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
