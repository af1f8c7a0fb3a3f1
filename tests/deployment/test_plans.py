"""A plan that runs: its clusters in place of the method's own."""

import json

import numpy as np
import pytest
import yaml

from deployment.test_commands import said
from fedloom.deployment.bundles import read_bundle
from fedloom.deployment.plans import label_of, method_of, read_plan, scenario_of
from fedloom.gate.words import Refused
from fedloom.simulator import Simulation
from small import SMALL

FLEET = "id,x_m,y_m\n" + "".join(f"lamp-{i},{100 * (i // 3)},{10 * (i % 3)}\n" for i in range(6))


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    (folder / "street.csv").write_text(FLEET)
    words = ("--method", "k-means", "--server", "500,0", "--local-steps", "3", "--edge-rounds", "2", "--quiet")
    said("plan", folder / "street.csv", *words, "--out", folder / "plan")
    return folder / "plan" / "plan.json"


def test_the_plans_clusters_devices_and_periods_run(plan):
    planned = read_plan(plan)
    told = json.loads(plan.read_text())["devices"]
    assert [planned.ids[h] for h in planned.clusters.head] == [line["head"] for line in told]
    chosen = scenario_of(planned, None, ["training.cloud_rounds=1"])
    assert (chosen.training.local_steps, chosen.training.edge_rounds) == (3, 2)
    simulation = Simulation(chosen, method_of("hierfedavg", planned.clusters), dry_run=True)
    for _ in simulation.rounds():
        pass
    place = simulation.places[0]
    assert place.topology.kind == "head"
    assert np.array_equal(place.topology.cover, planned.clusters.topology().cover)
    assert place.position_m.tolist() == [[100.0 * (i // 3), 10.0 * (i % 3)] for i in range(6)]


def test_a_scenario_says_what_a_plan_does_not(plan, tmp_path):
    base = tmp_path / "base.yaml"
    base.write_text(yaml.safe_dump(SMALL))
    chosen = scenario_of(read_plan(plan), str(base), [])
    assert chosen.task.dataset == "gaussian" and chosen.training.batch_size == 8
    assert chosen.fleet.server_m == (500.0, 0.0) and chosen.fleet.cells.kind == "single"


def test_init_makes_bundles_from_a_plan(plan, tmp_path):
    said("deploy", "init", "--plan", plan, "-m", "ddc", "--out", tmp_path / "all")
    bundle, _ = read_bundle(tmp_path / "all" / "device-5")
    assert bundle.clusters is not None and set(bundle.addresses) == {"cloud", *(f"device-{k}" for k in range(6))}
    assert label_of(bundle.method, bundle.clusters) == "ddc by plan street"
    lines = (tmp_path / "all" / "roster.csv").read_text().splitlines()
    assert lines[0] == "node,id,head" and lines[6].startswith("device-5,lamp-5,device-")


def test_neither_scenario_nor_plan_says_so(tmp_path):
    with pytest.raises(ValueError, match="give a scenario, or a plan with --plan"):
        said("deploy", "init", "--out", tmp_path / "all")


def test_a_plan_says_itself_which_devices_there_are(plan, tmp_path):
    with pytest.raises(ValueError, match="--devices is for a scenario"):
        said("deploy", "init", "--plan", plan, "--devices", "3", "--out", tmp_path / "all")


@pytest.mark.parametrize("text", ["{}", '{"devices": [1]}', '{"devices": [], "work": {}}', "[]"])
def test_what_is_no_plan_is_refused(text, tmp_path):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(Refused, match=r"is no plan|has no heads"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"work": {"local_steps": "x", "edge_rounds": 5}},
            "is no plan: local_steps: Input should be a valid integer, got 'x'",
        ),
        ({"scenario": 5}, "is no plan: scenario: Input should be a valid dictionary, got 5; give the plan.json that"),
        (
            {"scenario": []},
            r"is no plan: scenario: Input should be a valid dictionary, got \[\]; give the plan.json that",
        ),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(plan, tmp_path, change, why):
    (tmp_path / "plan.json").write_text(json.dumps(json.loads(plan.read_text()) | change))
    with pytest.raises(Refused, match=why):
        read_plan(tmp_path / "plan.json")


def test_a_plan_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(Refused, match=r"there is no plan .*nowhere.json; make one with `fedloom plan`"):
        read_plan(tmp_path / "nowhere.json")


def test_a_plan_without_heads_is_refused(plan, tmp_path):
    content = json.loads(plan.read_text())
    for line in content["devices"]:
        line["head"] = "server"
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(Refused, match="has no heads: its devices report to the server"):
        read_plan(tmp_path / "plan.json")


def changed(plan, folder, change):
    content = json.loads(plan.read_text())
    change(content["devices"])
    (folder / "plan.json").write_text(json.dumps(content))
    return folder / "plan.json"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda devices: devices[2].update(head="lamp-99"), r"the heads \['lamp-99'\] are no devices of the plan"),
        (lambda devices: devices.pop(0), r"the heads \['lamp-0'\] are no devices of the plan"),
        (lambda devices: devices[2].update(id="lamp-1"), r"the devices \['lamp-1'\] are there more than once"),
        (lambda devices: devices[0].update(head="lamp-5"), r"a head must be its own head, and here are led \['lamp-"),
    ],
)
def test_a_plan_whose_devices_do_not_exist_or_are_there_twice_is_refused(plan, change, why, tmp_path):
    def with_known_heads(devices):
        for k, line in enumerate(devices):
            line["head"] = "lamp-0" if k < 3 else "lamp-3"
        change(devices)

    with pytest.raises(Refused, match=why):
        read_plan(changed(plan, tmp_path, with_known_heads))


def test_a_device_that_takes_no_part_has_no_head(plan, tmp_path):
    led = next(k for k, head in enumerate(read_plan(plan).clusters.head) if head != k)
    planned = read_plan(changed(plan, tmp_path, lambda devices: devices[led].update(head="")))
    assert planned.clusters.head[led] == -1


def test_a_plan_for_other_devices_is_refused(plan):
    planned = read_plan(plan)
    chosen = scenario_of(planned, None, ["fleet.placement={kind: disc}", "fleet.n_devices=7", "fleet.devices=null"])
    simulation = Simulation(chosen, method_of("hierfedavg", planned.clusters), dry_run=True)
    with pytest.raises(ValueError, match="the plan is for 6 devices, and the fleet has 7"):
        list(simulation.rounds())
