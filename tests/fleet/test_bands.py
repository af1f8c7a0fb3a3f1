"""Bands that messages share: cases by hand for each way of sharing, references step by step, and laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import Sharing
from fedloom.fleet.bands import band, finish_s
from fedloom.pacing import equal_shares, time_sharing

TIME, EQUAL = Sharing(sharing="time"), Sharing(sharing="equal")
TURNS = Sharing(sharing="blocks", blocks=2, slot_s=1.0)
FAIR = Sharing(sharing="blocks", blocks=2, slot_s=1.0, scheduler="proportional-fair", window=2.0)
ALL = [TIME, EQUAL, TURNS, FAIR]

seconds = st.one_of(st.integers(0, 8).map(float), st.floats(0.0, 20.0))
messages = st.lists(st.tuples(seconds, st.floats(0.01, 6.0)), min_size=1, max_size=8)


def test_one_after_the_other_by_hand():
    """Ready at 4, 1, 6 and 6.5, 1.5 s each: 1 to 2.5, 4 to 5.5, 6 to 7.5, and the last waits: 7.5 to 9."""
    assert finish_s(TIME, [4, 1, 6, 6.5], [1.5] * 4) == [5.5, 2.5, 7.5, 9.0]
    assert finish_s(TIME, [3, 3, 3], [1, 2, 4]) == [4, 6, 10]  # ties to the lower index


def test_equal_parts_by_hand():
    """Three begin at 0 with 4, 1 and 2 s. A third each: the second is over at 3; halves: at 5 the third; then 2 s alone."""
    assert finish_s(EQUAL, [0, 0, 0], [4, 1, 2]) == [7, 3, 5]
    # at 6.5 the third has 1 s left and the fourth 1.5: halves until 8.5, then 0.5 alone
    assert finish_s(EQUAL, [4, 1, 6, 6.5], [1.5] * 4) == [5.5, 2.5, 8.5, 9.0]


def test_blocks_in_turn_by_hand():
    """Two blocks a second. a needs 3 blocks, b 2, c 1 and is ready at 0.5, so from slot 1 on.

    slot 0: a b        left a 2, b 1
    slot 1: a b        b is over at 2; left a 1, c 1, and c is next
    slot 2: c a        both are over at 3
    """
    assert finish_s(TURNS, [0, 0, 0.5], [1.5, 1.0, 0.5]) == [3, 2, 3]


def test_blocks_to_whom_least_was_given_by_hand():
    """As above; averages halve in every slot (window 2), and a block of two adds 1/4.

    slot 0: a, b at 0, 0: a (tie), then b          left a 2, b 1; a 1/4, b 1/4
    slot 1: a 1/8, b 1/8, c 0: c, which is over at 2, then a (tie)      left a 1, b 1; a 3/8, b 1/8
    slot 2: a 3/16, b 1/16: b, then a              both are over at 3
    """
    assert finish_s(FAIR, [0, 0, 0.5], [1.5, 1.0, 0.5]) == [3, 3, 2]


def test_who_comes_new_catches_up_if_rates_count_against_their_averages():
    """a has had the whole band for 5 s when b comes with 2 s: in turn they share, fairly b goes first."""
    turns = Sharing(sharing="blocks", blocks=10, slot_s=0.1)
    fair = Sharing(sharing="blocks", blocks=10, slot_s=0.1, scheduler="proportional-fair", window=1e6)
    assert finish_s(turns, [0, 5], [10, 2]) == pytest.approx([12, 9])
    assert finish_s(fair, [0, 5], [10, 2]) == pytest.approx([12, 7])


def test_a_message_takes_whole_blocks_and_is_over_with_its_slot():
    assert finish_s(TURNS, [0.0], [0.3]) == [1.0]  # one block of the first slot
    assert finish_s(TURNS, [0.1], [1.1]) == [3.0]  # from slot 1 on, three blocks: two slots
    assert finish_s(FAIR, [0.1], [1.1]) == [3.0]


@pytest.mark.parametrize("sharing", ALL)
def test_nothing_to_send_is_sent_at_once_or_with_the_next_slot(sharing):
    assert finish_s(sharing, [2.0], [0.0]) == [2.0]
    assert finish_s(sharing, [], []) == []


def test_an_empty_band_expects_nothing():
    for sharing in ALL:
        assert band(sharing).next_s == math.inf


def test_a_band_of_ones_own_is_not_shared():
    with pytest.raises(ValueError, match="sharing must be time, equal or blocks for a band of several, got own"):
        band(Sharing())


@settings(deadline=None, max_examples=50)
@given(messages)
def test_events_give_what_the_closed_forms_give(found):
    ready, alone = np.array(found).T
    assert finish_s(TIME, ready, alone) == pytest.approx(time_sharing(ready, alone), rel=1e-12)
    assert finish_s(EQUAL, ready, alone) == pytest.approx(equal_shares(ready, alone), rel=1e-9)


def slot_by_slot(found, sharing):
    """A loop over slots and blocks, as the scheduler is described."""
    slot_s, n_blocks = sharing.slot_s, sharing.blocks
    need = [math.ceil(alone / slot_s * n_blocks - 1e-9) for _, alone in found]
    waiting = sorted(range(len(found)), key=lambda j: (found[j][0], j))
    here, average, finish, slot = [], {}, {}, 0
    while len(finish) < len(found):
        while waiting and found[waiting[0]][0] <= slot * slot_s + 1e-9:
            here.append(waiting.pop(0))
            average[here[-1]] = 0.0
        joined = sorted(here, key=list(average).index)
        if sharing.scheduler == "proportional-fair":
            here = joined
            for j in here:
                average[j] *= 1 - 1 / sharing.window
        for _ in range(n_blocks):
            if not here:
                break
            j = here[0] if sharing.scheduler == "round-robin" else min(here, key=lambda j: average[j])
            need[j] -= 1
            if sharing.scheduler == "proportional-fair":
                average[j] += 1 / sharing.window / n_blocks
            else:
                here.append(here.pop(0))
            if need[j] == 0:
                here.remove(j)
                finish[j] = (slot + 1) * slot_s
        slot += 1
    return [finish[j] for j in range(len(found))]


@settings(deadline=None, max_examples=50)
@given(messages, st.integers(1, 5), st.sampled_from(["round-robin", "proportional-fair"]))
def test_blocks_are_dealt_as_by_a_loop_over_slots(found, n_blocks, scheduler):
    sharing = Sharing(
        sharing="blocks",
        blocks=n_blocks,
        slot_s=0.5,
        scheduler=scheduler,
        window=100.0 if scheduler == "round-robin" else 8.0,
    )
    assert finish_s(sharing, *zip(*found)) == pytest.approx(slot_by_slot(found, sharing), rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(messages, st.sampled_from(ALL))
def test_a_band_never_carries_more_than_it_can(found, sharing):
    """Of what is ready at s or later and over by t, no more than t - s seconds of the whole band; nothing faster than alone."""
    ready, alone = np.array(found).T
    finish = np.array(finish_s(sharing, ready, alone))
    assert (finish >= ready + alone - 1e-9).all()
    for s in ready:
        for t in finish:
            carried = alone[(ready >= s) & (finish <= t)].sum()
            assert carried <= max(t - s, 0.0) + 1e-9 * (1 + t)


@settings(deadline=None, max_examples=50)
@given(messages, st.sampled_from(ALL))
def test_a_band_is_not_idle_while_there_is_something_to_send(found, sharing):
    """The last message is over when all of a busy time has been sent: slots begin a slot later at most, blocks are whole."""
    ready, alone = np.array(found).T
    slack = 0.0
    if sharing.sharing == "blocks":
        alone = np.ceil(alone * 2 - 1e-9) / 2  # whole blocks
        ready = np.ceil(ready - 1e-9)  # whole slots
        slack = 1.0  # and whoever is last may leave a block of its slot empty
    end = time_sharing(ready, alone).max()
    assert end - 1e-9 <= max(finish_s(sharing, ready, alone)) <= end + slack + 1e-9 * (1 + end)


@settings(deadline=None, max_examples=50)
@given(messages, st.randoms(use_true_random=False))
def test_the_order_in_which_messages_are_named_does_not_matter(found, random):
    shuffled = list(enumerate(found))
    random.shuffle(shuffled)
    for sharing in (EQUAL, TIME) if len({ready for ready, _ in found}) == len(found) else (EQUAL,):
        finish = finish_s(sharing, *zip(*found))
        again = finish_s(sharing, *zip(*(one for _, one in shuffled)))
        assert again == pytest.approx([finish[j] for j, _ in shuffled], rel=1e-9)


@given(st.floats(0, 100), st.floats(0.001, 10), st.integers(1, 30))
def test_equal_messages_that_begin_together_end_together_in_equal_parts(ready, alone, n):
    finish = finish_s(EQUAL, [ready] * n, [alone] * n)
    assert len(set(finish)) == 1 and finish[0] == pytest.approx(ready + n * alone, rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(messages)
def test_many_small_blocks_in_turn_are_equal_parts(found):
    """The fluid limit: a block of 1e-5 s is at most one more for each, and slots are 1 ms."""
    fine = Sharing(sharing="blocks", blocks=100, slot_s=1e-3)
    assert finish_s(fine, *zip(*found)) == pytest.approx(finish_s(EQUAL, *zip(*found)), abs=0.003 * len(found))
