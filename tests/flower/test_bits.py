"""What was simulated is what runs under Flower: with our client app the model is the simulator's, bit for bit."""

import numpy as np
import pytest

from deployment.federation import simulated
from fedloom.deployment.recorded import Recorded
from fedloom.flower.server import RUN
from fedloom.simulator import Scenario, Simulation, make_method
from fedloom.simulator.setting import make_setting
from flower.runs import grid_of, row_of, run
from small import for_method

LOCKSTEP = ["fedavg", "hierfedavg", "hhfl", "ddc", "csahfl_no_deadline", "pacfl", "similarity", "macfl_r"]


@pytest.mark.parametrize("name", LOCKSTEP)
def test_a_lockstep_method_gives_the_simulators_bits(name):
    scenario, method = for_method(name, cloud_rounds=2)
    assert np.array_equal(row_of(run(scenario, method, grid_of(scenario, method))), simulated(scenario, method))


def test_sampled_clients_are_added_up_in_the_simulators_order():
    scenario, method = for_method("hhfl", cloud_rounds=2, edge_rounds=4, participation=0.5)
    assert np.array_equal(row_of(run(scenario, method, grid_of(scenario, method))), simulated(scenario, method))


@pytest.mark.parametrize(("method", "edge_rounds"), [("fedadam", 3), ("fedavgm:hierarchical=true", 2)])
def test_a_server_optimiser_gives_the_simulators_bits(method, edge_rounds):
    scenario, _ = for_method(method, cloud_rounds=2, edge_rounds=edge_rounds)
    assert np.array_equal(row_of(run(scenario, method, grid_of(scenario, method))), simulated(scenario, method))


def test_a_time_box_that_is_long_enough_gives_the_simulators_bits():
    """Here devices are grouped by updates: what they trained for that they go on from."""
    scenario, _ = for_method("fedmds", cloud_rounds=1)
    method = "fedmds:n_clusters=2:box_s=3"
    assert np.array_equal(row_of(run(scenario, method, grid_of(scenario, method))), simulated(scenario, method))


@pytest.mark.parametrize("name", ["csahfl", "fedat", "feduc_r"])
def test_where_time_decides_the_model_is_that_of_a_simulation_with_the_recorded_times(name, tmp_path):
    scenario, method = for_method(name, cloud_rounds=2)
    journal = tmp_path / "journal"
    deployed = row_of(run(scenario, method, grid_of(scenario, method, slow={2: 0.3}), journal=journal))
    chosen, made = Scenario.model_validate(scenario), make_method(method)
    world = make_setting(chosen, made, 0).world
    carrier = Recorded(made, journal, RUN, up_bits=world.up_bits, down_bits=world.down_bits)
    simulation = Simulation(chosen, made, n_workers=1, carrier=carrier)
    for _ in simulation.rounds():
        pass
    assert np.array_equal(deployed, simulation.result().row)


def test_features_are_asked_for_by_query_messages_and_labels_are_known_already():
    scenario, method = for_method("ddc", cloud_rounds=1)
    grid = grid_of(scenario, method)
    run(scenario, method, grid)
    kinds = [kind for kind, _ in grid.seen]
    assert kinds.count("query.device") == kinds.count("query.feature") == 6
    assert kinds.count("train") == 12
    grid = grid_of(scenario, "similarity")
    run(scenario, "similarity", grid, num_rounds=1)
    assert "query.feature" not in {kind for kind, _ in grid.seen}


def test_the_result_has_the_measures_of_every_cloud_round_and_the_means_that_devices_told():
    scenario, method = for_method("hierfedavg", cloud_rounds=4)
    result = run(scenario, method, grid_of(scenario, method), num_rounds=2)
    assert list(result.evaluate_metrics_serverapp) == [0, 1, 2]
    assert 0 < result.evaluate_metrics_serverapp[2]["accuracy"] <= 1
    assert result.train_metrics_clientapp[1]["num-examples"] == 480  # 240 samples, two edge rounds
