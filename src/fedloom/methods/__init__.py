"""One short file per published method: which parts, with which constants."""

from collections.abc import Callable

from fedloom.methods import fedavg, fedprox, hierfedavg
from fedloom.methods.method import Method

METHODS: dict[str, Callable[..., Method]] = {
    "fedavg": fedavg.method,
    "fedprox": fedprox.method,
    "hierfedavg": hierfedavg.method,
}

__all__ = ["METHODS", "Method"]
