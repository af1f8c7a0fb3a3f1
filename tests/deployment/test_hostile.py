"""Hostile and sick devices as processes: the simulator's bits where a device acts alone, and refusals in words elsewhere."""

import asyncio
import json

import numpy as np
import pytest

from deployment.federation import Together, simulated
from fedloom.deployment.doing import Doing
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


STATIONS = [
    ("hhfl", {"edges": {"cells": [1], "attack": {"kind": "sign-flip"}, "to": "both"}}),
    ("hhfl:up=qsgd:up.bits=4:down=float16", {"edges": {"cells": [1], "attack": {"kind": "noise"}, "to": "both"}}),
    ("hierfedavg", {"edges": {"cells": [0], "attack": {"kind": "replay", "lag": 1}, "to": "both"}}),
    ("ddc", {"heads": {"share": 0.5, "attack": {"kind": "scale"}, "to": "members"}}),
    ("ddc", {"heads": {"share": 0.5, "attack": {"kind": "withhold"}, "to": "cloud"}}),
]


@pytest.mark.parametrize("method, attack", STATIONS, ids=[name for name, _ in STATIONS])
def test_a_hostile_station_sends_what_it_sends_in_the_simulator(method, attack, tmp_path):
    made, text = for_method(method, cloud_rounds=2)
    row, _ = deployed(made | {"hostile": attack}, text, tmp_path)
    assert np.array_equal(row, simulated(made | {"hostile": attack}, text))
    assert not np.array_equal(row, simulated(made, text))


AUDITED = [
    ("hhfl:audit=sketch", {"edges": {"cells": [1], "attack": {"kind": "sign-flip"}, "to": "cloud"}}),
    ("hierfedavg:audit=sketch", {"edges": {"cells": [0], "attack": {"kind": "noise"}, "to": "members"}}),
    ("ddc:audit=recompute", {"heads": {"share": 0.5, "attack": {"kind": "scale"}, "to": "both"}}),
    ("hhfl:merge_edge=coordinate_median:audit=recompute", {"edges": {"cells": [1], "attack": {"kind": "withhold"}}}),
]


@pytest.mark.parametrize("method, attack", AUDITED, ids=[name for name, _ in AUDITED])
def test_an_audit_finds_the_same_liars_as_in_the_simulator(method, attack, tmp_path):
    made, _ = for_method("hhfl", cloud_rounds=2)
    chosen = made | {"hostile": attack}
    row, together = deployed(chosen, method, tmp_path)
    wanted = Simulation(scenario(chosen), make_method(method), 0)
    for _ in wanted.rounds():
        pass
    auditing = together.simulation.federation.auditing
    assert auditing.found == wanted.federation.auditing.found and auditing.found
    verdicts = [{v: sorted(some) for v, some in a.verdicts.items()} for a in (auditing, wanted.federation.auditing)]
    assert verdicts[0] == verdicts[1]
    assert np.array_equal(row, wanted.result().row)


def test_an_audited_cloud_that_dies_and_is_started_again_goes_on_to_the_same_bits(tmp_path):
    made, _ = for_method("hierfedavg", cloud_rounds=3)
    chosen = made | {"hostile": {"edges": {"cells": [1], "attack": {"kind": "sign-flip"}, "from_round": 2}}}
    method = "hierfedavg:audit=sketch"

    async def go():
        together = Together(chosen, method, tmp_path)
        together.die_after = [1, 2]
        running = asyncio.create_task(together.run())
        for left in (1, 0):
            while len(together.die_after) > left:
                await asyncio.sleep(0.01)
            together.network.cut("cloud")
            await asyncio.wait([together.tasks["cloud"]])
            together.start("cloud")
        return await running, together

    row, together = asyncio.run(go())
    assert np.array_equal(row, simulated(chosen, method))
    assert together.simulation.federation.auditing.found == [("edge", 1)]


def test_a_station_whose_program_is_another_is_found(tmp_path, monkeypatch):
    """It reports a thousandth more of every third value, and nobody has told it to."""
    true_report = Doing._report

    async def report(self, order):
        value = (await true_report(self, order)).copy()
        value[::3] += np.float32(1e-3) * (self._name == "edge-1")
        return value

    monkeypatch.setattr(Doing, "_report", report)
    made, method = for_method("hierfedavg", cloud_rounds=2)
    _, together = deployed(made, f"{method}:audit=sketch", tmp_path)
    assert together.simulation.federation.auditing.found == [("edge", 1)]


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
            {"edges": {"cells": [1], "attack": {"kind": "not-finite"}}},
            "hhfl",
            "edges.attack not-finite is simulated only",
        ),
        ({"clients": {"devices": [1], "attack": {"kind": "scale"}}}, "macfl_r", "go on from their own last models"),
        (None, "hhfl:audit=recompute:down=float16", "is audited and its models are coded"),
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
