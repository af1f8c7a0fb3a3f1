"""A plan in the simulator: a cloud round takes what was predicted. Near an old plan, and with heads that take turns."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_optimise import WORK, fleet

from fedloom.deployment.plans import Clusters, method_of
from fedloom.planning import (
    Prices,
    costs_of,
    kept_plan,
    most_drain,
    optimise,
    predict,
    scenario_of_plan,
    topology_of,
    turns_of,
)
from fedloom.planning.keeping import can_stay, moved, repaired
from fedloom.simulator import Simulation, make_method, scenario


@pytest.mark.parametrize("measured", [False, True])
def test_a_cloud_round_in_the_simulator_takes_what_the_plan_predicts(measured):
    """Powers, speeds and rates of each device; through the text of a file and back."""
    rng = np.random.default_rng(0)
    prices = fleet(15, 4)
    if measured:
        up, down = rng.uniform(1e5, 1e6, (2, 15))
        prices = Prices(devices=replace(prices.devices, up_bit_s=up, down_bit_s=down), work=WORK)
    devices = prices.devices
    found = optimise(prices, "joules", rng, ladder=False)
    plan = predict(devices, make_method("geographic"), topology_of(found.best.head, devices), WORK)
    content = json.loads(json.dumps(scenario_of_plan("mine", devices, WORK)))
    content["task"] = {
        "dataset": "gaussian",
        "gaussian": {"n_classes": 4, "n_features": 8, "n_train": 240, "n_test": 80},
        "model": {"kind": "softmax"},
    }
    content["training"] |= {"cloud_rounds": 2}
    clusters = Clusters(title="mine", head=tuple(found.best.head.tolist()))
    simulation = Simulation(scenario(content), method_of("geographic", clusters), 0, dry_run=True)
    rounds = [measures for measures in simulation.rounds() if measures["cloud_round"]]
    assert len(rounds) == 2
    for n, measures in enumerate(rounds, start=1):
        assert measures["time_s"] == pytest.approx(n * plan.time_s, rel=1e-9)
        assert measures["energy_j"] == pytest.approx(n * plan.ledger.total_j, rel=1e-9)
        assert measures["bytes"] == n * plan.ledger.total_bytes


def test_turns_spare_the_battery_that_is_empty_first_and_cost_no_time():
    prices = fleet(30, 2)
    head = optimise(prices, "joules", np.random.default_rng(0), ladder=False).best.head
    plain, turns = turns_of(prices, head, False), turns_of(prices, head, True)
    costs = costs_of(prices, np.arange(30), head)
    assert most_drain(plain) == costs.most_drain.max() and most_drain(turns) <= most_drain(plain)
    assert any(len(one.leaders) > 1 for one in turns)
    devices = prices.devices
    for one in turns:
        assert (
            one.share.sum() == pytest.approx(1)
            and one.drain.max() <= costs.most_drain[costs.host == one.head][0] + 1e-15
        )
        drain = np.zeros(len(one.members))
        for leader, share in zip(one.leaders.tolist(), one.share.tolist()):
            assert devices.candidate[leader] and devices.capacity[leader] >= len(one.members)
            under = costs_of(prices, one.members, np.full(len(one.members), leader))
            assert under.seconds[0] <= costs.seconds.max() * (1 + 1e-9)
            drain += share * under.drain
        np.testing.assert_allclose(one.drain, drain, rtol=1e-9)
        assert one.stand_in != one.head and (one.stand_in in one.members or one.stand_in == -1)


def test_a_new_plan_keeps_as_much_of_the_old_one_as_asked_for():
    prices = fleet(40, 6)
    old = optimise(prices, "joules", np.random.default_rng(0), ladder=False).best.head
    gone = old.copy()
    gone[[3, 9]] = -1  # new devices
    lost = int(np.unique(old)[0])
    gone[gone == lost] = -1  # whose head is gone
    head = repaired(prices, can_stay(prices, gone), np.random.default_rng(1))
    assert moved(gone, head) == 0 and (head[head] == head).all()
    found = optimise(prices, "seconds", np.random.default_rng(0), ladder=False)
    for n in (0, 4, 40):
        kept = kept_plan(prices, found, gone, n, np.random.default_rng(2))
        assert moved(gone, kept.head) <= n
        size = np.bincount(kept.head, minlength=40)
        assert (size <= prices.devices.capacity).all() and prices.devices.candidate[np.unique(kept.head)].all()
    assert kept.figures == found.best.figures  # everybody may move


def test_a_head_with_room_for_fewer_keeps_its_nearest_and_nobody_else_moves():
    prices = fleet(40, 6)
    old = optimise(prices, "joules", np.random.default_rng(0), ladder=False).best.head
    host = int(np.bincount(old).argmax())
    members = np.flatnonzero(old == host)
    capacity = prices.devices.capacity.copy()
    capacity[host] = len(members) - 2
    fewer = replace(prices, devices=replace(prices.devices, capacity=capacity))
    found = optimise(fewer, "joules", np.random.default_rng(0), ladder=False)
    stays, kept = can_stay(fewer, old), kept_plan(fewer, found, old, 0, np.random.default_rng(2))
    assert (stays == -1).sum() == 2 and moved(stays, kept.head) == 0
    assert (np.bincount(kept.head, minlength=40) <= capacity).all()
    at = fewer.at_head(members, np.full(len(members), host))
    out = stays[members] == -1
    assert (at.own_j + at.head_j)[out].min() >= (at.own_j + at.head_j)[~out].max()


def test_an_old_head_may_be_far_away_in_a_large_fleet():
    prices = fleet(900, 0)  # more candidates than a list holds
    old = np.full(900, -1)
    host = int(np.flatnonzero(prices.devices.candidate)[0])
    away = np.linalg.norm(prices.devices.position_m - prices.devices.position_m[host], axis=1)
    old[[host, *np.argsort(away)[-3:]]] = host
    stays = can_stay(prices, old)
    assert moved(stays, repaired(prices, stays, np.random.default_rng(1))) == 0


def test_where_nobody_has_a_battery_nothing_is_drained():
    prices = fleet(12, 3)
    mains = replace(prices, devices=replace(prices.devices, battery_j=np.full(12, np.inf)))
    found = optimise(mains, "battery", np.random.default_rng(0), ladder=False)
    assert found.best.figures.battery == 0
