"""Links by TR 38.901, fading, noise figures and interference in a fleet: one map for all, drawn once, whoever asks."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedloom import radio
from fedloom.fleet import Fleet, FleetSettings
from fedloom.fleet.hops import path_gain
from fedloom.fleet.propagation import Surroundings, Survey, device_paths, edge_paths, server_paths
from fedloom.fleet.settings.links import DeviceEdge, RadioLink
from fedloom.radio import tr38901

AROUND = Surroundings(seed=3)


def link(scenario="umi", **rest):
    loss = {"kind": "tr38901", "scenario": scenario}
    own = {
        name: rest.pop(name) for name in list(rest) if name in ("fading", "k_db", "interference", "power_w", "antennas")
    }
    return {"kind": "radio", "path_loss": {**loss, **rest}, **own}


def radio_link(scenario="umi", **rest):
    return RadioLink.model_validate(link(scenario, **rest))


def between(up, device_m, cell_m=((0.0, 0.0),), around=AROUND, home=None, down=None):
    """Paths up of cells and devices."""
    cell, device = np.array(cell_m), np.array(device_m, dtype=np.float64)
    links = DeviceEdge(up=up, down=down or up)
    home = np.zeros(len(device), np.int64) if home is None else home
    return edge_paths(links, device, radio.distances(cell, device), home, None, Survey(cell, around))


def line(n, end_m, start_m=0.0):
    along = np.linspace(start_m, end_m, n)
    return np.stack([along, 0 * along], axis=1)


def plain_db(scenario, ground_m, sees, **heights):
    usual = tr38901.SCENARIOS[scenario]
    ways = tr38901.Ways(
        scenario=scenario,
        ground_m=ground_m,
        site_height_m=heights.get("site", usual.site_height_m),
        device_height_m=heights.get("device", usual.device_height_m),
        carrier_hz=3.5e9,
    )
    return tr38901.loss_db(ways, sees)


@pytest.mark.parametrize("scenario", list(tr38901.SCENARIOS))
@pytest.mark.parametrize("sight", ["always", "never"])
def test_without_shadowing_a_link_has_the_loss_of_the_formula(scenario, sight):
    devices = line(20, 300.0, 1.0)
    up, _ = between(radio_link(scenario, shadowing=False, line_of_sight=sight, antenna_gain_db=8.0), devices)
    expected = plain_db(scenario, devices[:, 0], sight == "always")
    np.testing.assert_allclose(-radio.ratio_to_db(up.gain[0]), expected - 8, atol=1e-9)
    assert (up.line_of_sight == (sight == "always")).all()


def test_a_height_in_the_position_is_the_antennas_and_else_the_settings_one():
    """Two devices at the same place on the ground, of heights 6 m and none; the site at 15 m, and one at the set 20 m."""
    devices, cells = [[100.0, 0.0, 6.0], [100.0, 0.0, 0.0]], ((0.0, 0.0, 15.0), (0.0, 0.0, 0.0))
    made = radio_link(shadowing=False, line_of_sight="never", device_height_m=4.0, site_height_m=20.0)
    up, _ = between(made, devices, cells)
    expected = [[plain_db("umi", 100.0, False, site=s, device=d) for d in (6.0, 4.0)] for s in (15.0, 20.0)]
    np.testing.assert_allclose(-radio.ratio_to_db(up.gain), expected, atol=1e-9)


@pytest.mark.parametrize("scenario", ["uma", "umi", "rma", "inh-open", "inh-mixed"])
def test_as_many_see_their_site_as_the_tables_say(scenario):
    """One device each in 400 worlds: four standard errors of the share are allowed."""
    ground = {"uma": 80.0, "umi": 60.0, "rma": 700.0}.get(scenario, 20.0)
    made = radio_link(scenario, shadowing=False)
    sees = [between(made, [[ground, 0.0]], around=Surroundings(seed=seed))[0].line_of_sight for seed in range(400)]
    likely = float(tr38901.line_of_sight_probability(scenario, ground))
    assert 0.05 < likely < 0.95
    assert np.mean(sees) == pytest.approx(likely, abs=4 * np.sqrt(likely * (1 - likely) / 400))


@pytest.mark.parametrize(
    ("scenario", "sight", "std_db"), [("uma", "always", 4.0), ("umi", "never", 7.82), ("inh-open", "never", 8.03)]
)
def test_shadowing_has_the_tables_standard_deviation_and_correlation(scenario, sight, std_db):
    """Of two devices a correlation distance apart, over 600 sites that are independent: exp(-1), with four standard errors."""
    usual = tr38901.SCENARIOS[scenario]
    apart = usual.los_correlation_m if sight == "always" else usual.nlos_correlation_m
    sites, pair = np.stack([np.arange(600) * 1e4, np.zeros(600)], axis=1), np.array([[30.0, 0.0], [30.0, apart]])
    up, _ = between(radio_link(scenario, line_of_sight=sight), pair + [3e6, 0.0], sites)
    ground = radio.distances(sites, pair + [3e6, 0.0])
    shadow = -radio.ratio_to_db(up.gain) - plain_db(scenario, ground, sight == "always")
    error = 4 / np.sqrt(600)
    assert abs(shadow.mean()) < std_db * error
    np.testing.assert_allclose(shadow.std(axis=0), std_db, rtol=error)
    assert np.corrcoef(shadow.T)[0, 1] == pytest.approx(np.exp(-1), abs=error)


def test_a_walking_device_sees_a_map_that_changes_little_by_little():
    """Steps of 1 cm over 2 m: shadowing that is exp(-0.01 / 13) correlated moves by 7.82 sqrt(2 x 0.01 / 13) = 0.31 dB a step."""
    walk = line(200, 52.0, 50.0)
    up, _ = between(radio_link(line_of_sight="never"), walk)
    loss = -radio.ratio_to_db(up.gain[0])
    assert np.abs(np.diff(loss)).max() < 5 * 0.31
    again, _ = between(radio_link(line_of_sight="never"), walk[::-1])
    np.testing.assert_array_equal(again.gain[0, ::-1], up.gain[0])


def test_near_devices_see_the_same_sites_mostly():
    """A metre apart within the 50 m over which the line of sight is correlated."""
    here = np.random.default_rng(0).uniform(-300, 300, (500, 2))
    one, _ = between(radio_link(), here)
    other, _ = between(radio_link(), here + [1.0, 0])
    far, _ = between(radio_link(), here, around=Surroundings(seed=4))
    assert (one.line_of_sight == other.line_of_sight).mean() > 0.9
    assert (one.line_of_sight != far.line_of_sight).mean() > 0.1


def test_both_directions_have_one_map_and_other_sites_another():
    devices = np.random.default_rng(1).uniform(-200, 200, (50, 2))
    up, down = between(radio_link(power_w=0.2), devices, ((0.0, 0.0), (0.0, 0.0)), down=radio_link(power_w=5.0))
    np.testing.assert_array_equal(up.gain, down.gain)
    assert (up.gain[0] != up.gain[1]).all()
    server = server_paths(radio_link(), np.zeros(2), devices, AROUND)
    assert (server.gain != up.gain[0]).all()


def test_devices_in_buildings_pay_for_their_walls():
    """Outdoors against indoors, without shadowing: a wall of 12.698 dB (low, 3.5 GHz), half a dB for each metre behind it, and
    4.4 dB of spread. 25 / 3 m on average make 4.17 dB; over 4,000 devices the mean has a standard error below 0.1 dB."""
    devices = np.tile([[200.0, 0.0]], (4000, 1))
    made = {"shadowing": False, "line_of_sight": "never"}
    out, _ = between(radio_link(**made), devices)
    inside, _ = between(radio_link(**made, indoor=1.0), devices)
    extra = radio.ratio_to_db(out.gain[0]) - radio.ratio_to_db(inside.gain[0])
    assert extra.mean() == pytest.approx(12.698 + 25 / 6, abs=0.4)
    assert extra.std() == pytest.approx(np.hypot(4.4, 0.5 * 25 / np.sqrt(18)), rel=0.05)
    behind, _ = between(radio_link(line_of_sight="always", indoor=1.0), devices[:5])
    assert not behind.line_of_sight.any()  # there is no direct ray behind a wall


def test_who_is_indoors_is_drawn_by_device_or_given():
    devices = np.tile([[200.0, 0.0]], (2000, 1))
    made = {"shadowing": False, "line_of_sight": "never"}
    out, _ = between(radio_link(**made), devices)
    share, _ = between(radio_link(**made, indoor=0.3), devices)
    assert (share.gain[0] != out.gain[0]).mean() == pytest.approx(0.3, abs=0.045)
    fewer, _ = between(radio_link(**made, indoor=0.3), devices[:10])
    np.testing.assert_array_equal(fewer.gain[0], share.gain[0, :10])
    known = np.arange(2000) % 2 == 0
    given, _ = between(radio_link(**made, indoor=0.3), devices, around=Surroundings(seed=3, indoor=known))
    np.testing.assert_array_equal(given.gain[0] != out.gain[0], known)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_links_between_devices_are_the_same_in_both_directions(n):
    devices = np.random.default_rng(2).uniform(0, 300, (n, 2))
    paths = device_paths(radio_link(indoor=0.3), devices, AROUND)
    np.testing.assert_array_equal(paths.gain, paths.gain.T)
    np.testing.assert_array_equal(paths.line_of_sight, paths.line_of_sight.T)
    assert device_paths(RadioLink(), devices, AROUND) is None


def test_links_between_devices_by_hand():
    """At 1.5 m both: d_bp = 4 x 0.5 x 0.5 x 3.5e9 / 3e8 = 11.7 m. 100 m without a line of sight: 22.4 + 70.6 + 11.59 =
    104.59 dB."""
    paths = device_paths(radio_link(shadowing=False, line_of_sight="never"), line(2, 100.0), AROUND)
    assert -radio.ratio_to_db(paths.gain[0, 1]) == pytest.approx(22.4 + 70.6 + 21.3 * np.log10(3.5), abs=1e-9)
    sees = device_paths(radio_link(shadowing=False, line_of_sight="always"), line(2, 100.0), AROUND)
    expected = plain_db("umi", 100.0, True, site=1.5, device=1.5)
    assert -radio.ratio_to_db(sees.gain[0, 1]) == pytest.approx(expected, abs=1e-9)


def test_shadowing_between_devices_has_the_tables_standard_deviation():
    devices = np.random.default_rng(3).uniform(0, 5000, (200, 2))
    paths = device_paths(radio_link(line_of_sight="never"), devices, AROUND)
    pairs = np.triu_indices(200, 1)
    expected = plain_db("umi", radio.distances(devices, devices), False, site=1.5)
    shadow = (-radio.ratio_to_db(paths.gain) - expected)[pairs]
    assert shadow.std() == pytest.approx(7.82, rel=0.1)


FLEET = {
    "n_devices": 60,
    "cells": {"kind": "grid", "shape": "hex", "n": 7, "spacing_m": 500},
    "placement": {"kind": "cells"},
}


def fleet(seed=1, **settings):
    return Fleet.from_settings(FleetSettings.model_validate({**FLEET, **settings}), seed=seed)


def test_redrawing_links_redraws_fading_and_keeps_the_map():
    redraw = {"redraw": {"links": "cloud-round"}}
    still = fleet(device_edge={"up": link()}, **redraw)
    np.testing.assert_array_equal(still.snapshot(0).edge_up.rate_bit_s, still.snapshot(5).edge_up.rate_bit_s)
    faded = fleet(device_edge={"up": link(fading="rician")}, **redraw)
    first = faded.snapshot(0).edge_up.rate_bit_s
    assert (first != faded.snapshot(5).edge_up.rate_bit_s)[first > 0].all()


def test_without_a_line_of_sight_rician_fading_is_rayleighs_and_with_one_it_is_weaker():
    """K of umi is 9 dB: a variance of (1 + 2 K) / (1 + K)^2 = 0.212 of the gain, and 1 without a direct ray."""
    cell = {"cells": {"kind": "single"}, "placement": {"kind": "disc", "radius_m": 100}, "n_devices": 20_000}
    for sight, variance in (("always", 0.212), ("never", 1.0)):
        made = {"shadowing": False, "line_of_sight": sight}
        faded = fleet(device_edge={"up": link(fading="rician", **made)}, **cell).snapshot(0).edge_up.snr_per_w
        plain = fleet(device_edge={"up": link(**made)}, **cell).snapshot(0).edge_up.snr_per_w
        assert (faded / plain).mean() == pytest.approx(1, abs=0.03)
        assert (faded / plain).var() == pytest.approx(variance, rel=0.06)


def test_any_radio_link_may_fade_by_rice():
    """K = 6 dB: a variance of (1 + 2 x 3.981) / 4.981^2 = 0.3613, for each of two antennas that are combined half of it."""
    cell = {"cells": {"kind": "single"}, "placement": {"kind": "disc", "radius_m": 100}, "n_devices": 20_000}
    made = {"kind": "radio", "antennas": 2}
    plain = fleet(device_edge={"up": made}, **cell).snapshot(0).edge_up.snr_per_w
    faded = fleet(device_edge={"up": {**made, "fading": "rician", "k_db": 6.0}}, **cell).snapshot(0).edge_up.snr_per_w
    assert (faded / plain).var() == pytest.approx(0.3613 / 2, rel=0.06)


def test_fading_between_devices_is_the_same_in_both_directions():
    rates = fleet(device_device=link("inh-mixed", fading="rician")).snapshot(0).d2d.rate_bit_s
    np.testing.assert_array_equal(rates, rates.T)
    assert np.isinf(np.diagonal(rates)).all()


def test_a_noise_figure_takes_so_many_decibels_of_the_snr():
    cell = {"cells": {"kind": "single"}, "placement": {"kind": "disc", "radius_m": 100}}
    plain = fleet(device_edge={"up": {"kind": "radio"}}, **cell).snapshot(0).edge_up
    noisy = fleet(device_edge={"up": {"kind": "radio", "noise_figure_db": 7.0}}, **cell).snapshot(0).edge_up
    np.testing.assert_allclose(radio.ratio_to_db(plain.snr_per_w / noisy.snr_per_w), 7.0, atol=1e-9)


def test_interference_by_hand():
    """Two cells 1 km apart, a device 100 m from each on the line; gains by distance alone: 90.5 dB at 100 m, and at 900 m
    128.1 + 37.6 log10 0.9 = 126.380 dB. Noise of 1 MHz at -173 dBm/Hz: -113 dBm. Down at 10 mW with a load of one half: signal
    10 - 90.5 = -80.5 dBm; others 10 - 126.380 - 3.010 = -119.390 dBm, together with the noise -112.102 dBm: an SINR of
    31.602 dB."""
    down = {"kind": "radio", "interference": {"load": 0.5}}
    made = fleet(
        n_devices=2,
        cells={"kind": "explicit", "centres_m": [[0, 0], [1000, 0]], "radius_m": 2000},
        placement={"kind": "coordinates", "positions_m": [[100, 0], [900, 0]]},
        homes="nearest",
        device_edge={"up": {**down, "power_w": 0.1}, "down": down},
    ).snapshot(0)
    disturbed_dbm = 10 * np.log10(10**-11.3 + 0.5 * 10 ** ((10 - 126.380) / 10))
    assert disturbed_dbm == pytest.approx(-112.102, abs=1e-3)
    sinr_db = radio.ratio_to_db(made.edge_down.snr_per_w * 0.01)
    np.testing.assert_allclose(np.diagonal(sinr_db), -80.5 - disturbed_dbm, atol=1e-3)
    # up: 100 mW of the other cell's only device
    disturbed_dbm = 10 * np.log10(10**-11.3 + 0.5 * 10 ** ((20 - 126.380) / 10))
    sinr_db = radio.ratio_to_db(made.edge_up.snr_per_w * 0.1)
    np.testing.assert_allclose(np.diagonal(sinr_db), -70.5 - disturbed_dbm, atol=1e-3)
    rate = radio.shannon_rate(1e6, 0.1 * np.diagonal(made.edge_up.snr_per_w))
    np.testing.assert_allclose(np.diagonal(made.edge_up.rate_bit_s), rate, rtol=1e-12)


def test_interference_slows_links_and_none_of_it_changes_nothing():
    def rates(load):
        heard = {} if load is None else {"interference": {"load": load}}
        made = fleet(device_edge={"up": link(**heard), "down": link(power_w=1.0, **heard)}).snapshot(0)
        return np.stack([made.edge_up.rate_bit_s, made.edge_down.rate_bit_s])

    np.testing.assert_array_equal(rates(0.0), rates(None))
    some, full, reached = rates(0.5), rates(1.0), rates(None) > 0
    assert (full < some)[reached].all() and (some < rates(None))[reached].all()


def test_each_devices_own_power_counts_in_interference():
    def rates(watt):
        up = {"kind": "radio", "interference": {"load": 1.0}}
        return fleet(device_edge={"up": up}, devices={"power_w": [watt] * 60}).snapshot(0).edge_up.rate_bit_s

    loud, quiet = rates(1e6), rates(1e4)  # noise is nothing beside these: only ratios of powers count
    np.testing.assert_allclose(loud, quiet, rtol=1e-3)


def test_a_fleet_is_the_same_whoever_asks_first_and_in_every_process():
    settings = {"device_edge": {"up": link(fading="rician", indoor=0.5)}, "device_device": link()}
    one, other = fleet(**settings), fleet(**settings)
    one.snapshot(0)
    np.testing.assert_array_equal(other.snapshot(0).d2d.rate_bit_s, one.snapshot(0).d2d.rate_bit_s)
    np.testing.assert_array_equal(other.snapshot(0).edge_up.rate_bit_s, one.snapshot(0).edge_up.rate_bit_s)
    assert (fleet(2, **settings).snapshot(0).d2d.rate_bit_s != one.snapshot(0).d2d.rate_bit_s).any()


def test_a_table_says_who_is_indoors(tmp_path):
    file = tmp_path / "fleet.csv"
    file.write_text("x_m,y_m,indoor\n10,0,no\n20,0,yes\n30,0,0\n")
    settings = FleetSettings.model_validate(
        {"table": str(file), "device_edge": {"up": link(shadowing=False, line_of_sight="never")}}
    )
    assert settings.devices.indoor == (False, True, False)
    gain = Fleet.from_settings(settings, seed=0).snapshot(0).edge_up.snr_per_w[0]
    assert gain[0] > gain[2] > 3 * gain[1]


def test_settings_are_written_and_read_back():
    settings = FleetSettings.model_validate(
        {**FLEET, "device_edge": {"up": link("rma", fading="rician", k_db=3.0, interference={"load": 0.2}, indoor=0.1)}}
    )
    assert FleetSettings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device_edge": {"up": link("rma", carrier_hz=60e9)}}, "rma is known up to 30 GHz, got a carrier_hz of 6e+10"),
        ({"device_edge": {"up": link("rma", penetration="high")}}, "rma knows walls of low penetration loss only"),
        ({"device_edge": {"up": link("inh-open", indoor=0.5)}}, "inh-open is within one building"),
        ({"device_edge": {"up": link("uma", street_m=10.0)}}, "street_m and building_m have no effect in uma"),
        (
            {"device_edge": {"up": link("uma", device_height_m=30.0)}},
            "uma is known for a device_height_m of 1.5 to 22.5 m",
        ),
        (
            {"device_edge": {"up": link("rma", site_height_m=5.0)}},
            "rma is known for a site_height_m of 10 to 150 m, got 5",
        ),
        ({"device_edge": {"up": link("city")}}, "'uma', 'umi', 'rma', 'inh-open' or 'inh-mixed'"),
        ({"device_edge": {"up": link("umi", walls="thick")}}, "Extra inputs are not permitted"),
        ({"device_edge": {"up": link("umi", k_db=9.0)}}, "k_db has no effect with fading none"),
        ({"device_edge": {"up": {"kind": "radio", "fading": "rician"}}}, "fading rician needs k_db"),
        ({"device_edge": {"up": link(interference={"load": 1.5})}}, "less than or equal to 1"),
        (
            {
                "cells": {"kind": "single"},
                "placement": {"kind": "disc"},
                "device_edge": {"down": link(interference={"load": 1})},
            },
            "in down needs at least two cells",
        ),
        ({"device_device": link("uma")}, "scenario uma is of sites above the roofs, which devices are not"),
        (
            {"device_device": link(site_height_m=10.0)},
            "site_height_m has no effect between devices; set device_height_m",
        ),
        ({"device_device": link(interference={"load": 1})}, "interference is of neighbouring cells"),
        ({"edge_cloud": {"up": link()}}, "tr38901 is between a site and a device"),
        (
            {"edge_cloud": {"down": {"kind": "radio", "interference": {"load": 1}}}},
            "interference is of neighbouring cells",
        ),
        (
            {"device_cloud": {"via": "direct", "up": link(interference={"load": 1})}},
            "interference is of neighbouring cells",
        ),
        ({"devices": {"indoor": [True]}}, "indoor must have a value for each of 60 devices, got 1"),
        ({"devices": {"indoor": [1] * 60}}, "should be a valid boolean"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(ValidationError) as error:
        FleetSettings.model_validate({**FLEET, **settings})
    assert message in str(error.value)


def test_a_distance_alone_is_not_enough():
    with pytest.raises(ValueError, match="tr38901 goes by the places of both ends, not by their distance alone"):
        path_gain(radio_link(), np.array([1.0]))
