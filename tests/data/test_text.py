"""Tokens, several labels and several inputs in a dataset; and the generated text."""

import numpy as np
import pytest

from fedloom import data
from fedloom.data import Dataset, TextSettings, written
from fedloom.data.text import ALPHABET

SMALL = TextSettings(n_authors=3, n_train=4, n_test=2, length=12, n_words=10)


def made(**changes):
    x, y = np.array([[0, 3], [2, 1]]), np.array([[3, -1], [1, 1]])
    return Dataset(**({"name": "mine", "x_train": x, "y_train": y, "x_test": x, "y_test": y} | changes))


def test_targets_are_the_characters_that_follow():
    text = written(SMALL)
    assert text.x_train.dtype == np.int32 and text.x_train.shape == (12, 12) and text.loss == "tokens"
    np.testing.assert_array_equal(text.x_train[:, 1:], text.y_train[:, :-1])
    np.testing.assert_array_equal(text.user, np.repeat([0, 1, 2], 4))
    np.testing.assert_array_equal(text.user_test, np.repeat([0, 1, 2], 2))
    again, other = written(SMALL), written(SMALL.model_copy(update={"seed": 1}))
    np.testing.assert_array_equal(text.x_train, again.x_train)
    assert (text.x_train != other.x_train).any()
    assert set(data.as_text(text.x_test.ravel())) <= set(ALPHABET)


def test_authors_differ_by_their_taste():
    """Shares of words: further apart between authors with taste than without."""

    def distance(taste):
        text = written(TextSettings(n_authors=2, n_train=200, length=40, n_words=30, taste=taste))
        words = [data.as_text(text.x_train[text.user == a].ravel()).replace(".", "").split() for a in (0, 1)]
        shares = [{w: mine.count(w) / len(mine) for w in set(mine)} for mine in words]
        return sum(abs(shares[0].get(w, 0) - shares[1].get(w, 0)) for w in {*shares[0], *shares[1]})

    assert distance(2.0) > 1.5 * distance(0.0)


def test_tokens_stay_whole_numbers():
    mine = made(n_classes=4, n_tokens=4)
    assert mine.inputs("train").dtype == np.int32 and mine.labels is None and mine.n_outputs == 4
    np.testing.assert_array_equal(mine.inputs("train", np.array([1])), [[2, 1]])
    with pytest.raises(ValueError, match="cannot be standardised"):
        mine.inputs(standardise=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_classes": 4, "n_tokens": 3}, r"x_train of mine must lie in 0\.\.2"),
        ({"n_classes": 4, "n_tokens": 4, "x_train": np.array([[0.5, 1.0]] * 2)}, "whole numbers, got float64"),
        ({"n_classes": 3, "n_tokens": 4}, r"y_train of mine must lie in -1\.\.2"),
        (
            {"n_classes": 4, "n_tokens": 4, "y_train": np.full((2, 2), -1)},
            "at least one token of each sample; sample 0",
        ),
        ({"n_classes": 3, "y_train": np.zeros((2, 2), bool)}, r"shape \(2, 3\), a truth value for each class"),
        (
            {"n_classes": 2, "y_train": np.ones((2, 2), bool), "y_test": np.ones((2, 2), int)},
            "of one kind, got float32",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        made(**changes)


def test_several_labels_and_several_inputs():
    kind = np.dtype([("image", "f4", (1, 2, 2)), ("words", "i4", (3,))])
    x, y = np.zeros(2, kind), np.array([[True, False, True], [False, False, True]])
    mine = made(x_train=x, x_test=x, y_train=y, y_test=y, n_classes=3)
    assert mine.loss == "multi-label" and mine.inputs().dtype == kind and mine.y_train.dtype == np.float32
    assert mine.limited(1).n_train == 1 and mine.limited(1).loss == "multi-label"
    wrong = x.astype([("image", "f8", (1, 2, 2)), ("words", "i4", (3,))])
    with pytest.raises(ValueError, match=r"x_train of mine\['image'\] must be float32"):
        made(x_train=wrong, x_test=wrong, y_train=y, y_test=y, n_classes=3)
