"""How fast devices compute: a number per device, drawn from a law, and the seconds of a local step."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.fleet.settings.compute import ClassesLaw, ComputeSettings, FixedLaw, Law, NormalLaw, UniformLaw

Array = NDArray[np.float64]


def draw(law: Law, n: int, rng: np.random.Generator) -> Array:
    """`n` values (n,) of a law; the unit is the caller's.

    fixed; uniform on [low, high) or on the whole numbers {low..high}; normal, clipped to low..high; classes:
    as many devices of each class as its share says (largest remainders first), then shuffled, then each value
    times a factor uniform on 1 ± spread.

    >>> draw(FixedLaw(value=2.0), 3, np.random.default_rng(0))
    array([2., 2., 2.])
    """
    _check.whole("n", n)
    if isinstance(law, FixedLaw):
        return np.full(n, law.value)
    if isinstance(law, UniformLaw):
        if law.integer:
            return rng.integers(int(law.low), int(law.high), n, endpoint=True).astype(np.float64)
        return rng.uniform(law.low, law.high, n)
    if isinstance(law, NormalLaw):
        return np.clip(rng.normal(law.mean, law.std, n), law.low, law.high)
    return _classes(law, n, rng)


def step_seconds(settings: ComputeSettings, value: ArrayLike, batch_size: int, n_samples: ArrayLike) -> Array:
    """Seconds (K,) of one local step (mini-batch) on each device, without jitter.

    `value` (K,) in the unit of the settings, `n_samples` (K,) the devices' data. An epoch has
    ceil(n / batch) steps, and a step counts n / ceil(n / batch) samples, so that an epoch counts each sample
    once although its last mini-batch may be smaller. A device without data has one step of no samples.

        seconds-per-step      v                        seconds-per-sample    v n / steps
        seconds-per-session   v / session_steps, or v / (session_epochs steps)
        steps-per-second      1 / v                    cycles-per-second     cycles_per_sample n / (steps v)
    """
    _check.whole("batch_size", batch_size)
    numbers = _check.array("value", value, (None,))
    samples = _check.array("n_samples", n_samples, numbers.shape)
    _check.positive("n_samples", samples, zero=True)
    steps_per_epoch: Array = np.maximum(np.ceil(samples / batch_size), 1)
    if settings.unit == "seconds-per-sample":
        return numbers * samples / steps_per_epoch
    if settings.unit == "seconds-per-session":
        if settings.session_steps is not None:
            return numbers / settings.session_steps
        return numbers / ((settings.session_epochs or 1) * steps_per_epoch)
    if settings.unit == "steps-per-second":
        return np.ones_like(numbers) / numbers
    if settings.unit == "cycles-per-second":
        return (settings.cycles_per_sample or 0.0) * samples / steps_per_epoch / numbers
    return numbers.copy()


def _classes(law: ClassesLaw, n: int, rng: np.random.Generator) -> Array:
    n_classes = len(law.values)
    shares = np.array(law.shares or [1.0] * n_classes)
    quota = n * shares / shares.sum()
    counts = np.floor(quota).astype(np.int64)
    counts[np.argsort(counts - quota, kind="stable")[: n - counts.sum()]] += 1
    values = rng.permutation(np.repeat(np.array(law.values), counts))
    return values * rng.uniform(1 - law.spread, 1 + law.spread, n)
