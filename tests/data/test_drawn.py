"""Samples drawn with replacement."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from fedloom.data import PartitionSettings, drawn, drawn_by_classes, gaussian_mixture, make_partition


def test_more_clients_than_samples():
    parts = drawn(10, 1000, 4, np.random.default_rng(0))
    assert len(parts) == 1000 and all(part.shape == (4,) and (np.diff(part) >= 0).all() for part in parts)
    counts = np.bincount(np.concatenate(parts), minlength=10)
    assert counts.sum() == 4000 and abs(counts - 400).max() < 5 * np.sqrt(400)  # five standard deviations
    assert any(len(np.unique(part)) < 4 for part in parts)  # with replacement


def test_classes_and_samples_within_them_are_equally_likely():
    labels = np.repeat([0, 1, 5], [2, 8, 30])
    parts = drawn_by_classes(labels, 900, 6, 2, np.random.default_rng(0))
    held = [set(labels[part]) for part in parts]
    assert max(len(classes) for classes in held) == 2
    of_class = np.bincount(labels[np.concatenate(parts)], minlength=6)[[0, 1, 5]]
    assert abs(of_class - 1800).max() < 5 * np.sqrt(1800)
    within = np.bincount(np.concatenate(parts), minlength=40)
    for c in (0, 1, 5):
        expected = 1800 / (labels == c).sum()
        assert abs(within[labels == c] - expected).max() < 6 * np.sqrt(expected)


def test_settings_lead_there():
    dataset = gaussian_mixture(4, 3, 20, 8, rng=np.random.default_rng(0))
    for fields, most in ({}, 4), ({"classes_per_client": 1}, 1):
        settings = TypeAdapter(PartitionSettings).validate_python({"kind": "drawn", "samples_per_client": 7, **fields})
        parts = make_partition(settings, dataset, 50, np.random.default_rng(1))
        again = make_partition(settings, dataset, 50, np.random.default_rng(1))
        assert len(parts) == 50 and {len(part) for part in parts} == {7}
        assert max(len(np.unique(dataset.y_train[part])) for part in parts) == most
        assert all(np.array_equal(a, b) for a, b in zip(parts, again))


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="samples_per_client must be a whole number of at least 1, got 0"):
        drawn(5, 5, 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="classes per client must be at most the number of classes, 2, got 3"):
        drawn_by_classes([0, 1], 5, 2, 3, np.random.default_rng(0))
