"""What releases cost together, and epsilon as the accountant has it."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from scipy.stats import norm

from fedloom.privacy.accounting import by_noisy_clients, by_noisy_merge, by_upload, epsilon


def test_epsilon_fulfils_the_definition_of_the_gaussian_mechanism():
    """delta = Phi(1 / 2z - eps z) - e^eps Phi(-1 / 2z - eps z) (Balle and Wang, 2018, theorem 8)."""
    for z in (0.5, 1.0, 3.0):
        (found,) = epsilon([by_upload(z)], 1e-5)
        delta = norm.cdf(1 / (2 * z) - found * z) - math.exp(found) * norm.cdf(-1 / (2 * z) - found * z)
        assert delta == pytest.approx(1e-5, rel=1e-6)


def test_many_releases_are_one_with_less_noise():
    """Against the accountant's own composition of ten releases of z = 4 and five of z = 2: 10 / 16 + 5 / 4 = 1.875."""
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(4.0), 10)
    accountant.compose(dp_accounting.GaussianDpEvent(2.0), 5)
    spent = 10 * by_upload(4.0) + 5 * by_upload(2.0)
    assert spent == 1.875
    assert epsilon([spent], 1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_epsilon_is_none_for_who_sent_nothing_and_grows_with_what_was_sent():
    found = epsilon([0.0, 0.1, 1.0, 0.1, np.inf], 1e-6)
    assert found[0] == 0 and found[1] == found[3] < found[2] < found[4] == np.inf


def test_others_hide_a_client_among_equals_but_not_one_that_counts_alone():
    assert by_noisy_clients(np.full(100, 0.01), 1.0) == pytest.approx(np.full(100, 0.01))
    assert by_noisy_clients(np.array([1.0, 0.0]), 2.0).tolist() == [0.25, 0.0]
    assert by_noisy_merge(np.full(100, 0.01), 1.0).tolist() == [1.0] * 100


def test_a_delta_that_is_none_is_refused():
    with pytest.raises(ValueError, match="delta must be between 0 and 1, got 2"):
        epsilon([1.0], 2)
