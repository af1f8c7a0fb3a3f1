"""Spectral clusters: a case by hand, the affinities as loops, and what the two kinds are for."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.grouping import complementary_clusters, device_round_s, similar_clusters
from fedloom.grouping.directions import Angle
from fedloom.grouping.spectral import complementary_affinity, similar_affinity

G6_PHI = np.array([[1, 0], [0.96, 0.28], [0, 1], [-0.28, 0.96]])
G6_T = np.array([10.0, 20.0, 10.0, 20.0])


def rng(seed=0):
    return np.random.default_rng(seed)


def as_lists(clusters):
    return [c.tolist() for c in clusters]


def table(diagonal, g01, g02, g03, g12):
    """The affinities of the case by hand, where 23 is as 01 and 13 as 02."""
    return [[diagonal, g01, g02, g03], [g01, diagonal, g12, g02], [g02, g12, diagonal, g01], [g03, g02, g01, diagonal]]


def naive_affinities(phi, t, sigma, sigma_t, sigma_ft, squared):
    """A and A+ with loops; t as it is to be used."""

    def cosine(x, y):
        return x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) if x.any() and y.any() else 0.0

    rows = [[cosine(x, y) for y in phi] for x in phi]
    n, power = len(phi), 2 if squared else 1
    one, two = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        for j in range(n):
            one[i, j] = math.exp(-(math.dist([t[i], *rows[i]], [t[j], *rows[j]]) ** power) / (2 * sigma**2))
            two[i, j] = math.exp(-(abs(t[i] - t[j]) ** power) / (2 * sigma_t**2))
            two[i, j] += math.exp(math.dist(rows[i], rows[j]) ** power / (2 * sigma_ft**2))
    return one, two


def test_g6_similar():
    affinity = similar_affinity(G6_PHI, G6_T, sigma=0.5)
    np.testing.assert_allclose(affinity, table(1, 0.277864, 0.018316, 0.009709, 0.029061), rtol=0, atol=1e-6)
    assert as_lists(similar_clusters(G6_PHI, G6_T, n_clusters=2, sigma=0.5, rng=rng())) == [[0, 1], [2, 3]]
    # the sign of the second eigenvector of the normalised Laplacian groups the same
    scale = 1 / np.sqrt(affinity.sum(axis=1))
    second = np.linalg.eigh(np.eye(4) - scale[:, None] * affinity * scale)[1][:, 1]
    assert np.sign(second[0]) == np.sign(second[1]) == -np.sign(second[2]) == -np.sign(second[3])


def test_g6_complementary():
    affinity = complementary_affinity(G6_PHI, G6_T, sigma_t=0.5, sigma_ft=0.8)
    np.testing.assert_allclose(affinity, table(2, 1.734717, 5.770733, 6.225638, 4.133171), rtol=0, atol=1e-6)
    clusters = complementary_clusters(G6_PHI, G6_T, n_clusters=2, sigma_t=0.5, sigma_ft=0.8, rng=rng())
    assert as_lists(clusters) == [[0, 2], [1, 3]]


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["max", "raw"]))
def test_affinities_equal_those_by_loops(seed, squared, t_scale):
    random = rng(seed)
    phi, t = random.normal(size=(6, 3)), random.uniform(0, 3, 6)
    phi[random.uniform(size=6) < 0.2] = 0
    used = t / t.max() if t_scale == "max" else t
    one, two = naive_affinities(phi, used, 0.7, 0.6, 1.1, squared)
    how = {"t_scale": t_scale, "squared": squared}
    np.testing.assert_allclose(similar_affinity(phi, t, sigma=0.7, **how), one, rtol=1e-7)
    np.testing.assert_allclose(complementary_affinity(phi, t, sigma_t=0.6, sigma_ft=1.1, **how), two, rtol=1e-7)


def test_no_times_at_all_and_no_directions_at_all():
    assert (similar_affinity(np.zeros((3, 2)), np.zeros(3), sigma=1.0) == 1).all()
    assert (complementary_affinity(np.zeros((3, 2)), np.zeros(3), sigma_t=1.0, sigma_ft=1.0) == 2).all()


def test_similar_clusters_differ_and_complementary_ones_are_like_the_whole():
    random = rng(0)
    phi = np.repeat(np.eye(4), 6, axis=0) + 0.1 * random.normal(size=(24, 4))  # four directions, six clients of each
    t, n_samples = np.ones(24), np.ones(24)
    similar = similar_clusters(phi, t, n_clusters=4, sigma=0.5, rng=rng(1))
    assert as_lists(similar) == [list(range(6 * c, 6 * c + 6)) for c in range(4)]
    mixed = complementary_clusters(phi, t, n_clusters=4, sigma_t=0.5, sigma_ft=0.8, rng=rng(1))
    assert sorted(k for c in mixed for k in c.tolist()) == list(range(24))

    def mean_angle(clusters):
        return np.mean(Angle(phi, n_samples).restart(clusters))

    assert mean_angle(mixed) < 0.8 * mean_angle(similar)


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 6, 11, 12])
@pytest.mark.parametrize("seed", range(2))
def test_clusters_are_a_partition_in_the_order_of_their_lowest_clients(n_clusters, seed):
    random = rng(seed)
    phi, t = random.normal(size=(12, 5)), random.uniform(5, 20, 12)
    for clusters in (
        similar_clusters(phi, t, n_clusters=n_clusters, sigma=0.5, rng=rng(seed)),
        complementary_clusters(phi, t, n_clusters=n_clusters, sigma_t=0.5, sigma_ft=0.8, rng=rng(seed)),
    ):
        assert 1 <= len(clusters) <= n_clusters and all(len(c) for c in clusters)
        assert sorted(k for c in clusters for k in c.tolist()) == list(range(12))
        assert all((np.diff(c) > 0).all() for c in clusters)
        assert [c[0] for c in clusters] == sorted(c[0] for c in clusters)


def test_the_same_generator_gives_the_same_clusters():
    phi, t = rng(0).normal(size=(40, 5)), rng(1).uniform(5, 20, 40)
    one, two = (as_lists(similar_clusters(phi, t, n_clusters=6, sigma=1.5, rng=rng(3))) for _ in range(2))
    assert one == two


def test_raw_times_far_apart_group_by_time_alone():
    t = [1000.0, 1.0, 1000.0, 2.0]  # affinities underflow to 0
    clusters = similar_clusters(G6_PHI, t, n_clusters=2, sigma=0.5, t_scale="raw", rng=rng())
    assert as_lists(clusters) == [[0, 2], [1, 3]]


def test_empty_groups_are_dropped(monkeypatch):
    from sklearn.cluster import SpectralClustering

    monkeypatch.setattr(SpectralClustering, "fit_predict", lambda self, affinity: np.array([2, 0, 2, 0]))
    clusters = similar_clusters(G6_PHI, G6_T, n_clusters=3, sigma=0.5, rng=rng())
    assert as_lists(clusters) == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: similar_affinity(G6_PHI, G6_T, sigma=0.0), "sigma must be above 0, got 0"),
        (lambda: similar_affinity(G6_PHI, G6_T[:3], sigma=1.0), "features must have shape (3, d), got (4, 2)"),
        (lambda: similar_affinity(G6_PHI, -G6_T, sigma=1.0), "t_s must be at least 0, got -10"),
        (lambda: similar_affinity(G6_PHI, G6_T, sigma=1.0, t_scale="mean"), "t_scale must be one of max, raw"),
        (
            lambda: complementary_affinity(G6_PHI, G6_T, sigma_t=1.0, sigma_ft=0.01),
            "sigma_ft 0.01 is too small: the largest affinity would be exp(11314)",
        ),
        (
            lambda: similar_clusters(G6_PHI, G6_T, n_clusters=5, sigma=1.0, rng=rng()),
            "n_clusters must be at most the number of clients, 4; got 5",
        ),
    ],
    ids=lambda x: None,
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


EQUAL = np.full((3, 3), 5.0)
UNEQUAL = np.array([[0.0, 2, 6], [2, 0, 4], [6, 4, 0]])


@pytest.mark.parametrize(
    ("link", "time", "expected"),
    [
        (EQUAL, "auto", [6, 7, 8]),
        (EQUAL, "round", [6, 7, 8]),
        (EQUAL, "computing", [1, 2, 3]),
        (UNEQUAL, "auto", [1, 2, 3]),
        (UNEQUAL, "round", [1 + 4, 2 + 3, 3 + 5]),
        (np.where(UNEQUAL == 6, np.inf, UNEQUAL), "round", [1 + 2, 2 + 3, 3 + 4]),
        (np.array([[0, 2, np.inf], [2, 0, np.inf], [np.inf, np.inf, 0]]), "round", [1 + 2, 2 + 2, 3 + 2]),
        (np.array([[0, 2, np.inf], [2, 0, np.inf], [np.inf, np.inf, 0]]), "auto", [1, 2, 3]),
        (np.full((3, 3), np.inf), "round", [1, 2, 3]),
    ],
)
def test_a_round_is_estimated_with_links_where_they_are_alike_and_else_as_asked(link, time, expected):
    assert device_round_s([1.0, 2.0, 3.0], link, time).tolist() == expected


def test_a_single_client_has_no_links_and_other_words_are_refused():
    assert device_round_s([4.0], [[0.0]], "round").tolist() == [4.0]
    with pytest.raises(ValueError, match="time must be one of auto, round, computing; got 'wall'"):
        device_round_s([1.0, 2.0], np.ones((2, 2)), "wall")
