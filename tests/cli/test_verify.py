"""The command that checks records."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.record.files import FolderError
from fedloom.record.folder import record
from fedloom.record.report import write_report
from fedloom.record.runs import read_run
from fedloom.simulator import Simulation, make_method, scenario


def fedloom(*args):
    return CliRunner().invoke(app, ["verify", *map(str, args)], catch_exceptions=False)


@pytest.fixture
def runs(small, tmp_path):
    """Two finished runs, one with its report, somewhere below a folder, and one that has just begun: with one checkpoint."""
    for name, method in (("a/x-s0", "hierfedavg"), ("a/b/y-s0", "fedavg")):
        simulation = Simulation(scenario(small), make_method(method), 0, n_workers=1)
        record(simulation, method, tmp_path / name, checkpoint_every_s=0)  # so that there are two checkpoints
    write_report([read_run(tmp_path / "a/x-s0")], tmp_path / "a/x-s0/report.html")

    def stop(done, measures):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulation = Simulation(scenario(small), make_method("hhfl"), 0, n_workers=1)
        record(simulation, "hhfl", tmp_path / "a/z-s0", on_round=stop)
    return tmp_path / "a"


def test_sound_records_are_found_at_any_depth(runs):
    done = fedloom(runs)
    assert done.exit_code == 0
    shown = {
        "b/y-s0": "sound, finished, N files",
        "x-s0": "sound, finished, N files",
        "z-s0": "sound, unfinished, N files",
    }
    lines = [re.sub(r"\d+ files", "N files", line) for line in done.stdout.splitlines()]
    assert lines == [f"{runs}/{name}: {state}" for name, state in shown.items()]
    n_files = [int(line.split()[-2]) for line in done.stdout.splitlines()]
    n_older = [
        (runs / name / "checkpoint" / "before.safetensors").exists() for name in shown
    ]  # if there was time for two
    assert [n - older for n, older in zip(n_files, n_older)] == [8, 9, 3]
    assert fedloom(runs, "--quiet").stdout == ""
    found = json.loads(fedloom(runs, "--json").stdout)
    assert [(v["sound"], v["finished"], v["misfits"]) for v in found] == [(True, True, [])] * 2 + [(True, False, [])]
    assert len({v["identity"] for v in found}) == 3


def test_what_does_not_fit_is_named_with_what_to_do(runs):
    path = runs / "x-s0" / "metrics.parquet"
    size = path.stat().st_size
    path.write_bytes((runs / "b/y-s0/metrics.parquet").read_bytes() + b"x")
    (runs / "x-s0" / "report.html").write_text("<h1>100 %</h1>")
    (runs / "z-s0" / "run.json").unlink()
    done = fedloom(runs)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[1] == f"{runs}/x-s0: 2 do not fit"
    assert lines[2].startswith(f"  metrics.parquet: expected {size} bytes with sha256 ")
    assert lines[2].endswith("; repeat the run with --resume, which makes it again from the checkpoint")
    assert "report.html" in lines[3] and lines[3].endswith("make it again with fedloom report")
    assert lines[4] == f"{runs}/z-s0: 1 does not fit" and "run.json: expected" in lines[5] and "found none" in lines[5]
    [_, x, _] = json.loads(fedloom(runs, "--json").stdout)
    assert [m["file"] for m in x["misfits"]] == ["metrics.parquet", "report.html"]
    write_report([read_run(runs / "b/y-s0")], runs / "x-s0/report.html")
    assert "report.html" not in fedloom(runs / "x-s0").stdout


def test_a_folder_without_runs_is_bad_input(tmp_path):
    with pytest.raises(FolderError, match="holds no run folder; give the folder of a run"):
        fedloom(tmp_path)
    with pytest.raises(FolderError, match="does not exist; give a run folder"):
        fedloom(tmp_path / "nothing")
    done = subprocess.run([sys.executable, "-m", "fedloom", "verify", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_checking_needs_neither_torch_nor_polars(runs):
    code = (
        "import sys; from pathlib import Path; from fedloom.record.verify import find_records, verify\n"
        "assert all(verify(f).sound for f in find_records([Path(sys.argv[1])]))\n"
        "assert not {'torch', 'polars', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(runs)], check=True)


def test_a_report_is_made_only_of_records_that_can_be_checked(runs):
    """Some damaged tables end the process that reads them, so that what tells damaged ones must be there."""
    (runs / "b/y-s0" / "manifest.json").unlink()
    with pytest.raises(
        FolderError, match=r"y-s0 has no manifest.json, so nothing tells .* repeat the run with --resume"
    ):
        CliRunner().invoke(app, ["report", str(runs)], catch_exceptions=False)
    assert not (runs / "report.html").exists()
