"""One short file per published method: which parts, with which constants."""

from collections.abc import Callable

from fedloom.methods import fedavg, fedmes, fedprox, hhfl, hierfedavg, msfedavg
from fedloom.methods.method import Method

METHODS: dict[str, Callable[..., Method]] = {
    "fedavg": fedavg.method,
    "fedprox": fedprox.method,
    "hierfedavg": hierfedavg.method,
    "hhfl": hhfl.method,
    "fedmes": fedmes.method,
    "msfedavg": msfedavg.method,
}

__all__ = ["METHODS", "Method"]
