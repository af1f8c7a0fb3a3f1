"""Scenario files: strict, and every message says where, what was expected and what came."""

import pytest

from fedloom.simulator.scenarios import ScenarioError, names, scenario


def test_scenarios_that_come_along_are_valid():
    assert "cells-overlap" in names()
    for name in names():
        assert scenario(name).description


def test_paths_in_a_file_are_seen_from_its_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "table.csv").write_text("x_m,y_m\n1,2\n")
    (tmp_path / "here" / "on.csv").write_text("time_s,device,on\n5,0,1\n")
    fleet = "{table: table.csv, battery: {capacity_j: 9, charging: {power_w: 1, when: {kind: trace, file: on.csv}}}}"
    (tmp_path / "here" / "mine.yaml").write_text(f"fleet: {fleet}\n")
    monkeypatch.chdir(tmp_path)
    for source in ("here/mine.yaml", tmp_path / "here" / "mine.yaml"):
        found = scenario(source).fleet
        assert found.placement.positions_m == ((1, 2),) and found.battery.charging.when.changes_s == ((5,),)
    (tmp_path / "other.csv").write_text("x_m,y_m\n3,4\n")
    assert scenario("here/mine.yaml", ["fleet.table=other.csv"]).fleet.placement.positions_m == ((3, 4),)
    with pytest.raises(ScenarioError, match=r"table: here/other\.csv cannot be read"):
        (tmp_path / "here" / "mine.yaml").write_text("fleet: {table: other.csv}\n")
        scenario("here/mine.yaml")


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
    with pytest.raises(ScenarioError, match="is a directory; a scenario is a YAML file or one of"):
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {lr: true}", "line 2, column 12: training.lr must be a valid number, got True; write a number"),
        ("training:\n  lr: yes", "line 3, column 3: training.lr must be a valid number, got 'yes'; write a number"),
        ('training: {lr: "0.1"}', "training.lr must be a valid number, got '0.1'; write the number without quotes"),
        ("training: {cloud_rounds: true}", "training.cloud_rounds must be a valid integer, got True; write a number"),
        (
            "training: {cloud_rounds: 2.0}",
            "training.cloud_rounds must be a valid integer, got 2.0; write a whole number",
        ),
        ("training: {cloud_rounds: 010}", "line 2, column 26: '010' can be read in two ways"),
        ("training: {batch_size: 1:30}", "line 2, column 24: '1:30' can be read in two ways"),
        ("training: {lr: 1, lr: 2}", "line 2, column 19: key lr is there already, in line 2"),
        ("task: {standardise: yes}", "task.standardise must be a valid boolean, got 'yes'; write true or false"),
        ("task: {standardise: 1}", "task.standardise must be a valid boolean, got 1; write true or false"),
        ("task: {dataset: 5}", "task.dataset must be a valid string, got 5; put it in quotes if it is meant as a word"),
        ("task: {model: 5}", "line 2, column 8: task.model must hold keys and values, got 5"),
        (
            "task: {model: {kind: mlp, hidden: [8, '4']}}",
            "line 2, column 39: task.model.hidden.1 must be a valid integer",
        ),
        ("nonsense: 1", "line 2, column 1: unknown key nonsense; "),
        (
            "name: ../../escaped/x",
            "line 2, column 1: name: a name must be letters, digits, dots, dashes and underscores",
        ),
        ("name: /elsewhere/escaped", "got '/elsewhere/escaped'"),
        ('name: "two\\nlines"', "got 'two\\nlines'"),
        ('name: ""', "got ''"),
        ("name: .hidden", "got '.hidden'"),
        (f"name: {'x' * 101}", "at most 100 of them"),
        ("task: &t {dataset: digits}", "line 2, column 7: anchors such as &t are not read"),
    ],
)
def test_what_is_read_in_two_ways_or_not_what_it_says_is_refused(tmp_path, text, message):
    file = tmp_path / "mine.yaml"
    file.write_text("fleet: {n_devices: 3}\n" + text)
    with pytest.raises(ScenarioError) as caught:
        scenario(file)
    assert message in str(caught.value) and str(caught.value).count("\n") == 0


@pytest.mark.parametrize(
    "change",
    [
        "training.lr='0.1'",
        "training.lr=true",
        "training.cloud_rounds=010",
        "training.batch_size=1:30",
        "training.batch_size=1_0",
        "training={lr: 1, lr: 2}",
        "training=*x",
        "training.edge_rounds=1000000000000000000000000000000",
        "fleet.placement={kind: three-cells, exclusive: 100000000000}",
        "model_bits=1e300",
        "model_bits=9223372036854775808",
        "fleet.device_edge={up: {kind: rate, bit_s: 1.0e-300}}",
        "fleet.device_edge={up: {kind: fixed, seconds: 1e300}}",
        "fleet.compute={jitter_sigma: 1e3}",
        "fleet.compute={jitter_sigma: 3e5}",
        "fleet.compute={power_w: 1e308}",
        "fleet.compute={law: {kind: fixed, value: 1e-300}, unit: steps-per-second}",
        "fleet.server_m=[1e300, 0]",
        f"{'a.' * 5000}b=1",
        f"training.lr={'[' * 5000}",
    ],
)
def test_a_change_that_is_none_or_would_never_end_is_refused_in_one_line(small, change):
    with pytest.raises(ScenarioError) as caught:
        scenario(small, [change])
    assert str(caught.value).count("\n") == 0 and len(str(caught.value)) < 400


def test_a_message_shows_little_of_a_large_value(tmp_path):
    file = tmp_path / "large.yaml"
    file.write_text(f"fleet: {{n_devices: {'x' * 500_000}, server_m: [{'[1], ' * 50_000}2]}}")
    with pytest.raises(ScenarioError) as caught:
        scenario(file)
    assert max(map(len, str(caught.value).splitlines())) < 400
    file.write_text("".join(f"wrong{i}: 1\n" for i in range(900)))
    with pytest.raises(ScenarioError, match="and 881 more") as caught:
        scenario(file)
    assert len(str(caught.value).splitlines()) == 21


def test_numbers_may_be_written_as_in_json(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("fleet: {n_devices: 3}\ntraining: {lr: 1e-4, momentum: 0, weight_decay: .5}\n")
    training = scenario(file).training
    assert (training.lr, training.momentum, training.weight_decay) == (1e-4, 0.0, 0.5)
    assert isinstance(training.momentum, float)


def test_a_file_of_any_name_gives_a_name(tmp_path):
    file = tmp_path / "My cells (2) 'é'.yaml"
    file.write_text("fleet: {n_devices: 3}")
    assert scenario(file).name == "My-cells-2"


def test_what_was_written_as_json_is_read_as_such(tmp_path):
    file = tmp_path / "scenario.json"
    first = scenario({"description": "a cell 📡 \u2028 with \x85 all", "fleet": {"n_devices": 3}})
    file.write_text(first.model_dump_json(indent=1))
    assert scenario(file) == first
    file.write_text('{"fleet": {"n_devices": 3}, "fleet": {"n_devices": 4}}')
    with pytest.raises(ScenarioError, match="key 'fleet' is there twice"):
        scenario(file)
    file.write_text("")
    with pytest.raises(ScenarioError, match="not valid JSON"):
        scenario(file)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "x" * 5000, "a\0b", "\udcff"])
def test_a_scenario_that_is_no_file_is_refused_at_once(path):
    with pytest.raises(ScenarioError) as caught:
        scenario(path)
    assert len(str(caught.value)) < 500
