"""Strict YAML: what can be read in two ways, or can explode, is refused with line, column and what to write."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.gate import Refused, yaml_text

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij")
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 1\nlr: 2", "line 2, column 1: key lr is there already, in line 1; leave one out"),
        ("a: {b: 1, b: 2}", "line 1, column 11: key b is there already"),
        ("n: 010", "line 1, column 4: '010' can be read in two ways; write it without the 0 in front"),
        ("n: -007.5", "'-007.5' can be read in two ways"),
        ("n:\n  - 1:30", "line 2, column 5: '1:30' can be read in two ways; write a number in one unit"),
        ("n: 1_000", "write it without _"),
        ("n: 0x1F", "write it in decimal digits"),
        ("n: 0o17", "write it in decimal digits"),
        ("n: 0b11", "write it in decimal digits"),
        ("n: 1e999", "'1e999' is beyond the largest number, 1.8e+308; write .inf if infinity is meant"),
        ("n: " + "9" * 31, "a whole number of 31 digits; write it as 1.5e+30"),
        ("a: &x 1", "line 1, column 4: anchors such as &x are not read; write the value where it is needed"),
        ("a: *x", "aliases such as *x are not read; write the value itself"),
        ("<<: {a: 1}", "line 1, column 1: merge keys (<<) are not read; write the keys themselves"),
        ("a: !!python/object:os.system x", "tags such as tag:yaml.org,2002:python/object:os.sy... are not"),
        ("a: !!int '3'", "tags such as tag:yaml.org,2002:int are not read; leave it out"),
        ("? [a]\n: 1", "a key must be a plain word"),
        ("--- a\n--- b", "line 2, column 1: a second document begins here"),
        ("[" * 33 + "]" * 33, "line 1, column 33: more than 32 levels of nesting"),
        ("".join(f"k{i}: 1\n" for i in range(1001)), "line 1001, column 1: more than 1,000 keys in one place"),
        ("x" * 1_000_001, "text has 1,000,001 bytes; at most 1,000,000 are read"),
        ("a: [1, 2", "not valid YAML: did not find expected ',' or ']'"),
        ("a: b: c", "line 1, column 5: not valid YAML: mapping values are not allowed"),
        ("a: \x01", "not valid YAML"),
        ("a: \udcff", "not valid YAML"),
        (BOMB, "anchors such as &a are not read"),
    ],
)
def test_what_is_refused_says_where_and_what_to_write(text, message):
    with pytest.raises(Refused) as caught:
        yaml_text.read(text, "text")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_four_hundred_bytes_take_a_few_megabytes_at_most():
    assert len(BOMB) < 450
    tracemalloc.start()
    try:
        for text in (BOMB, "[" * 400, "{a: " * 100, "- " * 200, "? " * 200):
            with pytest.raises(Refused):
                yaml_text.read(text, "text")
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("[null, true, False]", [None, True, False]),
        ("[1, -2, +3, 0]", [1, -2, 3, 0]),
        ("[1.5, .5, 1., 1e7, 1E-4, 1.0e+7]", [1.5, 0.5, 1.0, 1e7, 1e-4, 1e7]),
        ("[.inf, -.inf]", [float("inf"), -float("inf")]),
        ("[yes, no, on, off, y, 2024-01-01, 12:x, =]", ["yes", "no", "on", "off", "y", "2024-01-01", "12:x", "="]),
        ("['010', \"1:30\", '<<', 'true']", ["010", "1:30", "<<", "true"]),
        ("'<<': 1", {"<<": 1}),
        ("1: a\ntrue: b", {"1": "a", "true": "b"}),
        ("{a: {b: [1, {c: d}]}}", {"a": {"b": [1, {"c": "d"}]}}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
    ],
)
def test_values_are_those_of_yaml_1_2(text, value):
    found = yaml_text.read(text, "text")
    assert found == value and repr(found) == repr(value)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**28), 10**28) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_what_is_written_with_quotes_comes_back(value):
    assert yaml_text.read(_written(value), "text") == value


def _written(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"? {_written(k)} : {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, str):
        escaped = "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08x}" for c in value)
        return f'"{escaped}"'
    if isinstance(value, float):
        return {"inf": ".inf", "-inf": "-.inf"}.get(repr(value), repr(value))
    return (
        {None: "null", True: "true", False: "false"}.get(value)
        if value is None or value is True or value is False
        else str(value)
    )


def test_places_are_found_in_one_pass():
    text = "fleet:\n  n: 3\n  cells: {kind: grid, r: [1, x]}\n"
    paths = [["fleet", "n"], ["fleet", "cells", "r", "1"], ["fleet", "cells", "gone"], ["gone"]]
    assert yaml_text.places(text, paths) == [(2, 3), (3, 30), (3, 3), (1, 1)]
