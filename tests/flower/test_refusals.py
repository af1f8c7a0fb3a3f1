"""What cannot work says why at start."""

import pytest
from flwr.app import ConfigRecord
from flwr.clientapp import ClientApp

from fedloom.flower import strategy
from fedloom.simulator import Scenario
from flower.grid import LocalGrid
from flower.runs import first, grid_of, own_app, run
from small import for_method


def same(w, k, config):
    return w


def test_a_client_app_that_does_not_say_which_device_it_is():
    scenario, _ = for_method("fedavg")
    with pytest.raises(ValueError, match=r"does not say which device it is .* add a function @app.query\('device'\)"):
        run(scenario, "fedavg", LocalGrid([ClientApp()] * 6), first())


def test_a_device_that_the_fleet_does_not_have():
    scenario, _ = for_method("fedavg")
    grid = LocalGrid([own_app(same)] * 5)
    grid.add(2000, 6, own_app(same))
    with pytest.raises(ValueError, match="says that it is device 6, and the fleet has devices 0 to 5"):
        run(scenario, "fedavg", grid, first())


def test_two_nodes_that_are_the_same_device():
    scenario, _ = for_method("fedavg")
    grid = LocalGrid([own_app(same)] * 5)
    grid.add(2000, 3, own_app(same))
    with pytest.raises(ValueError, match="both say that they are device 3; give every SuperNode a partition-id"):
        run(scenario, "fedavg", grid, first())


def test_devices_that_do_not_come():
    scenario, _ = for_method("fedavg")
    with pytest.raises(ValueError, match=r"devices \[4, 5\] of 6 have not come within 0.5 s; start their SuperNodes"):
        run(scenario, "fedavg", LocalGrid([own_app(same)] * 4), first(), timeout=0.5)


def test_our_client_app_made_for_another_seed():
    scenario, method = for_method("fedavg")
    with pytest.raises(ValueError, match=r"do not run fedloom.flower.client_app with the scenario, method and seed"):
        run(scenario, method, grid_of(scenario, method, seed=1))


def test_another_client_app_where_ours_is_needed():
    scenario, _ = for_method("fedavg")
    with pytest.raises(ValueError, match="or give initial_arrays to the strategy if the ClientApp is your own"):
        run(scenario, "fedavg", LocalGrid([own_app(same)] * 6))


@pytest.mark.parametrize("name", ["pacfl", "ltc:feature=prediction:n_clusters=2"])
def test_features_that_only_our_client_app_can_tell(name):
    scenario, _ = for_method("ltc")
    with pytest.raises(ValueError, match=r"which only fedloom.flower.client_app can tell"):
        run(scenario, name, LocalGrid([own_app(same)] * 6), first())


def test_a_bound_that_adapts_to_an_accuracy_nobody_can_measure():
    scenario, _ = for_method("hiflash_r")
    with pytest.raises(ValueError, match=r"adapts its bound on staleness .* keep the bound fixed \(adapt=false\)"):
        run(scenario, "hiflash_r:adapt=true:associate=false", LocalGrid([own_app(same)] * 6), first())


def test_labels_that_devices_do_not_tell():
    scenario, _ = for_method("similarity")
    with pytest.raises(ValueError, match="'labels' must have one count a class everywhere"):
        run(scenario, "similarity", LocalGrid([own_app(same)] * 6), first())


def test_a_gradient_that_devices_do_not_tell():
    scenario, _ = for_method("ddc")
    with pytest.raises(
        RuntimeError, match="does not tell its gradient, by which the method groups devices: No query function"
    ):
        run(scenario, "ddc", LocalGrid([own_app(same)] * 6), first())


def test_evaluation_by_devices_and_of_models_that_are_not_looked_at():
    scenario, method = for_method("fedavg")
    with pytest.raises(ValueError, match="devices are not asked to evaluate; give evaluate_fn"):
        run(scenario, method, grid_of(scenario, method), evaluate_config=ConfigRecord({}))
    for evaluation, why in (
        ({"every": {"edge_rounds": 1}}, "counts edge rounds"),
        ({"models": "devices"}, "is devices"),
    ):
        with pytest.raises(ValueError, match=why):
            run({**scenario, "evaluation": evaluation}, method, grid_of(scenario, method))


def test_a_quorum_that_is_no_share_and_a_timeout_that_is_none():
    scenario, method = for_method("fedavg")
    with pytest.raises(ValueError, match="quorum must be between 0 and 1, got 2"):
        run(scenario, method, None, quorum=2)
    with pytest.raises(ValueError, match="timeout"):
        run(scenario, method, None, timeout=0)


def test_being_called_round_by_round_as_flowers_wrappers_do():
    scenario, method = for_method("fedavg")
    made = strategy(Scenario.model_validate(scenario), method)
    for call in (made.configure_train, made.configure_evaluate):
        with pytest.raises(TypeError, match=r"call start\(grid\), and do not wrap this strategy"):
            call(1, None, None, None)
    for call in (made.aggregate_train, made.aggregate_evaluate):
        with pytest.raises(TypeError, match="decides itself who is sent what and when"):
            call(1, [])


def test_models_that_are_coded():
    scenario, _ = for_method("fedavg")
    with pytest.raises(ValueError, match=r"fedavg codes what is sent \(up=Sign.* as they are; leave up and down out"):
        run(scenario, "fedavg:up=sign", LocalGrid([own_app(same)] * 6), first())
