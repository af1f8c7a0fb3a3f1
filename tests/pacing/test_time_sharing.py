"""Uploads that take turns (FedUC): golden case G8 of CSAHFL."""

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
    assert equal_shares([4, 1, 6, 6.5], 1.5).max() == 12.5


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
    assert finish.max() <= equal_shares(end, upload.max()).max() + 1e-9
    assert (np.diff(by_end) >= 0).all()


@given(st.lists(times, min_size=2, max_size=8), st.floats(0.1, 10))
def test_one_upload_at_a_time(end, upload):
    finish = np.sort(time_sharing(end, upload))
    assert (np.diff(finish) >= upload - 1e-9).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: time_sharing([1, 2], [1, 2, 3]), "one number or one for each of 2 clients, got shape (3,)"),
        (lambda: time_sharing([1, 2], -1), "upload_s must be at least 0, got -1"),
        (lambda: time_sharing([1, np.inf], 1), "end_s must be finite, got inf at index [1]"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
