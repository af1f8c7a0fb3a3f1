"""The Gaussian mechanism: what a client sends is cut to a length, and noise is added before it leaves the client.

    d' = d min(1, C / ||d||)                 (1) the change of a client, of length C at most
    s  = d' + z C g,   g ~ N(0, I)           (2) what is sent, 32 bits a value

Without (1) nothing could be promised, as one client could change a model by any amount; (2) hides whether a client's change
is there at all: of everything it sends, an observer learns no more than epsilon and delta say
(fedloom.privacy.accounting), whoever it is, its aggregator included.

C. Dwork, A. Roth: The Algorithmic Foundations of Differential Privacy, 2014, theorem A.1. M. Abadi and others: Deep Learning with
Differential Privacy, 2016, for clipping by C and noise of z C. H. B. McMahan, D. Ramage, K. Talwar, L. Zhang: Learning
Differentially Private Recurrent Language Models, 2018, for changes of clients instead of gradients of samples.

Noise is drawn in double precision and the sum rounded to 32 bits: what the rounding of floating-point numbers may give away
(I. Mironov, 2012) is not hidden. P values; C = clip, z = noise.
"""

from dataclasses import dataclass

import numpy as np

from fedloom import _check
from fedloom._random import normals_of
from fedloom.coding.float32 import Float32
from fedloom.coding.interface import Row, checked
from fedloom.mixing.private_mean import clipped

PLAIN = Float32()


@dataclass(frozen=True)
class Gaussian:
    """A change that is clipped and noisy."""

    clip: float = 1.0
    """C: the length that a change is cut to."""
    noise: float = 1.0
    """z: standard deviation of the noise on every value, in C. 0: only clipped, and nothing is promised."""
    seeded: bool = False
    """On real devices noise is drawn from the run's seed too, as in a simulation: for tests. Who knows the seed can take such
    noise away again, so that by default each device draws its own, from a secret that never leaves it."""

    def __post_init__(self) -> None:
        _check.positive("clip", self.clip)
        _check.positive("noise", self.noise, zero=True)
        for name, value in (("clip", self.clip), ("noise", self.noise)):
            if not np.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value:g}")

    def encode(self, row: Row, key: int) -> bytes:
        """4 bytes a value."""
        return PLAIN.encode(self.coded(row, key), key)

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values that were sent."""
        return PLAIN.decode(data, n_values, key)

    def coded(self, row: Row, key: int) -> Row:
        """Eqs. (1) and (2)."""
        change = clipped(checked(row), self.clip)
        if self.noise:
            change = change + self.noise * self.clip * normals_of(key, len(row))
        return change.astype(np.float32)

    def n_bits(self, n_values: int) -> int:
        """32 a value."""
        return PLAIN.n_bits(n_values)
