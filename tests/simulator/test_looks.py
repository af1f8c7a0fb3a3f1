"""Evaluation between cloud rounds, of models that exist, and runs whose length is given in steps."""

import numpy as np
import pytest
from worlds import ScalarEngine, snapshot, world

from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.simulator.book import Model, settle_all
from fedloom.simulator.driver import Driver
from fedloom.training.native import NativeEngine
from small import for_method


def adding(*amounts):
    return ScalarEngine(lambda k, w, lr: w + amounts[k])


def test_the_virtual_model_between_cloud_rounds_by_hand():
    # two cells with one client each; client 0 adds 1 a round in 1 s, client 1 adds 3 in 2 s; two edge rounds a cloud round
    place = snapshot([1.0, 2.0], [[1, 0], [0, 1]])
    federation = Driver(
        make_method("hierfedavg"),
        world(place, n_samples=[300, 100], edge_rounds=2),
        Model(np.zeros(1, np.float32)),
        look_every=1,
    )
    engine, seen = adding(1, 3), []
    for state in federation.cloud_rounds(2):
        settle_all([state.model], engine)
        seen.append((state.between, state.cloud_round, state.edge_rounds, state.time_s, float(state.model.row[0])))
    first = 0.75 * 1 + 0.25 * 3
    assert seen == [
        (True, 0, 1, 2.0, pytest.approx(first)),  # after one edge round of both, though cell 0 has had its second
        (False, 1, 2, 4.0, pytest.approx(2 * first)),
        (True, 1, 3, 6.0, pytest.approx(3 * first)),
        (False, 2, 4, 8.0, pytest.approx(4 * first)),
    ]


def test_looking_changes_nothing():
    for name in ("hierfedavg", "hhfl", "csahfl", "fedat", "msfedavg", "random_clusters"):
        made, text = for_method(name)
        plain = simulate(scenario(made), text, seed=1)
        made["evaluation"] = {"every": {"edge_rounds": 1}}
        closer = simulate(scenario(made), text, seed=1)
        assert np.array_equal(plain.row, closer.row)
        after = {}  # the first row of a cloud round is the one after its merge
        for measures in closer.measures:
            after.setdefault(measures["cloud_round"], measures)
        assert [after[m["cloud_round"]] for m in plain.measures] == plain.measures
        assert len(closer.measures) > len(plain.measures)
        steps = [(m["edge_round"], m["time_s"]) for m in closer.measures]
        assert steps == sorted(steps)


def test_hhfl_with_one_edge_round_a_cloud_round_meets_the_virtual_model():
    # with G = 1 the cloud merges after every edge round; G = 2 has the same virtual model after the first
    made, _ = for_method("hhfl", edge_rounds=2, cloud_rounds=1)
    made["evaluation"] = {"every": {"edge_rounds": 1}}
    long = simulate(scenario(made), "hhfl", seed=4).measures
    made["training"] |= {"edge_rounds": 1}
    short = simulate(scenario(made), "hhfl", seed=4).measures
    assert long[1]["loss"] == short[1]["loss"] and long[1]["local_steps"] == short[1]["local_steps"] == 2


def test_accuracies_of_edges_and_devices_are_those_of_their_models():
    made, _ = for_method("hierfedavg", edge_rounds=1, cloud_rounds=2)
    made["evaluation"] = {"models": "devices"}
    simulation = Simulation(scenario(made), make_method("hierfedavg"), seed=2)
    rounds = simulation.rounds()
    next(rounds)
    state = None
    inner = simulation._measure

    def watched(now):
        nonlocal state
        state = now
        return inner(now)

    simulation._measure = watched
    measures = next(rounds)
    accuracy = {
        name: [float(simulation.engine.evaluate(m.row[None]).accuracy[0]) for m in models]
        for name, models in (("edge", state.reported_models), ("device", state.device_models.values()))
    }
    rounds.close()
    assert len(accuracy["device"]) == 6
    for name, values in accuracy.items():
        assert measures[f"{name}_accuracy"] == pytest.approx(np.mean(values), abs=1e-12)
        assert measures[f"{name}_accuracy_worst"] == pytest.approx(min(values), abs=1e-12)


