"""A generated text task: a language model of characters, and authors who write differently.

All authors share one vocabulary and one grammar, a chain of words: which word may follow which. Each has a taste of their own, a
random weight for every word, so that the same beginnings go on differently: clients that are authors have different data. What is
learnt is how words are spelt, which follow each other, and (by a model that is an author's own) what this author prefers.

A sample is a window of `length` characters; its targets are the characters that follow each of them.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedloom._random import stream
from fedloom._settings import Settings
from fedloom.data.dataset import Dataset

ALPHABET = "abcdefghijklmnopqrstuvwxyz ."
ONSETS = ["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "ch", "sh", "pl"]
VOWELS = ["a", "e", "i", "o", "u", "ea", "ou", "ai"]
CODAS = ["", "", "n", "r", "s", "t", "l", "nd", "st"]
SENTENCE = (5, 12)  # words, least and most


class TextSettings(Settings):
    """The generated dataset `text`: authors who write in one language with tastes of their own."""

    n_authors: int = Field(40, ge=1, le=100_000)
    n_train: int = Field(40, ge=1, le=1_000_000, description="windows of each author for training")
    n_test: int = Field(8, ge=1, le=1_000_000, description="windows of each author for the test")
    length: int = Field(40, ge=2, le=10_000, description="characters of a window")
    n_words: int = Field(120, ge=2, le=100_000, description="of the language")
    taste: float = Field(
        1.0, ge=0, le=100, description="how much authors differ: standard deviation of log weights of words"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="of the data; independent of a run's seed")


def written(settings: TextSettings) -> Dataset:
    """Windows (n, length) of characters, targets (n, length), and the author of each; shared out by author."""
    rng = stream(settings.seed, "text")
    words, follows = _language(rng, settings.n_words)
    n, n_test, length = settings.n_train, settings.n_test, settings.length
    windows = np.empty((settings.n_authors, n + n_test, length + 1), dtype=np.int32)
    for author in range(settings.n_authors):
        weight = follows * np.exp(settings.taste * rng.standard_normal(settings.n_words))
        characters = _characters(rng, words, np.cumsum(weight, axis=1), (n + n_test) * (length + 1))
        windows[author] = characters.reshape(n + n_test, length + 1)
    train, test = windows[:, :n].reshape(-1, length + 1), windows[:, n:].reshape(-1, length + 1)
    authors = np.arange(settings.n_authors)
    return Dataset(
        name="text",
        x_train=train[:, :-1],
        y_train=train[:, 1:].astype(np.int64),
        x_test=test[:, :-1],
        y_test=test[:, 1:].astype(np.int64),
        n_classes=len(ALPHABET),
        n_tokens=len(ALPHABET),
        user=np.repeat(authors, n),
        user_test=np.repeat(authors, n_test),
        label_train=np.repeat(authors, n),
    )


def as_text(tokens: NDArray[np.integer]) -> str:
    """Characters (L,) as a string.

    >>> as_text(np.array([7, 8, 27]))
    'hi.'
    """
    return "".join(ALPHABET[token] for token in tokens)


def _language(rng: np.random.Generator, n_words: int) -> tuple[list[NDArray[np.int32]], NDArray[np.float64]]:
    """Words as characters, each with the space after it, and how well (n_words, n_words) one follows the other."""
    words: dict[str, None] = {}
    while len(words) < n_words:
        syllables = [
            ONSETS[rng.integers(len(ONSETS))] + VOWELS[rng.integers(len(VOWELS))] + CODAS[rng.integers(len(CODAS))]
            for _ in range(int(rng.integers(1, 4)))
        ]
        words["".join(syllables)] = None
    follows = rng.gamma(0.1, size=(n_words, n_words)) + 1e-6  # a few words mostly follow each
    return [np.array([ALPHABET.index(c) for c in word + " "], dtype=np.int32) for word in words], follows


def _characters(
    rng: np.random.Generator, words: list[NDArray[np.int32]], cumulated: NDArray[np.float64], n: int
) -> NDArray[np.int32]:
    """n characters of an author. cumulated (n_words, n_words): sums of the weights with which words follow each."""
    parts, so_far, last, left = [], 0, int(rng.integers(len(words))), 0
    full_stop = np.array([ALPHABET.index("."), ALPHABET.index(" ")], dtype=np.int32)
    while so_far < n:
        if left == 0:
            left = int(rng.integers(*SENTENCE, endpoint=True))
        row = cumulated[last]
        last = int(np.searchsorted(row, rng.random() * row[-1]))
        left -= 1
        word = words[last] if left else np.concatenate([words[last][:-1], full_stop])
        parts.append(word)
        so_far += len(word)
    return np.concatenate(parts)[:n]
