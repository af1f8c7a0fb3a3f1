"""Runs whose waves of training go to the engine together have the bits of runs in which every wave is a call of its own."""

import numpy as np
import pytest
from worlds import adding

from fedloom.methods import METHODS
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.book import Dispatch, Model, combine, settle
from fedloom.training.chain import Limits
from fedloom.training.engine import Jobs
from fedloom.training.native import NativeEngine
from small import for_method


class Counted:
    """A native engine that counts its calls, and takes no chains unless it is told to."""

    def __init__(self, engine):
        self._engine, self.calls = engine, []
        self.evaluate, self.outputs, self.gradient = engine.evaluate, engine.outputs, engine.gradient
        self.train, self.close = engine.train, engine.close

    def train_average(self, starts, jobs, mix):
        self.calls.append("wave")
        return self._engine.train_average(starts, jobs, mix)


class CountedChains(Counted):
    def chain_limits(self):
        return self._engine.chain_limits()

    def train_chain(self, chain, seconds):
        self.calls.append("chain")
        return self._engine.train_chain(chain, seconds)


def run(name, kind, *, n_workers=2, call_s=None, every=1, **training):
    """Everything a run gives, and the calls of its engine. every: so many cloud rounds the model is looked at."""
    made, text = for_method(name, **{"cloud_rounds": 3, **training})
    made["evaluation"] = {"every": every}

    def engine(task, rule, seed):
        return kind(NativeEngine(task, rule, seed, n_workers)), "counted"

    simulation = Simulation(scenario(made), make_method(text), 1, engine=engine)
    if call_s is not None:
        simulation.call_s = call_s
    row = [simulation.result().row.copy() for measures in simulation.rounds() if measures is not None]
    return (row, simulation.measures, simulation.federation.ledger.table(), simulation.batches), simulation.engine.calls


def assert_same(found, wanted):
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1:] == wanted[1:]


def by_definition(model, engine, known):
    """The row of a model, job by job from its recipe."""
    if model.settled:
        return model.row
    if model not in known:
        total = sum(weight * by_definition(part, engine, known).astype(np.float64) for part, weight in model.models)
        for dispatch, at, weights in model.jobs:
            for j, weight in zip(at.tolist(), weights.tolist()):
                start = dispatch.starts[dispatch.start[j]]
                numbers = [0, dispatch.client[j], dispatch.n_steps[j], dispatch.first_step[j], start.steps]
                job = Jobs(**dict(zip(("start", "client", "n_steps", "first_step", "lr_step"), np.array([numbers]).T)))
                total = total + weight * engine.train(by_definition(start, engine, known)[None], job)[0].astype(
                    np.float64
                )
        if model.rule is not None:
            total = model.rule([by_definition(part, engine, known) for part, _ in model.models])
        known[model] = total.astype(np.float32)
    return known[model]


@pytest.mark.parametrize("name", ["fedavg", "hhfl", "csahfl", "fedat", "similarity"])
def test_models_are_what_their_recipes_say(name):
    decay = {"kind": "inverse-time", "delay_steps": 3.0}
    made, text = for_method(name, edge_rounds=3, lr_decay=decay, participation=0.7)
    simulation = Simulation(scenario(made), make_method(text), 1, engine="native", n_workers=2)
    *_, last = simulation.federation.cloud_rounds(2)  # nobody has looked at a model yet
    assert not last.model.settled
    wanted = by_definition(last.model, simulation.engine, {})
    found = settle(last.model, simulation.engine)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", [name for name in METHODS if make_method(name).local.rule is None]
)  # torch trains those
def test_every_method_has_the_same_bits_in_chains_and_wave_by_wave(name):
    wanted, _ = run(name, Counted, edge_rounds=4)
    found, calls = run(name, CountedChains, edge_rounds=4)
    assert_same(found, wanted)
    assert len(calls) <= len(found[3])


