"""ClientApps of the user's own: a model given by its first values, data that only devices know."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, MetricRecord

from flower.grid import LocalGrid
from flower.runs import first, own_app, run
from small import for_method


def grid_of(app):
    return LocalGrid([app] * 6)


def plus_one(w, k, config):
    return w + 1


def test_updates_are_weighted_by_what_devices_say_they_have():
    """Device k adds k and has 10 (k + 1) samples: the mean is sum k (k + 1) / sum (k + 1) = 70 / 21."""
    scenario, _ = for_method("fedavg", cloud_rounds=1, edge_rounds=1)
    apps = [own_app(lambda w, k, config: w + k, n_samples=10 * (k + 1)) for k in range(6)]
    result = run(scenario, "fedavg", LocalGrid(apps), first())
    assert result.arrays["w"].numpy() == pytest.approx([70 / 21] * 2, rel=1e-6)
    assert result.train_metrics_clientapp[1] == {"loss": 0.5, "num-examples": 210}


def test_every_edge_round_of_every_cloud_round_is_trained():
    scenario, _ = for_method("hierfedavg", cloud_rounds=3, edge_rounds=2)
    result = run(scenario, "hierfedavg", grid_of(own_app(plus_one)), first())
    assert result.arrays["w"].numpy().tolist() == [6.0, 6.0]


def test_devices_are_told_how_much_to_do_and_what_the_user_adds():
    scenario, _ = for_method("fedavg", cloud_rounds=1, edge_rounds=1, local_steps=7)
    told = []
    app = own_app(lambda w, k, config: told.append(dict(config)) or w)
    run(scenario, "fedavg", grid_of(app), first(), train_config={"own": "word"})
    assert {(one["local-steps"], one["first-step"], one["server-round"], one["own"]) for one in told} == {
        (7, 0, 1, "word")
    }
    assert [one["lr"] for one in told] == pytest.approx([0.1] * 6)


def test_types_and_shapes_of_arrays_are_kept():
    scenario, _ = for_method("fedavg", cloud_rounds=1, edge_rounds=1)
    result = run(scenario, "fedavg", grid_of(own_app(plus_one)), first([[1.0, 2.0]], np.float64))
    assert result.arrays["w"].numpy().dtype == np.float64
    assert result.arrays["w"].numpy().tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize("name", ["similarity", "ltc:feature=skew:n_clusters=2:box_s=3"])
def test_a_method_that_groups_by_labels_gets_them_from_what_devices_say(name):
    scenario, _ = for_method("ltc", cloud_rounds=1)
    result = run(scenario, name, grid_of(own_app(plus_one, labels=[5, 5])), first())
    assert (result.arrays["w"].numpy() >= 2.0).all()


def test_a_method_that_groups_by_gradients_asks_for_them():
    scenario, _ = for_method("ddc", cloud_rounds=1)
    app = own_app(plus_one, gradient=lambda w, k: np.array([1.0, k % 2], dtype=np.float32))
    assert run(scenario, "ddc", grid_of(app), first()).arrays["w"].numpy().tolist() == [2.0, 2.0]


def test_the_clouds_model_is_evaluated_by_the_users_function():
    scenario, _ = for_method("fedavg", cloud_rounds=2, edge_rounds=1)
    result = run(
        scenario,
        "fedavg",
        grid_of(own_app(plus_one)),
        first(),
        evaluate_fn=lambda number, arrays: MetricRecord({"sum": float(arrays["w"].numpy().sum())}),
    )
    assert [result.evaluate_metrics_serverapp[g]["sum"] for g in range(3)] == [0.0, 2.0, 4.0]


def test_arrays_without_any_array_are_refused():
    scenario, _ = for_method("fedavg")
    with pytest.raises(ValueError, match="initial_arrays holds no arrays"):
        run(scenario, "fedavg", grid_of(own_app(plus_one)), ArrayRecord({}))
    with pytest.raises(ValueError, match="w of initial_arrays must hold real numbers, got complex128"):
        run(scenario, "fedavg", grid_of(own_app(plus_one)), ArrayRecord({"w": Array(np.zeros(2, complex))}))
