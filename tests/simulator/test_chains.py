"""Runs whose waves of training go to the engine together have the bits of runs in which every wave is a call of its own."""

import numpy as np
import pytest

from fedloom.methods import METHODS
from fedloom.simulator import Simulation, make_method, scenario
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


def run(name, kind, *, n_workers=2, call_s=None, **training):
    """Everything a run gives, and the calls of its engine."""
    made, text = for_method(name, cloud_rounds=3, **training)

    def engine(task, rule, seed):
        return kind(NativeEngine(task, rule, seed, n_workers)), "counted"

    simulation = Simulation(scenario(made), make_method(text), 1, engine=engine)
    if call_s is not None:
        simulation.call_s = call_s
    row = [simulation.federation.model.row.copy() for _ in simulation.rounds()]
    return (row, simulation.measures, simulation.federation.ledger.table(), simulation.batches), simulation.engine.calls


def assert_same(found, wanted):
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1:] == wanted[1:]


@pytest.mark.parametrize("name", METHODS)
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
    assert calls == ["chain", "chain", "chain", "wave"] * 3  # what is left is a single wave in the end


def test_any_number_of_threads_gives_the_same_bits():
    wanted, _ = run("hhfl", CountedChains, edge_rounds=4, n_workers=1)
    assert_same(run("hhfl", CountedChains, edge_rounds=4, n_workers=3)[0], wanted)
