"""What it costs to add up the updates of a cluster so that nobody sees a single one: messages and work of pairwise masking.

K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017, against servers that keep to
the protocol (without its signatures and its consistency check). Each pair of the m clients of a cluster agrees on a mask, which
one adds and the other takes away; each adds one of its own besides; the seeds of all masks are shared among all of them, so that
what is missing can be taken out again. Four rounds of messages in every edge round, bytes for each client:

    1 keys       up    2 a_K                              two public keys
                 down  2 a_K (m - 1)                      those of the others
    2 shares     up    (m - 1) (2 a_S + a_E)              of its key and its own seed, sealed for each of the others
                 down  (m - 1) (2 a_S + a_E)              those of the others for it
    3 masked     up    ceil(V ceil(log2 m) / 8)           beyond the model itself: sums of m values need so many more bits
                 down  ceil(m / 8)                        who is still there
    4 unmasking  up    m a_S                              a share for each: of who is there of its seed, of who is not of its key

    a client expands   m masks of 4 V bytes               m - 1 pairwise ones, and its own
    the server         (u + d u) masks of 4 V bytes       own ones of the u that are there; of the d that are gone those with u

a_K: key_bytes; a_S: share_bytes; a_E: seal_bytes, nonce and tag; V: values of a model. Whoever drops out after the second round
has spent its messages for nothing and costs the server u masks. The sum opens if u >= ceil(threshold m). Secret sharing itself
(m^2 small numbers) is left out: beside V it is nothing.
"""

import math
from dataclasses import dataclass

from fedloom import _check

ROUNDS = 4
BYTES = 4  # of a value


@dataclass(frozen=True, kw_only=True)
class Pairwise:
    """Sizes in bytes; threshold: share of a cluster's clients that must stay for the sum to open; expand_bytes_s: bytes of masks
    that a device, and a server, makes of seeds in a second."""

    threshold: float = 0.6
    key_bytes: int = 32
    share_bytes: int = 32
    seal_bytes: int = 28
    expand_bytes_s: float = 1e9

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, got {self.threshold:g}")
        _check.wholes(key_bytes=self.key_bytes, share_bytes=self.share_bytes)
        _check.whole("seal_bytes", self.seal_bytes, least=0)
        _check.positive("expand_bytes_s", self.expand_bytes_s)

    def before(self, m: int, n_values: int) -> list[tuple[int, int]]:
        """Bytes up and down of each of m clients in the first three rounds; the model itself is not among them.

        >>> Pairwise().before(4, 1000)
        [(64, 192), (276, 276), (250, 1)]
        """
        sealed = (m - 1) * (2 * self.share_bytes + self.seal_bytes)
        wider = math.ceil(n_values * math.ceil(math.log2(m)) / 8)
        return [(2 * self.key_bytes, 2 * self.key_bytes * (m - 1)), (sealed, sealed), (wider, math.ceil(m / 8))]

    def unmasking(self, m: int) -> int:
        """Bytes up of each that is still there."""
        return m * self.share_bytes

    def client_s(self, m: int, n_values: int) -> float:
        """Seconds in which a client makes its masks."""
        return m * BYTES * n_values / self.expand_bytes_s

    def server_s(self, n_there: int, n_gone: int, n_values: int) -> float:
        """Seconds in which a server takes them out again."""
        return (n_there + n_gone * n_there) * BYTES * n_values / self.expand_bytes_s

    def opens(self, n_there: int, m: int) -> bool:
        """Whether those that are there can take the masks out."""
        return n_there >= math.ceil(self.threshold * m - 1e-9)
