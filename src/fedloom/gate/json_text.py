"""Strict JSON: no key twice, no NaN or Infinity, bounded size and nesting."""

import json
from typing import Any

from fedloom.gate.words import Refused, one_line, shown


def read(text: str, where: str) -> Any:
    """The value that a JSON text stands for; `where` is its name in messages. Numbers are finite.

    >>> read('{"rounds": 3}', "run.json")
    {'rounds': 3}
    >>> read('{"rounds": 3, "rounds": 4}', "run.json")
    Traceback (most recent call last):
    fedloom.gate.words.Refused: run.json: key 'rounds' is there twice; leave one out
    """

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise Refused(f"{where}: key {shown(key)} is there twice; leave one out")
            found[key] = value
        return found

    def constant(word: str) -> Any:
        raise Refused(f"{where}: {word} is no number of JSON; numbers must be finite")

    def number(word: str) -> float:
        value = float(word)
        if abs(value) == float("inf"):
            raise Refused(f"{where}: {shown(word)} is beyond the largest number, 1.8e+308")
        return value

    try:
        return json.loads(text, object_pairs_hook=mapping, parse_constant=constant, parse_float=number)
    except json.JSONDecodeError as error:
        raise Refused(
            f"{where}, line {error.lineno}, column {error.colno}: not valid JSON: {one_line(error.msg)}"
        ) from None
    except RecursionError:
        raise Refused(f"{where}: not valid JSON: nested too deeply") from None
    except Refused:
        raise
    except ValueError as error:  # a whole number of thousands of digits
        raise Refused(f"{where}: not valid JSON: {one_line(str(error))}") from None
