"""The picture of angles and clusters."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from fedloom.grouping import angle_clusters, cluster_counts
from fedloom.record.proximity import BETAS_DEG, dendrogram_order, draw_proximity


def angles(n=12, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.arange(n) % 3)
    upper = np.triu(np.where(group[:, None] == group, rng.uniform(1, 8, (n, n)), rng.uniform(40, 80, (n, n))), 1)
    return upper + upper.T


@pytest.mark.parametrize("linkage", ["complete", "average", "single"])
def test_clusters_stand_together_in_the_order_of_the_dendrogram(linkage):
    prox = angles()
    order = dendrogram_order(prox, linkage)
    assert sorted(order) == list(range(12))
    for beta in (2, 5, 20, 60):
        label = angle_clusters(prox, beta_deg=beta, linkage=linkage)[order]
        assert (np.diff(label) != 0).sum() == label.max()


def test_the_picture_shows_the_ordered_matrix_a_frame_for_each_cluster_and_the_counts(tmp_path):
    prox = angles()
    figure = draw_proximity(prox, 20, path=tmp_path / "proximity.svg")
    matrix, counts = figure.axes[0], figure.axes[1]
    order = dendrogram_order(prox)
    np.testing.assert_array_equal(matrix.images[0].get_array(), prox[np.ix_(order, order)])
    frames = sorted((p.get_x(), p.get_width()) for p in matrix.patches if isinstance(p, Rectangle))
    assert frames == [(-0.5, 4), (3.5, 4), (7.5, 4)]
    x, y = counts.lines[0].get_data()
    np.testing.assert_array_equal(y, cluster_counts(prox, BETAS_DEG))
    np.testing.assert_array_equal(x, BETAS_DEG)
    assert "beta 20°: 3 clusters" in [text.get_text() for text in counts.texts]
    assert "<svg" in (tmp_path / "proximity.svg").read_text()


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw_proximity(angles(), 5, linkage="average", path=tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_one_client_can_be_drawn(tmp_path):
    draw_proximity(np.zeros((1, 1)), 20, path=tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 1000
