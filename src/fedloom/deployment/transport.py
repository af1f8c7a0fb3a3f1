"""The seam between the roles and the wire: a link calls a node with a letter and gets its answer; a desk answers.

Who speaks is told by the transport, never by the letter. Behind the same seam are gRPC with mutual TLS (links.py) and, for tests,
a network in memory.
"""

import asyncio
import traceback
from typing import Protocol

from fedloom.deployment.letters import BadLetter, Letter, decode, encode
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import Identity

REFUSED, LATER = "refused", "later"


class Unreachable(ConnectionError):
    """Nobody has answered: the letter, or the answer, may be lost. It is sent again."""


class RefusedBy(RuntimeError):
    """The other side has answered that it will not; sending it again does not help."""


class Refusal(Exception):
    """A desk will not do what a letter asks for; the message says why."""


class Link(Protocol):
    """Calls nodes by name."""

    async def call(self, to: str, letter: Letter, timeout_s: float) -> Letter: ...
    async def close(self) -> None: ...


class Desk(Protocol):
    """Answers letters."""

    async def handle(self, who: Identity, letter: Letter) -> Letter: ...


async def answer(desk: Desk, who: Identity, data: bytes | memoryview, most: int, log: Log) -> bytes:
    """The answer to bytes from outside; what is refused is logged with who and why."""
    try:
        return encode(await desk.handle(who, decode(data, most)))
    except (BadLetter, Refusal) as error:
        log("refused", who=str(who), why=str(error))
        return encode(Letter(REFUSED, {"why": str(error)[:500]}))
    except OSError as error:  # a full disk, say: nothing is acknowledged
        log("cannot", who=str(who), why=str(error))
        return encode(Letter(LATER, {"why": str(error)[:500]}))
    except Exception as error:  # a mistake of ours: whoever asks is not left without an answer
        log("failed", who=str(who), why=f"{type(error).__name__}: {error}", trace=traceback.format_exc(limit=-3))
        return encode(Letter(LATER, {"why": f"{type(error).__name__}: {str(error)[:500]}"}))


def opened(data: bytes | memoryview, most: int, to: str) -> Letter:
    """The letter that came back; RefusedBy if it says no, Unreachable if it cannot be answered now."""
    letter = decode(data, most)
    if letter.kind == REFUSED:
        raise RefusedBy(f"{to} refuses: {str(letter.fields.get('why'))[:500]}")
    if letter.kind == LATER:
        raise Unreachable(f"{to} cannot now: {str(letter.fields.get('why'))[:500]}")
    return letter


async def until_reached(link: Link, to: str, letter: Letter, timeout_s: float) -> Letter:
    """Call until somebody answers."""
    pause_s = 0.02
    while True:
        try:
            return await link.call(to, letter, timeout_s)
        except Unreachable:
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, 2 * pause_s)
