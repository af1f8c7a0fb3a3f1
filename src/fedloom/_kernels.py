"""Compiled kernels of merges, codecs and large convolutions, where they were built: the build for this processor, or None.

They are in one module with the training engine, built for AVX-512, AVX2 and any processor, and chosen by the same variable:
FEDLOOM_NATIVE=baseline|avx2|avx512|off. What they compute, numpy and torch compute too, only slower.
"""

import importlib
import os
from functools import cache
from types import ModuleType

BUILDS = ("avx512", "avx2", "baseline")


def compiled() -> ModuleType | None:
    """The kernels; None if there are none, they are switched off, or the processor cannot do what is asked for."""
    return _build(os.environ.get("FEDLOOM_NATIVE", ""))


def n_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _build(wanted: str) -> ModuleType | None:
    if wanted == "off" or (baseline := _module("baseline")) is None:
        return None
    best: str = baseline.best_instructions()
    if wanted and (wanted not in BUILDS or BUILDS.index(wanted) < BUILDS.index(best)):
        return None
    return _module(wanted or best)


def _module(build: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"fedloom._compiled_{build}")
    except ImportError:
        return None
