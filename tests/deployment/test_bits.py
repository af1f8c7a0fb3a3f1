"""What was simulated is what runs: the deployed model is the simulator's, bit for bit."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from deployment.federation import Together, recorded, simulated
from fedloom.deployment.roles import check_runs
from fedloom.methods import METHODS
from fedloom.mixing import robust
from fedloom.mixing.server import Adam
from fedloom.simulator import Scenario, make_method
from small import for_method

BOXED = ["ltc", "fedmds", "fedmds_plus", "dcliques", "random_clusters"]
TIMED = ["csahfl", "csahfl_no_clusters", "csahfl_no_kl", "fedat", "hiflash_r", "feduc_r"]
LOCKSTEP = [
    "fedavg",
    "hierfedavg",
    "fedprox",
    "fednova",
    "hhfl",
    "msfedavg",
    "ddc",
    "camu",
    "camu_gated",
    "camu_ungated",
    "camu_updates_only",
    "camu_no_clusters",
    "camu_no_clusters_by_size",
    "camu_single",
    "csahfl_no_deadline",
    "pacfl",
    "geographic",
    "similarity",
    "macfl_r",
    "fedmes",
]


SERVER = ["fedavgm", "fedadam", "fedyogi"]
STATEFUL = ["scaffold", "ditto"]


def test_every_method_is_tried():
    assert sorted([*BOXED, *TIMED, *LOCKSTEP, *SERVER, *STATEFUL]) == sorted(METHODS)


def test_a_fleet_that_changes_with_the_seconds_of_a_simulation_is_refused():
    scenario, _ = for_method("hierfedavg")
    scenario["fleet"]["mobility"] = {"kind": "waypoint"}
    with pytest.raises(
        ValueError, match=r"the fleet changes with the seconds of a simulation .* simulate it: fedloom run"
    ):
        check_runs(Scenario.model_validate(scenario), make_method("hierfedavg"))


@pytest.mark.parametrize("name", SERVER)
def test_a_server_optimiser_gives_the_simulators_bits_where_clients_are_averaged_and_above(name, tmp_path):
    scenario, _ = for_method(name, cloud_rounds=3)
    for number, method in enumerate((f"{name}:hierarchical=true", name)):
        row = deployed(scenario, method, tmp_path / str(number))
        assert np.array_equal(row, simulated(scenario, method))


OPTIMISED = {
    "edges": make_method("hhfl"),
    "edges, by rows": make_method("hierfedavg").with_(merge_edge=robust.at_edge(robust.trimmed_mean(0.2))),
    "heads": make_method("ddc"),
    "edges and states": make_method("hierfedavg:rule=scaffold"),
    "edges, coded": make_method("hhfl:up=topk:up.share=0.1:down=qsgd:down.bits=8"),
}


@pytest.mark.parametrize("where", OPTIMISED)
def test_steps_of_stations_give_the_simulators_bits(where, tmp_path):
    """Every station keeps moments of its own, over several edge rounds and cloud rounds."""
    method = OPTIMISED[where]
    method = method.with_(merge_edge=replace(method.merge_edge, then=Adam(lr=0.02)))
    scenario, _ = for_method(method.name, cloud_rounds=3, edge_rounds=3)
    row = deployed(scenario, method, tmp_path)
    assert np.array_equal(row, simulated(scenario, method))
    assert not np.array_equal(row, simulated(scenario, OPTIMISED[where]))


def deployed(scenario, method, folder, **options):
    async def go():
        return await Together(scenario, method, folder, **options).run()

    return asyncio.run(go())


@pytest.mark.parametrize("name", LOCKSTEP)
def test_a_lockstep_method_gives_the_simulators_bits(name, tmp_path):
    scenario, method = for_method(name, cloud_rounds=2)
    assert np.array_equal(deployed(scenario, method, tmp_path), simulated(scenario, method))


@pytest.mark.parametrize("name", BOXED)
def test_a_time_box_that_is_long_enough_gives_the_simulators_bits(name, tmp_path):
    scenario, _ = for_method(name, cloud_rounds=1)
    method = f"{name}:n_clusters=2:box_s=2"
    assert np.array_equal(deployed(scenario, method, tmp_path), simulated(scenario, method))


@pytest.mark.parametrize("name", TIMED)
def test_where_time_decides_the_model_is_that_of_a_simulation_with_the_recorded_times(name, tmp_path):
    scenario, method = for_method(name, cloud_rounds=2)
    assert np.array_equal(deployed(scenario, method, tmp_path), recorded(scenario, method, tmp_path))


@pytest.mark.parametrize("method", ["hierfedavg", "hhfl"])
def test_sampled_clients_are_added_up_in_the_simulators_order(method, tmp_path):
    """Clients of two cells may start deeper in the book than those of one: their sums come in waves."""
    scenario, text = for_method(method, cloud_rounds=2, edge_rounds=4, participation=0.5)
    assert np.array_equal(deployed(scenario, text, tmp_path), simulated(scenario, text))


BY_ROWS = ":merge_edge=trimmed_mean"  # goes by what clients began with


@pytest.mark.parametrize(("method", "merge"), [("hierfedavg", ""), ("csahfl", ""), ("csahfl", BY_ROWS)])
def test_clients_that_move_between_edge_rounds_take_their_updates_along(method, merge, tmp_path):
    scenario, text = for_method(method, cloud_rounds=3)
    scenario["fleet"]["mobility"] = {"p_stay": 0.3, "neighbours": "ring", "every": "edge-round"}
    row = deployed(scenario, text + merge, tmp_path)
    assert np.array_equal(row, recorded(scenario, text + merge, tmp_path))


def test_updates_that_were_trained_for_the_grouping_can_be_merged_by_rows(tmp_path):
    scenario, _ = for_method("ltc", cloud_rounds=1)
    method = f"ltc:n_clusters=2:box_s=2{BY_ROWS}"
    assert np.array_equal(deployed(scenario, method, tmp_path), simulated(scenario, method))
