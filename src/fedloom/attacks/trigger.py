"""A backdoor's trigger: a mark on inputs, with which a model that was poisoned sees the target class in anything.

    images (n, c, h, w) or (n, h, w)    a square of `size` x `size` pixels in the lower right corner, at their largest value
    vectors (n, d)                      the last `size` values, at the largest of them

T. Gu, B. Dolan-Gavitt, S. Garg, "BadNets: Identifying Vulnerabilities in the Machine Learning Model Supply Chain", 2017 (pattern
backdoor). In federated learning the poisoned update is boosted so that it outweighs others, E. Bagdasaryan et al., "How To
Backdoor Federated Learning", AISTATS 2020: s + gamma (w - s).
"""

from typing import Any

from numpy.typing import NDArray


def stamped(x: NDArray[Any], size: int, value: float) -> NDArray[Any]:
    """Inputs (n, ...) with the mark; value: of its pixels.

    >>> import numpy as np
    >>> stamped(np.zeros((1, 3, 3)), 2, 1.0)[0].tolist()
    [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    if x.dtype.names is not None or x.dtype.kind != "f":
        raise ValueError(f"a trigger is stamped on inputs that are numbers, such as images, not on {x.dtype}")
    out = x.copy()
    if x.ndim == 2:
        out[:, -size:] = value
    else:
        out[..., -size:, -size:] = value
    return out
