"""The run folder: complete, atomic, and a run killed at any moment goes on to the same bits."""

import json
import os
from pathlib import Path

import polars
import pytest

from fedloom.record.files import NotWritten
from fedloom.record.folder import FolderError, load_checkpoint, record
from fedloom.record.runs import read_run
from fedloom.simulator import Simulation, make_method, scenario


def run(small, folder, method="hierfedavg", seed=0, changes=(), **options):
    return record(Simulation(scenario(small, changes), make_method(method), seed), method, folder, **options)


def test_a_run_leaves_a_complete_record(small, tmp_path):
    folder = tmp_path / "runs" / "a"
    seen = []
    summary = run(small, folder, on_round=lambda done, measures: seen.append(done))
    assert seen == [0, 1, 2, 3, 4]
    assert sorted(p.name for p in folder.iterdir()) == [
        *("checkpoint", "costs.parquet", "manifest.json", "metrics.parquet", "model.safetensors", "run.json"),
        *("summary.json", "timeline.parquet", "topology.parquet"),
    ]
    about = json.loads((folder / "run.json").read_text())
    assert about["scenario"] == scenario(small).model_dump(mode="json")
    assert about["method"] == "hierfedavg" and about["seed"] == 0
    assert {"torch", "fedloom"} <= set(about["versions"]) and about["machine"]["cores"] >= 1
    assert len(about["clients"]["label_counts"]) == 6 and len(about["cells"]["centre_m"]) == 2
    metrics = polars.read_parquet(folder / "metrics.parquet")
    assert metrics["cloud_round"].to_list() == [0, 1, 2, 3, 4]
    assert {"edge_round", "local_steps", "time_s", "energy_j", "bytes", "accuracy", "loss"} <= set(metrics.columns)
    topology = polars.read_parquet(folder / "topology.parquet")
    assert sorted(topology["client"].to_list()) == list(range(6)) and topology["kind"].unique().to_list() == ["edge"]
    assert summary == json.loads((folder / "summary.json").read_text())
    assert summary["final"]["accuracy"] == metrics["accuracy"][-1] and summary["wall_s"] >= summary["engine_s"] > 0
    assert sum(row["bytes"] for row in summary["ledger"]) == metrics["bytes"][-1]


def test_the_same_run_writes_the_same_bytes(small, tmp_path):
    for name in ("a", "b"):
        run(small, tmp_path / name)
    for file in ("metrics.parquet", "topology.parquet", "model.safetensors", "checkpoint/state.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_folder_with_something_else_is_left_alone(small, tmp_path):
    run(small, tmp_path / "a")
    with pytest.raises(FolderError, match="already holds this run, finished; delete the folder to run it again"):
        run(small, tmp_path / "a")
    with pytest.raises(FolderError, match=r"holds another run \(seed is 0 there and 1 here\); choose another --out"):
        run(small, tmp_path / "a", seed=1)
    with pytest.raises(FolderError, match=r"scenario.training.lr is 0.1 there and 0.2 here"):
        run(small, tmp_path / "a", changes=["training.lr=0.2"], resume=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").write_text("precious")
    with pytest.raises(FolderError, match=r"holds other files \(thesis.tex\); choose an empty or new folder"):
        run(small, tmp_path / "b")
    with pytest.raises(FolderError, match="is a file; --out must be a folder"):
        run(small, tmp_path / "b" / "thesis.tex")
    assert (tmp_path / "b" / "thesis.tex").read_text() == "precious"


def test_resuming_a_finished_run_changes_nothing(small, tmp_path):
    first = run(small, tmp_path / "a")
    before = (tmp_path / "a" / "metrics.parquet").stat().st_mtime_ns
    assert run(small, tmp_path / "a", resume=True) == first
    assert (tmp_path / "a" / "metrics.parquet").stat().st_mtime_ns == before


def test_a_damaged_checkpoint_is_named(small, tmp_path):
    run(small, tmp_path / "a", checkpoint_every_s=0)
    (tmp_path / "a" / "summary.json").unlink()
    state = tmp_path / "a" / "checkpoint" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:40])
    (state.parent / "before.safetensors").unlink()
    with pytest.raises(
        FolderError, match=r"state\.safetensors cannot be used: a damaged file .*; delete .*checkpoint to start"
    ):
        run(small, tmp_path / "a", resume=True)


def test_a_full_disk_keeps_the_last_checkpoint(small, tmp_path, monkeypatch):
    run(small, tmp_path / "whole")
    real = os.fsync
    written = []

    def full(descriptor):
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if "state.safetensors" in path:
            written.append(path)
            if len(written) == 3:
                raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        NotWritten, match=r"state.safetensors could not be written \(No space left on device\); make room .*--resume"
    ):
        run(small, tmp_path / "a", checkpoint_every_s=0)
    monkeypatch.undo()
    assert load_checkpoint(tmp_path / "a").moment == (0, 0, 0, 0, 2)  # both batches of the first cloud round
    assert not list((tmp_path / "a").rglob("*.tmp"))
    run(small, tmp_path / "a", resume=True)
    assert (tmp_path / "a" / "metrics.parquet").read_bytes() == (tmp_path / "whole" / "metrics.parquet").read_bytes()


def test_a_table_that_makes_its_reader_panic_is_named_in_one_line(small, tmp_path, monkeypatch):
    def panics(path):
        raise polars.exceptions.PanicException("index out of bounds\nin a library")

    run(small, tmp_path / "a")
    monkeypatch.setattr(polars, "read_parquet", panics)
    with pytest.raises(
        FolderError, match=r"metrics.parquet is damaged \(index out of bounds in a library\); run it again"
    ):
        read_run(tmp_path / "a")


def test_a_clock_that_is_no_longer_finite_is_refused_before_it_is_written(small, tmp_path, monkeypatch):
    rounds = Simulation.rounds

    def endless(simulation, *resume):
        for measures in rounds(simulation, *resume):
            if simulation.cloud_rounds_done == 2:
                simulation.measures[-1] = measures | {"energy_j": float("inf")}
            yield measures

    monkeypatch.setattr(Simulation, "rounds", endless)
    with pytest.raises(
        ValueError, match=r"the clock after cloud round 2, by the rates .*: energy_j must be finite, got inf"
    ):
        run(small, tmp_path / "a")
    assert polars.read_parquet(tmp_path / "a/metrics.parquet")["energy_j"].is_finite().all()
    assert not (tmp_path / "a/summary.json").exists()


def test_a_summary_is_json_even_if_a_measure_is_infinite(small, tmp_path, monkeypatch):
    """Such as round_s, of a cluster with a link that is down."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    monkeypatch.setattr("fedloom.record.folder.summarise", lambda *_, **__: {"final": {"round_s": float("inf")}})
    summary = run(small, tmp_path / "a")
    assert summary == {"final": {"round_s": None}}
    assert json.loads((tmp_path / "a/summary.json").read_text(), parse_constant=refuse) == summary
