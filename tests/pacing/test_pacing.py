"""How much work and how long to wait: a case by hand, invariants, fixed deadlines, time boxes."""

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedloom.pacing import Offer, fit_units, fixed_deadline, lockstep, median_iqr, rounds_in_box


def offer(unit_s, link_s=2.0, n_units=10, unit_steps=30):
    """Clients that differ in seconds per step; E_max = 10 epochs of 30 batches."""
    step_s = np.asarray(unit_s, dtype=float)
    m = len(step_s)
    return Offer(
        client=np.arange(m),
        full_steps=np.full(m, 1, dtype=np.int64) * n_units * unit_steps,
        unit_steps=np.full(m, 1, dtype=np.int64) * unit_steps,
        step_s=step_s,
        link_s=np.full(m, 1.0) * link_s,
    )


FIVE = [0.02, 0.1, 0.2, 0.3, 0.4]
SIX = [*FIVE, 4.0]


def epochs_and_finish(given_offer, pace):
    epochs = pace.steps / given_offer.unit_steps
    return epochs, pace.steps * given_offer.step_s + given_offer.link_s


def test_g3_full_times():
    np.testing.assert_allclose(offer(FIVE).full_s, [8, 32, 62, 92, 122], rtol=1e-15)
    np.testing.assert_allclose(offer(SIX).full_s[5], 1202, rtol=1e-15)


@pytest.mark.parametrize(
    ("unit_s", "alpha", "close_s", "epochs", "finish"),
    [
        (FIVE, 0, 62, [10, 10, 10, 6, 5], [8, 32, 62, 56, 62]),
        (FIVE, 0.5, 92, [10, 10, 10, 10, 7], [8, 32, 62, 92, 86]),
        (FIVE, 1.5, 152, [10] * 5, [8, 32, 62, 92, 122]),
        (SIX, 0.5, 114.5, [10, 10, 10, 10, 9, 1], [8, 32, 62, 92, 110, 122]),
    ],
    ids=["alpha 0", "alpha .5", "alpha 1.5", "a sixth client"],
)
def test_g3_of_csahfl(unit_s, alpha, close_s, epochs, finish):
    given_offer = offer(unit_s)
    pace = median_iqr(alpha)(given_offer)
    assert pace.close_s == pytest.approx(close_s, rel=1e-14)
    got_epochs, got_finish = epochs_and_finish(given_offer, pace)
    np.testing.assert_array_equal(got_epochs, epochs)
    np.testing.assert_allclose(got_finish, finish, rtol=1e-14)
    late = got_finish > pace.close_s * (1 + 1e-12)
    np.testing.assert_array_equal(late, [False] * 5 + [True] * (len(unit_s) - 5))  # the sixth client only


@st.composite
def offers(draw):
    m = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    unit_steps = rng.integers(1, 40, m)
    return Offer(
        client=np.arange(m),
        full_steps=draw(st.integers(1, 12)) * unit_steps,
        unit_steps=unit_steps,
        step_s=rng.uniform(0.01, 1, m) * rng.choice([1, 1, 1, 20], m),
        link_s=rng.uniform(0, 5, m),
    )


@given(offers(), st.floats(0, 3), st.floats(0, 3))
@settings(deadline=None)
def test_invariant_3_of_csahfl(given_offer, alpha, more):
    pace = median_iqr(alpha)(given_offer)
    most = given_offer.full_steps // given_offer.unit_steps
    epochs, finish_s = epochs_and_finish(given_offer, pace)
    assert pace.close_s >= np.median(given_offer.full_s) * (1 - 1e-12)
    assert median_iqr(alpha + more)(given_offer).close_s >= pace.close_s * (1 - 1e-12)
    assert (epochs == np.round(epochs)).all() and (epochs >= 1).all() and (epochs <= most).all()
    unit_s = given_offer.unit_steps * given_offer.step_s
    slack = 2e-9 * unit_s  # the guard for exact ties, in units
    fits = given_offer.full_s <= pace.close_s + slack
    clear = np.abs(given_offer.full_s - pace.close_s) > slack
    several = most > 1
    np.testing.assert_array_equal((epochs == most)[several & clear], fits[several & clear])
    assert (finish_s <= pace.close_s + slack)[epochs > 1].all()  # late only if clamped up to one epoch


