"""Error feedback: what a codec left out of one message is added to the next.

    p = d + e        the difference to be sent, and the residual of the last message (zeros at first)
    s = C(p)         what arrives
    e = p - s        the new residual

So what has arrived so far and the residual add up to what was to be sent, and nothing is lost for good: a codec may be biased.

Frank Seide, Hao Fu, Jasha Droppo, Gang Li, Dong Yu: 1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
Distributed Training of Speech DNNs, 2014. Sebastian U. Stich, Jean-Baptiste Cordonnier, Martin Jaggi: Sparsified SGD with
Memory, 2018. Sai Praneeth Karimireddy, Quentin Rebjock, Sebastian U. Stich, Martin Jaggi: Error Feedback Fixes SignSGD and
other Gradient Compression Schemes, 2019.
"""

from fedloom.coding.interface import Codec, Row
from fedloom.gate import Refused


def with_feedback(codec: Codec, difference: Row, residual: Row, key: int) -> tuple[Row, Row]:
    """(s, e): what arrives (P,), and the new residual (P,), of a difference (P,) and the last residual (P,)."""
    if difference.shape != residual.shape:
        raise Refused(f"a residual must have the shape of the difference, {difference.shape}, got {residual.shape}")
    wanted = difference + residual
    sent = codec.coded(wanted, key)
    return sent, wanted - sent
