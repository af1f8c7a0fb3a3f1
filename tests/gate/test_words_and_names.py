"""What a message shows of a value, and names that stay where they are put."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.gate import Refused, json_text, shown
from fedloom.gate.names import folder_name, name, name_of
from fedloom.gate.words import one_line


class Rude:
    def __repr__(self):
        raise RuntimeError("no")


def bomb(depth):
    value = ["x"] * 9
    for _ in range(depth):
        value = [value] * 9
    return value


ring: list = []
ring.append(ring)


@pytest.mark.parametrize(
    "value",
    [
        "a" * 10**6,
        "two\nlines",
        b"\x00" * 10**6,
        10**5000,
        list(range(10**5)),
        bomb(20),
        ring,
        {i: i for i in range(10**5)},
        Rude(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_shown_on_one_short_line_at_once(value):
    text = shown(value)
    assert text and "\n" not in text and len(text) <= 63


@given(st.text())
def test_text_of_others_is_one_line_that_can_be_printed(text):
    line = one_line(text, 50)
    assert len(line) <= 50 and line.isprintable()


@pytest.mark.parametrize(
    "text", ["", ".", "..", "../x", "/x", "a/b", "a\\b", "a\nb", "a b", ".hidden", "ü", "a\x00", "x" * 101, "a:b"]
)
def test_a_name_that_could_leave_its_folder_is_refused(text):
    with pytest.raises(Refused, match="must be letters, digits, dots, dashes and underscores"):
        name(text)


@given(st.text())
def test_a_name_made_of_any_text_is_a_name(text):
    assert name(name_of(text))


@given(st.text(), st.text())
def test_folders_stay_inside_and_differ_as_their_texts_do(one, other):
    for text in (one, other):
        folder = folder_name(text)
        assert 0 < len(folder) <= 100 and "/" not in folder and not folder.startswith(".") and folder.isprintable()
    if one.replace(":", "-") != other.replace(":", "-"):
        assert folder_name(one) != folder_name(other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "key 'a' is there twice"),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": -Infinity}', "-Infinity is no number of JSON"),
        ('{"a": 1e999}', "'1e999' is beyond the largest number"),
        ("[" * 10**5, "nested too deeply"),
        ("[" + "9" * 5000 + "]", "not valid JSON"),
        ('{"a": 1', "line 1, column 8: not valid JSON"),
        ("", "line 1, column 1: not valid JSON"),
    ],
)
def test_json_that_is_none_is_refused(text, message):
    with pytest.raises(Refused, match=message):
        json_text.read(text, "run.json")
