"""Uploads that take turns (FedUC) or share: hand counts, and laws of a band that is shared."""

import re
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.pacing import equal_shares, time_sharing

times = st.floats(0, 50)


def test_g8_uploads_in_the_order_of_computing():
    finish = time_sharing([4, 1, 6, 6.5], 1.5)
    assert sorted(finish) == [2.5, 5.5, 7.5, 9.0]
    assert finish.tolist() == [5.5, 2.5, 7.5, 9.0]
    # shares that grow: the third has 1.5 - 0.5 = 1 left when the fourth begins at 6.5, so 6.5 + 2 * 1, then 8.5 + (1.5 - 1)
    assert equal_shares([4, 1, 6, 6.5], 1.5).tolist() == [5.5, 2.5, 8.5, 9.0]
    assert 6.5 + 4 * 1.5 == 12.5  # a quarter of the band for each from the start, which leaves most of it idle


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(times, times), min_size=1, max_size=5))
def test_no_other_order_is_over_sooner(clients):
    best = np.inf
    for order in permutations(clients):
        free = 0.0
        for end, upload in order:
            free = max(free, end) + upload
        best = min(best, free)
    end, upload = np.array(clients).T
    finish = time_sharing(end, upload)
    assert finish.max() == pytest.approx(best, rel=1e-12)
    assert (finish >= end + upload - 1e-9).all()
    by_end = np.sort(finish)
    assert finish.max() == pytest.approx(equal_shares(end, upload).max(), rel=1e-9)  # neither leaves the band idle
    assert (np.diff(by_end) >= 0).all()


def test_shares_grow_as_others_are_over_by_hand():
    """Three begin at 0 with 1, 2 and 4 s: at 3 the first is over (1 each), at 5 the second (1 more each), then 2 s alone."""
    assert equal_shares([0, 0, 0], [4, 1, 2]).tolist() == [7.0, 3.0, 5.0]
    assert equal_shares([], []).tolist() == [] and equal_shares([2, 2], [0, 3]).tolist() == [2.0, 5.0]


def test_who_is_never_over_keeps_its_share():
    """Two that never end are joined at 3 by one of 1 s, which gets a third of the band."""
    assert equal_shares([1, 2, 3], [np.inf, np.inf, 1]).tolist() == [np.inf, np.inf, 3 + 3 * 1]


def shared_step_by_step(clients):
    """The same by single events: up to the next begin or end, everybody who is sending gets an equal part of the time."""
    left, finish = {k: upload for k, (_, upload) in enumerate(clients)}, {}
    t = min(end for end, _ in clients)
    while left:
        sending = [k for k in left if clients[k][0] <= t]
        begins = [clients[k][0] for k in left if clients[k][0] > t]
        if not sending:
            t = min(begins)
            continue
        least = min(sending, key=left.__getitem__)
        over = t + left[least] * len(sending)
        until = min([over, *begins])
        part = left[least] if until == over else (until - t) / len(sending)
        for k in sending:
            left[k] -= part
        if until == over:
            finish[least] = over
            del left[least]
        t = until
    return [finish[k] for k in range(len(clients))]


@settings(deadline=None)
@given(st.lists(st.tuples(st.one_of(st.integers(0, 6), times), times), min_size=1, max_size=12))
def test_shares_are_those_of_a_loop_over_events(clients):
    end, upload = np.array(clients, dtype=float).T
    assert equal_shares(end, upload) == pytest.approx(shared_step_by_step(clients), rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(times, times), min_size=1, max_size=10), st.sampled_from([equal_shares, time_sharing]))
def test_no_more_is_carried_in_any_time_than_the_band_can(clients, share):
    """What begins at s or later and is over by t are at most t - s seconds of the whole bandwidth."""
    end, upload = np.array(clients).T
    finish = share(end, upload)
    assert (finish >= end + upload - 1e-9).all()
    for s in end:
        for t in finish:
            assert upload[(end >= s) & (finish <= t)].sum() <= max(t - s, 0) + 1e-9 * (1 + t)


@given(st.lists(times, min_size=2, max_size=8), st.floats(0.1, 10))
def test_one_upload_at_a_time(end, upload):
    finish = np.sort(time_sharing(end, upload))
    assert (np.diff(finish) >= upload - 1e-9).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: time_sharing([1, 2], [1, 2, 3]), "one number or one for each of 2 clients, got shape (3,)"),
        (lambda: equal_shares([1, 2], [1, 2, 3]), "one number or one for each of 2 clients, got shape (3,)"),
        (lambda: time_sharing([1, 2], -1), "upload_s must be at least 0, got -1"),
        (lambda: time_sharing([1, np.inf], 1), "end_s must be finite, got inf at index [1]"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
