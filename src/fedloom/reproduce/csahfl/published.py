"""What CSAHFL has in its Tables 1 to 3, under its names of places, settings, data and methods."""

from collections.abc import Sequence
from typing import Any

STATIC, MOBILE = "static", "mobile"
EIID, HALF, THIRD = "EIID", "ENIID50%", "ENIID30%"
EDGE_SHARE = {EIID: 1.0, HALF: 0.5, THIRD: 0.3}
FASHION, CIFAR, SVHN = "fashion-mnist", "cifar10", "svhn"
FEDAVG, HIER, FEDAT, FULL = "FedAvg", "HierFedAVG", "FedAT", "CSAHFL"
METHODS = {
    FEDAVG: "fedavg",
    "FedProx": "fedprox",
    HIER: "hierfedavg",
    FEDAT: "fedat",
    "MACFL_r": "macfl_r",
    "HiFlash_r": "hiflash_r",
    "FedUC_r": "feduc_r",
    FULL: "csahfl",
}
FLAT = (FEDAVG, FEDAT)  # without edges: the same for static and mobile clients
NO_C, NO_SA, NO_D = "w/o C", "w/o SA", "w/o D"
ABLATIONS = {NO_C: "csahfl_no_clusters", NO_SA: "csahfl_no_deadline", NO_D: "csahfl_no_kl"}
RECONSTRUCTED = "_r: our reconstructions, not the authors' methods"

Three = tuple[float, float, float]  # EIID, ENIID50%, ENIID30%
TABLE_1: dict[str, dict[str, dict[str, Three]]] = {
    FASHION: {
        STATIC: {
            FEDAVG: (87.50, 83.26, 83.08),
            "FedProx": (87.93, 82.96, 80.97),
            HIER: (87.43, 83.97, 81.44),
            FEDAT: (83.47, 82.31, 77.01),
            "MACFL_r": (88.02, 84.95, 81.65),
            "HiFlash_r": (89.12, 85.24, 81.48),
            "FedUC_r": (88.14, 83.97, 82.44),
            FULL: (92.14, 91.11, 88.49),
        },
        MOBILE: {
            "FedProx": (86.96, 82.27, 79.86),
            HIER: (86.59, 83.80, 81.39),
            "MACFL_r": (88.44, 85.97, 83.01),
            "HiFlash_r": (87.71, 87.13, 85.09),
            "FedUC_r": (86.70, 83.36, 82.57),
            FULL: (92.82, 91.80, 88.27),
        },
    },
    CIFAR: {
        STATIC: {
            FEDAVG: (48.52, 48.45, 47.74),
            "FedProx": (45.28, 45.28, 40.86),
            HIER: (45.51, 45.57, 44.13),
            FEDAT: (51.22, 47.11, 37.64),
            "MACFL_r": (53.02, 49.77, 47.77),
            "HiFlash_r": (65.08, 60.58, 49.37),
            "FedUC_r": (60.98, 58.94, 54.70),
            FULL: (69.35, 68.06, 64.75),
        },
    },
    SVHN: {
        STATIC: {
            FEDAVG: (84.58, 83.78, 83.83),
            "FedProx": (85.04, 82.65, 78.65),
            HIER: (85.05, 84.92, 82.90),
            FEDAT: (82.05, 78.82, 75.15),
            "MACFL_r": (87.77, 84.13, 81.63),
            "HiFlash_r": (88.49, 84.92, 80.59),
            "FedUC_r": (86.62, 83.79, 82.38),
            FULL: (90.68, 89.62, 88.17),
        },
    },
}
LOW = 60.0
HIGH = {EIID: 85.0, HALF: 82.0, THIRD: 80.0}
TABLE_2: dict[str, dict[str, tuple[tuple[int, int | None], ...]]] = {  # seconds to LOW and HIGH
    STATIC: {
        FEDAVG: ((823, 5043), (987, 8028), (1302, 6229)),
        "FedProx": ((1341, 5387), (1836, 10137), (1869, 11353)),
        HIER: ((1780, 6712), (1811, 7258), (1811, 11464)),
        FEDAT: ((706, 10528), (718, 7134), (705, None)),
        "MACFL_r": ((1632, 6465), (1796, 6912), (1751, 5787)),
        "HiFlash_r": ((1400, 2775), (1407, 4299), (1380, 3197)),
        "FedUC_r": ((718, 3493), (730, 2665), (1283, 3250)),
        FULL: ((724, 1392), (743, 1242), (989, 1735)),
    },
    MOBILE: {
        "FedProx": ((1776, 7619), (2296, 11068), (2091, 10776)),
        HIER: ((1819, 7164), (1776, 6958), (3202, 11438)),
        "MACFL_r": ((1795, 5909), (1807, 5089), (1735, 4374)),
        "HiFlash_r": ((882, 6497), (1093, 1733), (824, 2224)),
        "FedUC_r": ((853, 5012), (1065, 3793), (912, 3612)),
        FULL: ((744, 1488), (991, 1240), (745, 1840)),
    },
}
TABLE_3: dict[str, dict[str, tuple[tuple[float, int], ...]]] = {  # accuracy, seconds
    STATIC: {
        NO_C: ((90.12, 1432), (86.34, 1503), (82.20, 1545)),
        NO_SA: ((91.53, 5210), (88.72, 5419), (85.17, 6193)),
        NO_D: ((91.21, 1398), (89.06, 1408), (84.69, 1473)),
    },
    MOBILE: {
        NO_C: ((89.65, 1497), (85.92, 1607), (81.87, 1633)),
        NO_SA: ((91.41, 5108), (89.03, 6238), (81.64, 6501)),
        NO_D: ((90.89, 1537), (88.74, 1718), (83.87, 1829)),
    },
}


def published_value(three: Sequence[Any], setting: str) -> Any:
    """Of the three settings, that of this one."""
    return three[list(EDGE_SHARE).index(setting)]
