"""Things by their name, with options as text: the method "ltc:solution=1.2:z=inf", the codec "topk:share=0.01".

Values are strict YAML (fedloom.gate.yaml_text), checked against the annotations of what is called before it is called.
Infinity and nothing may be spelled as in Python too (inf, None); NaN is no value of any option. Where a list of tuples is wanted,
one of them may stand without its outer brackets: disable_links=[18,1] is disable_links=[[18,1]].
"""

import difflib
import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fedloom.gate import yaml_text
from fedloom.gate.words import Refused, one_line, shown

WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    types.NoneType: "nothing (null)",
}

INFINITY = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "infinity": math.inf, "-infinity": -math.inf}
MOST_CHARACTERS = 10_000  # of a name with its options

Made = TypeVar("Made")


def make(text: str, known: Mapping[str, Callable[..., Made]], kind: str) -> Made:
    """One of the `known` by name, with options after colons: "fedprox:mu=0.1:flat=true". kind: what they are, for messages."""
    if len(text) > MOST_CHARACTERS:
        raise Refused(
            f"a {kind} with options has at most {MOST_CHARACTERS:,} characters, got {len(text):,}: {shown(text)}"
        )
    name, *options = text.split(":")
    if name not in known:
        close = difflib.get_close_matches(name[:100], known, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise Refused(f"unknown {kind} {shown(name)}{hint} Known: {', '.join(known)}")
    values: dict[str, Any] = {}
    for option in options:
        key, value = _option(f"{kind} {name}", known[name], option)
        if key in values:
            raise Refused(f"option {key} of {kind} {name} is given twice; leave one of them out")
        values[key] = value
    missing = [
        key
        for key, p in inspect.signature(known[name]).parameters.items()
        if p.default is p.empty and key not in values
    ]
    if missing:
        raise Refused(f"{kind} {name} needs option {missing[0]}; write {name}:{missing[0]}=...")
    try:
        return known[name](**values)
    except (ValueError, OverflowError) as error:
        raise Refused(f"{kind} {one_line(text, 100)}: {one_line(str(error), 1000)}") from None


def _option(named: str, made_by: Callable[..., Any], option: str) -> tuple[str, Any]:
    """Name and value of an option given as "key=value"; named: what it is an option of, "method ltc"."""
    known = inspect.signature(made_by).parameters
    key, equals, text = option.partition("=")
    if not equals or key not in known:
        close = difflib.get_close_matches(key[:100], known, n=1) if key not in known else []
        hint = f"did you mean {close[0]}? Options" if close else "options"
        wanted = ", ".join(f"{p.name}={'...' if p.default is p.empty else p.default}" for p in known.values()) or "none"
        raise Refused(f"option {shown(option)} of {named} is not known; {hint} with defaults: {wanted}")
    annotation = get_type_hints(made_by)[key]
    value = yaml_text.read(text, f"the value of option {key} of {named} cannot be read: {shown(text)}")
    try:
        return key, read(value, annotation, text.strip())
    except Refused as error:
        raise Refused(f"option {key} of {named} {error}") from None


def read(value: Any, annotation: Any, text: str | None = None) -> Any:
    """A YAML value as the type that an annotation asks for, or Refused with a message that says "must be ..., got ...".

    annotation: int, float, bool, str, None, a tuple of them, a sequence of one of them, or a union. text: what the value was
    written as, which is what a word is taken from (2 may be one).

    >>> read("inf", float), read(2, float), read("None", int | None), read([18, 1], Sequence[tuple[int, int]])
    (inf, 2.0, None, [(18, 1)])
    """
    written = shown(value).strip("'") if text is None else text
    kinds = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    for kind in sorted(kinds, key=lambda kind: kind is str):  # what can be read as a number is no word
        found = _as(value, kind, written, as_it_is=len(kinds) > 1 and str in kinds)
        if found is not _UNFIT:
            if _has_nan(found):
                break
            return found
    raise Refused(f"must be {_described(kinds)}, got {shown(written)}")


_UNFIT = object()


def _as(value: Any, kind: Any, text: str, as_it_is: bool) -> Any:
    """The value as one kind, or _UNFIT. as_it_is: a number stays as it was written, 2 and not 2.0."""
    if kind is types.NoneType:
        return None if value is None or text in ("None", "none") else _UNFIT
    if kind is bool:
        return value if isinstance(value, bool) else _UNFIT
    if kind is str:
        return value if isinstance(value, str) else _UNFIT if isinstance(value, list | dict) or not text else text
    if kind in (int, float):
        return _number(value, kind, as_it_is)
    if get_origin(kind) is tuple:
        return _tuple(value, get_args(kind))
    if get_origin(kind) is Sequence:
        (item,) = get_args(kind)
        return _sequence(value, item)
    raise TypeError(f"options cannot be of type {kind}")


def _number(value: Any, kind: type, as_it_is: bool) -> Any:
    if kind is float and isinstance(value, str):
        value = INFINITY.get(value.lower())
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        return _UNFIT
    if kind is int or as_it_is:
        return value
    return float(value) if abs(value) <= 1e308 or isinstance(value, float) else _UNFIT


def _tuple(value: Any, kinds: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(kinds):
        return _UNFIT
    found = tuple(_as(v, kind, str(v), as_it_is=False) for v, kind in zip(value, kinds))
    return _UNFIT if any(v is _UNFIT for v in found) else found


def _sequence(value: Any, item: Any) -> Any:
    if not isinstance(value, list | tuple):
        return _UNFIT
    found = [_as(v, item, str(v), as_it_is=False) for v in value]
    if not any(v is _UNFIT for v in found):
        return found
    one = _as(value, item, "", as_it_is=False) if get_origin(item) is tuple else _UNFIT
    return _UNFIT if one is _UNFIT else [one]


def _has_nan(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_nan, value))
    return isinstance(value, float) and math.isnan(value)


def _described(kinds: Sequence[Any]) -> str:
    return " or ".join(_word(kind) for kind in kinds)


def _word(kind: Any) -> str:
    if kind in WORDS:
        return WORDS[kind]
    inside = get_args(kind)
    if get_origin(kind) is tuple:
        return f"[{', '.join(map(_word, inside))}]"
    return f"a list of {_word(inside[0])}"
