"""A codec by its name, with options as text: "topk:share=0.01", "qsgd:bits=4" (fedloom.gate.options)."""

from collections.abc import Callable

from fedloom.coding.bfloat16 import BFloat16
from fedloom.coding.float16 import Float16
from fedloom.coding.float32 import Float32
from fedloom.coding.gaussian import Gaussian
from fedloom.coding.interface import Codec
from fedloom.coding.qsgd import QSGD
from fedloom.coding.randomk import RandomK
from fedloom.coding.sign import Sign
from fedloom.coding.topk import TopK
from fedloom.gate import options

CODECS: dict[str, Callable[..., Codec]] = {
    "float32": Float32,
    "float16": Float16,
    "bfloat16": BFloat16,
    "qsgd": QSGD,
    "sign": Sign,
    "topk": TopK,
    "randomk": RandomK,
    "gaussian": Gaussian,
}


def codec(text: str) -> Codec:
    """A codec by name, with options after colons.

    >>> codec("topk:share=0.01"), codec("qsgd:bits=2:bucket=64"), codec("float16")
    (TopK(share=0.01, k=None), QSGD(bits=2, bucket=64), Float16())
    """
    return options.make(text, CODECS, "codec")