def test_which_models_are_evaluated_can_be_chosen():
    made, _ = for_method("hierfedavg")
    names = {}
    for models in ("global", "edges", "devices"):
        made["evaluation"] = {"models": models}
        names[models] = set(simulate(scenario(made), "hierfedavg", seed=2).measures[-1])
    assert names["edges"] - names["global"] == {
        "edge_accuracy",
        "edge_accuracy_worst",
        "local_by_cluster",
        "local_by_edge",
    }
    assert names["devices"] - names["edges"] == {"device_accuracy", "device_accuracy_worst"}


@pytest.mark.parametrize("name", ["hierfedavg", "hhfl", "fedavg", "msfedavg", "hhfl:grow=true"])
def test_a_run_may_end_inside_a_cloud_round_and_inside_an_edge_round(name):
    # E = 2, G = 2: 11 steps are two cloud rounds of 4, one edge round of 2 and one of 1
    made, _ = for_method("hhfl")
    made["training"] = {"batch_size": 8, "local_steps": 2, "edge_rounds": 2, "total_steps": 11, "lr": 0.1}
    simulation = Simulation(scenario(made), make_method(name), seed=3, timeline=True)
    for _ in simulation.rounds():
        pass
    assert simulation.measures[-1]["local_steps"] == 11
    done = np.bincount(np.concatenate([s.client for s in simulation.federation.timeline]), minlength=6)
    assert (done == 6).all() and simulation.federation.machines.devices.steps.tolist() == [11] * 6
    if name == "hierfedavg":
        made["training"] = {"batch_size": 8, "local_steps": 2, "edge_rounds": 2, "cloud_rounds": 2, "lr": 0.1}
        whole = simulate(scenario(made), name, seed=3)
        assert whole.measures == [m for m in simulation.measures if m["local_steps"] <= 8]


def test_lengths_that_do_not_fit_are_refused():
    made, _ = for_method("hhfl")
    made["training"] |= {"total_steps": 10}
    assert scenario(made).training.cloud_rounds == 3  # 4 is given: total_steps decides
    del made["training"]["cloud_rounds"]
    assert scenario(made).training.cloud_rounds == 3
    again = scenario(scenario(made).model_dump())  # what a record holds can be read again
    assert again.training.total_steps == 10
    for name in ("fedat:n_tiers=3", "random_clusters"):
        with pytest.raises(ValueError, match=r"total_steps counts .* use cloud_rounds"):
            Simulation(scenario(made), make_method(name), seed=0, dry_run=True)
    made["training"] |= {"local_epochs": 1}
    del made["training"]["local_steps"]
    with pytest.raises(ValueError, match="total_steps counts local steps"):
        scenario(made)


@pytest.mark.parametrize("most", [64, 2])
def test_all_models_of_a_look_are_evaluated_in_one_call(monkeypatch, most):
    """As many as fit at a time; whatever the calls are, the measures are those of single ones."""
    made, method = for_method("hierfedavg")
    alone = measures_of(made, method)
    monkeypatch.setattr("fedloom.simulator.evaluation.EVALUATED", most)
    calls = []
    evaluate = NativeEngine.evaluate

    def counted(self, rows, split="test"):
        calls.append(len(rows))
        return evaluate(self, rows, split)

    monkeypatch.setattr(NativeEngine, "evaluate", counted)
    assert measures_of(made, method) == alone
    looks = len(alone)
    assert len(calls) == looks if most == 64 else len(calls) > looks
    assert (
        max(calls) == (calls[-1] if most == 64 else most) and calls[0] == 1
    )  # before any round all have the same model


def measures_of(made, method):
    simulation = Simulation(scenario(made), make_method(method), 0, n_workers=1, engine="native")
    for _ in simulation.rounds():
        pass
    return simulation.measures
