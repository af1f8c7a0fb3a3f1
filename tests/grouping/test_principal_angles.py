"""Signatures, angles and clusters: cases by hand, what holds for any data, and slow references."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from fedloom.grouping import (
    angle_clusters,
    cluster_counts,
    merge_tree,
    noisy_signatures,
    proximity,
    signature,
    signatures,
)

E1, E2, E3, E4 = np.eye(4)
PLANE = np.column_stack([E1, E2])
METRICS = ["principal", "pairwise", "pairwise_abs"]
LINKAGES = ["complete", "average", "single"]


def angle(u, v, metric="principal"):
    return proximity([np.column_stack(u), np.column_stack(v)], metric)[0, 1]


def random_signatures(rng, n, d=12, widths=(1, 2, 3)):
    return [rng.normal(size=(d, rng.choice(widths))) for _ in range(n)]


def clusters(label):
    return [np.flatnonzero(label == c).tolist() for c in range(label.max() + 1)]


@pytest.mark.parametrize(
    ("u", "v", "metric", "degrees"),
    [
        ([E1, E2], [np.cos(np.pi / 6) * E1 + 0.5 * E3, E4], "principal", 30),
        ([E1, E2], [(E1 + E2) / np.sqrt(2), E3], "principal", 0),
        ([E1, E2], [(E1 + E2) / np.sqrt(2), E3], "pairwise", 45),
        ([E1, E2], [-E1, E3], "principal", 0),
        ([E1, E2], [-E1, E3], "pairwise", 90),
        ([E1, E2], [-E1, E3], "pairwise_abs", 0),
        ([E1, (E1 + E2) / np.sqrt(2)], [E2], "principal", 0),  # 45 without an orthonormal basis
        ([E1, E2], [0.6 * E1 + 0.8 * E3, 0.8 * E2 + 0.6 * E4], "principal", 36.8698976),
    ],
    ids=["a", "b", "b pairwise", "c", "c pairwise", "c pairwise_abs", "d", "e"],
)
def test_g1_angles(u, v, metric, degrees):
    assert angle(u, v, metric) == pytest.approx(degrees, abs=1e-7)
    assert angle(v, u, metric) == pytest.approx(degrees, abs=1e-7)


@pytest.mark.parametrize(("rank", "degrees"), [(1, 26.5650512), (2, 0.0)])
def test_g1_f_from_data_to_angles(rank, degrees):
    first = np.diag([3.0, 2.0, 0.5, 0.0])[:, :3]  # columns are samples
    second = np.array([[2.0, 2], [2, -2], [0, 0], [1, 1]])
    assert proximity(signatures([first.T, second.T], rank))[0, 1] == pytest.approx(degrees, abs=1e-6)


A = np.zeros((4, 4))
for (i, j), x in {(0, 1): 5, (0, 2): 14, (1, 2): 24, (0, 3): 50, (1, 3): 45, (2, 3): 19.5}.items():
    A[i, j] = A[j, i] = x


@pytest.mark.parametrize(
    ("linkage", "heights", "found"),
    [
        ("complete", [5, 19.5, 50], [[0, 1], [2, 3]]),
        ("average", [5, 19, 33.5], [[0, 1, 2], [3]]),
        ("single", [5, 14, 19.5], [[0, 1, 2, 3]]),
    ],
)
def test_g2_linkage(linkage, heights, found):
    np.testing.assert_allclose(merge_tree(A, linkage)[:, 2], heights, rtol=1e-14)
    assert clusters(angle_clusters(A, beta_deg=20, linkage=linkage)) == found
    assert clusters(angle_clusters(A, n_clusters=len(found), linkage=linkage)) == found


def test_clusters_exactly_beta_apart_merge():
    assert cluster_counts(A, [4.999, 5, 19.5, 50]).tolist() == [4, 3, 2, 1]
    assert clusters(angle_clusters(A, beta_deg=19.5)) == [[0, 1], [2, 3]]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_principal_angles_are_those_of_scipy_for_any_widths(seed, n):
    rng = np.random.default_rng(seed)
    given_signatures = random_signatures(rng, n)
    found = proximity(given_signatures)
    for i in range(n):
        for j in range(n):
            want = 0.0 if i == j else np.degrees(subspace_angles(given_signatures[i], given_signatures[j])[-1])
            assert found[i, j] == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("metric", ["pairwise", "pairwise_abs"])
def test_pairwise_angles_match_a_loop(metric):
    given_signatures = random_signatures(np.random.default_rng(3), 9)
    found = proximity(given_signatures, metric)
    for i in range(9):
        for j in range(i):
            cosines = [
                u @ v / np.linalg.norm(u) / np.linalg.norm(v)
                for u in given_signatures[i].T
                for v in given_signatures[j].T
            ]
            cosines = np.abs(cosines) if metric == "pairwise_abs" else cosines
            assert found[i, j] == pytest.approx(np.degrees(np.arccos(max(cosines))), abs=1e-9)


def test_more_clients_than_fit_in_a_block_match_scipy():
    rng = np.random.default_rng(5)
    given_signatures = random_signatures(rng, 300, d=20, widths=(2, 3))
    found = proximity(given_signatures)
    for i, j in rng.integers(0, 300, (200, 2)):
        want = 0.0 if i == j else np.degrees(subspace_angles(given_signatures[i], given_signatures[j])[-1])
        assert found[i, j] == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("tilt", [0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1.7e-3, 1.8e-3, 1e-2])
@pytest.mark.parametrize("metric", METRICS)
def test_tiny_angles_keep_their_digits(metric, tilt):
    # both spans are turned about by an orthogonal matrix, and v also within itself where only the span matters
    rng = np.random.default_rng(11)
    turn = np.linalg.qr(rng.normal(size=(50, 50)))[0]
    u = turn[:, :3]
    v = np.column_stack([np.cos(tilt) * turn[:, 0] + np.sin(tilt) * turn[:, 3], turn[:, 4], turn[:, 5]])
    if metric == "principal":
        v = v @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert proximity([u, v], metric)[0, 1] == pytest.approx(np.degrees(tilt), abs=1e-9)


def test_opposite_vectors_keep_their_digits():
    v = -np.array([np.cos(1e-9), np.sin(1e-9)])
    assert 180 - proximity([[[1.0], [0.0]], v[:, None]], "pairwise")[0, 1] == pytest.approx(np.degrees(1e-9), abs=1e-13)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(METRICS))
def test_invariant_1_symmetric_in_range_and_blind_to_scale_sign_and_rotation(seed, metric):
    rng = np.random.default_rng(seed)
    given_signatures = random_signatures(rng, 8)
    found = proximity(given_signatures, metric)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(found.diagonal(), 0)
    assert (found >= 0).all() and (found <= (180 if metric == "pairwise" else 90)).all()
    scaled = [u * rng.uniform(0.1, 10, u.shape[1]) for u in given_signatures]
    np.testing.assert_allclose(proximity(scaled, metric), found, atol=1e-9)
    flipped = [u * rng.choice([-1, 1], u.shape[1]) for u in given_signatures]
    if metric != "pairwise":
        np.testing.assert_allclose(proximity(flipped, metric), found, atol=1e-9)
    if metric == "principal":
        mixed = [u @ np.linalg.qr(rng.normal(size=(u.shape[1],) * 2))[0] for u in given_signatures]
        np.testing.assert_allclose(proximity(mixed), found, atol=1e-8)
        assert proximity([given_signatures[0], mixed[0]])[0, 1] < 1e-9  # equal spans


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(2, 25), st.sampled_from(LINKAGES))
def test_invariant_2_clusters_grow_with_beta(seed, n, linkage):
    found = proximity(random_signatures(np.random.default_rng(seed), n))
    betas = np.linspace(0, 90, 37)
    counts = cluster_counts(found, betas, linkage)
    assert (np.diff(counts) <= 0).all()
    assert counts[-1] == 1
    least = found[~np.eye(n, dtype=bool)].min()
    assert cluster_counts(found, [0.999 * least], linkage)[0] == n
    for beta, count in zip(betas[::6], counts[::6]):
        label = angle_clusters(found, beta_deg=beta, linkage=linkage)
        assert label.max() + 1 == count
        first = [np.flatnonzero(label == c)[0] for c in range(count)]
        assert first == sorted(first)
        if linkage == "complete":
            assert all(found[np.ix_(label == c, label == c)].max() <= beta + 1e-12 for c in range(count))


@given(st.integers(0, 2**32), st.integers(1, 12))
@settings(deadline=None, max_examples=25)
def test_a_number_of_clusters_is_met(seed, n):
    found = proximity(random_signatures(np.random.default_rng(seed), n))
    for wanted in range(1, n + 1):
        assert angle_clusters(found, n_clusters=wanted).max() + 1 == wanted


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (20, 20), (300, 4)])
def test_signatures_are_the_leading_left_singular_vectors_of_the_columns(shape):
    x = np.random.default_rng(2).uniform(size=shape)
    want = np.linalg.svd(x.T)[0][:, :3]
    got = signature(x, 3)
    np.testing.assert_allclose(got * np.sign((got * want).sum(axis=0)), want, atol=1e-10)
    np.testing.assert_allclose(got.T @ got, np.eye(3), atol=1e-11)


def test_weak_directions_are_found_all_the_same():
    rng = np.random.default_rng(4)
    left, right = np.linalg.qr(rng.normal(size=(30, 3)))[0], np.linalg.qr(rng.normal(size=(20, 3)))[0]
    x = right @ np.diag([1.0, 1e-4, 1e-9]) @ left.T
    np.testing.assert_allclose(np.abs(left.T @ signature(x, 3)), np.eye(3), atol=1e-6)
    assert signature(x, 5).shape == (30, 3)


def test_images_are_flattened_and_dependent_data_have_fewer_directions():
    x = np.zeros((5, 1, 2, 3))
    x[:, 0, 1, 2] = 7
    np.testing.assert_allclose(np.abs(signature(x, 3)), np.eye(6)[:, 5:], atol=1e-12)


def test_signatures_per_class_stand_side_by_side():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(30, 6)), np.repeat([4, 1, 4], 10)
    (found,) = signatures([x], 2, [y])
    np.testing.assert_allclose(np.abs(found[:, :2]), np.abs(signature(x[y == 1], 2)), atol=1e-12)
    np.testing.assert_allclose(np.abs(found[:, 2:]), np.abs(signature(x[y == 4], 2)), atol=1e-12)


def test_clients_of_the_same_classes_are_found():
    rng = np.random.default_rng(8)
    prototypes = np.eye(6)
    pairs = [(0, 1), (2, 3), (0, 1), (4, 5), (2, 3), (4, 5)]
    x = [np.repeat(prototypes[list(p)], 20, axis=0) + rng.normal(0, 0.01, (40, 6)) for p in pairs]
    assert clusters(angle_clusters(proximity(signatures(x, 2)), beta_deg=20)) == [[0, 2], [1, 4], [3, 5]]


def test_noise_opens_angles_as_said_and_stays_orthonormal():
    rng = np.random.default_rng(1)
    exact = [np.linalg.qr(rng.normal(size=(2000, 1)))[0] for _ in range(20)]
    for noise in (0.0, 0.1, 1.0):
        noisy = noisy_signatures(exact, noise, rng)
        tangent = [np.tan(np.radians(proximity([u, v])[0, 1])) for u, v in zip(exact, noisy)]
        np.testing.assert_allclose(tangent, noise, rtol=0.15, atol=1e-9)
    three = noisy_signatures([np.eye(10)[:, :3]], 0.5, rng)[0]
    np.testing.assert_allclose(three.T @ three, np.eye(3), atol=1e-12)


def test_one_client_is_one_cluster():
    alone = proximity([PLANE])
    assert alone.tolist() == [[0.0]]
    assert angle_clusters(alone, beta_deg=0).tolist() == [0]
    assert angle_clusters(alone, n_clusters=1).tolist() == [0]
    assert cluster_counts(alone, [0, 90]).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: proximity([PLANE], "cosine"), "metric must be one of principal, pairwise, pairwise_abs; got 'cosine'"),
        (lambda: proximity([]), "signatures must be those of at least one client, got none"),
        (lambda: proximity([PLANE, np.eye(3)]), "the same number of features d, got [3, 4]"),
        (lambda: proximity([PLANE, np.zeros((4, 1))]), "the signature of client 1 must have one or more columns"),
        (lambda: signature(np.ones(3)), "x must hold samples of shape (n, d...), got (3,)"),
        (lambda: signatures([np.ones((2, 2)), np.zeros((2, 2))]), "client 1: x is zero throughout"),
        (lambda: signatures([np.ones((2, 2))], 1, []), "one array for each of the 1 clients, got 0"),
        (lambda: signatures([np.ones((2, 2))], 1, [[1]]), "client 0 has (2,) samples but labels of shape (1,)"),
        (lambda: noisy_signatures([PLANE], -1, np.random.default_rng()), "noise must be at least 0, got -1"),
        (lambda: angle_clusters(A), "give either beta_deg or n_clusters, got beta_deg None and n_clusters None"),
        (lambda: angle_clusters(A, beta_deg=1, n_clusters=2), "give either beta_deg or n_clusters"),
        (lambda: angle_clusters(A, beta_deg=-1), "beta_deg must be at least 0, got -1"),
        (lambda: angle_clusters(A, n_clusters=5), "n_clusters must be at most the number of clients, 4; got 5"),
        (lambda: angle_clusters(A, beta_deg=1, linkage="ward"), "linkage must be one of complete, average, single"),
        (lambda: angle_clusters(np.triu(A), beta_deg=1), "proximity must be symmetric (K, K) with a zero diagonal"),
        (lambda: angle_clusters(-A, beta_deg=1), "proximity must be at least 0, got -5"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
