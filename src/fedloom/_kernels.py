"""Compiled kernels of merges, codecs and large convolutions, where they were built: the build for this processor, or None.

They are built as the training engine is, for AVX-512, AVX2 and any processor, and chosen by the same variable:
FEDLOOM_NATIVE=baseline|avx2|avx512|off. What they compute, numpy and torch compute too, only slower.
"""

import importlib
import os
from functools import cache
from types import ModuleType

BUILDS = ("avx512", "avx2", "baseline")


def merging() -> ModuleType | None:
    """The kernels of merges; None if there are none, they are switched off, or the processor cannot do what is asked for."""
    return _build("mixing._order", os.environ.get("FEDLOOM_NATIVE", ""))


def tiles() -> ModuleType | None:
    """The kernels of large convolutions, or None."""
    return _build("training._tiles", os.environ.get("FEDLOOM_NATIVE", ""))


def coding() -> ModuleType | None:
    """The kernels of codecs, in the same way."""
    return _build("coding._draws", os.environ.get("FEDLOOM_NATIVE", ""))


def n_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _build(kernels: str, wanted: str) -> ModuleType | None:
    if wanted == "off" or (order := _module("mixing._order", "baseline")) is None:
        return None
    best: str = order.best_instructions()
    if wanted and (wanted not in BUILDS or BUILDS.index(wanted) < BUILDS.index(best)):
        return None
    return _module(kernels, wanted or best)


def _module(kernels: str, build: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"fedloom.{kernels}_{build}")
    except ImportError:
        return None
