"""The commands of a deployment."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.deployment.bundles import RevokedList, add_node, read_bundle, revoke_node
from fedloom.deployment.certificates import fingerprint
from fedloom.deployment.own import own_task
from fedloom.deployment.roles import run_role
from fedloom.simulator import Scenario, Simulation, make_method
from fedloom.training import rows
from small import for_method

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(for_method("hierfedavg", cloud_rounds=1)[0]))
    return str(path)


def said(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_init_makes_bundles_examples_and_says_what_to_copy(scenario, tmp_path):
    output = said("deploy", "init", scenario, "-m", "hierfedavg", "--out", tmp_path / "all", "--host", "cloud=10.0.0.7")
    assert "9 bundles" in output and "fedloom device device-0" in output
    bundle, _ = read_bundle(tmp_path / "all" / "edge-1")
    assert bundle.addresses == {"cloud": "10.0.0.7:7430", "edge-0": "127.0.0.1:7431", "edge-1": "127.0.0.1:7432"}
    assert bundle.listen == "127.0.0.1:7432" and bundle.patience_s == 60
    services = yaml.safe_load((tmp_path / "all" / "compose.yaml").read_text())["services"]
    assert services["device-5"]["command"] == "fedloom device /bundle" and len(services) == 9


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], (30.0, 0.5, 1.0)),
        (["--patience", 5], (5.0, 0.5, 1.0)),
        (["--patience", 0, "--quorum", 0.25], (None, 0.25, 0.25)),
    ],
)
def test_a_bundle_waits_as_the_method_says_unless_the_command_does(options, expected, scenario, tmp_path):
    method = "hierfedavg:patience_s=30:quorum=0.5:cloud_quorum=1"
    said("deploy", "init", scenario, "-m", method, "--out", tmp_path / "all", *options)
    waiting = read_bundle(tmp_path / "all" / "cloud")[0].waiting
    assert (waiting.patience_s, waiting.quorum, waiting.cloud_quorum) == expected


def test_init_says_what_there_is_to_start_and_who_can_be_reached(scenario, tmp_path):
    output = said("deploy", "init", scenario, "-m", "hierfedavg", "--out", tmp_path / "all", "--host", "cloud=fd00::7")
    lines = [line.strip() for line in output.splitlines()]
    assert "fedloom cloud cloud, listens at [fd00::7]:7430" in lines
    assert "fedloom edge edge-1, listens at 127.0.0.1:7432" in lines
    assert "fedloom device device-4" in lines and "and so on, up to device-5" in lines
    assert "edge-0, edge-1: on loopback, reached from the same machine alone; see --host" in lines
    flat = said("deploy", "init", scenario, "-m", "fedavg", "--out", tmp_path / "flat")
    assert "fedloom edge" not in flat and "on loopback" not in flat
    heads = said("deploy", "init", scenario, "-m", "ddc", "--out", tmp_path / "heads", "--host", "cloud=laptop.local")
    assert "device-3, device-4 and 1 more: on loopback" in heads


@pytest.mark.parametrize(
    "host", ["cloud", "cloud=", "cloud=10.0.0.7:9000", "cloud=http://here", "cloud=my host", "cloud=a,b"]
)
def test_a_host_is_a_host_alone(host, scenario, tmp_path):
    with pytest.raises(ValueError, match=r"--host must be NODE=HOST, .* ports follow from --port"):
        said("deploy", "init", scenario, "--host", host, "--out", tmp_path / "all")


def test_there_must_be_a_port_for_everybody_who_serves(scenario, tmp_path):
    with pytest.raises(ValueError, match=r"7 nodes serve, .* the last port is 65535; give a smaller --port"):
        said("deploy", "init", scenario, "-m", "ddc", "--out", tmp_path / "all", "--port", "65530")


def test_the_engine_is_chosen_as_in_the_simulator_and_devices_may_be_fewer(scenario, tmp_path):
    said("deploy", "init", scenario, "--engine", "torch", "--devices", "4", "--out", tmp_path / "all")
    bundle, _ = read_bundle(tmp_path / "all" / "device-3")
    assert bundle.engine == "torch"
    assert [name for name in bundle.roster if name.startswith("device-")] == [f"device-{k}" for k in range(4)]
    with pytest.raises(ValueError, match="engine must be one of"):
        said("deploy", "init", scenario, "--engine", "jax", "--out", tmp_path / "other")
    assert not (tmp_path / "other" / "ca").exists()


def test_keys_are_not_overwritten(scenario, tmp_path):
    said("deploy", "init", scenario, "--out", tmp_path / "all")
    with pytest.raises(ValueError, match="keys are not overwritten"):
        said("deploy", "init", scenario, "--out", tmp_path / "all")


def test_a_node_that_is_added_again_has_a_new_certificate_and_the_old_is_revoked(scenario, tmp_path):
    folder = tmp_path / "all"
    said("deploy", "init", scenario, "--out", folder)
    before = fingerprint((folder / "device-1" / "node.pem").read_bytes())
    revoked = RevokedList(folder / "revoked.json")
    assert revoked() == frozenset()
    said("deploy", "add", folder, "device-1")
    assert revoked() == {before}
    assert fingerprint((folder / "device-1" / "node.pem").read_bytes()) not in revoked()
    said("deploy", "revoke", folder, "device-2")
    assert len(revoked()) == 2
    with pytest.raises(ValueError, match="not in the roster"):
        add_node(folder, "device-99")
    revoke_node(folder, "device-2")
    assert len(revoked()) == 2


def test_a_role_is_not_started_with_the_bundle_of_another(scenario, tmp_path):
    said("deploy", "init", scenario, "--out", tmp_path / "all")
    with pytest.raises(ValueError, match="start it with: fedloom device"):
        run_role(tmp_path / "all" / "device-0", role="cloud")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": "1"}, r"bundle\.json: seed: Input should be a valid integer; make the bundles anew"),
        ({"name": "edge-01"}, "name: Value error, a node is called cloud, edge-N or device-N"),
        ({"roster": ["stranger"]}, "roster: Value error, a node is called"),
        ({"quorum": 2}, "quorum: Input should be less than or equal to 1"),
        ({"quorom": 0.5}, "quorom: Extra inputs are not permitted"),
        ({"format": 0}, "this program reads bundles of format 1, got 0"),
    ],
)
def test_a_bundle_that_was_changed_by_hand_is_refused_with_what_does_not_fit(change, why, scenario, tmp_path):
    said("deploy", "init", scenario, "--out", tmp_path / "all")
    path = tmp_path / "all" / "edge-1" / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=why):
        run_role(path.parent)


def test_a_folder_that_is_no_bundle_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"is no bundle: bundle\.json is missing"):
        run_role(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("evaluation.every={edge_rounds: 1}", "set evaluation.every to a number of cloud rounds"),
        ("evaluation.models=devices", "set it to edges or global"),
    ],
)
def test_what_cannot_be_deployed_says_why_at_start(scenario, change, why, tmp_path):
    with pytest.raises(ValueError, match=why):
        said("deploy", "init", scenario, "--set", change, "--out", tmp_path / "all")


def test_nobody_answers_says_what_to_start(scenario, tmp_path):
    said("deploy", "init", scenario, "--out", tmp_path / "all", "--port", "1")
    with pytest.raises(ValueError, match="start it with: fedloom cloud"):
        said("status", tmp_path / "all" / "device-0")


def test_there_is_nothing_to_go_on_with(scenario, tmp_path):
    with pytest.raises(ValueError, match=r"is no bundle: bundle\.json is missing"):
        said("deploy", "local", scenario, "--resume", "--out", tmp_path / "all")
    with pytest.raises(ValueError, match="--resume is without --shape"):
        said("deploy", "local", scenario, "--resume", "--shape", "--out", tmp_path / "all")
    said("deploy", "init", scenario, "-m", "fedavg", "--seed", "3", "--out", tmp_path / "all")
    with pytest.raises(ValueError, match="is of the method fedavg with seed 3"):
        said("deploy", "local", scenario, "-m", "fedavg", "--resume", "--out", tmp_path / "all")


@pytest.mark.slow
def test_own_data_and_model_run_as_processes_with_the_simulators_bits(scenario, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(EXAMPLES)
    said("deploy", "local", scenario, "--quiet", "--task", "own_task:task", "--out", tmp_path / "all")
    from own_task import task

    simulation = Simulation(
        Scenario.model_validate(for_method("hierfedavg", cloud_rounds=1)[0]), make_method("hierfedavg"), **task("cloud")
    )
    for _ in simulation.rounds():
        pass
    tensors = load_file(tmp_path / "all" / "cloud" / "record" / "model.safetensors")
    row = np.concatenate([tensors[name].reshape(-1) for name, _ in rows.tensors(simulation.model)])
    assert np.array_equal(row, simulation.result().row)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere_to_be_found:task", "is not to be found on device-1"),
        ("json:dumps", "must give a mapping"),
        ("task", "named MODULE:FUNCTION"),
    ],
)
def test_own_code_that_does_not_fit_says_why(name, why):
    with pytest.raises(ValueError, match=why):
        own_task(name, "device-1")


@pytest.mark.slow
def test_local_runs_everything_and_leaves_record_and_report(scenario, tmp_path):
    output = said("deploy", "local", scenario, "-m", "hierfedavg", "--quiet", "--out", tmp_path / "all")
    assert "report:" in output
    record = tmp_path / "all" / "cloud" / "record"
    assert json.loads((record / "summary.json").read_text())["final"]["cloud_round"] == 1
    assert (record / "report.html").stat().st_size > 10_000
    said("verify", record)
