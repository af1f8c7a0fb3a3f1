"""Matlab files: scipy's reader in a process of its own, as a single wrong byte of a file can crash it."""

import io
from typing import Any

from numpy.typing import NDArray

from fedloom.gate.child import Arrays, Child, serve
from fedloom.gate.words import Refused, shown

WHAT = "a Matlab file"
NAMES = ("X", "y")  # the only variables that are read


def arrays(data: bytes, where: str, child: Child | None = None) -> tuple[NDArray[Any], ...]:
    """The arrays X and y of a Matlab file. child: a reader that runs already, for many files."""
    if child is None:
        with Child(__name__) as own:
            return arrays(data, where, own)
    found = child.arrays(data, where, WHAT)
    if lacking := [name for name in NAMES if name not in found]:
        raise Refused(f"{where}: expected arrays {', '.join(NAMES)}, lacks {', '.join(lacking)}, has {shown([*found])}")
    return tuple(found[name] for name in NAMES)


def _parse(data: bytes) -> Arrays:
    import warnings

    from scipy.io import loadmat

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a variable that is there twice, say
        found = loadmat(io.BytesIO(data), variable_names=NAMES)
    return {name: array for name, array in found.items() if not name.startswith("__")}


if __name__ == "__main__":
    import scipy.io  # noqa: F401  before the limits

    serve(_parse)
