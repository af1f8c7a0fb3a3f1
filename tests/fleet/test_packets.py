"""Packets that are lost and sent again: exact distributions, lots of each message."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fedloom.fleet.packets import binomial, packets_of, transmissions

MANY = np.arange(20_000)


def test_packets_of_a_message():
    assert [packets_of(n, 1500) for n in (0, 1, 1500, 1501, 3000)] == [0, 1, 1, 2, 2]


def test_without_loss_every_packet_is_sent_once():
    on_air, lost = transmissions(1, "up", MANY, (3,), 7, 0.0, 8)
    assert (on_air == 7).all() and not lost.any()


def test_with_one_try_nothing_is_sent_again():
    on_air, lost = transmissions(1, "up", MANY, (3,), 2, 0.5, 1)
    assert (on_air == 2).all()
    assert abs(lost.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / len(MANY))  # 1 - (1 - 0.5)^2


def test_transmissions_have_their_mean_and_messages_are_lost_as_often_as_they_should():
    """Three packets, two tries, p = 0.2: 3 + 3 * 0.2 transmissions; a packet is lost with 0.04, the message with
    1 - 0.96^3 = 0.115."""
    on_air, lost = transmissions(1, "up", MANY, (0,), 3, 0.2, 2)
    assert abs(on_air.mean() - 3.6) < 4 * np.sqrt(3 * 0.2 * 0.8 / len(MANY))
    assert abs(lost.mean() - 0.115264) < 4 * np.sqrt(0.115 * 0.885 / len(MANY))


def test_repeated_until_they_are_there_nothing_is_lost():
    """The number of transmissions is negative binomial: n / (1 - p) on average."""
    on_air, lost = transmissions(1, "up", MANY, (0,), 5, 0.5, None)
    assert not lost.any()
    assert abs(on_air.mean() - 10) < 4 * np.sqrt(5 * 0.5 / 0.25 / len(MANY))


def test_lots_are_those_of_the_sender_and_the_occasion():
    alone, _ = transmissions(1, "up", np.array([7]), (3, 0), 100, 0.3, 8)
    among, _ = transmissions(1, "up", np.array([2, 7, 9]), (3, 0), 100, 0.3, 8)
    later, _ = transmissions(1, "up", np.arange(100), (4, 0), 100, 0.3, 8)
    down, _ = transmissions(1, "down", np.arange(100), (4, 0), 100, 0.3, 8)
    assert alone[0] == among[1] and (later != down).any()


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(0, 5000),
    p=st.floats(1e-6, 0.999),
    lots=st.lists(st.floats(1e-12, 1 - 1e-12), min_size=1, max_size=20),
)
def test_binomial_numbers_are_those_of_the_distribution(n, p, lots):
    u = np.array(lots)
    assert binomial(u, np.full(len(u), n), p).tolist() == binom.ppf(u, n, p).astype(int).tolist()
