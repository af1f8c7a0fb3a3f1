"""Extra updates for fast clusters: cases by hand, and what gates may do."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.mixing import contribution, log_contribution
from fedloom.pacing import (
    client_update_s,
    cluster_update_s,
    extra_updates,
    gate,
    idle_s,
    local_updates,
    round_s,
    scaled_threshold,
)

SIZE, DISTANCE, T_S = [4000, 6000, 10000], [1.5, 0.8, 3.0], [0.20, 0.10, 0.64]
TIMES = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=10)


def test_g3_contributions_and_extra_updates():
    logs = log_contribution(SIZE, DISTANCE)
    np.testing.assert_allclose(contribution(logs), [7790.9361642, 20942.0577448, 13956.1242509], rtol=1e-8)
    assert extra_updates(T_S).tolist() == [2, 5, 0]


@pytest.mark.parametrize(
    ("threshold", "open_gate", "n_local"),
    [(0.5e4, [1, 1, 1], [3, 6, 1]), (1.0e4, [0, 1, 1], [1, 6, 1]), (1.5e4, [0, 1, 0], [1, 6, 1])],
)
def test_g3_gates(threshold, open_gate, n_local):
    passed = gate(log_contribution(SIZE, DISTANCE), threshold)
    assert passed.tolist() == [bool(s) for s in open_gate]
    assert local_updates(extra_updates(T_S), passed).tolist() == n_local


def test_g3_idle_times():
    np.testing.assert_allclose(idle_s(T_S, [1, 1, 1]), [0.44, 0.54, 0], atol=1e-12)
    np.testing.assert_allclose(idle_s(T_S, [3, 6, 1]), [0.04, 0.04, 0], atol=1e-12)


def test_g5_a_cluster_is_as_fast_as_its_slowest_member():
    client_s = client_update_s(1e5, [2000, 1500, 2500], [1e9, 2e9, 0.8e9])
    np.testing.assert_allclose(client_s, [0.2, 0.075, 0.3125], rtol=1e-12)
    cover = np.array([[True, True, True], [True, True, False]])
    np.testing.assert_allclose(cluster_update_s(cover, client_s), [0.3125, 0.2], rtol=1e-12)


def test_whole_ratios_lose_no_update_to_rounding():
    assert extra_updates([0.1, 0.2, 0.3, 0.6]).tolist() == [5, 2, 1, 0]


def test_the_cap_holds():
    assert extra_updates([0.01, 1.0]).tolist() == [9, 0]
    assert extra_updates([0.01, 1.0], cap=20).tolist() == [20, 0]
    assert extra_updates([0.01, 1.0], cap=0).tolist() == [0, 0]


def test_uploads_take_from_the_wait():
    # the round lasts max(0.2 + 0.1, 1 + 0) = 1; 0.9 s are left for updates of 0.2 s
    assert extra_updates([0.2, 1.0], upload_s=[0.1, 0.0]).tolist() == [3, 0]
    assert extra_updates([0.2, 1.0], upload_s=[0.0, 0.3]).tolist() == [5, 0]
    assert extra_updates([0.2, 1.0]).tolist() == [4, 0]


@given(TIMES)
def test_extra_updates_fit_into_the_wait(times):
    t = np.array(times)
    n = extra_updates(t, cap=10**6)
    assert (n >= 0).all() and n[t.argmax()] == 0
    assert ((1 + n) * t <= t.max() * (1 + 1e-8)).all()
    assert (t.max() - (1 + n) * t < t * (1 + 1e-8)).all()  # not one more would fit


@given(TIMES, st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 2**32))
def test_a_higher_threshold_never_adds_updates(times, one, two, seed):
    logs = np.random.default_rng(seed).uniform(0, 14, len(times))
    n = extra_updates(times)
    low, high = (local_updates(n, gate(logs, threshold)) for threshold in sorted((one, two)))
    assert (low >= high).all() and (high >= 1).all()


def test_no_threshold_is_no_gate_and_an_infinite_one_shuts_it():
    logs = log_contribution(SIZE, DISTANCE)
    assert gate(logs, 0.0).all()
    assert not gate(logs, np.inf).any()


def test_a_contribution_at_the_threshold_passes():
    assert gate(np.log([100.0, 99.0]), 100.0).tolist() == [True, False]


def test_real_updates_are_rounded():
    assert local_updates([1.4, 1.6, 3.0], np.array([True, True, False])).tolist() == [2, 3, 1]


def test_a_round_waits_for_the_last_cluster_and_uploads_one_after_the_other():
    assert round_s(T_S, [3, 6, 1], [0.1, 0.2, 0.3]) == pytest.approx(0.64 + 0.6)
    assert round_s(T_S, [3, 9, 1], [0.1, 0.2, 0.3]) == pytest.approx(0.9 + 0.6)


def test_thresholds_scale_with_the_data():
    assert [round(scaled_threshold(t, 4000)) for t in (0.5e4, 1.0e4, 1.5e4)] == [333, 667, 1000]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: extra_updates([0.1, 0.0]), "update_s must be above 0, got 0"),
        (lambda: extra_updates([0.1], cap=-1), "cap must be a whole number of at least 0, got -1"),
        (lambda: extra_updates([0.1], upload_s=[0.1, 0.2]), "upload_s must have shape (1), got (2,)"),
        (lambda: gate([1.0], -1.0), "threshold must be at least 0, got -1"),
        (lambda: local_updates([-1.0], np.array([True])), "n_extra must be at least 0, got -1"),
        (lambda: cluster_update_s(np.array([[True], [False]]), [1.0]), "clusters [1] have no members"),
        (lambda: client_update_s(1e5, [10], [0.0]), "cpu_hz must be above 0, got 0"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