def test_edge_rounds_in_lockstep_are_one_call_a_cloud_round():
    (*_, batches), calls = run("hierfedavg", CountedChains, edge_rounds=4)
    assert calls == ["chain"] * 3 and batches == [6] * 12
    assert run("hierfedavg", Counted, edge_rounds=4)[1] == ["wave"] * 12


def test_without_time_every_wave_is_a_call():
    wanted, _ = run("hierfedavg", CountedChains, edge_rounds=4)
    found, calls = run("hierfedavg", CountedChains, edge_rounds=4, call_s=0.0)
    assert_same(found, wanted)
    assert calls == ["chain"] * 12


def test_waves_that_are_large_are_handed_over_by_themselves(monkeypatch):
    wanted, _ = run("hierfedavg", CountedChains, edge_rounds=4)
    monkeypatch.setattr(CountedChains, "chain_limits", lambda self: Limits(jobs=5, models=100))
    found, calls = run("hierfedavg", CountedChains, edge_rounds=4)
    assert_same(found, wanted)
    assert calls == ["wave"] * 12


def test_chains_end_where_too_many_models_would_be_made(monkeypatch):
    wanted, _ = run("hierfedavg", CountedChains, edge_rounds=4)
    monkeypatch.setattr(CountedChains, "chain_limits", lambda self: Limits(jobs=100, models=2))
    found, calls = run("hierfedavg", CountedChains, edge_rounds=4)
    assert_same(found, wanted)
    assert calls == ["chain"] * 6  # after two waves, as the models of two edges are made between them


@pytest.mark.parametrize(
    "name", ["fedavg", "hierfedavg", "hhfl", "csahfl", "fedat", "similarity", "ltc", "camu", "ddc"]
)
def test_cloud_rounds_that_nobody_looks_at_have_the_same_bits_together(name):
    options = {"cloud_rounds": 6, "every": 5, "participation": 0.7}
    wanted, _ = run(name, CountedChains, call_s=0.0, **options)
    found, _ = run(name, CountedChains, call_s=1e9, **options)
    assert_same(found, wanted)


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl"])
def test_cloud_rounds_that_nobody_looks_at_are_one_call(name):
    (*_, batches), calls = run(name, CountedChains, call_s=1e9, cloud_rounds=6, every=5)
    assert calls == ["chain"] * 3  # the first, which says how long one takes, those up to the fifth, and the last
    assert len(batches) == 12


def test_waves_of_several_blocks_have_the_same_bits_together():
    """More than 64 jobs in a wave: in which order they are added up depends on what else is trained with them."""
    found = {}
    for call_s in (0.0, 1e9):
        made, _ = for_method("hierfedavg", cloud_rounds=5)
        made["fleet"] |= {"n_devices": 150, "cells": made["fleet"]["cells"] | {"n": 3}}
        made["task"]["gaussian"]["n_train"] = 2000
        made["evaluation"] = {"every": 5}
        simulation = Simulation(scenario(made), make_method("hierfedavg"), 1, engine="native", n_workers=2)
        simulation.call_s = call_s
        *_, _ = simulation.rounds()
        found[call_s] = simulation.result().row, simulation.batches
    np.testing.assert_array_equal(found[0.0][0], found[1e9][0])
    assert found[0.0][1] == found[1e9][1] == [150] * 10


def test_any_number_of_threads_gives_the_same_bits():
    wanted, _ = run("hhfl", CountedChains, edge_rounds=4, n_workers=1)
    assert_same(run("hhfl", CountedChains, edge_rounds=4, n_workers=3)[0], wanted)


def test_what_nobody_needs_need_not_be_known():
    """After a restart the starts of jobs that are merged already have no rows."""
    gone, known = Model(None), Model(np.array([2.0], dtype=np.float32))
    two, at = np.array([0, 1]), np.array([1])
    dispatch = Dispatch([gone, known], two, two, np.array([3, 3]), np.array([0, 0]))
    target = combine([], [(dispatch, at, np.ones(1))], steps=3)
    assert settle(target, adding(10.0, 1.0)).tolist() == [5.0]  # 2 + 3 steps of 1
