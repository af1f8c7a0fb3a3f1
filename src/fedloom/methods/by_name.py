"""A method by its name, with options as text: "ltc:solution=1.2:z=inf" (fedloom.gate.options).

Every method also has the options of its coding: `up` and `down` name a codec, whose own options follow with the name of the
way in front, and `feedback` may be false: "hhfl:max_links=2:up=topk:up.share=0.01:down=qsgd:down.bits=8".
"""

from collections.abc import Sequence
from typing import Any

from fedloom.coding import Codec, codec
from fedloom.gate import Refused, options, yaml_text
from fedloom.gate.words import shown
from fedloom.methods import METHODS, Method
from fedloom.methods.method import CODING


def make_method(text: str) -> Method:
    """A method by name, with options after colons: "fedprox:mu=0.1:flat=true", "hhfl:up=qsgd:up.bits=4"."""
    name, *given = text.split(":") if len(text) <= options.MOST_CHARACTERS else (text,)
    ours = [option for option in given if option.partition("=")[0] in CODING or option.startswith(("up.", "down."))]
    method = options.make(":".join([name, *(o for o in given if o not in ours)]), METHODS, "method")
    if not ours:
        return method
    try:
        return method.with_(**_coding(ours))
    except ValueError as error:
        raise Refused(f"method {name}: {error}") from None


def _coding(given: Sequence[str]) -> dict[str, Any]:
    """What the options of a coding, each "up=topk", "up.share=0.01" or "feedback=false", come to."""
    values: dict[str, str] = {}
    for option in given:
        key, equals, value = option.partition("=")
        if not equals or key in values:
            why = "is given twice" if equals else "has no value; write up=topk:up.share=0.01 or feedback=false"
            raise Refused(f"option {shown(option)} {why}")
        values[key] = value
    found: dict[str, Any] = {way: _codec(way, values) for way in ("up", "down") if way in values}
    if "feedback" in values:
        found["feedback"] = _switch(values.pop("feedback"))
    lost = [key for key in values if key not in found]
    if lost:
        way = lost[0].partition(".")[0]
        raise Refused(
            f"option {lost[0]} belongs to a codec that is not named; name it before: {way}=topk:{lost[0]}=..."
        )
    return found


def _codec(way: str, values: dict[str, str]) -> Codec:
    """The codec of a way, whose options are taken out of the values."""
    mine = [key for key in values if key.startswith(f"{way}.")]
    return codec(":".join([values[way], *(f"{key.removeprefix(f'{way}.')}={values.pop(key)}" for key in mine)]))


def _switch(text: str) -> bool:
    value = yaml_text.read(text, f"the value of option feedback cannot be read: {shown(text)}")
    try:
        return bool(options.read(value, bool, text))
    except Refused as error:
        raise Refused(f"option feedback {error}") from None
