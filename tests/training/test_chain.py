"""Chains: several waves in one call give the bits of a call for every wave, for any threads."""

import os
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedloom.training import models, rows
from fedloom.training.chain import Chain, takes_chains, wave_by_wave
from fedloom.training.engine import Jobs, Mix, NotFinite, Task
from fedloom.training.native import NativeEngine
from fedloom.training.rule import InverseTime, LocalRule
from fedloom.training.sums import block_size
from fedloom.training.torch_engine import TorchEngine

K = 200
RULE = LocalRule(lr=0.1, schedule=InverseTime(delay_steps=7.0), momentum=0.5)


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(1)
    return Task(
        model=models.build("mlp", (8,), 3, seed=0, hidden=(6,)),
        x_train=rng.normal(size=(400, 8)).astype(np.float32),
        y_train=rng.integers(0, 3, 400),
        x_test=rng.normal(size=(10, 8)).astype(np.float32),
        y_test=rng.integers(0, 3, 10),
        parts=tuple(rng.integers(0, 400, 6) for _ in range(K)),
        batch_size=4,
    )


def some_rows(task, n, rng):
    return (rows.to_row(task.model) + 0.1 * rng.normal(size=(n, rows.n_values(task.model)))).astype(np.float32)


def random_chain(task, seed, n_waves=4, most_jobs=20):
    """Models of every kind: with and without jobs, of jobs of one wave or of several, mixed with others, and two that wait."""
    rng = np.random.default_rng(seed)
    n_models, n_given, n_waiting = 7, 3, 2
    ready = np.sort(rng.integers(1, n_waves, n_models)) if n_waves > 1 else np.zeros(0, np.int64)
    n_models = len(ready)
    jobs, wave, entries = [], [], []
    for w in range(n_waves):
        known = [*np.flatnonzero(ready <= w), *range(n_models, n_models + n_given)]
        open_ = [*np.flatnonzero(ready > w), *range(n_models, n_models + n_waiting)]
        n = int(rng.integers(1, most_jobs + 1))
        for client in rng.permutation(K)[:n].tolist():
            targets = rng.permutation(open_)[: rng.integers(1, 3)].tolist()
            entries += [(target, len(jobs), rng.uniform(-0.5, 1)) for target in targets]
            jobs.append((rng.choice(known), client, rng.integers(0, 4), rng.integers(0, 9), rng.integers(0, 3)))
            wave.append(w)
    parts = [
        (m, slot, rng.uniform(-1, 1))
        for m in range(n_models)
        for slot in [*range(m), *range(n_models, n_models + n_given)]
        if rng.uniform() < 0.3
    ]
    made_of = {m for m, *_ in parts} | {target for target, *_ in entries}
    parts = sorted(parts + [(m, n_models, 0.5) for m in range(n_models) if m not in made_of])
    target, job, weight = zip(*entries)
    part_model, part_slot, part_weight = zip(*parts) if parts else ((), (), ())
    shuffled = rng.permutation(len(jobs))  # the order of jobs must not matter
    place = np.argsort(shuffled)
    start, client, n_steps, first_step, lr_step = np.array(jobs, dtype=np.int64)[shuffled].T.copy()
    n_targets = n_models + n_waiting
    return Chain(
        n_waves=n_waves,
        rows=some_rows(task, n_given, rng),
        jobs=Jobs(start=start, client=client, n_steps=n_steps, first_step=first_step, lr_step=lr_step),
        wave=np.array(wave)[shuffled],
        mix=Mix(n_targets=n_targets, target=np.array(target), job=place[list(job)], weight=np.array(weight)),
        ready=ready,
        part_model=np.array(part_model, dtype=np.int64),
        part_slot=np.array(part_slot, dtype=np.int64),
        part_weight=np.array(part_weight, dtype=np.float64),
        sums={t: rng.normal(size=rows.n_values(task.model)) for t in rng.permutation(n_targets)[:3].tolist()},
    )


def cut(chain, n_waves):
    """The first waves only, with the same targets: for what is made later the sums are wanted."""
    n_made = int(np.searchsorted(chain.ready, n_waves))
    which = np.flatnonzero(chain.wave < n_waves)
    place = np.full(len(chain.wave), -1)
    place[which] = np.arange(len(which))
    entry = place[chain.mix.job] >= 0
    part = chain.part_model < n_made
    shift = np.where(chain.part_slot >= chain.n_models, n_made - chain.n_models, 0)
    jobs = chain.jobs.pick(which)
    start = np.where(jobs.start >= chain.n_models, jobs.start + n_made - chain.n_models, jobs.start)
    mix = Mix(
        n_targets=chain.mix.n_targets,
        target=chain.mix.target[entry],
        job=place[chain.mix.job[entry]],
        weight=chain.mix.weight[entry],
    )
    return replace(
        chain,
        n_waves=n_waves,
        jobs=replace(jobs, start=start),
        wave=chain.wave[which],
        mix=mix,
        ready=chain.ready[:n_made],
        part_model=chain.part_model[part],
        part_slot=(chain.part_slot + shift)[part],
        part_weight=chain.part_weight[part],
    )


