"""When a run has converged, and how much sooner one run gets there than another (HHFL, section V-B3).

    slope_k = (a_k - a_{k-W}) 25 / (W V),   W = max(3, ceil(250 / V))      accuracy gained per 25 steps, over W evaluations
    T*      = V min{k >= W : slope_k < threshold}                          strictly below; none: not converged
    gain_steps  = T*_reference / T*_contender
    gain_common = the same ratio of the first steps with accuracy >= tau,  tau = min of the two accuracies at T*

a_k is the accuracy after k V steps, a_0 of the first model. Two gains, because a fast run may stop at a higher accuracy:
the second asks both for the same. Evaluate at cloud merges, V = E G: within cloud rounds accuracy saw-tooths and the slope
falls too early. The slope criterion with 0.1 % is published; window, unit and gain_common are ours.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

PER_STEPS = 25  # the slope is per so many steps
SPAN_STEPS = 250  # the window spans at least so many
LEAST_WINDOW = 3
TIE = 1e-12  # accuracies are multiples of one over the test samples: a slope may equal the threshold but for rounding

Curve = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A contender against a reference; gains above 1 say that the contender is faster.

    steps_reference, steps_contender: T*, None if that run did not converge (see also `not_converged`).
    gain_steps: None unless both converged. tau: the common accuracy; a run that did not converge contributes its last
    one. common_reference, common_contender: first evaluated step with accuracy >= tau. gain_common: 1 if both have it
    from the start, None if only the contender has.
    """

    steps_reference: int | None
    steps_contender: int | None
    gain_steps: float | None
    tau: float
    common_reference: int
    common_contender: int
    gain_common: float | None

    @property
    def not_converged(self) -> tuple[str, ...]:
        """Which of "reference" and "contender" did not converge."""
        steps = {"reference": self.steps_reference, "contender": self.steps_contender}
        return tuple(name for name, step in steps.items() if step is None)


def window(eval_every: int) -> int:
    """W: over how many evaluations, `eval_every` steps apart, the slope is taken unless it is said.

    >>> window(25), window(100), window(1)
    (10, 3, 250)
    """
    _check.whole("eval_every", eval_every)
    return max(LEAST_WINDOW, -(-SPAN_STEPS // eval_every))


def converged_step(
    steps: ArrayLike, accuracy: ArrayLike, threshold: float = 0.001, over: int | None = None
) -> int | None:
    """T* in steps, or None if the curve is still rising at its end or too short to tell.

    steps (k+1,): evenly spaced evaluations, the first at step 0. accuracy (k+1,): fractions. threshold: per 25 steps. over: W, by
    default as above.
    """
    t, a = _curve(steps, accuracy)
    _check.positive("threshold", threshold)
    _check.wholes(over=over)
    gaps = np.diff(t)
    if t[0] != 0 or (gaps != gaps[:1]).any():
        raise ValueError(
            f"convergence needs evaluations at even distances from step 0 on, got steps {_some(t)}; "
            f"evaluate at cloud merges, and keep the periods fixed"
        )
    if not len(gaps):
        return None
    eval_every = int(gaps[0])
    n = over or window(eval_every)
    slope = (a[n:] - a[:-n]) * PER_STEPS / (n * eval_every)
    below = np.flatnonzero(slope < threshold - TIE)
    return int(t[n + below[0]]) if len(below) else None


def first_step_at(steps: ArrayLike, accuracy: ArrayLike, target: float) -> int | None:
    """The first evaluated step with accuracy >= target, None if there is none. steps (k,) need not be even."""
    t, a = _curve(steps, accuracy)
    reached = np.flatnonzero(a >= target)
    return int(t[reached[0]]) if len(reached) else None


def gain(reference: Curve, contender: Curve, threshold: float = 0.001, over: int | None = None) -> Gain:
    """Both gains of `contender` over `reference`, each (steps, accuracy) as for `converged_step`, like threshold and over."""
    stars, accuracies = [], []
    for steps, accuracy in (reference, contender):
        star = converged_step(steps, accuracy, threshold, over)
        t, a = _curve(steps, accuracy)
        stars.append(star)
        accuracies.append(float(a[-1] if star is None else a[t == star][0]))
    tau = min(accuracies)
    # Each curve has an accuracy of at least tau: the one it put in.
    commons = [int(t[a >= tau][0]) for t, a in (_curve(*reference), _curve(*contender))]
    return Gain(
        steps_reference=stars[0],
        steps_contender=stars[1],
        gain_steps=stars[0] / stars[1] if stars[0] is not None and stars[1] is not None else None,
        tau=tau,
        common_reference=commons[0],
        common_contender=commons[1],
        gain_common=commons[0] / commons[1] if commons[1] else 1.0 if commons[0] == 0 else None,
    )


def _curve(steps: ArrayLike, accuracy: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Both as arrays of one length, steps whole and rising."""
    given = _check.array("steps", steps, (None,))
    a = _check.array("accuracy", accuracy, given.shape)
    if not len(given):
        raise ValueError("a curve needs at least one evaluation, got none")
    t = given.astype(np.int64)
    if (t != given).any() or (np.diff(t) <= 0).any():
        raise ValueError(f"steps must be whole numbers that rise, got {_some(given)}")
    return t, a


def _some(numbers: NDArray[np.generic]) -> str:
    return ", ".join(f"{x:g}" for x in numbers[:8].tolist()) + (", ..." if len(numbers) > 8 else "")
