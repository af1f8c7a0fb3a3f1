"""Scenario files: strict, and every message says where, what was expected and what came."""

import pytest

from fedloom.simulator.scenarios import ScenarioError, names, scenario


def test_scenarios_that_come_along_are_valid():
    assert "cells-overlap" in names()
    for name in names():
        assert scenario(name).description


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("trainig.lr=1", "unknown key trainig; did you mean training?"),
        ("training.learning_rate=1", "unknown key training.learning_rate; "),
        ("training.lrr=1", "unknown key training.lrr; did you mean lr?"),
        ("fleet.placement.pairs=2", "unknown key fleet.placement.pairs"),
        (
            "fleet.device_edge.up.bandwith_hz=2",
            "unknown key fleet.device_edge.up.bandwith_hz; did you mean bandwidth_hz?",
        ),
        ("fleet.n_devices=-3", "fleet.n_devices must be greater than or equal to 1, got -3"),
        (
            "training.lr=fast",
            "training.lr must be a valid number, got 'fast'; write a number",
        ),
        ("training.lr=.nan", "training.lr must be a finite number"),
        ("training.participation=1.5", "training.participation must be less than or equal to 1, got 1.5"),
        ("task.partition.kind=random", "task.partition must have a kind out of 'iid', 'classes'"),
        ("task.partition=5", "task.partition"),
        ("task.model.kind=resnet", "task.model.kind must be 'softmax', 'mlp'"),
        ("training.local_epochs=2", "give local_steps or local_epochs, not both"),
        ("training.lr", "a change must look like training.lr=0.05, got 'training.lr'"),
        ("name.first=x", "cannot set name.first: name is 'small', which has nothing inside"),
        (
            "training.lr=[1",
            "the value of training.lr, line 2, column 1: not valid YAML: did not find expected ',' or ']'",
        ),
    ],
)
def test_mistakes_are_explained(small, change, message):
    with pytest.raises(ScenarioError) as error:
        scenario(small, [change])
    assert message in str(error.value)


def test_all_mistakes_are_listed_at_once(small):
    with pytest.raises(ScenarioError) as error:
        scenario(small, ["training.lr=-1", "fleet.n_devices=0"])
    assert len(str(error.value).splitlines()) == 2


def test_changes_do_not_touch_the_original(small):
    first = scenario(small)
    second = scenario(first, ["training.lr=0.7"])
    assert (first.training.lr, second.training.lr) == (0.1, 0.7)
    assert scenario(first) is first


def test_files(tmp_path):
    with pytest.raises(ScenarioError, match="is a directory; give the path of a scenario, a YAML file or one of"):
        scenario(tmp_path)
    with pytest.raises(ScenarioError, match="there is no scenario file cells-overlp; did you mean cells-overlap"):
        scenario("cells-overlp")
    file = tmp_path / "mine.yaml"
    file.write_text("fleet: {n_devices: 3}")
    assert scenario(file).name == "mine"
    file.write_text("fleet: {n_devices: 3")
    with pytest.raises(ScenarioError, match=r"mine\.yaml, line 2, column 1: not valid YAML: did not find expected"):
        scenario(file)
    file.write_text("just words")
    with pytest.raises(ScenarioError, match="must hold keys and values"):
        scenario(file)
    file.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(ScenarioError, match=r"mine\.yaml, line 1: not a text file: byte 0xff is no UTF-8"):
        scenario(file)
    file.write_text("task: {dataset: digits}")
    with pytest.raises(ScenarioError, match="fleet is missing"):
        scenario(file)
