"""Strict YAML: keys and values, lists, words, numbers, true, false and null, and nothing that can be read in two ways.

Numbers are those of JSON and YAML 1.2 (10, -0.5, 1e-4, .inf). What YAML 1.1 and 1.2 read differently is refused: 010 (8 or 10),
1:30 (90 or a word), 1_000, 0x1F. So are keys that are there twice, anchors, aliases and merge keys (a few hundred bytes of
them can stand for gigabytes), tags, a second document, and more than MOST_BYTES, MOST_DEPTH or MOST_KEYS. Every message has line
and column, and what to write instead. yes, no, on and off are words, as in YAML 1.2.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import yaml

from fedloom.gate.words import Refused, one_line, shown

MOST_BYTES = 1_000_000
MOST_DEPTH = 32
MOST_KEYS = 1000  # of one mapping
MOST_DIGITS = 30  # of a whole number

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS: dict[str, Any] = {"": None, "~": None}
_CONSTANTS |= dict.fromkeys(("null", "Null", "NULL"))
_CONSTANTS |= dict.fromkeys(("true", "True", "TRUE"), True)
_CONSTANTS |= dict.fromkeys(("false", "False", "FALSE"), False)
_CONSTANTS |= {sign + dot: float(sign + "inf") for sign in ("", "+", "-") for dot in (".inf", ".Inf", ".INF")}
_CONSTANTS |= {spelled: float("nan") for spelled in (".nan", ".NaN", ".NAN")}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TWO_WAYS = (  # what it looks like, and what to write
    (re.compile(r"[-+]?0[0-9_]+(\.[0-9_]*)?([eE][-+]?[0-9]+)?"), "write it without the 0 in front"),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-9][0-9_]*)+(\.[0-9_]*)?"),
        "write a number in one unit (90 for 1:30), or put a word in quotes",
    ),
    (re.compile(r"[-+]?[0-9.][0-9_.]*_[0-9_.]*([eE][-+]?[0-9]+)?"), "write it without _"),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F_]+|[-+]?0[oO][0-7_]+|[-+]?0[bB][01_]+"), "write it in decimal digits"),
)


def read(text: str, where: str) -> Any:
    """The value that a YAML text stands for; `where` is its name in messages, such as the path of the file.

    >>> read("fleet: {n_devices: 3, speeds: [1e-4, 2]}", "mine.yaml")
    {'fleet': {'n_devices': 3, 'speeds': [0.0001, 2]}}
    >>> read("lr: 010", "mine.yaml")
    Traceback (most recent call last):
    fedloom.gate.words.Refused: mine.yaml, line 1, column 5: '010' can be read in two ways; write it without the 0 in front
    """
    return _Reader(text, where).value()


def places(text: str, paths: Sequence[Sequence[str]]) -> list[tuple[int, int] | None]:
    """Line and column, from 1, of what is at each path of keys and list indices: of the key itself in a mapping, of the item in
    a list; where there is nothing at a path, of the nearest above it. One pass for all of them. The text is one that can be read.

    >>> places("fleet:\\n  n_devices: 3\\n  centre: [1, x]", [["fleet", "centre", "1"], ["fleet", "homes"]])
    [(3, 15), (1, 1)]
    """
    reader = _Reader(text, "")
    reader.sought = {}
    for path in paths:
        for n in range(len(path) + 1):
            reader.sought[tuple(path[:n])] = None
    reader.value()
    best: list[tuple[int, int] | None] = []
    for path in paths:
        found = [reader.sought[tuple(path[:n])] for n in range(len(path), -1, -1)]
        best.append(next((place for place in found if place is not None), None))
    return best


class _Reader:
    """Goes through the events of the parser once; nesting is bounded, so it may call itself."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.sought: dict[tuple[str, ...], tuple[int, int] | None] | None = None  # the places of these paths, once seen

    def value(self) -> Any:
        n_bytes = len(self.text.encode("utf-8", errors="replace"))
        if n_bytes > MOST_BYTES:
            raise Refused(
                f"{self.where} has {n_bytes:,} bytes; at most {MOST_BYTES:,} are read: put large tables into a CSV file"
            )
        try:
            return self._document(yaml.parse(self.text, Loader=_LOADER))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
            raise Refused(f"{self.where}{at}: not valid YAML: {one_line(error.problem or str(error))}") from None
        except (yaml.YAMLError, UnicodeError) as error:
            raise Refused(f"{self.where}: not valid YAML: {one_line(str(error))}") from None

    def _document(self, events: Iterator[Any]) -> Any:
        result, n_documents = None, 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                n_documents += 1
                if n_documents > 1:
                    self._refuse(event, "a second document begins here; write one document, without ---")
                result = self._node(events, next(events), (), 0)
        return result

    def _node(self, events: Iterator[Any], event: Any, path: tuple[str, ...], depth: int) -> Any:
        self._see(event, path)
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, f"aliases such as *{_short(event.anchor)} are not read; write the value itself")
        if event.anchor is not None:
            self._refuse(
                event, f"anchors such as &{_short(event.anchor)} are not read; write the value where it is needed"
            )
        if event.tag is not None:
            self._refuse(event, f"tags such as {_short(event.tag)} are not read; leave it out")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if depth == MOST_DEPTH:
            self._refuse(event, f"more than {MOST_DEPTH} levels of nesting; no setting is so deep")
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                below = path if self.sought is None else (*path, str(len(items)))
                items.append(self._node(events, event, below, depth + 1))
            return items
        return self._mapping(events, path, depth)

    def _mapping(self, events: Iterator[Any], path: tuple[str, ...], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        marks: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
                self._refuse(event, "a key must be a plain word")
            key = event.value
            if key == "<<" and event.implicit[0]:
                self._refuse(event, "merge keys (<<) are not read; write the keys themselves")
            if key in marks:
                self._refuse(event, f"key {_short(key)} is there already, in line {marks[key].line + 1}; leave one out")
            if len(marks) == MOST_KEYS:
                self._refuse(event, f"more than {MOST_KEYS:,} keys in one place; no setting has so many")
            marks[key] = event.start_mark
            below = path if self.sought is None else (*path, key)
            self._see(event, below)
            found[key] = self._node(events, next(events), below, depth + 1)
        return found

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if not event.implicit[0]:  # quoted, or a block of text
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _WHOLE.fullmatch(text):
            if len(text) > MOST_DIGITS:
                self._refuse(event, f"a whole number of {len(text):,} digits; write it as 1.5e+30")
            return int(text)
        if _NUMBER.fullmatch(text):
            number = float(text)
            if abs(number) == float("inf"):
                self._refuse(
                    event, f"{shown(text)} is beyond the largest number, 1.8e+308; write .inf if infinity is meant"
                )
            return number
        for pattern, instead in _TWO_WAYS:
            if pattern.fullmatch(text):
                self._refuse(event, f"{shown(text)} can be read in two ways; {instead}")
        return text

    def _see(self, event: Any, path: tuple[str, ...]) -> None:
        if self.sought is not None and path in self.sought and self.sought[path] is None:
            self.sought[path] = (event.start_mark.line + 1, event.start_mark.column + 1)

    def _refuse(self, event: Any, what: str) -> NoReturn:
        mark = event.start_mark
        raise Refused(f"{self.where}, line {mark.line + 1}, column {mark.column + 1}: {what}")


def _short(word: str | None) -> str:
    return one_line(word or "", 40)
