"""Path loss, rate, airtime and energy against the published tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom import radio

BITS = 224_000
POWER_W = 0.01


def chain(distance_m, bandwidth_hz):
    """Loss dB, snr dB, rate, seconds and joules of the links of DDC, section 5."""
    loss_db = radio.log_distance_loss_db(distance_m)
    noise = radio.noise_w(-173, bandwidth_hz)
    snr = radio.snr(POWER_W, radio.db_to_ratio(-loss_db), noise)
    rate = radio.shannon_rate(bandwidth_hz, snr)
    seconds = radio.airtime_s(BITS, rate)
    return loss_db, radio.ratio_to_db(snr), rate, seconds, radio.energy_j(POWER_W, seconds)


@pytest.mark.parametrize(
    ("distance_m", "loss_db", "snr_db", "rate_mbit_s", "energy_mj", "narrow_energy_mj"),
    [
        (1, 15.300, 107.700, 35.7772, 0.062610, 5.2804),
        (20, 64.219, 58.781, 19.5267, 0.114715, 8.5592),
        (50, 79.181, 43.819, 14.5563, 0.153885, 10.5660),
        (100, 90.500, 32.500, 10.7971, 0.207464, 12.8439),
        (900, 126.380, -3.380, 0.54523, 4.108388, 40.3438),
        (1000, 128.100, -5.100, 0.38850, 5.765801, 44.8393),
        (1100, 129.656, -6.656, 0.28209, 7.940729, 49.8003),
    ],
)
def test_the_link_table_of_ddc(distance_m, loss_db, snr_db, rate_mbit_s, energy_mj, narrow_energy_mj):
    loss, snr, rate, _, energy = chain(distance_m, 1e6)
    assert loss == pytest.approx(loss_db, abs=1e-3)
    assert snr == pytest.approx(snr_db, abs=1e-3)
    assert rate == pytest.approx(rate_mbit_s * 1e6, rel=2e-5)  # printed with five digits
    assert energy == pytest.approx(energy_mj / 1e3, rel=1e-5)
    assert chain(distance_m, 1e4)[4] == pytest.approx(narrow_energy_mj / 1e3, rel=1e-5)


def test_the_energies_of_ddc_with_nine_digits():
    _, _, rate, seconds, energy = chain(np.array([20.0, 100.0, 1000.0]), 1e6)
    np.testing.assert_allclose(rate[1:], [10_797_077.4, 388_497.658], rtol=1e-8)
    assert seconds[1] == pytest.approx(0.020746355, rel=1e-7)
    np.testing.assert_allclose(energy, [0.000114714619, 0.00020746355, 0.00576580053], rtol=1e-8)
    narrow = chain(np.array([100.0, 1000.0]), 1e4)[4]
    np.testing.assert_allclose(narrow, [0.0128439405, 0.0448392961], rtol=1e-8)


def test_energy_of_a_small_clustered_network():
    # heads 3 and 4, members 0 -> 3, 1 -> 4, 2 -> 4, 5 -> 4; T = 4: members send each step, heads every second
    position = np.array([(0, 0), (30, 40), (60, 0), (60, 80), (0, 80), (30, 0)])
    server = np.array([(30, 1000)])
    assign = np.array([3, 4, 4, 3, 4, 4])

    def energies(bandwidth_hz):
        between = chain(radio.distances(position, position), bandwidth_hz)[4]
        up = chain(radio.distances(position, server)[:, 0], bandwidth_hz)[4]
        members = sum(between[i, assign[i]] for i in range(6) if assign[i] != i)
        return members, up[[3, 4]].sum(), up.sum()

    members, heads, everybody = energies(1e6)
    assert members == pytest.approx(0.000761081897, rel=1e-8)
    assert heads == pytest.approx(0.008820644686, rel=1e-8)
    assert 4 * members + 2 * heads == pytest.approx(0.020685616961, rel=1e-8)
    assert 4 * everybody == pytest.approx(0.124724392135, rel=1e-8)
    members, heads, _ = energies(1e6 / 6)
    assert 4 * members + 2 * heads == pytest.approx(0.044479441195, rel=1e-8)
    assert 100 * members + 100 * heads == pytest.approx(1.850272325839, rel=1e-8)


def test_the_radio_case_of_camu():
    gain = radio.free_space_gain(50.0)
    assert gain == pytest.approx(1.4346508643e-12, rel=1e-9)
    assert radio.ratio_to_db(gain) == pytest.approx(-118.4, abs=0.05)
    snr = radio.snr(0.5, 15 * gain, 1e-14)  # 15 antennas combined
    assert snr == pytest.approx(1075.9881482, rel=1e-9)
    assert radio.ratio_to_db(snr) == pytest.approx(30.3180749, abs=1e-6)
    rate = radio.shannon_rate(1e6, snr)
    assert rate == pytest.approx(10.0727867e6, rel=1e-8)
    seconds = radio.airtime_s(700_160, rate)
    assert seconds == pytest.approx(0.0695100595, rel=1e-8)
    assert radio.energy_j(0.5, seconds) == pytest.approx(0.0347550298, rel=1e-8)


def test_antenna_gains_stay_outside_of_the_bracket():
    assert radio.free_space_gain(50.0, gain_tx=1, gain_rx=1) == pytest.approx(1.4346508643e-12 / 10**0.5)
    assert radio.free_space_gain(50.0, gain_rx=15) == pytest.approx(2.1519762964e-11, rel=1e-9)


def test_an_exponent_of_two_is_friis():
    bracket = 299_792_458 / (4 * np.pi * 2.4e9 * 30)
    assert radio.free_space_gain(30.0, 2.4e9, 2.0, 1.0, 1.0) == pytest.approx(bracket**2)


def test_distances_below_the_floor_count_as_the_floor():
    for below in (0.0, 0.5, 1.0):
        assert radio.log_distance_loss_db(below) == radio.log_distance_loss_db(1.0)
        assert radio.free_space_gain(below) == radio.free_space_gain(1.0)
    assert radio.log_distance_loss_db(3.0, floor_m=10.0) == radio.log_distance_loss_db(10.0)


def test_shannon_rate_keeps_its_digits_at_a_tiny_snr():
    assert radio.shannon_rate(1.0, 1e-20) == pytest.approx(1e-20 / np.log(2), rel=1e-12)


def test_a_link_that_is_down_never_arrives_and_an_infinite_rate_takes_no_time():
    np.testing.assert_array_equal(radio.airtime_s(10, [0, 5, np.inf]), [np.inf, 2, 0])
    assert radio.airtime_s(0, 0) == np.inf
    assert radio.airtime_s(0, 5) == 0


def test_no_power_spends_nothing_even_on_a_link_that_is_down():
    np.testing.assert_array_equal(radio.energy_j([0, 0, 2, 2], [np.inf, 3, np.inf, 3]), [0, 0, np.inf, 6])


def test_inputs_are_not_changed():
    rates = np.array([0.0, 1.0])
    distances = np.array([0.1, 10.0])
    radio.airtime_s(5, rates)
    radio.log_distance_loss_db(distances)
    assert rates.tolist() == [0.0, 1.0]
    assert distances.tolist() == [0.1, 10.0]


@given(st.floats(-200, 200))
def test_decibels_go_there_and_back(db):
    assert radio.ratio_to_db(radio.db_to_ratio(db)) == pytest.approx(db, abs=1e-9)
    assert radio.w_to_dbm(radio.dbm_to_w(db)) == pytest.approx(db, abs=1e-9)


def test_zero_power_is_minus_infinity_decibels():
    assert radio.w_to_dbm(0.0) == -np.inf
    assert radio.ratio_to_db(0.0) == -np.inf


@given(
    st.lists(st.floats(1, 1e5), min_size=2, max_size=20),
    st.floats(1e-4, 10),
    st.floats(1e3, 1e8),
)
def test_farther_is_never_faster_nor_cheaper(distances_m, power_w, bandwidth_hz):
    distance = np.sort(np.array(distances_m))
    for gain in (radio.db_to_ratio(-radio.log_distance_loss_db(distance)), radio.free_space_gain(distance)):
        snr = radio.snr(power_w, gain, radio.noise_w(-173, bandwidth_hz))
        rate = radio.shannon_rate(bandwidth_hz, snr)
        energy = radio.energy_j(power_w, radio.airtime_s(BITS, rate))
        assert (np.diff(rate) <= 1e-12 * rate[:-1]).all()
        assert (np.diff(energy) >= -1e-12 * energy[:-1]).all()


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(1, 1e8))
def test_rate_grows_with_the_snr(a, b, bandwidth_hz):
    low, high = sorted((a, b))
    assert radio.shannon_rate(bandwidth_hz, low) <= radio.shannon_rate(bandwidth_hz, high)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radio.log_distance_loss_db([1, -2]), "distance_m must be at least 0, got -2"),
        (lambda: radio.log_distance_loss_db(np.nan), "distance_m must be at least 0, got nan"),
        (lambda: radio.log_distance_loss_db(1, floor_m=0), "floor_m must be above 0, got 0"),
        (lambda: radio.log_distance_loss_db(1, reference_m=0), "reference_m must be above 0, got 0"),
        (lambda: radio.free_space_gain(1, carrier_hz=0), "carrier_hz must be above 0, got 0"),
        (lambda: radio.free_space_gain(1, gain_tx=-1), "gain_tx and gain_rx must be above 0, got -1"),
        (lambda: radio.ratio_to_db(-1), "ratio must be at least 0, got -1"),
        (lambda: radio.w_to_dbm(-1), "power_w must be at least 0, got -1"),
        (lambda: radio.noise_w(-173, 0), "bandwidth_hz must be above 0, got 0"),
        (lambda: radio.snr(-1, 1, 1), "power_w must be at least 0, got -1"),
        (lambda: radio.snr(1, -1, 1), "gain must be at least 0, got -1"),
        (lambda: radio.snr(1, 1, 0), "noise_w must be above 0, got 0"),
        (lambda: radio.shannon_rate(0, 1), "bandwidth_hz must be above 0, got 0"),
        (lambda: radio.shannon_rate(1, -1), "snr must be at least 0, got -1"),
        (lambda: radio.airtime_s(-1, 1), "bits must be at least 0, got -1"),
        (lambda: radio.airtime_s(np.inf, 1), "bits must be finite, got inf"),
        (lambda: radio.airtime_s(1, -1), "rate_bit_s must be at least 0, got -1"),
        (lambda: radio.energy_j(-1, 1), "power_w must be at least 0, got -1"),
        (lambda: radio.energy_j(1, -1), "airtime_s must be at least 0, got -1"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
