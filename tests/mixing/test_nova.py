"""Updates that are normalised by their steps: by hand, against a loop, and where nothing is changed."""

import numpy as np
import pytest

from fedloom.mixing import Arrivals, ByRows, Linear, by_size, by_steps, discounted, normalised, robust


def arrivals(n_samples, steps, staleness=None):
    n = np.asarray(n_samples)
    age = np.zeros_like(n) if staleness is None else np.asarray(staleness)
    steps = None if steps is None else np.asarray(steps)
    return Arrivals(client=np.arange(len(n)), n_samples=n, n_reached=np.ones_like(n), staleness=age, steps=steps)


def test_two_clients_by_hand():
    found = normalised(by_size)(arrivals([10, 30], [2, 6]))
    # tau_eff = 0.25 * 2 + 0.75 * 6 = 5; factors 5/2 and 5/6
    np.testing.assert_allclose(found.model, [0.625, 0.625])
    np.testing.assert_allclose(found.start, [0.25 - 0.625, 0.75 - 0.625])
    assert found.own == 0.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("merge", [Linear(), robust.at_edge(robust.trimmed_mean(0.0))])
def test_a_merge_is_the_published_average_of_changes_a_step(seed, merge):
    rng = np.random.default_rng(seed)
    n, steps = rng.integers(5, 50, 7), rng.integers(1, 20, 7)
    rows, starts = rng.normal(size=(2, 7, 11)).astype(np.float32)
    old, known = rng.normal(size=11).astype(np.float32), arrivals(n, steps)
    if isinstance(merge, ByRows):  # it moves updates to where the aggregator is
        starts[:] = old
    p, expected, tau_eff = n / n.sum(), np.zeros(11), 0.0
    for k in range(7):
        tau_eff += p[k] * steps[k]
    for k in range(7):
        expected += p[k] * starts[k] + tau_eff * p[k] * (rows[k] - starts[k]) / steps[k]
    made = by_steps(merge)
    if isinstance(made, ByRows):
        found = made.rule(known, old, rows, starts)
    else:
        weights = made.weigh(known)
        found = weights.own * old + weights.model @ rows + weights.start @ starts
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("weigh", [by_size, discounted("delta")])
def test_equal_steps_change_nothing(weigh):
    known = arrivals([3, 7, 13], [4, 4, 4], [0, 1, 2])
    a, b = weigh(known), normalised(weigh)(known)
    assert a.own == b.own and np.array_equal(a.model, b.model)
    assert (a.start is None and b.start is None) or np.array_equal(a.start, b.start)


def test_stale_updates_keep_their_discount():
    known = arrivals([10, 10], [1, 3], [0, 1])
    a, b = discounted("delta")(known), normalised(discounted("delta"))(known)
    factor = (1 * 2 / 3 + 3 / 3) / np.array([1, 3])  # the second counts half as much
    np.testing.assert_allclose(b.model, a.model * factor)
    np.testing.assert_allclose(b.start, -b.model)
    assert b.own == 1.0


@pytest.mark.parametrize("steps", [None, [1, 0]])
def test_without_steps_it_says_what_it_needs(steps):
    with pytest.raises(ValueError, match="FedNova needs the local steps, at least 1, of each of 2 updates"):
        normalised(by_size)(arrivals([1, 1], steps))
