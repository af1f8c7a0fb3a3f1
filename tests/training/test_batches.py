"""Mini-batches: every pass uses every sample once, and every step stands on its own."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.training.batches import batches, steps_per_pass

seeds = st.integers(0, 2**63)
clients = st.integers(0, 10_000)
sizes = st.integers(1, 60)


def take(*args, **options):
    return [b.tolist() for b in batches(*args, **options)]


def flat(lists):
    return [position for positions in lists for position in positions]


@pytest.mark.parametrize(
    ("n", "size", "kept", "dropped"),
    [(10, 5, 2, 2), (11, 5, 3, 2), (4, 5, 1, 1), (5, 5, 1, 1), (9, 5, 2, 1), (1, 1, 1, 1)],
)
def test_steps_per_pass_by_hand(n, size, kept, dropped):
    assert steps_per_pass(n, size) == kept
    assert steps_per_pass(n, size, drop_last=True) == dropped


@given(seeds, clients, sizes, st.integers(1, 70), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_each_pass_uses_every_sample_exactly_once(seed, client, n, size, number):
    per_pass = math.ceil(n / size)
    whole = take(seed, client, n, size, number * per_pass, per_pass)
    assert [len(b) for b in whole[:-1]] == [size] * (per_pass - 1)
    assert len(whole[-1]) == n - size * (per_pass - 1)  # the ragged rest
    assert sorted(flat(whole)) == list(range(n))


@given(seeds, clients, sizes, st.integers(1, 70), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_dropping_the_rest_leaves_full_batches_of_distinct_samples(seed, client, n, size, number):
    per_pass = max(1, n // size)
    used = take(seed, client, n, size, number * per_pass, per_pass, drop_last=True)
    assert [len(b) for b in used] == ([size] * per_pass if n >= size else [n])
    indices = flat(used)
    assert len(set(indices)) == len(indices) and set(indices) <= set(range(n))


@given(seeds, clients, sizes, st.integers(1, 20), st.integers(0, 40), st.integers(0, 40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_step_can_be_computed_alone(seed, client, n, size, first, n_steps, drop):
    together = take(seed, client, n, size, first, n_steps, drop)
    assert len(together) == n_steps
    assert together == [take(seed, client, n, size, first + i, 1, drop)[0] for i in range(n_steps)]


@given(seeds, clients, st.integers(0, 100), sizes, st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_the_order_of_a_pass_does_not_depend_on_the_batch_size(seed, client, number, n, a, b):
    orders = []
    for size in (a, b):
        per_pass = steps_per_pass(n, size)
        orders.append(flat(take(seed, client, n, size, number * per_pass, per_pass)))
    assert orders[0] == orders[1]


def test_another_seed_client_or_pass_is_another_order():
    n = 40  # two equal orders by chance: 1 in 40!
    orders = {
        tuple(take(seed, client, n, n, number, 1)[0]) for seed in range(4) for client in range(4) for number in range(4)
    }
    assert len(orders) == 4**3


def test_batches_do_not_touch_and_do_not_read_the_global_generator():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = take(3, 1, 20, 4, 0, 9)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert take(3, 1, 20, 4, 0, 9) == first


def test_orders_are_uniform_over_clients():
    first = [take(0, client, 5, 1, 0, 1)[0][0] for client in range(2000)]
    # expected 400 each, standard deviation 18: five of them
    assert np.abs(np.bincount(first, minlength=5) - 400).max() < 90
