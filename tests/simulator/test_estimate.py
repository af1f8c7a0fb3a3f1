"""What a run takes is known before it is made, and what the machine does not have is refused at once."""

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.simulator import Simulation, make_method, refusing, scenario
from fedloom.simulator.estimate import PROGRAM, estimate
from fedloom.simulator.refusing import NoRoom, TooLarge, refuse_full_disk, refuse_too_large
from fedloom.simulator.speed import measured_speed, real_run
from fedloom.training import models, rows

GB = 1e9


@pytest.mark.parametrize(
    ("changes", "what", "change"),
    [
        (["fleet.n_devices=100000000"], "a fleet of 100,000,000 devices", "fewer fleet.n_devices"),
        (["training.local_steps=1000000000000000"], "the steps of a job", "fewer training.local_steps"),
        (
            ["training.edge_rounds=1000000000000"],
            "the notes of 1,000,000,000,000 edge rounds",
            "fewer training.edge_rounds",
        ),
        (["training.cloud_rounds=1000000000000"], "the measures of", "fewer training.cloud_rounds"),
        (["training={total_steps: 1" + "0" * 18 + "}"], "the measures of", "fewer training.cloud_rounds"),
        (
            ["task.model={kind: mlp, hidden: [1000000, 1000000]}"],
            "models of 1,000,014,000,004 values",
            "smaller task.model",
        ),
        (
            ["task.model={kind: mlp, hidden: [1" + "0" * 18 + "]}"],
            "models of 13,000,000,000,000,000,000 values",
            "smaller task.model",
        ),
        (["task.gaussian.n_train=1000000000000"], "1,000,000,000,080 samples", "a smaller dataset"),
        (["fleet.cells={kind: grid, shape: hex, n: 1000000000}"], "models of", "fewer cells"),
        (
            ["task.partition={kind: drawn, samples_per_client: 1000000000000}"],
            "a fleet of 6 devices",
            "fewer fleet.n_devices",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_once_with_the_largest_term(small, changes, what, change, monkeypatch):
    monkeypatch.setattr(refusing, "free_memory_bytes", lambda: 16 * GB)
    wanted, method = scenario(small, changes), make_method("hierfedavg")
    began = time.process_time()
    with pytest.raises(TooLarge, match=r"and 16 GB are free: most of it for ") as error:
        Simulation(wanted, method)
    assert time.process_time() - began < 2
    assert what in str(error.value) and change in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize(
    "changes",
    [
        ["fleet.n_devices=100000000"],
        ["training.edge_rounds=1000000000000"],
        ["training.cloud_rounds=1000000000000"],
        ["task.model={kind: mlp, hidden: [1000000, 1000000]}"],
    ],
)
def test_dry_runs_that_do_not_fit_are_refused_too(small, changes, monkeypatch):
    monkeypatch.setattr(refusing, "free_memory_bytes", lambda: 16 * GB)
    with pytest.raises(TooLarge, match="this dry run would need about"):
        Simulation(scenario(small, changes), make_method("hierfedavg"), dry_run=True)


def test_a_dry_run_tells_what_a_real_one_would_be_refused_for(small):
    long = scenario(small, ["training.local_steps=1000000000000"])
    with pytest.raises(TooLarge):
        refuse_too_large(long, make_method("hierfedavg"), memory_bytes=16 * GB)
    refuse_too_large(long, make_method("hierfedavg"), memory_bytes=16 * GB, dry_run=True)


def test_links_between_devices_are_a_matrix_that_only_some_methods_need(small):
    large = scenario(small, ["fleet.n_devices=50000", "task.partition={kind: drawn}"])
    refuse_too_large(large, make_method("hierfedavg"), memory_bytes=16 * GB)
    with pytest.raises(TooLarge, match="links between 50,000 x 50,000 devices"):
        refuse_too_large(large, make_method("random_clusters"), memory_bytes=16 * GB)


def test_models_that_are_coded_are_kept_by_themselves_and_may_not_fit(small):
    """100 edge rounds of 2000 devices with 13,004 values of 4 bytes: what is trained, arrives and is left over of each, 31 GB."""
    changes = [
        "fleet.n_devices=2000",
        "task.partition={kind: drawn}",
        "task.model.hidden=[1000]",
        "training.edge_rounds=100",
    ]
    large = scenario(small, changes)
    refuse_too_large(large, make_method("hierfedavg:down=float16"), memory_bytes=16 * GB)
    with pytest.raises(TooLarge, match="coded uploads of 100 edge rounds of 2,000 devices"):
        refuse_too_large(large, make_method("hierfedavg:up=float16"), memory_bytes=16 * GB)


def test_no_machine_is_waited_for_longer_than_ten_years(small):
    slow = scenario(
        small,
        [
            "training.local_steps=100000000",
            "training.cloud_rounds=1000000",
            "fleet.n_devices=200",
            "task.model.hidden=[99]",
        ],
    )
    with pytest.raises(TooLarge, match=r"this run would take more than [\d,]+ years: 400,000,000 jobs of clients"):
        refuse_too_large(slow, make_method("hierfedavg"), memory_bytes=16 * GB)


def test_each_device_needs_a_sample(small):
    many = scenario(small, ["fleet.n_devices=241"])
    with pytest.raises(ValueError, match=r"241 devices \(fleet.n_devices\) cannot share 240 training samples"):
        refuse_too_large(many, make_method("hierfedavg"))
    refuse_too_large(scenario(many, ["task.partition={kind: drawn}"]), make_method("hierfedavg"))


def test_terms_are_counted_by_hand(small):
    found = estimate(scenario(small), make_method("hierfedavg"), n_workers=2)
    # 6 devices, 2 edge rounds of 2 steps, 4 cloud rounds; batches of 8; 5 evaluations of the global and 2 edge models
    assert found.work.jobs == 48 and found.work.steps == 96 and found.work.samples == 96 * 8
    assert found.work.evaluated == 5 * 3 * 80
    n_params = rows.n_values(models.build("mlp", (8,), 4, 0, hidden=(8,)))
    assert found.work.sample_flops == 6 * n_params
    n_rows = 1 + 3 * 2
    assert {t.what: t.n_bytes for t in found.disk}["two checkpoints of 7 models, and the model"] == (
        2 * n_rows + 1
    ) * 4 * n_params
    data = next(t for t in found.memory if t.what == "320 samples")
    assert data.n_bytes == 320 * 8 * (4 + 4)
    assert found.memory_bytes == sum(t.n_bytes for t in found.memory) > PROGRAM


def test_more_of_anything_never_takes_less(small):
    base = estimate(scenario(small), make_method("hierfedavg"))
    for change in (
        "fleet.n_devices=60",
        "training.edge_rounds=9",
        "training.cloud_rounds=40",
        "task.model.hidden=[99]",
    ):
        more = estimate(scenario(small, [change]), make_method("hierfedavg"))
        assert more.memory_bytes > base.memory_bytes and more.disk_bytes > base.disk_bytes


def test_a_disk_that_is_too_small_is_named_before_the_run(small, tmp_path, monkeypatch):
    large = scenario(small, ["task.model.hidden=[99999]"])
    found = estimate(large, make_method("hierfedavg"))
    refuse_full_disk(found, tmp_path / "not" / "there")
    monkeypatch.setattr(refusing, "free_disk_bytes", lambda folder: found.disk_bytes * 1.5)
    refuse_full_disk(found, tmp_path)
    with pytest.raises(NoRoom, match=r"these 2 runs would need about .* of disk in .*two checkpoints.*make room there"):
        refuse_full_disk(found, tmp_path, n_runs=2)


@pytest.mark.slow
def test_disk_is_what_a_run_leaves_with_its_report(small, tmp_path, monkeypatch):
    """Most of a small one is the report, of which several runs have one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    found = estimate(scenario(small), make_method("hierfedavg"))
    assert CliRunner().invoke(app, ["run", "small.yaml", "-q", "--out", "run"]).exit_code == 0
    left = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert 0.8 * left < found.disk_bytes < left
    monkeypatch.setattr(refusing, "free_disk_bytes", lambda folder: 1.2 * found.disk_bytes)
    refuse_full_disk(found, tmp_path, n_runs=10)
    monkeypatch.setattr(refusing, "free_disk_bytes", lambda folder: 0.5 * found.disk_bytes)
    with pytest.raises(NoRoom, match=r"this run would need about 1\.91 MB of disk in .*: most of it for the report"):
        refuse_full_disk(found, tmp_path)


@pytest.mark.parametrize("method", ["hierfedavg", "scaffold", "ditto"])
def test_the_speed_is_measured_quickly(small, method):
    simulation = Simulation(scenario(small), make_method(method), dry_run=True)
    speed = measured_speed(simulation, n_workers=1)
    assert speed.measured and speed.trained_s > 100 and speed.evaluated_s > 100
    assert speed.seconds(estimate(scenario(small), make_method(method)).work) < 60


def test_a_dry_run_prints_what_the_real_run_takes(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    done = CliRunner().invoke(app, ["run", "small.yaml", "--dry-run", "-q"])
    text = " ".join(done.stdout.split())
    assert (
        "the real run: about " in text
        and "768 samples to train on" in text
        and "of memory" in text
        and "of disk" in text
    )
    found = json.loads(CliRunner().invoke(app, ["run", "small.yaml", "--dry-run", "-q", "--json"]).stdout)["estimate"]
    assert found["work"]["steps"] == 96 and found["seconds"] > 0 and found["memory_bytes"] > PROGRAM
    assert found["disk_bytes"] == sum(term["n_bytes"] for term in found["disk"])


def test_steps_are_those_the_clock_counted(small):
    simulation = Simulation(scenario(small, ["training.participation=0.5"]), make_method("hierfedavg"), dry_run=True)
    for _ in simulation.rounds():
        pass
    found = real_run(simulation, 0.0, n_workers=1)
    assert found["work"]["steps"] == simulation.federation.steps_done > 0


@pytest.mark.parametrize("kind", ["classes", "dual-layer"])
def test_samples_that_no_device_holds_are_not_counted(small, kind):
    """12 samples of each of two classes are 3 batches of 8, however many the data has."""
    changes = [
        f"task.partition={{kind: {kind}, classes_per_client: 2, samples_per_class: 12}}",
        "training={cloud_rounds: 2, edge_rounds: 2, local_epochs: 1, batch_size: 8}",
    ]
    chosen = scenario(small, changes)
    simulation = Simulation(chosen, make_method("hierfedavg"), 0, dry_run=True)
    list(simulation.rounds())
    assert estimate(chosen, make_method("hierfedavg")).work.steps == simulation.federation.steps_done


def test_a_comparison_that_does_not_fit_starts_no_worker(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    args = [
        "compare",
        "small.yaml",
        "--set",
        "training.edge_rounds=1000000000000",
        "--methods",
        "fedavg",
        "--seeds",
        "1",
    ]
    error = CliRunner().invoke(app, args).exception
    assert isinstance(error, TooLarge) and [p.name for p in tmp_path.iterdir()] == ["small.yaml"]


def test_own_data_and_models_count_as_they_are(small):
    from fedloom import data

    dataset = data.gaussian_mixture(4, 8, n_train=500, n_test=100, rng=np.random.default_rng(0))
    model = models.build("mlp", (8,), 4, 0, hidden=(500,))
    found = estimate(scenario(small), make_method("hierfedavg"), dataset=dataset, model=model)
    assert next(t for t in found.memory if t.what == "600 samples").n_bytes == 600 * 8 * 4
    assert found.work.sample_flops == 6 * rows.n_values(model)
