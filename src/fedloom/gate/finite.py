"""Numbers that come out of a file, or go into one: finite and in range, or the first that is not is named.

`what` they are begins the message: "x_train of mnist", "mine.mat: labels y".
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.gate.words import Refused

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def as_float32(what: str, x: NDArray[Any]) -> NDArray[np.float32]:
    """Real numbers as float32, all of them finite and none too large for it."""
    real_numbers(what, x)
    finite(what, x)
    if x.dtype == np.float32:
        return x
    if x.dtype.kind == "f":
        in_range(what, x, -LARGEST_FLOAT32, LARGEST_FLOAT32)
    return x.astype(np.float32)


def real_numbers(what: str, x: NDArray[Any]) -> None:
    """Whole or floating numbers, or truth values; no text, objects, dates or complex numbers."""
    if x.dtype.kind not in "fiub":
        raise Refused(f"{what} must hold real numbers, got {x.dtype}")


def whole_numbers(what: str, x: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers as int64."""
    if x.dtype.kind not in "iu":
        raise Refused(f"{what} must hold whole numbers, got {x.dtype}")
    if x.dtype == np.uint64:
        in_range(what, x, 0, 2**63 - 1)
    return x.astype(np.int64, copy=False)


def finite(what: str, x: NDArray[Any]) -> None:
    """No NaN, no infinity."""
    if x.dtype.kind != "f":
        return
    # In float64 no sum of float32 numbers overflows, so it is finite only if they all are: one quick pass.
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(x.sum(dtype=np.float64)):
            return
    _refuse_first(what, x, ~np.isfinite(x), "be finite")


def in_range(what: str, x: NDArray[Any], low: float, high: float) -> None:
    """Every number in low..high, both included; NaN is in no range."""
    if x.size and not (low <= x.min() and x.max() <= high):
        wanted = f"lie in {low:g}..{high:g}" if np.isfinite([low, high]).all() else "be finite"
        _refuse_first(what, x, ~((x >= low) & (x <= high)), wanted)


def results(where: str, value: Any) -> None:
    """Everything in a tree of mappings and lists that is a number must be finite: what is to be written as JSON, say.

    >>> results("summary.json", {"seconds": 3.0, "hops": [{"joules": float("inf")}]})
    Traceback (most recent call last):
    fedloom.gate.words.Refused: summary.json: hops.0.joules must be finite, got inf
    """
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        path, at = waiting.pop()
        if isinstance(at, Mapping):
            waiting += [((*path, str(key)), inner) for key, inner in at.items()]
        elif isinstance(at, list | tuple):
            waiting += [((*path, str(i)), inner) for i, inner in enumerate(at)]
        elif isinstance(at, np.ndarray):
            finite(f"{where}: {'.'.join(path)}", at)
        elif isinstance(at, float | np.floating) and not np.isfinite(at):
            raise Refused(f"{where}: {'.'.join(path) or 'the value'} must be finite, got {at}")


def as_json(value: Any) -> Any:
    """The same tree with nothing in the place of numbers that JSON has no word for: those that may be infinite.

    >>> as_json({"round_s": float("inf"), "hops": [1.5, float("nan")]})
    {'round_s': None, 'hops': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return None if isinstance(value, float | np.floating) and not np.isfinite(value) else value


def _refuse_first(what: str, x: NDArray[Any], bad: NDArray[np.bool_], wanted: str) -> None:
    if not bad.any():
        return
    n_bad = int(bad.sum())
    index = np.unravel_index(int(np.argmax(bad)), x.shape)
    at = int(index[0]) if len(index) == 1 else [int(i) for i in index]
    also = f", and {n_bad - 1:,} more" if n_bad > 1 else ""
    raise Refused(f"{what} must {wanted}, got {x[index]} at index {at}{also}")