def assert_same(found, wanted):
    assert found.n_waves == wanted.n_waves
    np.testing.assert_array_equal(found.rows, wanted.rows)
    assert sorted(found.sums) == sorted(wanted.sums)
    for target, total in wanted.sums.items():
        np.testing.assert_array_equal(found.sums[target], total)


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_has_the_bits_of_its_waves(task, seed):
    chain = random_chain(task, seed, n_waves=1 + seed % 5)
    wanted = wave_by_wave(NativeEngine(task, RULE, 3, n_workers=1), chain)
    for n_workers in (1, 2, 3):
        engine = NativeEngine(task, RULE, 3, n_workers=n_workers)
        assert_same(engine.train_chain(chain, np.inf), wanted)
        assert_same(engine.train_chain(chain, np.inf), wanted)  # with threads and memory of the call before


def test_waves_of_more_than_a_block_are_summed_along_the_tree(task):
    chain = random_chain(task, 5, n_waves=3, most_jobs=K)
    sizes = np.bincount(chain.wave)
    assert sizes.max() > 2 * block_size(rows.n_values(task.model)) and sizes.min() < sizes.max()
    wanted = wave_by_wave(NativeEngine(task, RULE, 3, n_workers=1), chain)
    assert_same(NativeEngine(task, RULE, 3, n_workers=2).train_chain(chain, np.inf), wanted)


@pytest.mark.parametrize("seed", range(4))
def test_when_the_time_is_over_it_stops_after_a_wave_and_says_how_far_it_is(task, seed):
    chain = random_chain(task, seed, n_waves=4)
    engine = NativeEngine(task, RULE, 3, n_workers=2)
    assert_same(engine.train_chain(chain, 0.0), wave_by_wave(engine, cut(chain, 1)))


def test_a_model_by_hand(task):
    """Two waves of no steps, so that a job gives what it starts from: (0.25 a + 0.75 b) and then half of that and half of a."""
    engine = NativeEngine(task, RULE, 3, n_workers=1)
    given = some_rows(task, 2, np.random.default_rng(0))
    nothing = np.zeros(3, dtype=np.int64)
    chain = Chain(
        n_waves=2,
        rows=given,
        jobs=Jobs(
            start=np.array([1, 2, 0]), client=np.array([4, 5, 6]), n_steps=nothing, first_step=nothing, lr_step=nothing
        ),
        wave=np.array([0, 0, 1]),
        mix=Mix(n_targets=2, target=np.array([0, 0, 1]), job=np.arange(3), weight=np.array([0.25, 0.75, 0.5])),
        ready=np.array([1]),
        part_model=np.array([0]),
        part_slot=np.array([1]),
        part_weight=np.array([2.0]),
        sums={},
    )
    found = engine.train_chain(chain, np.inf)
    made = (0.25 * given[0].astype(np.float64) + 0.75 * given[1] + 2 * given[0].astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found.rows, made[None], rtol=1e-6)
    np.testing.assert_array_equal(found.sums[1], 0.5 * found.rows[0].astype(np.float64))
    assert list(found.sums) == [1] and found.n_waves == 2


def test_clients_that_diverge_are_named_and_no_wave_follows(task):
    chain = random_chain(task, 0, n_waves=4)
    engine = NativeEngine(task, LocalRule(lr=1e38), 3, n_workers=2)
    with pytest.raises(NotFinite) as wanted:
        wave_by_wave(engine, chain)
    with pytest.raises(NotFinite) as found:
        engine.train_chain(chain, np.inf)
    assert found.value.clients == wanted.value.clients and len(found.value.clients) < len(
        set(chain.jobs.client.tolist())
    )


def test_only_the_native_engine_takes_chains(task):
    assert takes_chains(NativeEngine(task, RULE, 3, n_workers=1))
    assert not takes_chains(TorchEngine(task, RULE, 3, n_workers=1))


def test_jobs_of_clients_or_models_that_do_not_exist_are_refused(task):
    chain, engine = random_chain(task, 1), NativeEngine(task, RULE, 3, n_workers=1)
    for name, value in (("client", K), ("start", chain.n_models + len(chain.rows)), ("n_steps", -1)):
        bad = replace(chain, jobs=replace(chain.jobs, **{name: np.full(len(chain.jobs), value)}))
        with pytest.raises(ValueError, match=f"{name} of a job must be"):
            engine.train_chain(bad, np.inf)
    early = replace(chain, jobs=replace(chain.jobs, start=np.full(len(chain.jobs), chain.n_models - 1)))
    with pytest.raises(ValueError, match="used before it is made"):
        engine.train_chain(early, np.inf)
    with pytest.raises(ValueError, match="used before it is made"):
        engine.train_chain(replace(chain, part_slot=chain.part_model), np.inf)


def test_an_engine_that_was_closed_or_forked_starts_its_threads_again(task):
    chain, engine = random_chain(task, 2), NativeEngine(task, RULE, 3, n_workers=3)
    wanted = engine.train_chain(chain, np.inf)
    engine.close()
    engine.close()
    assert_same(engine.train_chain(chain, np.inf), wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what is tried here
        child = os.fork()
    if child == 0:
        same = all(np.array_equal(total, wanted.sums[t]) for t, total in engine.train_chain(chain, np.inf).sums.items())
        engine.close()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert_same(engine.train_chain(chain, np.inf), wanted)


def test_calls_from_several_threads_wait_for_each_other(task):
    chain, engine = random_chain(task, 2), NativeEngine(task, RULE, 3, n_workers=2)
    wanted, found = engine.train_chain(chain, np.inf), []
    callers = [threading.Thread(target=lambda: found.append(engine.train_chain(chain, np.inf))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(found) == 4
    for one in found:
        assert_same(one, wanted)
