"""Only what is trained is coded: buffers of a model (BatchNorm's means and variances) go as float32.

A message is that of the codec for the trained values, then the others, 4 bytes each.

    n_bits(P) = codec.n_bits(T) + 32 (P - T)         for T trained values; without the first part if there are none
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Codec, Row, check_count, checked, floats_from, floats_to, opened
from fedloom.gate import Refused


@dataclass(frozen=True, eq=False, repr=False)
class Masked:
    """A codec for rows of which only some values are coded."""

    codec: Codec
    """For those."""
    trainable: NDArray[np.bool_]
    """(P,) which they are."""

    def __post_init__(self) -> None:
        if self.trainable.ndim != 1 or self.trainable.dtype != np.bool_:
            raise ValueError(f"trainable must be bool of shape (P,), got {self.trainable.dtype} {self.trainable.shape}")

    def __repr__(self) -> str:
        return f"Masked({self.codec}, {self._n_coded:,} trained of {len(self.trainable):,})"

    def encode(self, row: Row, key: int) -> bytes:
        """What is trained in the codec's way, then the rest."""
        row = checked(row)
        self._fits(len(row))
        coded = self.codec.encode(row[self.trainable], key) if self._n_coded else b""
        return coded + floats_to(row[~self.trainable])

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """Both in their places."""
        self._fits(n_values)
        message = opened(self, data, n_values)
        cut = len(message) - 4 * (n_values - self._n_coded)
        row = np.empty(n_values, dtype=np.float32)
        row[~self.trainable] = floats_from("a value that is not trained", message[cut:])
        if self._n_coded:
            row[self.trainable] = self.codec.decode(bytes(message[:cut]), self._n_coded, key)
        return row

    def coded(self, row: Row, key: int) -> Row:
        """What arrives, without packing."""
        row = checked(row)
        self._fits(len(row))
        out = row.copy()
        if self._n_coded:
            out[self.trainable] = self.codec.coded(row[self.trainable], key)
        return out

    def n_bits(self, n_values: int) -> int:
        """The codec's for what is trained, 32 for each of the others."""
        self._fits(n_values)
        return (self.codec.n_bits(self._n_coded) if self._n_coded else 0) + 32 * (n_values - self._n_coded)

    @property
    def _n_coded(self) -> int:
        return int(np.count_nonzero(self.trainable))

    def _fits(self, n_values: int) -> None:
        check_count(n_values)
        if n_values != len(self.trainable):
            raise Refused(f"a mask for {len(self.trainable):,} values does not fit a row of {n_values:,}")


def masked(codec: Codec, trainable: NDArray[np.bool_] | None) -> Codec:
    """The codec itself where everything is trained (or nobody says what is)."""
    return codec if trainable is None or trainable.all() else Masked(codec, trainable)
