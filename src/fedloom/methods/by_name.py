"""A method by its name, with options as text: "ltc:solution=1.2:z=inf" (fedloom.gate.options).

Every method also has the options of its coding: `up` and `down` name a codec, whose own options follow with the name of the
way in front, and `feedback` may be false: "hhfl:max_links=2:up=topk:up.share=0.01:down=qsgd:down.bits=8". And those of
fl.Waiting: "hhfl:quorum=0.5". `rule` names a client rule with state, whose options have the name in front as those of codecs
have: "hhfl:rule=ditto:rule.pull=0.5"; `merge_edge` and `merge_cloud` a robust rule in the place of the mean there:
"hhfl:merge_edge=trimmed_mean:merge_edge.share=0.2"; `private` who adds the noise that protects clients, client or edge:
"hhfl:private=edge:private.clip=1.0:private.noise=0.5"; `audit` how aggregators are checked:
"ltc:audit=recompute:audit.share=0.5". `by_steps` divides what clients changed by their steps: "csahfl:by_steps=true".
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from fedloom.coding import codec
from fedloom.gate import Refused, options, yaml_text
from fedloom.gate.words import shown
from fedloom.methods import METHODS, Method, Waiting
from fedloom.methods.method import CODING

WAITING = tuple(field.name for field in fields(Waiting))
NAMED = {
    "rule": ("client rule", "rule=ditto"),
    "merge_edge": ("merge", "merge_edge=trimmed_mean"),
    "merge_cloud": ("merge", "merge_cloud=trimmed_mean"),
    "private": ("level of privacy", "private=client"),
    "audit": ("audit", "audit=sketch"),
}  # parts that are given by name: what they are, and how one is written


def make_method(text: str) -> Method:
    """A method by name, with options after colons: "fedprox:mu=0.1:flat=true", "hhfl:up=qsgd:up.bits=4:quorum=0.5"."""
    name, *given = text.split(":") if len(text) <= options.MOST_CHARACTERS else (text,)
    coding = _those(given, lambda key: key in CODING or key.startswith(("up.", "down.")))
    waiting = _those(given, lambda key: key in WAITING)
    merging = _those(given, lambda key: key == "by_steps")
    named = _those(given, lambda key: key.partition(".")[0] in NAMED)
    own = [option for option in given if option not in (*coding, *waiting, *merging, *named)]
    method = options.make(":".join([name, *own]), METHODS, "method")
    if waiting:
        method = method.with_(waiting=options.make(":".join([name, *waiting]), {name: Waiting}, "method"))
    try:
        method = method.with_(**_coding(coding), **_by_name(named))
    except ValueError as error:
        raise Refused(f"method {name}: {error}") from None
    return options.make(":".join([name, *merging]), {name: _merging(method)}, "method") if merging else method


def _merging(method: Method) -> Callable[..., Method]:
    def changed(by_steps: bool = False) -> Method:
        return method.with_(by_steps=by_steps)

    return changed


def _those(given: Sequence[str], wanted: Callable[[str], bool]) -> list[str]:
    """The options whose key is wanted."""
    return [option for option in given if wanted(option.partition("=")[0])]


def _coding(given: Sequence[str]) -> dict[str, Any]:
    """What the options of a coding, each "up=topk", "up.share=0.01" or "feedback=false", come to."""
    values = _values(given, "up=topk:up.share=0.01 or feedback=false")
    found: dict[str, Any] = {way: codec(_text(way, values)) for way in ("up", "down") if way in values}
    if "feedback" in values:
        found["feedback"] = _switch(values.pop("feedback"))
    lost = [key for key in values if key not in found]
    if lost:
        way = lost[0].partition(".")[0]
        raise Refused(
            f"option {lost[0]} belongs to a codec that is not named; name it before: {way}=topk:{lost[0]}=..."
        )
    return found


def _by_name(given: Sequence[str]) -> dict[str, str]:
    """What the options of parts that are given by name, each "rule=ditto" or "rule.pull=0.5", come to: "ditto:pull=0.5"."""
    values = _values(given, "rule=ditto:rule.pull=0.5")
    found = {part: _text(part, values) for part in NAMED if part in values}
    lost = [key for key in values if key not in found]
    if lost:
        kind, example = NAMED[lost[0].partition(".")[0]]
        raise Refused(f"option {lost[0]} belongs to a {kind} that is not named; write {example} before")
    return found


def _values(given: Sequence[str], example: str) -> dict[str, str]:
    """Options, each "key=value", by key."""
    values: dict[str, str] = {}
    for option in given:
        key, equals, value = option.partition("=")
        if not equals or key in values:
            raise Refused(f"option {shown(option)} {'is given twice' if equals else f'has no value; write {example}'}")
        values[key] = value
    return values


def _text(part: str, values: dict[str, str]) -> str:
    """The name of a part with its options, which are taken out of the values: "topk:share=0.01"."""
    mine = [key for key in values if key.startswith(f"{part}.")]
    return ":".join([values[part], *(f"{key.removeprefix(f'{part}.')}={values.pop(key)}" for key in mine)])


def _switch(text: str) -> bool:
    value = yaml_text.read(text, f"the value of option feedback cannot be read: {shown(text)}")
    try:
        return bool(options.read(value, bool, text))
    except Refused as error:
        raise Refused(f"option feedback {error}") from None
