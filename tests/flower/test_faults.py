"""Nodes that die, come back, fail or send nonsense."""

import threading

import numpy as np
import pytest

from deployment.federation import simulated
from flower.grid import LocalGrid
from flower.runs import first, grid_of, own_app, row_of, run
from small import for_method


def test_a_node_that_dies_is_given_up_after_the_timeout_and_not_waited_for_again():
    """Its mean would be 3 with device 5, which adds 8; the others add 2."""
    scenario, _ = for_method("fedavg", cloud_rounds=3, edge_rounds=1)
    grid = LocalGrid([own_app(lambda w, k, config: w + (8 if k == 5 else 2))] * 6)

    def dies(number, arrays):
        if number == 1:
            grid.dead.add(1005)

    result = run(scenario, "fedavg", grid, first(), timeout=6.0, evaluate_fn=dies)
    assert result.arrays["w"].numpy().tolist() == [7.0, 7.0]  # 3 + 2 + 2
    assert grid.seen.count(("train", 5)) == 3  # it is asked again, in case it is back
    one, two, three = (result.evaluate_metrics_serverapp[g]["time_s"] for g in (1, 2, 3))
    assert 2 * (three - two) < two - one  # only once was the timeout waited for


def test_a_feature_that_does_not_come_within_the_timeout_ends_the_run():
    scenario, _ = for_method("ddc", cloud_rounds=1)
    grid = LocalGrid([own_app(lambda w, k, config: w, gradient=lambda w, k: w)] * 6)
    grid.dead.add(1002)
    with pytest.raises(RuntimeError, match=r"device 2 does not tell its gradient, .* it has not answered for 3 s"):
        run(scenario, "ddc", grid, first(), timeout=3.0)


def test_with_a_quorum_of_all_everybody_is_waited_for():
    scenario, _ = for_method("fedavg", cloud_rounds=1, edge_rounds=1)
    grid = LocalGrid([own_app(lambda w, k, config: w + (8 if k == 5 else 2))] * 6, slow={5: 6.0})
    result = run(scenario, "fedavg", grid, first(), timeout=3.0, quorum=1.0)
    assert result.arrays["w"].numpy().tolist() == [3.0, 3.0]


def test_a_node_that_comes_back_under_another_id_takes_its_place_and_the_bits_are_the_same():
    scenario, method = for_method("hierfedavg", cloud_rounds=3)
    grid = grid_of(scenario, method)
    app = grid.nodes[1004][1]
    grid.dead.add(1004)  # it says who it is, and no more
    threading.Timer(2.0, lambda: grid.add(2004, 4, app)).start()
    assert np.array_equal(row_of(run(scenario, method, grid)), simulated(scenario, method))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w: w * np.nan,
        lambda w: np.zeros(3, np.float32),
        lambda w: 1 / 0,
    ],
    ids=["not finite", "another shape", "an exception"],
)
def test_an_update_that_is_none_is_left_out(wrong):
    scenario, _ = for_method("fedavg", cloud_rounds=1, edge_rounds=1)
    app = own_app(lambda w, k, config: wrong(w) if k == 0 else w + 2)
    result = run(scenario, "fedavg", LocalGrid([app] * 6), first())
    assert result.arrays["w"].numpy().tolist() == [2.0, 2.0]


def test_where_no_device_can_train_the_run_ends_with_the_reason():
    scenario, _ = for_method("fedavg", cloud_rounds=1, edge_rounds=1)
    with pytest.raises(
        RuntimeError, match=r"no device could train; the last one, device [0-5], says: division by zero"
    ):
        run(scenario, "fedavg", LocalGrid([own_app(lambda w, k, config: 1 / 0)] * 6), first())


def test_a_grid_that_fails_ends_the_run_with_its_error():
    scenario, method = for_method("fedavg")
    grid = grid_of(scenario, method)

    def gone(number, arrays):
        grid.pull_messages = lambda ids: 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(scenario, method, grid, evaluate_fn=gone)
