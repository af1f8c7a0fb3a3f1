"""Error feedback, differences, and how a method holds codecs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.coding import (
    CODECS,
    Coding,
    Float16,
    Float32,
    Masked,
    Sign,
    TopK,
    codec,
    difference,
    masked,
    restored,
    with_feedback,
)
from fedloom.gate import Refused

LOSSY = ["float16", "bfloat16", "qsgd:bits=8", "sign", "topk:share=0.1", "randomk:share=0.3"]


@settings(max_examples=10)
@pytest.mark.parametrize("text", LOSSY)
@given(seed=st.integers(0, 10**6))
def test_what_arrived_and_the_residual_add_up_to_what_was_to_be_sent(text, seed):
    rng, it = np.random.default_rng(seed), codec(text)
    wanted = arrived = np.zeros(50)
    residual = np.zeros(50, dtype=np.float32)
    for t in range(12):
        update = rng.normal(size=50).astype(np.float32)
        sent, residual = with_feedback(it, update, residual, seed + t)
        wanted, arrived = wanted + update, arrived + sent
    assert sent.dtype == residual.dtype == np.float32
    assert np.allclose(arrived + residual, wanted, atol=1e-4)
    assert text.startswith(("randomk", "topk")) or np.abs(residual).max() < 10


def test_it_is_the_published_loop():
    """Karimireddy et al.: p = d + e, s = C(p), e = p - s; here for the scaled sign, written out."""
    rng, residual, by_hand = np.random.default_rng(3), np.zeros(9, dtype=np.float32), np.zeros(9)
    for _ in range(20):
        update = rng.normal(size=9).astype(np.float32)
        sent, residual = with_feedback(Sign(), update, residual, 0)
        p = update + by_hand
        s = np.abs(p).sum() / 9 * np.where(p < 0, -1, 1)
        by_hand = p - s
        assert np.allclose(sent, s, atol=1e-5) and np.allclose(residual, by_hand, atol=1e-5)


def test_feedback_makes_descent_with_top_1_arrive_where_it_stops_without():
    """f(x) = |x_0| 9 + 4 |x_1|, steps of 0.01: top-1 of the gradient always takes the first value and never the second."""

    def lowest(feedback):
        x, residual = np.array([1.0, 1.0], dtype=np.float32), np.zeros(2, dtype=np.float32)
        for _ in range(2000):
            step = np.float32(-0.01) * np.sign(x) * np.array([9, 4], dtype=np.float32)
            sent, left = with_feedback(TopK(k=1), step, residual, 0)
            residual = left if feedback else residual
            x = x + sent
        return np.abs(x)

    assert lowest(feedback=False)[1] == 1.0 and lowest(feedback=True).max() < 0.2


def test_without_loss_nothing_is_left():
    update, residual = np.array([1e-8, 3], dtype=np.float32), np.zeros(2, dtype=np.float32)
    sent, left = with_feedback(Float32(), update, residual, 0)
    assert np.array_equal(sent, update) and not left.any()


def test_a_residual_of_another_shape_is_refused():
    with pytest.raises(Refused, match=r"a residual must have the shape of the difference, \(2,\), got \(3,\)"):
        with_feedback(Sign(), np.ones(2, dtype=np.float32), np.zeros(3, dtype=np.float32), 0)


def test_buffers_go_as_they_are_and_leave_no_residual():
    mask = np.array([True, False, True, False])
    start = np.array([1, 5, 2, 7], dtype=np.float32)
    trained = np.array([1.5, 5.3, 2.25, 7.1], dtype=np.float32)
    change = difference(trained, start, mask)
    sent, left = with_feedback(Masked(TopK(k=1), mask), change, np.zeros(4, dtype=np.float32), 0)
    assert restored(sent, start, mask).tolist() == np.array([1.5, 5.3, 2.0, 7.1], dtype=np.float32).tolist()
    assert left.tolist() == [0, 0, 0.25, 0]


def test_a_difference_of_what_is_all_trained():
    start, trained = np.array([1, 2], dtype=np.float32), np.array([1.5, 1], dtype=np.float32)
    assert difference(trained, start).tolist() == [0.5, -1]
    assert restored(difference(trained, start), start).tolist() == [1.5, 1]


def test_a_mask_of_everything_is_no_mask():
    assert masked(Sign(), None) == masked(Sign(), np.ones(4, np.bool_)) == Sign()
    assert isinstance(masked(Sign(), np.array([True, False])), Masked)


def test_a_coding_is_plain_unless_something_is_coded():
    assert Coding().plain and Coding().feedback
    assert not Coding(up=Sign()).plain and not Coding(down=Float16()).plain


def test_a_coding_takes_codecs_only():
    for wrong in ("sign", Sign, None):
        with pytest.raises(
            ValueError, match=r"up must be a codec, such as QSGD\(bits=4\) or codec\(\"qsgd:bits=4\"\), got"
        ):
            Coding(up=wrong)
    for sparse in (Sign(), TopK(k=1), codec("randomk:k=1")):
        with pytest.raises(ValueError, match=r"down must be a codec that keeps every value to some precision, .* got"):
            Coding(down=sparse)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("top", "unknown codec 'top'; did you mean topk? Known: float32, float16, bfloat16, qsgd, sign, topk, randomk"),
        ("", "unknown codec ''. Known: float32,"),
        ("topk", "codec topk: give either a share of the values or their number k, not both; got share=None, k=None"),
        ("topk:k=0", "codec topk:k=0: k must be a whole number of at least 1, got 0"),
        ("topk:k=1.5", "option k of codec topk must be a whole number or nothing (null), got '1.5'"),
        ("topk:share=nan", "option share of codec topk must be a number or nothing (null), got 'nan'"),
        ("topk:share=0.1:share=0.2", "option share of codec topk is given twice; leave one of them out"),
        ("qsgd:bits=17", "codec qsgd:bits=17: bits must be 1 to 16, got 17; for more use float32"),
        (
            "qsgd:bit=4",
            "option 'bit=4' of codec qsgd is not known; did you mean bits? Options with defaults: bits=4, bucket=512",
        ),
        ("qsgd:bucket=0", "codec qsgd:bucket=0: bucket must be a whole number of at least 1, got 0"),
        ("float16:bits=8", "option 'bits=8' of codec float16 is not known; options with defaults: none"),
        ("randomk:k=2:unbiased=1", "option unbiased of codec randomk must be true or false, got '1'"),
        ("s" * 10_001, "a codec with options has at most 10,000 characters, got 10,001: 'sss"),
    ],
)
def test_what_is_wrong_with_a_codec_is_said_in_one_line(text, message):
    with pytest.raises(Refused) as caught:
        codec(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_codecs_without_needed_options_are_known_by_name_alone():
    for name in set(CODECS) - {"topk", "randomk"}:
        assert codec(name) == CODECS[name]()
    assert codec("sign:bucket=null") == Sign() and codec("topk:share=1") == TopK(share=1.0)
