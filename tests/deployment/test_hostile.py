"""Hostile and sick devices as processes: the simulator's bits where a device acts alone, and refusals in words elsewhere."""

import asyncio
import json

import numpy as np
import pytest

from deployment.federation import Together, simulated
from fedloom.deployment.hostile import not_finite
from fedloom.deployment.roles import check_runs
from fedloom.mixing import robust
from fedloom.simulator import Scenario, Simulation, make_method, scenario
from small import for_method

ATTACKS = [
    {"kind": "sign-flip", "factor": 2.0},
    {"kind": "noise", "std": 0.1},
    {"kind": "free-rider"},
    {"kind": "free-rider", "std": 0.1},
    {"kind": "label-flip"},
    {"kind": "backdoor", "factor": 2.0},
]


def hostile(name, attack, **more):
    made, text = for_method(name, cloud_rounds=2)
    return made | {"hostile": {"clients": {"devices": [1, 4], "attack": attack}}} | more, text


def deployed(chosen, method, folder):
    async def go():
        together = Together(chosen, method, folder)
        return await together.run(), together

    return asyncio.run(go())


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_a_hostile_device_sends_what_it_sends_in_the_simulator(attack, tmp_path):
    chosen, method = hostile("hhfl", attack)
    row, _ = deployed(chosen, method, tmp_path)
    assert np.array_equal(row, simulated(chosen, method))


@pytest.mark.parametrize(
    ("method", "attack"),
    [("hhfl:up=qsgd:up.bits=4", "scale"), ("hhfl:up=qsgd:up.bits=4", "free-rider"), ("macfl_r", "label-flip")],
)
def test_so_does_one_whose_updates_are_coded_or_looked_at(method, attack, tmp_path):
    chosen, _ = hostile("hhfl", {"kind": attack})
    row, _ = deployed(chosen, method, tmp_path)
    assert np.array_equal(row, simulated(chosen, method))


@pytest.mark.parametrize("name", ["hhfl", "ddc"])  # edge servers, and heads
def test_a_federation_that_remembers_has_the_simulators_bits(name, tmp_path):
    chosen, text = hostile(name, {"kind": "sign-flip"})
    method = f"{text}:merge_edge=reputation:merge_cloud=reputation"
    row, _ = deployed(chosen, method, tmp_path)
    assert np.array_equal(row, simulated(chosen, method))
    assert not np.array_equal(row, simulated(chosen, text))


def test_a_screened_federation_has_the_simulators_bits(tmp_path):
    chosen, method = hostile("hierfedavg", {"kind": "scale", "factor": 1e5}, screen={"times_median": 100.0})
    row, _ = deployed(chosen, method, tmp_path)
    assert np.array_equal(row, simulated(chosen, method))
    assert np.abs(row).max() < 100


def test_lies_about_sizes_weigh_as_in_the_simulator(tmp_path):
    made, method = for_method("hierfedavg", cloud_rounds=2)
    chosen = made | {"hostile": {"clients": {"devices": [1], "lies": {"samples": 10.0}}}}
    row, _ = deployed(chosen, method, tmp_path)
    assert np.array_equal(row, simulated(chosen, method))
    assert not np.array_equal(row, simulated(made, method))


def test_updates_that_are_not_finite_are_rejected_and_the_rounds_go_on(tmp_path):
    chosen, method = hostile("hierfedavg", {"kind": "not-finite"})
    row, together = deployed(chosen, method, tmp_path)
    assert np.array_equal(row, simulated(chosen, method))
    left = [json.loads(line[9:]) for line in (tmp_path / "cloud" / "journal").read_text().splitlines()]
    sick = [what["what"] for what in left if what.get("what", [""])[0] == "left"]
    wanted = Simulation(scenario(chosen), make_method(method), 0)
    for _ in wanted.rounds():
        pass
    told = sorted(("client", client[0], step[0]) for _, client, step in sick)
    assert told == [update[:3] for update in wanted.federation.held.sick.table] and len(told) == 8
    assert together.rounds


def test_a_refused_letter_is_a_sick_update():
    assert not_finite("Failed: NotFinite: the models of clients [3] are no longer finite")
    assert not_finite("ValueError: edge-0 refuses it: array 'row' holds numbers that are not finite")
    assert not not_finite("ValueError: something else")


@pytest.mark.parametrize(
    "changes, method, words",
    [
        (
            {"clients": {"devices": [1], "attack": {"kind": "alie"}}},
            "hhfl",
            "attack alie is simulated only; devices can do",
        ),
        ({"clients": {"devices": [1], "attack": {"kind": "replay"}}}, "hhfl", "attack replay is simulated only"),
        (
            {"edges": {"cells": [1], "attack": {"kind": "withhold"}}},
            "hhfl",
            "heads and hostile.edges are simulated only",
        ),
        ({"clients": {"devices": [1], "attack": {"kind": "scale"}}}, "macfl_r", "go on from their own last models"),
    ],
)
def test_what_devices_cannot_do_is_refused_in_words(changes, method, words):
    chosen = Scenario.model_validate(for_method("hhfl")[0] | {"hostile": changes})
    with pytest.raises(ValueError, match=words):
        check_runs(chosen, make_method(method))


def test_a_reference_of_trusted_data_is_refused():
    method = make_method("hhfl").with_(merge_edge=robust.at_edge(robust.trust(), root=robust.Root()))
    with pytest.raises(ValueError, match="stations do not train"):
        check_runs(Scenario.model_validate(for_method("hhfl")[0]), method)
