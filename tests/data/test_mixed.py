"""A share of the clients with a few classes, the others with all."""

import numpy as np
import pytest

from fedloom.data.partition import mixed

LABELS = np.repeat(np.arange(10), 400)


def few(parts, labels=LABELS):
    """Clients with at most two classes."""
    return [len(np.unique(labels[part])) <= 2 for part in parts]


MNIST = np.repeat(np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


def labels_of_the_others(parts, labels):
    """Label counts (m, C) of the clients with more than two classes."""
    counts = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    return counts[(counts > 0).sum(axis=1) > 2]


def transport(counts, labels):
    """Mean over rows (m, C) of the distance to all labels, in classes."""
    shares = counts / counts.sum(axis=1, keepdims=True) - np.bincount(labels, minlength=10) / len(labels)
    return np.abs(shares.cumsum(axis=1)).sum(axis=1).mean()


def apart(counts, labels):
    """Total variation of pooled labels (m, C) from all."""
    pooled = counts.sum(axis=0) / counts.sum()
    return np.abs(pooled - np.bincount(labels, minlength=10) / len(labels)).sum() / 2


def fair_draw(labels, n_clients, size, rng):
    """Label counts (m, C) of a draw without replacement."""
    drawn = rng.choice(labels, n_clients * size, replace=False).reshape(n_clients, size)
    return np.array([np.bincount(row, minlength=10) for row in drawn])


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.9, 1.0])
@pytest.mark.parametrize("labels", [LABELS, MNIST])
def test_so_many_clients_have_two_classes_and_all_have_the_same_number_of_samples(share, labels):
    parts = mixed(labels, 30, share, 2, np.random.default_rng(3))
    assert sum(few(parts, labels)) == round(share * 30)
    (size,) = {len(part) for part in parts}
    assert size % 2 == 0 and 0.75 * len(labels) / 30 < size <= len(labels) / 30
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)
    for part, skewed in zip(parts, few(parts, labels)):
        assert part.dtype == np.int64 and (np.diff(part) > 0).all()
        counts = np.unique(labels[part], return_counts=True)[1]
        assert counts.tolist() == [size / 2, size / 2] if skewed else len(counts) > 5


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("labels", [LABELS, MNIST])
def test_clients_without_skew_are_a_fair_draw_of_all_labels(share, labels):
    rng, distances, pooled = np.random.default_rng(0), [], []
    for seed in range(10):
        others = labels_of_the_others(mixed(labels, 30, share, 2, np.random.default_rng(seed)), labels)
        fair = [fair_draw(labels, len(others), int(others[0].sum()), rng) for _ in range(10)]
        distances.append((transport(others, labels), np.mean([transport(f, labels) for f in fair])))
        pooled.append((apart(others, labels), np.mean([apart(f, labels) for f in fair])))
    for ours, true in (np.mean(distances, axis=0), np.mean(pooled, axis=0)):
        assert ours < 1.3 * true  # the leftovers of the skewed clients are 1.5 to 12 times as far


def test_clients_draw_as_chance_has_it_and_not_by_quota():
    pooled = np.array(
        [
            labels_of_the_others(mixed(LABELS, 30, 0.8, 2, np.random.default_rng(s)), LABELS).sum(axis=0)
            for s in range(60)
        ]
    )
    n = pooled.sum(axis=1, keepdims=True)
    spread = np.sqrt(n * 0.1 * 0.9 * (4000 - n) / 3999)  # hypergeometric
    assert (pooled / n).mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=0.005)
    assert ((pooled - n / 10) / spread).std() == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize("share", [0.0, 0.8, 1.0])
def test_a_larger_share_of_everybody_would_not_fit(share):
    """One more sample of a class each is more than there is, or than an equal share."""
    for seed in range(5):
        parts = mixed(LABELS, 30, share, 2, np.random.default_rng(seed))
        q = len(parts[0]) // 2
        if q < 4000 // 60:
            held = np.array([np.bincount(LABELS[part], minlength=10) for part in parts])
            skewed = (held > 0).sum(axis=1) == 2
            wanted = (held[skewed] > 0).sum(axis=0) * (q + 1)
            left = 400 - held[~skewed].sum(axis=0)
            assert (wanted > left - 2 * (~skewed).sum()).any()  # the others would take up to so many of a class


def test_the_same_generator_gives_the_same_parts():
    one, other = (mixed(LABELS, 30, 0.8, 2, np.random.default_rng(7)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_who_has_few_classes_is_drawn():
    first, second = (few(mixed(LABELS, 30, 0.5, 2, np.random.default_rng(s))) for s in (0, 1))
    assert first != second
    assert 0 < sum(first[:15]) < 15


@pytest.mark.parametrize("seed", range(4))
def test_a_small_class_limits_everybody(seed):
    labels = np.concatenate([LABELS, np.full(50, 10)])
    parts = mixed(labels, 30, 1.0, 2, np.random.default_rng(seed))
    holders = sum(10 in labels[part] for part in parts)
    assert holders in (5, 6)  # 60 halves of 11 classes
    assert {len(part) for part in parts} == {2 * (50 // holders)}


def test_a_class_without_enough_samples_is_named():
    labels = np.concatenate([LABELS, np.full(3, 10)])
    with pytest.raises(ValueError, match=r"class 10 has 3 samples, too few for [56] clients that hold it"):
        mixed(labels, 30, 1.0, 2, np.random.default_rng(0))


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
