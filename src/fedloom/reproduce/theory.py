"""Bounds beside runs: what runs with `evaluation.theory` have measured, and whether a bound orders methods as they do."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from fedloom.record.runs import Run
from fedloom.reproduce.verdicts import Values


def most(run: Run, column: str) -> float:
    """The largest value of a measure in a run."""
    return float(np.max(run.metrics[column].drop_nulls().to_numpy()))


def squares(run: Run) -> list[float]:
    """|grad F|^2 at the start of every cloud round."""
    return [float(value) ** 2 for value in run.metrics["gradient_norm"].drop_nulls()]


def mean_square(run: Run) -> float:
    """Their mean, which bounds are about."""
    return float(np.mean(squares(run)))


def last_loss(run: Run) -> float:
    """Training loss at the end."""
    return float(run.metrics["train_loss"][-1])


def pairs_in_order(bounds: Mapping[str, Sequence[float]], by: Mapping[str, Sequence[float]]) -> Values:
    """Of how many pairs of methods the one with the smaller bound has the smaller value, seed by seed.

    >>> pairs_in_order({"a": [1.0], "b": [2.0], "c": [3.0]}, {"a": [5.0], "b": [4.0], "c": [6.0]})
    [2.0]
    """
    pairs = list(combinations(by, 2))
    n = min(len(values) for values in by.values())
    return [float(sum((bounds[a][i] < bounds[b][i]) == (by[a][i] < by[b][i]) for a, b in pairs)) for i in range(n)]
