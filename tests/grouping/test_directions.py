"""Angles and skews of clusters: cases by hand, invariances, and tables against clusters from scratch."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_swap_search import angle_of, exchange, skew_of

from fedloom.grouping import Topology, directions, edge_matrix, edge_shares
from fedloom.grouping.directions import Angle, Skew, gram_matrix

G3_PHI = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [-1, 0, 2]], dtype=float)
G3_SIZES = np.array([100, 200, 100, 50, 50], dtype=float)
G5_COUNTS = np.array([[30, 10, 0], [20, 20, 0], [0, 10, 30], [10, 0, 30]])


def table(measure, first, second):
    """Values after every exchange between two clusters that are all clients."""
    n = len(first) + len(second)
    measure.restart([np.array(first), np.array(second)])
    return measure.after(0, 1, np.array([*first, n]), np.array([*second, n]))


def theta(phi, sizes, clusters):
    return Angle(phi, np.asarray(sizes, dtype=float)).restart([np.asarray(c) for c in clusters])


@st.composite
def populations(draw):
    """features (K, d), n_samples (K,), and a partition. Small whole numbers, so that sums cancel, or any; some are zero."""
    n, d, n_clusters = draw(st.integers(2, 10)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    phi = rng.integers(-1, 2, (n, d)).astype(float) if draw(st.booleans()) else rng.normal(size=(n, d))
    phi[rng.uniform(size=n) < draw(st.sampled_from([0.0, 0.5]))] = 0
    order = rng.permutation(n)
    clusters = [np.sort(order[c::n_clusters]) for c in range(min(n, n_clusters))]
    return phi, rng.integers(1, 6, n).astype(float), clusters


def test_g3_gram_matrix():
    gram = gram_matrix(G3_PHI, G3_SIZES)
    expected = [
        [10000, 0, 0, 5000, -5000],
        [0, 40000, 0, 10000, 0],
        [0, 0, 10000, 0, 10000],
        [5000, 10000, 0, 5000, -2500],
        [-5000, 0, 10000, -2500, 12500],
    ]
    np.testing.assert_array_equal(gram, expected)
    assert gram.sum(axis=1).tolist() == [10000, 50000, 20000, 17500, 15000] and gram.sum() == 112500


def test_g3_angles():
    np.testing.assert_allclose(
        theta(G3_PHI, G3_SIZES, [[0, 1], [2, 3, 4]]), [0.643501109, 0.708626272], rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(theta(G3_PHI, G3_SIZES, [[4]]), 1.159279481, rtol=0, atol=1e-9)
    after = table(Angle(G3_PHI, G3_SIZES), [0, 1], [2, 3, 4])
    np.testing.assert_allclose(after[:, 1, 1], [1.025647942, 0.490072357], rtol=0, atol=1e-9)  # 1 for 3
    np.testing.assert_allclose(after[:, 1, 3], [1.268050375, 0.302745952], rtol=0, atol=1e-9)  # 1 for nobody
    np.testing.assert_allclose(after[:, 2, 3], [0.643501109, 0.708626272], rtol=0, atol=1e-9)  # nobody for nobody


def test_g5_skews():
    assert Skew(G5_COUNTS, G5_COUNTS.sum(axis=1)).restart([np.array([1, 2]), np.array([0, 3])]).tolist() == [0.25, 0.25]
    after = table(Skew(G5_COUNTS, G5_COUNTS.sum(axis=1)), [1, 2], [0, 3]).sum(axis=0)
    np.testing.assert_allclose(after[:2, :2], [[0, 1.5], [1.5, 0]], rtol=0, atol=1e-15)


@given(populations())
def test_the_lengths_along_the_common_direction_add_up(population):
    phi, sizes, clusters = population
    share = [sizes[c].sum() / sizes.sum() for c in clusters]
    mean = [sizes[c] @ phi[c] / sizes[c].sum() for c in clusters]
    whole = sizes @ phi / sizes.sum()
    angles = theta(phi, sizes, clusters)
    total = sum(w * np.linalg.norm(m) * np.cos(a) for w, m, a in zip(share, mean, angles))
    assert total == pytest.approx(np.linalg.norm(whole), abs=1e-6 * max(1, np.abs(phi).max()))


def test_g3_lengths_add_up():
    mean = [G3_SIZES[c] @ G3_PHI[c] / G3_SIZES[c].sum() for c in ([0, 1], [2, 3, 4])]
    angles = theta(G3_PHI, G3_SIZES, [[0, 1], [2, 3, 4]])
    total = sum(w * np.linalg.norm(m) * np.cos(a) for w, m, a in zip([0.6, 0.4], mean, angles))
    assert total == pytest.approx(0.670820393, abs=1e-9)


@given(populations())
def test_weights_in_clusters_and_of_clusters_give_every_client_its_share(population):
    _, sizes, clusters = population
    cover = np.zeros((len(clusters), len(sizes)), dtype=bool)
    for c, members in enumerate(clusters):
        cover[c, members] = True
    topology = Topology(cover=cover, kind="head", host=np.array([c[0] for c in clusters]))
    inside, of_clusters = edge_matrix(topology.cover, sizes), edge_shares(topology.cover, sizes)
    np.testing.assert_allclose(inside.sum(axis=1), 1)
    assert of_clusters.sum() == pytest.approx(1)
    np.testing.assert_allclose(of_clusters @ inside, sizes / sizes.sum())


@given(populations(), st.floats(1e-3, 1e3), st.integers(0, 2**32))
def test_angles_do_not_depend_on_scale_rotation_or_names(population, factor, seed):
    phi, sizes, clusters = population
    rng = np.random.default_rng(seed)
    angles = theta(phi, sizes, clusters)
    assert ((angles >= 0) & (angles <= np.pi)).all()
    rotation, _ = np.linalg.qr(rng.normal(size=(phi.shape[1], phi.shape[1])))
    name = rng.permutation(len(sizes))  # client k is called name[k]
    renamed, resized = np.empty_like(phi), np.empty_like(sizes)
    renamed[name], resized[name] = phi, sizes
    for other in (
        theta(factor * phi, sizes, clusters),
        theta(phi, factor * sizes, clusters),
        theta(phi @ rotation, sizes, clusters),
        theta(renamed, resized, [name[c] for c in clusters]),
    ):
        np.testing.assert_allclose(other, angles, rtol=0, atol=1e-7)


@given(populations())
def test_everybody_together_has_the_common_direction(population):
    phi, sizes, _ = population
    whole = sizes @ phi
    length = np.linalg.norm(sizes[:, None] * phi, axis=1).max()
    expected = 0.0 if np.linalg.norm(whole) > 1e-6 * length else np.pi / 2
    assert theta(phi, sizes, [np.arange(len(sizes))]) == expected


def test_no_direction_is_at_a_right_angle():
    phi = np.array([[1.0, 0.0], [0.1, 0.3], [-0.1, -0.3], [0.0, 0.0]])
    np.testing.assert_array_equal(theta(phi, [1, 1, 1, 1], [[0], [1, 2], [3]]), [0, np.pi / 2, np.pi / 2])
    np.testing.assert_array_equal(theta(np.zeros((3, 2)), [1, 1, 1], [[0, 1], [2]]), [np.pi / 2] * 2)
    np.testing.assert_array_equal(theta(phi[[1, 2]], [1, 1], [[0], [1]]), [np.pi / 2] * 2)  # all together have none
    np.testing.assert_array_equal(theta(phi[:2], [0, 2], [[0], [1]]), [np.pi / 2, 0])  # nor has who has no samples
    nearly = np.array(
        [[1e6, 0.0], [3e5, 0.0], [0.5 - 3e5, 0.0]]
    )  # what is left of 1 and 2 is less than a millionth of 0
    np.testing.assert_array_equal(theta(nearly, [1, 1, 1], [[0], [1, 2]]), [0, np.pi / 2])


@given(populations(), st.booleans())
def test_values_after_every_change_equal_those_of_the_changed_clusters(population, by_labels):
    phi, sizes, _ = population
    n = len(sizes)
    if by_labels:
        counts = np.abs(np.round(phi * 3))
        measure, value = Skew(counts, counts.sum(axis=1)), skew_of(counts)
    else:
        measure, value = Angle(phi, sizes), angle_of(sizes[:, None] * phi)
    first, second = list(range(n // 2)), list(range(n // 2, n))
    after = table(measure, first, second)
    for i, leaves in enumerate([*first, None]):
        for j, joins in enumerate([*second, None]):
            for c, members in enumerate((exchange(first, leaves, joins), exchange(second, joins, leaves))):
                if members:
                    assert after[c, i, j] == pytest.approx(value(members), abs=1e-9)


def test_many_changes_do_not_drift():
    rng = np.random.default_rng(0)
    phi, counts = rng.normal(size=(60, 20)), rng.uniform(0, 50, (60, 7))
    for measure in (Angle(phi, rng.uniform(1, 1000, 60)), Skew(counts, counts.sum(axis=1))):
        clusters = [np.sort(c).tolist() for c in np.split(rng.permutation(60), 3)]
        measure.restart([np.array(c) for c in clusters])
        for _ in range(1000):
            c1, c2 = rng.choice(3, 2, replace=False).tolist()
            leaves, joins = int(rng.choice(clusters[c1])), int(rng.choice(clusters[c2]))
            measure.apply(c1, c2, leaves, joins)
            clusters[c1], clusters[c2] = exchange(clusters[c1], leaves, joins), exchange(clusters[c2], joins, leaves)
        members = [np.array([*c, 60]) for c in clusters]
        drifted = measure.after(0, 1, members[0], members[1])
        measure.restart([np.array(c) for c in clusters])
        np.testing.assert_allclose(drifted, measure.after(0, 1, members[0], members[1]), rtol=0, atol=1e-12)


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**32))
def test_skew_is_between_0_and_2_and_counts_add_up(n, n_labels, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (n, n_labels)) * rng.integers(0, 2, (n, 1))
    measure = Skew(counts, counts.sum(axis=1))
    clusters = [np.arange(0, (n + 1) // 2), np.arange((n + 1) // 2, n)][: 1 + (n > 1)]
    values = measure.restart(clusters)
    assert ((values >= 0) & (values <= 2)).all()
    assert measure.restart([np.arange(n)]) == 0
    merged = np.stack([counts[c].sum(axis=0) for c in clusters])  # a client with all samples of its cluster
    same = Skew(merged, merged.sum(axis=1)).restart([np.array([c]) for c in range(len(clusters))])
    np.testing.assert_allclose(same, values, rtol=0, atol=1e-12)


def test_skew_by_hand():
    counts = np.array([[90, 0], [0, 10], [50, 50], [0, 0]])  # all: 140 of 200, so p = (0.7, 0.3)
    values = Skew(counts, counts.sum(axis=1)).restart([np.array([0, 1]), np.array([2]), np.array([1]), np.array([3])])
    # (90, 10) of 100, not the mean of (1, 0) and (0, 1); without samples p_c = 0
    np.testing.assert_allclose(values, [0.4, 0.4, 1.4, 1.0], rtol=1e-14)


def test_the_gram_matrix_in_blocks_and_in_float32(monkeypatch):
    rng = np.random.default_rng(0)
    features, sizes = rng.normal(size=(6, 100)).astype(np.float32), rng.uniform(1, 9, 6)
    rows = sizes[:, None] * features.astype(np.float64)
    monkeypatch.setattr(directions, "BLOCK", 6 * 7)  # 15 blocks, the last one of 2 columns
    gram = gram_matrix(features, sizes)
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, rows @ rows.T, rtol=1e-13, atol=1e-12)
    assert gram_matrix(np.empty((3, 0)), np.ones(3)).tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Angle(np.ones(3), np.ones(3)), "features must have shape (3, d), got (3,)"),
        (lambda: Angle(np.ones((2, 4)), np.ones(3)), "features must have shape (3, d), got (2, 4)"),
        (lambda: Angle([[1.0], [np.nan], [np.inf]], np.ones(3)), "those of clients [1, 2] are not"),
        (lambda: Angle(np.ones((2, 1)), np.array([1.0, -1.0])), "n_samples must be at least 0, got -1"),
        (lambda: Skew([[1, 2], [3, -1]], np.array([3.0, 2.0])), "label counts must be at least 0, got -1"),
        (
            lambda: Skew([[1, 2], [3, 1]], np.array([3.0, 5.0])),
            "the label counts of a client must sum to its n_samples, got 4 and 5 for client 1",
        ),
    ],
    ids=lambda x: None,
)
def test_wrong_features_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
