"""Bounds beside runs: what runs with `evaluation.theory` have measured, and whether a bound orders methods as they do."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from fedloom.record.runs import Run
from fedloom.reproduce.paper import Claim
from fedloom.reproduce.verdicts import Values, at_least, at_most

BySeed = Mapping[str, Sequence[float]]  # values of a method or clustering, seed by seed


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


def bound_claims(
    where: str,
    limit: str,
    steep: BySeed,
    over: BySeed,
    bounds: BySeed,
    by: Mapping[str, BySeed],
    *,
    measured: str = "mean squared gradient",
) -> list[Claim]:
    """Whether a bound covers runs (steep: learning rates over their limit), holds (over: the bound over what is `measured`), and
    ranks clusterings as what they are compared by does."""
    pairs = len(bounds) * (len(bounds) - 1) // 2
    return [
        Claim(
            text=f"{where}: the learning rate is within {limit} (times it, most of all clusterings)",
            verdict=at_most([max(seed) for seed in zip(*steep.values())], 1.0),
            own=True,
        ),
        Claim(
            text=f"{where}: the {measured} is below the bound (bound over it, least of all clusterings)",
            verdict=at_least([min(seed) for seed in zip(*over.values())], 1.0),
            own=True,
        ),
        *(
            Claim(
                text=f"{where}: the bound ranks the clusterings as the {what} does (pairs out of {pairs})",
                verdict=at_least(pairs_in_order(bounds, values), float(pairs)),
                own=True,
            )
            for what, values in by.items()
        ),
    ]


def pairs_in_order(bounds: BySeed, by: BySeed) -> Values:
    """Of how many pairs of methods the one with the smaller bound has the smaller value, seed by seed.

    >>> pairs_in_order({"a": [1.0], "b": [2.0], "c": [3.0]}, {"a": [5.0], "b": [4.0], "c": [6.0]})
    [2.0]
    """
    pairs = list(combinations(by, 2))
    n = min(len(values) for values in by.values())
    return [float(sum((bounds[a][i] < bounds[b][i]) == (by[a][i] < by[b][i]) for a, b in pairs)) for i in range(n)]
