"""Checks at the public entry of a function: each says what was expected and what came."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def array(name: str, value: ArrayLike, shape: Sequence[int | None], *, finite: bool = True) -> NDArray[np.float64]:
    """`value` as float64 of the given shape (None: any length); NaN and infinity are refused if `finite`."""
    out = np.asarray(value, dtype=np.float64)
    if out.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, out.shape)):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ValueError(f"{name} must have shape {wanted}, got {out.shape}")
    if finite and not np.isfinite(out).all():
        where = np.argwhere(~np.isfinite(out))[0].tolist()
        raise ValueError(f"{name} must be finite, got {out[tuple(where)]} at index {where}")
    return out


def positive(name: str, value: Any, *, zero: bool = False) -> None:
    """Every number in `value` must be above zero (or at least zero); infinity is."""
    numbers = np.asarray(value, dtype=np.float64)
    bad = ~(numbers >= 0) if zero else ~(numbers > 0)
    if bad.any():
        raise ValueError(f"{name} must be {'at least 0' if zero else 'above 0'}, got {numbers[bad].flat[0]:g}")


def whole(name: str, value: int, *, least: int = 1) -> None:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def wholes(*, least: int = 1, **values: int | None) -> None:
    """Integers of at least `least`, by name, where they are given."""
    for name, value in values.items():
        if value is not None:
            whole(name, value, least=least)


def one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """A word out of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def few_enough(algorithm: str, n_clients: int, most: int) -> None:
    """At most so many clients for an algorithm that compares all pairs of them."""
    if n_clients > most:
        raise ValueError(
            f"{algorithm} compares all pairs of clients and does at most {most:,} of them, got {n_clients:,}: the memory grows "
            f"with the square of their number, the time faster; use fewer clients, or a method that groups by cells, such as "
            f"hierfedavg or hhfl"
        )
