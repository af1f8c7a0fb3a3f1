"""The Gaussian mechanism at an aggregator: it cuts what each client changed to a length, and adds noise to their mean.

    d_i = (w_i - s_i) min(1, C / ||w_i - s_i||)                              (1) what client i changed, of length C at most
    w   = b w_old + sum_i (a_i + b_i) s_i + sum_i a_i d_i + z C a g          (2) the new model, a = max_i a_i, g ~ N(0, I)

a_i, b, b_i are the weights of a linear merge: of the models that arrived, of the old one, and of those that clients began with.
A client moves (2) by a_i C at most, so that noise of z C a hides each of them, those of smaller weights better. The aggregator
itself sees what clients send: this protects them from the cloud and from each other. The old model and the starts are results of
earlier merges, which had noise of their own.

H. B. McMahan, D. Ramage, K. Talwar, L. Zhang: Learning Differentially Private Recurrent Language Models, 2018, where the server
is the aggregator. m updates, P values; C = clip, z = noise.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom._random import key_of, normals_of
from fedloom.mixing.merges import ByRows, MergeEdge, Rows, WeighEdge
from fedloom.mixing.size import by_split_size
from fedloom.mixing.weights import Arrivals, Floats


@dataclass(frozen=True, kw_only=True)
class PrivateMean:
    """The rule of such a merge."""

    clip: float = 1.0
    """C: the length that a client's change is cut to."""
    noise: float = 1.0
    """z: standard deviation of the noise, in what one client can change."""
    weigh: WeighEdge = by_split_size
    """The weights of a linear merge."""
    seeded: bool = False
    """Real aggregators draw noise from the run's seed too, as in a simulation: for tests, as others know the seed."""

    def __post_init__(self) -> None:
        for name, value in (("clip", self.clip), ("noise", self.noise)):
            _check.positive(name, value, zero=name == "noise")
            if not np.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value:g}")

    def __call__(self, arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows) -> NDArray[np.floating]:
        """Eqs. (1) and (2), added in the order of clients."""
        order = np.argsort(arrivals.client, kind="stable")
        found = self.weigh(arrivals)
        total: Floats = found.own * old.astype(np.float64)
        for i in order.tolist():
            began = starts[i].astype(np.float64)
            later = 0.0 if found.start is None else float(found.start[i])
            total += (found.model[i] + later) * began + found.model[i] * clipped(rows[i] - starts[i], self.clip)
        if self.noise:
            std = self.noise * self.clip * float(np.abs(found.model).max())
            seed, *number = arrivals.occasion
            total += std * normals_of(key_of(seed, "noise of a merge", *number), len(old))
        return total


def private_mean(merge: MergeEdge, rule: PrivateMean) -> ByRows:
    """The rule in place of a linear merge, with its weights."""
    if isinstance(merge, ByRows):
        raise ValueError(
            "noise at aggregators goes with merges by weights, whose sensitivity is known, and this method merges by a function "
            "of the models; let clients add the noise (private=client)"
        )
    return ByRows(replace(rule, weigh=merge.weigh), merge.then)


def clipped(change: Rows, clip: float) -> Floats:
    """Eq. (1): a change (P,) cut to the length clip.

    >>> clipped(np.array([3, 4], dtype=np.float32), 1.0).tolist(), clipped(np.array([3, 4], dtype=np.float32), 9.0).tolist()
    ([0.6000000000000001, 0.8], [3.0, 4.0])
    """
    wide = change.astype(np.float64)
    return np.asarray(wide * (clip / max(float(np.sqrt(wide @ wide)), clip)))
