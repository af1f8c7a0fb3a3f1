"""How claims of outcomes, as they are on disk, are counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedloom.numbers import NUMBERS
from fedloom.reproduce.verdicts import BUILT, OTHER_SCALE

REPEATED, OWN = "repeats", "own"  # why a claim is not counted, beside BUILT, OTHER_SCALE and FEW


def tally(claims: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """How many claims hold, do not, are undecided, and are not counted, and why.

    >>> claim = {"text": "", "verdict": {"state": "holds"}}
    >>> sorted(tally([claim, claim | {"repeats": "Fig. 4"}, claim | {"own": True}]).items())
    [('holds', 1), ('own', 1), ('repeats', 1)]
    """
    return Counter(counted_as(claim) for claim in claims)


def counted_as(claim: Mapping[str, Any]) -> str:
    """The state of a claim that counts, or why it does not."""
    state: str = claim["verdict"]["state"]
    if claim.get("repeats"):
        return REPEATED
    if state in (BUILT, OTHER_SCALE):
        return state
    return OWN if claim.get("own") else state


def is_current(outcome: Mapping[str, Any]) -> bool:
    """Whether it was made with this version of the numbers; outcomes without a version are older than versions."""
    return bool(outcome.get("numbers", 1) == NUMBERS)
