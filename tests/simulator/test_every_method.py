"""Laws that every method keeps, on a scenario small enough to run them all."""

from inspect import signature

import numpy as np
import pytest

from fedloom.methods import METHODS, csahfl
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.simulator.book import settle_all
from small import for_method

ROAMING = {"p_stay": 0.5, "neighbours": "path", "every": "edge-round"}


def checkpoints(chosen, text, seed):
    """A run, and its checkpoints after every cloud round."""
    simulation = Simulation(chosen, make_method(text), seed)
    found = [simulation.checkpoint() for _ in simulation.rounds() if simulation.cloud_rounds_done]
    return simulation, found


@pytest.mark.parametrize("models", ["edges", pytest.param("devices", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", METHODS)
def test_a_run_with_few_sampled_clients_goes_on_from_every_round_to_the_same_bits(name, models):
    made, text = for_method(name, clients_per_round=1, edge_rounds=1, cloud_rounds=5)
    made["fleet"]["compute"]["jitter_sigma"] = 0.5
    if models == "devices":
        made["fleet"]["mobility"] = ROAMING
    made["evaluation"] = {"models": models, "every": {"edge_rounds": 1}}
    chosen = scenario(made)
    whole, saved = checkpoints(chosen, text, seed=5)
    assert len(saved) == 5
    for checkpoint in saved[:-1]:
        second = Simulation(chosen, make_method(text), seed=5)
        for _ in second.rounds(checkpoint):
            pass
        assert second.measures == whole.measures
        assert np.array_equal(second.result().row, whole.result().row)
        assert second.federation.ledger.table() == whole.federation.ledger.table()


OPTIONS = {
    "alpha": (0, "inf"),
    "beta": (0, 180),
    "p": (1,),
    "linkage": ("average", "single"),
    "signature": ("per_class",),
    "metric": ("pairwise", "pairwise_abs"),
    "clusters": ("none", "random"),
    "wait": ("all",),
    "interval_scope": ("cluster",),
    "early_close": ("false",),
    "stale_mode": ("renorm", "literal"),
    "cloud_weights": ("quantity", "equal"),
    "quantity_scope": ("last",),
    "p_global": ("uniform",),
    "after_cloud": ("cluster", "mix", 0.3),
    "drop_at_cloud": ("true",),
    "lost_on_move": ("true",),
}


@pytest.mark.parametrize(
    "every", ["alike", pytest.param("own", marks=pytest.mark.full)]
)  # clusters of some clients each, or one for every client
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_csahfl_goes_on_from_every_round_to_the_same_bits(option, every):
    made, _ = for_method("csahfl", clients_per_round=1, edge_rounds=1, cloud_rounds=4)
    made["fleet"]["compute"]["jitter_sigma"] = 0.5
    made["fleet"]["mobility"] = ROAMING
    chosen = scenario(made)
    for value in OPTIONS[option]:
        text = f"csahfl:{option}={value}" + (":beta=0" if every == "own" and option != "beta" else "")
        whole, saved = checkpoints(chosen, text, seed=3)
        for checkpoint in saved[:-1]:
            second = Simulation(chosen, make_method(text), seed=3)
            for _ in second.rounds(checkpoint):
                pass
            assert second.measures == whole.measures, text
            assert np.array_equal(second.result().row, whole.result().row)


def test_no_option_of_csahfl_is_left_out():
    assert OPTIONS.keys() == signature(csahfl.method).parameters.keys()


def sums_by_hop(costs):
    """Sums of the notes by aggregator: (hop, direction) -> links, bytes, airtime, joules."""
    found = {}
    for _, columns in costs:
        for j, key in enumerate(zip(columns["hop"], columns["direction"])):
            line = np.array([columns[name][j] for name in ("links", "bytes", "airtime_s", "energy_j")])
            found[key] = found.get(key, np.zeros(4)) + line
    return found


@pytest.mark.parametrize("uplink", ["unicast", "once"])
@pytest.mark.parametrize("name", METHODS)
def test_costs_by_aggregator_add_up_to_the_ledger(name, uplink):
    made, text = for_method(name, cloud_rounds=3)
    made["fleet"]["device_edge"]["uplink"] = uplink
    made["fleet"]["compute"]["jitter_sigma"] = 0.5
    simulation = Simulation(scenario(made), make_method(text), seed=2)
    for _ in simulation.rounds():
        pass
    parts = sums_by_hop(simulation.costs)
    lines = simulation.federation.ledger.table()
    assert {(line["hop"], line["direction"]) for line in lines if line["energy_j"] or line["bytes"]} <= parts.keys()
    for line in lines:
        links, n_bytes, airtime_s, energy_j = parts.get((line["hop"], line["direction"]), np.zeros(4))
        assert n_bytes == line["bytes"]
        assert airtime_s == pytest.approx(line["airtime_s"], rel=1e-9, abs=1e-12)
        assert energy_j == pytest.approx(line["energy_j"], rel=1e-9, abs=1e-12)
        assert line["hop"] == "computing" or links == line["links"]


def test_a_client_of_two_cells_costs_in_both():
    made, _ = for_method("hhfl", cloud_rounds=1, edge_rounds=1)
    made["fleet"] |= {"placement": {"kind": "coordinates", "positions_m": [[50, 0]] * 6}, "homes": "even"}
    simulation = Simulation(scenario(made), make_method("hhfl"), seed=0)
    for _ in simulation.rounds():
        pass
    (_, columns), bits = simulation.costs[0], simulation.world.model_bits
    by = {
        (int(a), hop, direction): (int(b), float(j))
        for a, hop, direction, b, j in zip(
            *(columns[n] for n in ("aggregator", "hop", "direction", "bytes", "energy_j"))
        )
    }
    for n in (0, 1):  # all six report to both edges
        assert by[n, "device_edge", "up"][0] == 6 * round(bits / 8)
    halves = [by[n, "computing", ""][1] for n in (0, 1)]
    assert halves[0] == pytest.approx(halves[1], rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_dry_runs_keep_no_timeline_and_no_costs(name):
    made, text = for_method(name)
    simulation = Simulation(scenario(made), make_method(text), seed=0, dry_run=True)
    for _ in simulation.rounds():
        assert not simulation.federation.timeline and not simulation.costs


def test_the_model_of_a_silent_cluster_is_the_one_handed_down_to_it():
    # every client is a cluster of its own and one of three is sampled: who is silent holds the global model
    made, _ = for_method("csahfl", clients_per_round=1, edge_rounds=1, cloud_rounds=4)
    simulation = Simulation(scenario(made), make_method("csahfl:beta=0"), seed=3)
    before, silent = simulation.federation.model, 0
    for state in simulation.federation.cloud_rounds(4):
        settle_all([state.model, *state.reported_models, *state.cluster_models], simulation.engine)
        sent = [s for s in simulation.federation.timeline if s.cloud_round == state.cloud_round]
        clusters = state.topology.clusters
        heard = {int(clusters[n]) for s in sent for n in s.aggregator}
        for n in np.flatnonzero(~np.isin(clusters, list(heard))):
            assert np.array_equal(state.cluster_models[n].row, before.row)
            assert np.array_equal(state.reported_models[n].row, before.row)
            silent += 1
        before = state.model
    assert silent > 4


def test_with_one_client_in_every_cluster_cluster_and_edge_accuracy_are_the_same():
    made, _ = for_method("csahfl", clients_per_round=1, edge_rounds=1, cloud_rounds=5)
    for measures in simulate(scenario(made), "csahfl:beta=0", seed=3).measures:
        assert measures["local_by_cluster"] == pytest.approx(measures["local_by_edge"], abs=1e-12)
