"""One short file per published method: which parts, with which constants."""

from collections.abc import Callable

from fedloom.methods import (
    camu,
    csahfl,
    dcliques,
    ddc,
    fedat,
    fedavg,
    fedmds,
    fedmes,
    fedprox,
    feduc_r,
    geographic,
    hhfl,
    hierfedavg,
    hiflash_r,
    ltc,
    macfl_r,
    msfedavg,
    pacfl,
    random_clusters,
    similarity,
)
from fedloom.methods.method import Allotment, Allotting, Grouping, Local, Method, Start

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
    "ddc": ddc.method,
    "geographic": geographic.method,
    "similarity": similarity.method,
    "csahfl": csahfl.method,
    "csahfl_no_clusters": csahfl.no_clusters,
    "csahfl_no_deadline": csahfl.no_deadline,
    "csahfl_no_kl": csahfl.no_kl,
    "camu": camu.method,
    "camu_updates_only": camu.updates_only,
    "camu_gated": camu.gated,
    "camu_ungated": camu.ungated,
    "camu_single": camu.single,
    "camu_no_clusters": camu.no_clusters,
    "camu_no_clusters_by_size": camu.no_clusters_by_size,
    "fedat": fedat.method,
    "pacfl": pacfl.method,
    "macfl_r": macfl_r.method,
    "hiflash_r": hiflash_r.method,
    "feduc_r": feduc_r.method,
}

__all__ = ["METHODS", "Allotment", "Allotting", "Grouping", "Local", "Method", "Start"]
