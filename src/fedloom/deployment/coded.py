"""Models on this federation's wire: the very bytes that the method's codecs write, up and down.

Both ways are those of the simulator (fedloom.simulator.sending), to the bit: what is computed there with `coded` is encoded here,
sent, and decoded. Whoever receives a message refuses what its codec refuses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.coding import Codec, Coding, checked, difference, masked, restored
from fedloom.deployment.transport import Refusal
from fedloom.gate import Refused

Row = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Wire:
    """coding: of the method. n_params: P of a model; trainable (P,): what of it is coded."""

    coding: Coding
    n_params: int
    trainable: NDArray[np.bool_] | None = None

    @property
    def up_bytes(self) -> int:
        """Of a message that goes up."""
        return self._up.n_bits(self.n_params) // 8

    @property
    def down_bytes(self) -> int:
        """Of a message that goes down."""
        return self._down.n_bits(self.n_params) // 8

    @property
    def most_bytes(self) -> int:
        """Of whatever is sent of a model, as it is or coded."""
        return max(4 * self.n_params, self.up_bytes, self.down_bytes)

    def sent_down(self, row: Row, key: int) -> Bytes:
        """The message for a model (P,)."""
        return _bytes(self._down.encode(row, key))

    def got_down(self, message: Bytes, key: int) -> Row:
        """The model (P,) that arrives; Refused if the message is none."""
        return self._decoded(self._down, message, key)

    def as_sent_down(self, row: Row, key: int) -> Row:
        """What others get of a model (P,): nobody sends a message to itself."""
        return self._down.coded(row, key)

    def sent_up(self, row: Row, reference: Row, kept: Row | None, key: int) -> tuple[Bytes, Row]:
        """The message for a model (P,) to a reference (P,), with what was kept of the last one; and what is left over (P,)."""
        wanted = difference(row, reference, self.trainable)
        wanted = wanted + (np.zeros_like(wanted) if kept is None else kept)
        data = self._up.encode(wanted, key)
        return _bytes(data), wanted - self._up.decode(data, self.n_params, key)

    def got_up(self, message: Bytes, reference: Row, key: int) -> Row:
        """The model (P,) that arrives; Refused if the message is none."""
        return restored(self._decoded(self._up, message, key), reference, self.trainable)

    def taken_up(self, name: str, message: NDArray[Any] | None, reference: Row | None = None, key: int = 0) -> Row:
        """The model of a message from outside; Refusal if it is none. Who does not know its key and reference yet can refuse it
        all the same: no more than where values belong depends on the key."""
        if not self.coding.codes_up:
            raise Refusal(f"{name} is coded, and here models go up as they are")
        if message is None or message.dtype != np.uint8 or message.ndim != 1:
            came = "nothing" if message is None else f"{message.dtype} of shape {message.shape}"
            raise Refusal(f"{name} must be a message of {self.up_bytes:,} bytes, got {came}")
        try:
            return self.got_up(message, np.zeros(self.n_params, np.float32) if reference is None else reference, key)
        except Refused as error:
            raise Refusal(f"{name} is no message of {self.coding.up}: {error}") from None

    @property
    def _up(self) -> Codec:
        return masked(self.coding.up, self.trainable)

    @property
    def _down(self) -> Codec:
        return masked(self.coding.down, self.trainable)

    def _decoded(self, codec: Codec, message: Bytes, key: int) -> Row:
        row = checked(codec.decode(message.tobytes(), self.n_params, key))
        if len(row) != self.n_params:  # of a codec of one's own
            raise Refused(f"a message of {codec} must stand for {self.n_params:,} values, got {len(row):,}")
        return row


def _bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)
