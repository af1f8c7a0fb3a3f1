"""A share of the clients with a few classes, the others with all."""

import numpy as np
import pytest

from fedloom.data.partition import mixed

LABELS = np.repeat(np.arange(10), 400)


def few(parts, labels=LABELS):
    """Clients with at most two classes."""
    return [len(np.unique(labels[part])) <= 2 for part in parts]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_so_many_clients_have_two_classes_and_all_have_the_same_number_of_samples(share):
    parts = mixed(LABELS, 30, share, 2, np.random.default_rng(3))
    assert sum(few(parts)) == round(share * 30)
    assert {len(part) for part in parts} == {132}  # 2 floor(4000 / 60)
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)
    for part, skewed in zip(parts, few(parts)):
        counts = np.unique(LABELS[part], return_counts=True)[1]
        assert counts.tolist() == [66, 66] if skewed else len(counts) > 5


def test_who_has_few_classes_is_drawn():
    first, second = (few(mixed(LABELS, 30, 0.5, 2, np.random.default_rng(s))) for s in (0, 1))
    assert first != second
    assert 0 < sum(first[:15]) < 15


def test_a_small_class_limits_everybody():
    labels = np.concatenate([LABELS, np.full(50, 10)])
    parts = mixed(labels, 30, 1.0, 2, np.random.default_rng(0))
    assert {len(part) for part in parts} == {2 * (50 // 6)}  # 60 halves of 11 classes: up to 6 of each


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((30, 1.5, 2), "skewed_share must be between 0 and 1, got 1.5"),
        ((3000, 0.5, 2), "3000 clients with at least 2 samples each need 6000 samples, got 4000"),
        ((30, 0.5, 11), "classes per client must be at most the number of classes, 10, got 11"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mixed(LABELS, *arguments, np.random.default_rng(0))
