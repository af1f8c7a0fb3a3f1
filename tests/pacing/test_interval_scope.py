"""Waiting times of an edge or of each of its clusters (CSAHFL, section 3.4)."""

import dataclasses
import re

import numpy as np
import pytest

from fedloom.pacing import Offer, interval_s, median_iqr

FULL_S = np.array([8.0, 32, 62, 92, 122])  # by hand


def offer(cluster=None):
    return Offer(
        client=np.arange(5),
        full_steps=np.full(5, 300),
        unit_steps=np.full(5, 30),
        step_s=np.array([0.02, 0.1, 0.2, 0.3, 0.4]),
        link_s=np.full(5, 2.0),
        cluster=None if cluster is None else np.array(cluster),
    )


@pytest.mark.parametrize(("alpha", "seconds"), [(0, 62), (0.5, 92), (1.5, 152)])
def test_g3_intervals(alpha, seconds):
    assert interval_s(FULL_S, alpha) == pytest.approx(seconds, rel=1e-14)


def test_one_client_has_no_spread():
    assert interval_s(np.array([7.0]), 1.5) == 7.0


def test_clusters_by_hand():
    # cluster 0: 8, 32, 62 s -> median 32, IQR 47 - 20 = 27; cluster 1: 92, 122 s -> median 107, IQR 15
    # alpha .5: 45.5 s and 114.5 s. Client 2: floor(43.5 / 6) = 7 epochs; client 4: floor(112.5 / 12) = 9
    pace = median_iqr(0.5, scope="cluster")(offer([0, 0, 0, 1, 1]))
    np.testing.assert_array_equal(pace.steps / 30, [10, 10, 7, 10, 9])
    assert pace.close_s == pytest.approx(114.5, rel=1e-14)


def test_one_cluster_is_the_edge_and_the_edge_ignores_clusters():
    whole = median_iqr(0.5)(offer())
    for other in (median_iqr(0.5, scope="cluster")(offer([4] * 5)), median_iqr(0.5)(offer([0, 1, 0, 1, 0]))):
        assert dataclasses.asdict(other).keys() == dataclasses.asdict(whole).keys()
        np.testing.assert_array_equal(other.steps, whole.steps)
        assert other.close_s == whole.close_s


def test_clusters_of_one_are_not_paced():
    pace = median_iqr(0.0, scope="cluster")(offer([0, 1, 2, 3, 4]))
    np.testing.assert_array_equal(pace.steps, 300)
    assert pace.close_s == 122.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: median_iqr(scope="cloud"), "scope must be one of edge, cluster; got 'cloud'"),
        (lambda: median_iqr(scope="cluster")(offer()), "scope cluster needs an offer that says in which cluster"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
