"""Several waves of training in one call: a chain.

A wave is what can be trained at once: jobs whose start models are known. Their results are averaged into new models, from which
the next wave starts. Where these averages are linear, all of it is known before the first job is trained: which jobs, from which
models, and what is made of them. For small models a wave takes less time than asking for it does, so that an engine that can
(`TrainsChains`) is handed all waves at once, and keeps its threads at work from the first to the last:

    before wave w    the models m with ready[m] == w are made:   row_m = float32(sum_m + sum over parts of weight x row)
    wave w           its jobs are trained, from rows that are given or were made
    after wave w     sum_t <- sum_t + sum over the wave's jobs of weight x result, in the order of fedloom.training.sums

Targets t: 0..M-1 are the models that are made on the way; the others wait for more than this chain, and their sums are returned.
Slots, which jobs and parts refer to: 0..M-1 are these models, the rows that are given follow.

`wave_by_wave` says the same with any engine. Both give the same bits, however many waves are handed over together.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedloom.training.engine import Engine, Ints, Jobs, Mix, Rows

Floats = NDArray[np.float64]
Sums = Mapping[int, Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """W waves with J jobs in all, M models that are made on the way and R rows that are given.

    rows (R, P). jobs: their starts are slots; wave (J,): 0..W-1. mix: weights of the jobs' results in the targets. ready (M,):
    the wave before which a model is made, rising. parts of models, sorted by model: part_model, part_slot, part_weight (L,).
    sums: by target, what earlier waves gave.
    """

    n_waves: int
    rows: Rows
    jobs: Jobs
    wave: Ints
    mix: Mix
    ready: Ints
    part_model: Ints
    part_slot: Ints
    part_weight: Floats
    sums: Sums

    @property
    def n_models(self) -> int:
        return len(self.ready)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What a chain gave: how many waves were trained, the rows (m, P) of the models made before them, and the sums of targets
    that are not made yet."""

    n_waves: int
    rows: Rows
    sums: dict[int, Floats]


class Limits(NamedTuple):
    """Of a chain: jobs of a wave (larger ones are handed over by themselves), and models that are made on the way."""

    jobs: int
    models: int


@runtime_checkable
class TrainsChains(Protocol):
    """An engine that takes whole chains."""

    def chain_limits(self) -> Limits: ...

    def train_chain(self, chain: Chain, seconds: float) -> Trained:
        """Train as many waves as begin within so many seconds, at least one."""
        ...


def takes_chains(engine: Engine) -> TypeGuard[TrainsChains]:
    """Whether it is one."""
    return _takes_chains(type(engine))


@functools.cache  # to look takes longer than a small wave
def _takes_chains(kind: type) -> bool:
    return issubclass(kind, TrainsChains)


def wave_by_wave(engine: Engine, chain: Chain) -> Trained:
    """The whole chain, a call for every wave."""
    made: list[Rows] = []
    sums = dict(chain.sums)

    def row(slot: int) -> Rows:
        return made[slot] if slot < chain.n_models else chain.rows[slot - chain.n_models]

    for w in range(chain.n_waves):
        for m in np.flatnonzero(chain.ready == w).tolist():
            mine = chain.part_model == m
            parts = zip(chain.part_slot[mine].tolist(), chain.part_weight[mine].tolist())
            made.append(weighted(sums.pop(m, None), [(row(slot), weight) for slot, weight in parts]))
        for target, average in _averages(engine, chain, w, row).items():
            sums[target] = sums[target] + average if target in sums else average
    return Trained(
        n_waves=chain.n_waves, rows=np.array(made, dtype=np.float32).reshape(-1, chain.rows.shape[1]), sums=sums
    )


def weighted(total: Floats | None, parts: list[tuple[Rows, float]]) -> Rows:
    """A sum (P,), if there is one, plus rows (P,) by their weights, one after the other in double precision."""
    added: Floats = np.zeros(()) if total is None else total
    for row, weight in parts:
        added = added + weight * row.astype(np.float64)
    return added.astype(np.float32)


def _averages(engine: Engine, chain: Chain, w: int, row: Callable[[int], Rows]) -> dict[int, Floats]:
    """By target, what the jobs of wave w give."""
    here = np.flatnonzero(chain.wave == w)
    place = np.full(len(chain.wave), -1)
    place[here] = np.arange(len(here))
    entry = place[chain.mix.job] >= 0
    targets, target = np.unique(chain.mix.target[entry], return_inverse=True)
    slots, start = np.unique(chain.jobs.start[here], return_inverse=True)
    averages = engine.train_average(
        np.stack([row(slot) for slot in slots.tolist()]),
        replace(chain.jobs.pick(here), start=start),
        Mix(n_targets=len(targets), target=target, job=place[chain.mix.job[entry]], weight=chain.mix.weight[entry]),
    )
    return dict(zip(targets.tolist(), averages))
