"""Device-to-device links, compute laws and mobility."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import (
    ClassesLaw,
    ComputeSettings,
    FixedLaw,
    NormalLaw,
    RateLink,
    UniformLaw,
    compute,
    hops,
    links,
    mobility,
    placement,
)


def rng(seed=0):
    return np.random.default_rng(seed)


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 5), st.integers(0, 5), st.booleans())
@settings(max_examples=50, deadline=None)
def test_drawn_links_are_symmetric_in_range_and_need_none_to_themselves(seed, n, low, more, integer):
    rates = links.drawn(n, low, low + more, rng(seed), integer)
    assert rates.shape == (n, n)
    np.testing.assert_array_equal(rates, rates.T)
    assert np.isinf(rates.diagonal()).all()
    others = rates[~np.eye(n, dtype=bool)]
    assert ((others >= low) & (others <= low + more)).all()
    if integer:
        np.testing.assert_array_equal(others, others.astype(int))


def test_integer_links_reach_both_ends_equally_often():
    others = links.drawn(80, 1, 5, rng())[np.triu_indices(80, 1)]
    np.testing.assert_allclose(np.bincount(others.astype(int))[1:] / len(others), 0.2, atol=0.03)


def test_given_is_a_copy_with_an_infinite_diagonal():
    matrix = np.array([[7.0, 2.0], [2.0, -1.0]])
    np.testing.assert_array_equal(links.given(matrix), [[np.inf, 2], [2, np.inf]])
    assert matrix[0, 0] == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: links.given([[0, 1, 2], [1, 0, 3]]), r"must be a square matrix, got shape \(2, 3\)"),
        (
            lambda: links.given([[0, 1], [2, 0]]),
            "must be symmetric, got 1 from 0 to 1 and 2 back; use the smaller",
        ),
        (lambda: links.given([[0, -1], [-1, 0]]), "between devices 0 and 1 must be at least 0, got -1"),
        (lambda: links.given([[0, np.nan], [1, 0]]), "between devices 0 and 1 must be at least 0, got nan"),
        (lambda: links.drawn(2, 5, 1, rng()), "low must be at most high, got low 5 and high 1"),
        (lambda: links.drawn(2, -1, 1, rng()), "low must be at least 0, got -1"),
        (
            lambda: links.drawn(2, 0.5, 1, rng()),
            "must be whole unless integer is false, got 0.5, 1",
        ),
        (lambda: links.drawn(0, 0, 1, rng()), "n must be a whole number of at least 1, got 0"),
        (lambda: compute.draw(FixedLaw(value=1), 0, rng()), "n must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_links_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_clipped_normal_of_csahfl():
    values = compute.draw(NormalLaw(mean=63, std=40, low=2, high=128), 200_000, rng())
    assert values.mean() == pytest.approx(63.23, abs=0.3)
    np.testing.assert_allclose(np.percentile(values, [25, 50, 75]), [36.02, 63, 89.98], atol=0.5)
    assert (values == 2).mean() == pytest.approx(0.0636, abs=0.003)
    assert (values == 128).mean() == pytest.approx(0.0521, abs=0.003)


def test_uniform_laws():
    whole = compute.draw(UniformLaw(low=1, high=3, integer=True), 3000, rng())
    np.testing.assert_allclose(np.bincount(whole.astype(int))[1:] / 3000, 1 / 3, atol=0.04)
    real = compute.draw(UniformLaw(low=1, high=3), 3000, rng())
    assert 1 <= real.min() < 1.05
    assert 2.95 < real.max() <= 3


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_equal_classes_differ_by_at_most_one_device(seed, n, n_classes):
    law = ClassesLaw(values=tuple(range(1, n_classes + 1)))
    counts = np.bincount(compute.draw(law, n, rng(seed)).astype(int), minlength=n_classes + 1)[1:]
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1
    assert (np.diff(counts) <= 0).all()  # a remainder goes to the first classes


def test_classes_by_share_are_exact_and_shuffled():
    law = ClassesLaw(values=(1, 2, 3), shares=(0.1, 0.2, 0.7))
    first, second = compute.draw(law, 30, rng(0)), compute.draw(law, 30, rng(1))
    for values in (first, second):
        assert np.bincount(values.astype(int))[1:].tolist() == [3, 6, 21]
    assert (first != second).any()


def test_the_largest_remainder_gets_the_last_device():
    law = ClassesLaw(values=(1, 2), shares=(0.45, 0.55))  # of 11: 4.95 and 6.05
    assert np.bincount(compute.draw(law, 11, rng()).astype(int))[1:].tolist() == [5, 6]


def test_spread_stays_within_its_percentage():
    values = compute.draw(ClassesLaw(values=(10,), spread=0.1), 2000, rng())
    assert 9 <= values.min() < 9.05
    assert 10.95 < values.max() <= 11


@pytest.mark.parametrize(
    ("settings", "value", "seconds"),
    [
        ({"unit": "seconds-per-step"}, 0.5, [0.5, 0.5, 0.5]),
        # 100 samples: 10 steps of 10; 25: 3 steps of 25/3; 4: one step of 4
        ({"unit": "seconds-per-sample"}, 0.5, [5.0, 25 / 6, 2.0]),
        ({"unit": "steps-per-second"}, 4.0, [0.25, 0.25, 0.25]),
        ({"unit": "seconds-per-session", "session_steps": 8}, 4.0, [0.5, 0.5, 0.5]),
        ({"unit": "seconds-per-session", "session_epochs": 2}, 60.0, [3.0, 10.0, 30.0]),
        ({"unit": "cycles-per-second", "cycles_per_sample": 1e5}, 1e9, [1e-3, 25e-4 / 3, 4e-4]),
    ],
)
def test_seconds_of_a_step_in_every_unit(settings, value, seconds):
    made = ComputeSettings(law=FixedLaw(value=value), **settings)
    out = compute.step_seconds(made, [value] * 3, 10, [100, 25, 4])
    np.testing.assert_allclose(out, seconds)


def test_an_epoch_of_cycles_has_the_times_of_camu():
    made = ComputeSettings(law=FixedLaw(value=1), unit="cycles-per-second", cycles_per_sample=1e5)
    samples = np.array([2000, 1500, 2500])
    step = compute.step_seconds(made, [1e9, 2e9, 0.8e9], 64, samples)
    np.testing.assert_allclose(step * np.ceil(samples / 64), [0.2, 0.075, 0.3125])


def test_a_device_without_data_has_one_empty_step():
    made = ComputeSettings(law=FixedLaw(value=1), unit="seconds-per-sample")
    assert compute.step_seconds(made, [1.0], 10, [0]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], 0, [1]), "batch_size must be a whole number of at least 1, got 0"),
        (([1.0], 1, [1, 2]), r"n_samples must have shape \(1\), got \(2,\)"),
        (([1.0], 1, [-1]), "n_samples must be at least 0, got -1"),
    ],
)
def test_bad_steps_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        compute.step_seconds(ComputeSettings(), *arguments)


def chain(kind, n=5, p_stay=0.5):
    return mobility.transition(mobility.neighbours(kind, n), p_stay)


def test_the_ring_of_csahfl():
    ring = chain("ring")
    cube = np.linalg.matrix_power(ring, 3)
    assert np.linalg.matrix_power(ring, 2)[0, 0] == pytest.approx(0.375)
    np.testing.assert_allclose(cube[0], [0.3125, 0.234375, 0.109375, 0.109375, 0.234375])
    assert 40 * cube[0, 0] == pytest.approx(12.5)
    np.testing.assert_allclose(np.full(5, 0.2) @ ring, 0.2)
    assert np.sort(np.linalg.eigvalsh(ring))[-2] == pytest.approx(0.6545085)


def test_the_path_and_the_complete_graph_of_csahfl():
    path = chain("path")
    stationary = np.array([0.125, 0.25, 0.25, 0.25, 0.125])
    np.testing.assert_allclose(stationary @ path, stationary)
    np.testing.assert_allclose(np.linalg.matrix_power(path, 3)[0], [0.3125, 0.46875, 0.1875, 0.03125, 0])
    assert np.linalg.matrix_power(chain("complete"), 3)[0, 0] == pytest.approx(0.2421875)


@given(st.sampled_from(["ring", "path", "complete", "adjacent"]), st.integers(1, 20), st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_rows_sum_to_one_and_neighbours_are_mutual(kind, n, p_stay):
    around = mobility.neighbours(kind, placement.cell_grid("hex", n, 300.0))
    np.testing.assert_array_equal(around, around.T)
    assert not around.diagonal().any()
    matrix = mobility.transition(around, p_stay)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(matrix.diagonal(), p_stay if n > 1 else 1.0)


def test_adjacent_cells_of_a_hexagonal_grid():
    around = mobility.neighbours("adjacent", placement.cell_grid("hex", 19, 500.0))
    assert around[0].sum() == 6
    assert around[1:7].sum(axis=1).tolist() == [6] * 6
    assert sorted(around[7:].sum(axis=1).tolist()) == [3] * 6 + [4] * 6


def test_two_cells_are_a_ring_with_one_neighbour_each():
    assert mobility.neighbours("ring", 2).tolist() == [[False, True], [True, False]]


def test_moves_follow_the_chain():
    home = mobility.move(np.zeros(20_000, dtype=int), chain("ring"), rng())
    np.testing.assert_allclose(np.bincount(home, minlength=5) / 20_000, [0.5, 0.25, 0, 0, 0.25], atol=0.015)


@given(st.integers(0, 2**32), st.integers(2, 6), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_moves_only_go_where_there_is_probability(seed, n, p_stay):
    matrix = chain("path", n, p_stay)
    home = rng(seed).integers(-1, n, 50)
    moved = mobility.move(home, matrix, rng(seed))
    at_home = home >= 0
    assert (matrix[home[at_home], moved[at_home]] > 0).all()
    assert (moved[~at_home] == -1).all()


def test_nobody_moves_if_all_stay_and_everybody_if_none_does():
    home = np.arange(5).repeat(10)
    np.testing.assert_array_equal(mobility.move(home, chain("ring", p_stay=1.0), rng()), home)
    assert (mobility.move(home, chain("ring", p_stay=0.0), rng()) != home).all()
    np.testing.assert_array_equal(home, np.arange(5).repeat(10))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mobility.neighbours("star", 3),
            "kind must be one of ring, path, complete, adjacent; got 'star'",
        ),
        (lambda: mobility.neighbours("ring", 0), "cells must be a whole number of at least 1, got 0"),
        (lambda: mobility.neighbours("adjacent", 3), "adjacent needs the centres"),
        (lambda: mobility.neighbours("adjacent", [[0, 0], [0, 0]]), "cells 0 and 1 have the same centre"),
        (lambda: mobility.transition(np.zeros((2, 3), bool), 0.5), r"must be square .*, got shape \(2, 3\)"),
        (lambda: mobility.transition(np.eye(2, dtype=bool), 0.5), "cell 0 must not be its own neighbour"),
        (lambda: chain("ring", p_stay=1.5), "p_stay must be between 0 and 1, got 1.5"),
        (lambda: chain("ring", p_stay=np.nan), "p_stay must be between 0 and 1, got nan"),
        (
            lambda: mobility.move(np.array([0, 7]), chain("ring"), rng()),
            r"device 1 has home 7, expected -1\.\.4",
        ),
        (lambda: mobility.move(np.array([0]), np.full((2, 2), 0.4), rng()), "rows that sum to 1"),
        (
            lambda: mobility.move(np.array([0]), np.array([[2.0, -1], [0, 1]]), rng()),
            "transition must be at least 0",
        ),
    ],
)
def test_bad_mobility_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_powers_of_devices_go_along_when_cells_are_picked():
    """Three devices of 1, 2 and 3 W towards two cells, of which the second is picked: 8 bits at 4 bit/s take 2 s."""
    link = hops.hop(RateLink(bit_s=4.0), np.ones((2, 3)), np.random.default_rng(0), np.array([1.0, 2.0, 3.0]))
    assert link.pick(np.array([1])).energy_j(8).tolist() == [[2.0, 4.0, 6.0]]
