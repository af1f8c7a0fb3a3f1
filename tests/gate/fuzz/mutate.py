"""Changed inputs: a good one with bytes flipped, taken out, doubled, exchanged for others, or cut. A seed gives them again."""

import random
from collections.abc import Sequence


def mutated(seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """One of the seeds with one to four changes, mostly one."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(_CHANGES)(data, words, seeds, rng)
    return bytes(data)


def _at(data: bytearray, rng: random.Random) -> int:
    """A place, often near the beginning, where headers are."""
    return rng.randrange(len(data) + 1) if rng.random() < 0.5 else rng.randrange(min(len(data), 128) + 1)


def _flip(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    if data:
        data[min(_at(data, rng), len(data) - 1)] ^= 1 << rng.randrange(8)


def _byte(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    if data:
        data[min(_at(data, rng), len(data) - 1)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def _word(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    at, word = _at(data, rng), rng.choice(words)
    data[at : at + rng.choice((0, len(word)))] = word


def _value(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    """A word in place of what stands between two separators: a value of a text, mostly."""
    separators = b" ,:=\n[]{}"
    start = at = _at(data, rng)
    while start > 0 and data[start - 1] not in separators:
        start -= 1
    while at < len(data) and data[at] not in separators:
        at += 1
    data[start:at] = rng.choice(words)


def _cut(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    del data[_at(data, rng) :]


def _take_out(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    at = _at(data, rng)
    del data[at : at + rng.choice((1, 2, 4, 8, 100))]


def _double(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    at = _at(data, rng)
    piece = data[at : at + rng.choice((1, 4, 16, 64, 256))]
    data[at:at] = piece * rng.choice((1, 1, 2, 50))


def _splice(data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes], rng: random.Random) -> None:
    other = rng.choice(seeds)
    data[_at(data, rng) :] = other[rng.randrange(len(other) + 1) :]


_CHANGES = (_flip, _flip, _byte, _byte, _word, _value, _value, _cut, _take_out, _double, _splice)
