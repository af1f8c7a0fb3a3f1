"""Plans whose links share bands: what is predicted is what a run takes, and what the search counts."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_optimise import WORK, fleet

from fedloom.deployment.plans import Clusters, method_of
from fedloom.fleet.settings.air import Sharing
from fedloom.grouping import Topology
from fedloom.planning import Prices, costs_of, figures_of, optimise, predict, scenario_of_plan, topology_of
from fedloom.planning.devices import air_of
from fedloom.planning.shared_bands import back_s, last_s, reported_s
from fedloom.simulator import Simulation, make_method, scenario

TASK = {
    "dataset": "gaussian",
    "gaussian": {"n_classes": 4, "n_features": 8, "n_train": 240, "n_test": 80},
    "model": {"kind": "softmax"},
}
SHARINGS = ["own", "time", "equal"]


def shared(prices, sharing, server_sharing, **more):
    devices = replace(prices.devices, air=air_of(sharing, server_sharing), **more)
    return Prices(devices=devices, work=prices.work)


def simulated(prices, head, method="geographic", rounds=2):
    """Measures after every cloud round of a dry run, through the text of a file and back."""
    content = json.loads(json.dumps(scenario_of_plan("mine", prices.devices, prices.work)))
    content["task"] = TASK
    content["training"] |= {"cloud_rounds": rounds}
    clusters = Clusters(title="mine", head=tuple(head.tolist()))
    simulation = Simulation(scenario(content), method_of(method, clusters), 0, dry_run=True)
    return [measures for measures in simulation.rounds() if measures["cloud_round"]]


def check(prices, plan, measured):
    figures = figures_of(prices, plan.head)
    assert plan.time_s == pytest.approx(figures.seconds, rel=1e-12)
    assert plan.ledger.total_j == pytest.approx(figures.joules, rel=1e-12)
    for n, measures in enumerate(measured, start=1):
        assert measures["time_s"] == pytest.approx(n * plan.time_s, rel=1e-9)
        assert measures["energy_j"] == pytest.approx(n * plan.ledger.total_j, rel=1e-9)
        assert measures["bytes"] == n * plan.ledger.total_bytes


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_run_of_a_random_plan_takes_what_was_predicted(data):
    """Any grouping of any fleet, bands shared in any way, with or without energy of computing."""
    n, seed = data.draw(st.integers(1, 14)), data.draw(st.integers(0, 999))
    ways = data.draw(st.sampled_from(SHARINGS)), data.draw(st.sampled_from(SHARINGS))
    prices = shared(fleet(n, seed), *ways, compute_w=data.draw(st.sampled_from([0.0, 0.7])))
    rng = np.random.default_rng(seed)
    hosts = rng.permutation(n)[: rng.integers(1, n + 1)]
    head = hosts[rng.integers(len(hosts), size=n)]
    head[hosts] = hosts
    plan = predict(prices.devices, make_method("geographic"), topology_of(head, prices.devices), WORK)
    check(prices, plan, simulated(prices, head))


@pytest.mark.parametrize("sharing", SHARINGS[1:])
def test_everybody_at_the_server_takes_what_a_run_does(sharing):
    prices = shared(fleet(9, 3), sharing, sharing)
    topology = Topology(cover=np.ones((1, 9), np.bool_), kind="cloud", host=np.zeros(1, np.int64))
    plan = predict(prices.devices, make_method("fedavg"), topology, WORK)
    content = scenario_of_plan("mine", prices.devices, WORK) | {"task": TASK}
    content["training"] |= {"cloud_rounds": 1}
    run = Simulation(scenario(content), make_method("fedavg"), 0, dry_run=True)
    measures = next(m for m in run.rounds() if m["cloud_round"])
    assert measures["time_s"] == pytest.approx(plan.time_s, rel=1e-9)
    assert measures["bytes"] == plan.ledger.total_bytes


@pytest.mark.parametrize("rule", ["ditto", "scaffold"])
def test_a_rule_of_clients_is_counted_as_a_run_counts_it(rule):
    """Ditto trains two models, Scaffold sends a control variate beside each: seconds, joules of computing, and bytes."""
    method = make_method(f"geographic:rule={rule}")
    plain = shared(fleet(10, 1), "time", "own", compute_w=0.5)
    work = WORK.by(method)
    prices = Prices(devices=plain.devices, work=work)
    head = np.array([0, 1, 0, 0, 0, 1, 1, 1, 1, 1])
    plan = predict(prices.devices, method, topology_of(head, prices.devices), work)
    before = predict(plain.devices, method, topology_of(head, plain.devices), WORK)
    check(prices, plan, simulated(prices, head, f"geographic:rule={rule}"))
    times = {"ditto": (2, 1), "scaffold": (1, 2)}[rule]
    assert plan.ledger.compute_j == times[0] * before.ledger.compute_j > 0
    assert plan.ledger.total_bytes == times[1] * before.ledger.total_bytes


def test_seconds_in_shared_bands_by_hand():
    """A head (steps 1 s) and two members that fetch in 1 and 2 s, compute for 4 and 1 s and return in 2 and 1 s."""
    at, is_head = np.zeros(3, np.int64), np.array([True, False, False])
    links = np.array([0.0, 1.0, 2.0]), np.array([1.0, 4.0, 1.0]), np.array([0.0, 2.0, 1.0])
    # in turn: fetched at 1 and 3, ready at 5 and 4; back at 4 + 1 = 5, and 5 + 2 = 7
    assert back_s(Sharing(sharing="time"), at, 1, *links, is_head).tolist() == [1.0, 7.0, 5.0]
    # at once: fetched at 2 and 3, ready at 6 and 4; alone each: back at 5 and 8
    assert back_s(Sharing(sharing="equal"), at, 1, *links, is_head).tolist() == [1.0, 8.0, 5.0]
    assert back_s(Sharing(), at, 1, *links, is_head).tolist() == [1.0, 7.0, 4.0]
    down, work, up = np.array([1.0, 1.0]), np.array([5.0, 4.5]), np.array([2.0, 1.0])
    # in turn: fetched at 1 and 2, ready at 6 and 6.5, there at 8 and 9
    assert reported_s(air_of("own", "time").cloud, down, work, up).tolist() == [8.0, 9.0]
    # at once: both fetched at 2, ready at 7 and 6.5; from 7 on in halves: the second misses 0.5 s until 8, the first goes on
    assert reported_s(air_of("own", "equal").cloud, down, work, up).tolist() == [9.5, 8.0]


@given(st.integers(0, 999), st.sampled_from(SHARINGS))
def test_the_last_report_is_there_when_the_last_of_all_is(seed, sharing):
    rng = np.random.default_rng(seed)
    down, work, up = rng.exponential(1.0, (3, int(rng.integers(1, 12)))) * np.array([[0.1], [3.0], [1.0]])
    cloud = air_of("own", sharing).cloud
    assert last_s(cloud, down, work, up) == pytest.approx(reported_s(cloud, down, work, up).max(), rel=1e-12)


@pytest.mark.parametrize("sharing", SHARINGS[1:])
def test_the_search_goes_by_shared_bands(sharing):
    """It is better than k-means, and than the plan for bands of their own is in shared ones."""
    prices = fleet(24, 2)
    held = shared(prices, sharing, sharing)
    rng = np.random.default_rng
    found, own = optimise(held, "seconds", rng(0)), optimise(prices, "seconds", rng(0), ladder=False)
    seconds = found.best.figures.seconds
    assert seconds < min(g.figures.seconds for g in found.sweep)
    assert seconds < figures_of(held, own.best.head).seconds
    assert costs_of(held, np.arange(24), found.best.head).seconds.max() == pytest.approx(seconds, rel=1e-12)
