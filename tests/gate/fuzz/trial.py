"""One input through one parser, and whether what came of it is allowed."""

import random
import time
import traceback
import tracemalloc
import warnings
from dataclasses import dataclass

from fedloom.gate import Refused

from .mutate import mutated
from .parsers import Parser

MOST_SECONDS = 5.0  # of processor time, for one input
MOST_CHARACTERS = 2000  # of a line


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """accepted, refused, or a fault: what happened that must not."""

    accepted: bool = False
    fault: str | None = None


def input_of(parser: Parser, seed: int) -> bytes:
    """The input with a number; the first of all are the good ones."""
    if seed < len(parser.seeds):
        return parser.seeds[seed]
    return mutated(parser.seeds, parser.words, random.Random(f"{parser.name} {seed}"))


def tried(parser: Parser, data: bytes) -> Outcome:
    """Parse, judge."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = parser.parse(data)
            fault = None if parser.holds(made) else f"accepted, but it is not right: {made!r:.300}"
        accepted = True
    except (Refused, FileNotFoundError) as error:
        accepted, fault = False, _fault_of(error)
    except BaseException:
        if isinstance(error := _caught(), KeyboardInterrupt):
            raise error from None
        accepted, fault = False, traceback.format_exc()
    seconds = time.process_time() - begun
    if fault is None and seconds > MOST_SECONDS:
        fault = f"took {seconds:.1f} s"
    return Outcome(accepted=accepted, fault=fault)


def bytes_taken(parser: Parser, data: bytes) -> int:
    """The most memory that Python had at a time while the input was parsed."""
    tracemalloc.start()
    try:
        tried(parser, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _caught() -> BaseException:
    import sys

    error = sys.exc_info()[1]
    assert error is not None
    return error


def _fault_of(error: Exception) -> str | None:
    lines = str(error).splitlines()
    if not lines or not all(line.strip() for line in lines):
        return f"a message without words: {error!r}"
    if len(lines) > 25 or max(map(len, lines)) > MOST_CHARACTERS:
        return f"a message of {len(lines)} lines, the longest of {max(map(len, lines))} characters"
    return None
