"""One short file per published method: which parts, with which constants."""

from collections.abc import Callable

from fedloom.methods import dcliques, fedavg, fedmds, fedmes, fedprox, hhfl, hierfedavg, ltc, msfedavg, random_clusters
from fedloom.methods.method import Method

METHODS: dict[str, Callable[..., Method]] = {
    "fedavg": fedavg.method,
    "fedprox": fedprox.method,
    "hierfedavg": hierfedavg.method,
    "hhfl": hhfl.method,
    "fedmes": fedmes.method,
    "msfedavg": msfedavg.method,
    "ltc": ltc.method,
    "fedmds": fedmds.method,
    "fedmds_plus": fedmds.plus,
    "dcliques": dcliques.method,
    "random_clusters": random_clusters.method,
}

__all__ = ["METHODS", "Method"]
