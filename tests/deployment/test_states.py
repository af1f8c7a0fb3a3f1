"""Client rules with state in real federations: what devices keep and what travels is the simulator's, to the bit."""

import asyncio

import numpy as np
import pytest

from deployment.federation import Together, recorded, simulated
from deployment.test_faults import with_faults
from fedloom.simulator import Scenario, Simulation, make_method
from small import for_method


def deployed(scenario, method, folder):
    """The federation when it is over."""
    together = Together(scenario, method, folder)
    asyncio.run(together.run())
    return together


LEARNT = "ltc:n_clusters=2:box_s=2:rule=scaffold"  # clients train for the grouping first, and go on from that
LOCKSTEP = {
    "flat": "scaffold",
    "hierarchy": "scaffold:hierarchical=true",
    "several cells": "hhfl:rule=scaffold",
    "personal": "ditto",
    "heads": "ddc:rule=scaffold",
    "coded": "hhfl:rule=scaffold:up=topk:up.share=0.1:down=float16",
}


@pytest.mark.parametrize("name", LOCKSTEP)
def test_models_have_the_simulators_bits(name, tmp_path):
    scenario, _ = for_method(LOCKSTEP[name], cloud_rounds=2)
    assert np.array_equal(deployed(scenario, LOCKSTEP[name], tmp_path).row, simulated(scenario, LOCKSTEP[name]))


@pytest.mark.parametrize("method", ["scaffold", "hhfl:rule=scaffold", "hhfl:rule=ditto"])
def test_sampled_clients_move_controls_by_their_share(method, tmp_path):
    scenario, _ = for_method(method, cloud_rounds=2, edge_rounds=3, participation=0.5)
    together = deployed(scenario, method, tmp_path)
    simulation = Simulation(Scenario.model_validate(scenario), make_method(method), 0, n_workers=1)
    for _ in simulation.rounds():
        pass
    assert np.array_equal(together.row, simulation.result().row)
    for client, kept in simulation.federation.held.states.kept.items():
        held = together.nodes[f"device-{client}"].store
        newest = max((name for name in held.names if name[0] == "o"), key=lambda name: int(name.split("-")[2]))
        assert np.array_equal(held[newest], kept.row)


def test_states_stay_where_they_are_and_old_ones_are_dropped(tmp_path):
    scenario, _ = for_method("hhfl", cloud_rounds=4)
    together = deployed(scenario, "hhfl:rule=ditto", tmp_path)
    for name, node in together.nodes.items():
        states = [value for value in node.store.names if value[0] == "o"]
        assert all(f"device-{value.split('-')[1]}" == name for value in states)
        assert len(states) <= 4 and (states or not name.startswith("device"))


@pytest.mark.parametrize("method", ["csahfl:rule=scaffold", "fedat:n_tiers=3:rule=ditto", LEARNT])
def test_where_time_decides_models_are_those_of_the_recorded_times(method, tmp_path):
    scenario, _ = for_method(method.partition(":")[0], cloud_rounds=2)
    row = deployed(scenario, method, tmp_path).row
    assert np.array_equal(row, recorded(scenario, method, tmp_path))


def test_clients_that_move_take_their_states_along(tmp_path):
    scenario, _ = for_method("hierfedavg", cloud_rounds=3)
    scenario["fleet"]["mobility"] = {"p_stay": 0.3, "neighbours": "ring", "every": "edge-round"}
    row = deployed(scenario, "hierfedavg:rule=scaffold", tmp_path).row
    assert np.array_equal(row, recorded(scenario, "hierfedavg:rule=scaffold", tmp_path))


@pytest.mark.parametrize("seed", range(3))
def test_kills_at_random_moments_change_nothing(seed, tmp_path):
    scenario, _ = for_method("hhfl", cloud_rounds=3, participation=0.7)
    method = "hhfl:rule=scaffold"
    row, killed = with_faults(scenario, method, tmp_path, seed, kills=6)
    assert killed and np.array_equal(row, simulated(scenario, method))