@given(offers(), st.floats(0.1, 1e3))
@settings(deadline=None)
def test_fitted_work_matches_a_loop(given_offer, close_s):
    steps = fit_units(given_offer, close_s)
    for i in range(len(steps)):
        unit, full = int(given_offer.unit_steps[i]), int(given_offer.full_steps[i])
        e = 1
        while (e + 1) * unit <= full and given_offer.link_s[i] + (e + 1) * unit * given_offer.step_s[i] <= close_s:
            e += 1
        ratio = (close_s - given_offer.link_s[i]) / (unit * given_offer.step_s[i])
        assume(abs(ratio - round(ratio)) > 1e-8)  # ties are the case by hand's
        assert steps[i] == e * unit


def test_exact_ties_do_not_lose_a_unit():
    # three units of 3 steps of 0.1 s fill 0.9 s, but 0.9 / (3 * 0.1) is 2.9999999999999996 in floating point
    assert math.floor(0.9 / (3 * 0.1)) == 2
    assert fit_units(offer([0.1], link_s=0.0, unit_steps=3), 0.9)[0] == 9


def test_one_client_gets_all_the_work():
    pace = median_iqr(0.0)(offer([0.7]))
    np.testing.assert_array_equal(pace.steps, [300])
    assert pace.close_s == pytest.approx(212)


def test_computing_that_takes_no_time_gets_all_the_work_even_when_the_link_is_late():
    np.testing.assert_array_equal(fit_units(offer([0.0, 0.1], link_s=50.0), 40.0), [300, 30])


def test_work_in_single_steps():
    # unit 1: floor((5 - 2) / .4) = 7 of 10 steps
    np.testing.assert_array_equal(fit_units(offer([0.4], unit_steps=1), 5.0), [7])


def test_an_endless_deadline_is_lockstep():
    given_offer = offer(SIX)
    np.testing.assert_array_equal(fit_units(given_offer, math.inf), lockstep(given_offer).steps)
    assert lockstep(given_offer).close_s == math.inf and lockstep(given_offer).early_close
    np.testing.assert_array_equal(lockstep(given_offer).steps, given_offer.full_steps)


def test_less_work_than_a_unit_is_done_whole():
    short = Offer(
        client=np.array([0]), full_steps=np.array([3]), unit_steps=np.array([10]),
        step_s=np.array([1.0]), link_s=np.array([0.0]),
    )  # fmt: skip
    assert [int(fit_units(short, t)[0]) for t in (1.0, 50.0)] == [3, 3]


@pytest.mark.parametrize("early", [True, False])
def test_a_fixed_deadline_gives_everybody_the_full_work(early):
    given_offer = offer(SIX)
    pace = fixed_deadline(60.0, early_close=early)(given_offer)
    np.testing.assert_array_equal(pace.steps, given_offer.full_steps)
    assert pace.close_s == 60.0 and pace.early_close is early
    assert median_iqr(1.0, early_close=early)(given_offer).early_close is early


def test_pacing_does_not_change_its_input():
    given_offer = offer(SIX)
    before = {name: getattr(given_offer, name).copy() for name in ("full_steps", "unit_steps", "step_s", "link_s")}
    median_iqr()(given_offer)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(given_offer, name), value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: median_iqr(-0.1), "alpha must be at least 0, got -0.1"),
        (lambda: fixed_deadline(0), "deadline in seconds must be above 0, got 0"),
        (lambda: fixed_deadline(math.nan), "deadline in seconds must be above 0, got nan"),
        (lambda: rounds_in_box(0, 1), "box_s must be above 0, got 0"),
        (lambda: rounds_in_box(1, 0), "an edge round must take some time for a time box to end, got 0 s"),
        (lambda: rounds_in_box(1, math.nan), "an edge round must take some time for a time box to end, got nan s"),
    ],
)
def test_constants_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("round_s", "rounds"), [(15, 8), (8, 15), (18, 6), (math.inf, 0), (12, 10), (17, 7), (120, 1), (120.1, 0)]
)
def test_rounds_in_the_box_of_g1_of_ltc(round_s, rounds):
    got = rounds_in_box(120, round_s)
    assert got == rounds and isinstance(got, int)


@given(st.integers(1, 1000), st.integers(1, 200), st.sampled_from([0.1, 0.3, 0.7, 1.1]))
def test_rounds_that_fit_exactly_all_count(n, tenths, unit):
    round_s = tenths * unit
    assert rounds_in_box(n * round_s, round_s) == n
    assert rounds_in_box((n + 0.5) * round_s, round_s) == n
