"""Noise in a mean of models, and when it is remarked upon."""

import numpy as np
import pytest

from fedloom.mixing.noise import merged_noise_std, noise_note


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_a_mean_is_that_of_many_draws(seed):
    rng = np.random.default_rng(seed)
    std, weight = rng.uniform(0, 2, 5), rng.dirichlet(np.ones(5))
    drawn = (weight[:, None] * std[:, None] * rng.normal(size=(5, 200_000))).sum(axis=0)
    assert merged_noise_std(std, weight) == pytest.approx(drawn.std(), rel=0.01)


def test_who_does_not_count_is_not_heard():
    assert merged_noise_std([np.inf, 0.2], [0.0, 1.0]) == 0.2
    assert merged_noise_std([np.inf, 0.2], [0.5, 0.5]) == np.inf


@pytest.mark.parametrize(
    ("std", "heard"),
    [(0.0, False), (0.017, False), (0.044, False), (0.14, True), (np.inf, True)],  # accuracies 82, 82, 76, 25 %, none
)
def test_a_model_is_remarked_upon_when_noise_is_louder_than_it(std, heard):
    note = noise_note([std], [1.0], 0.048)
    assert (note is not None) == heard
    if note:
        assert "drowns the model" in note and "power_factor" in note and "\n" not in note


def test_wrong_shapes_and_numbers_are_refused():
    with pytest.raises(ValueError, match="weight must have shape"):
        merged_noise_std([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="noise_std must be at least 0, got nan"):
        noise_note([np.nan], [1.0], 1.0)
