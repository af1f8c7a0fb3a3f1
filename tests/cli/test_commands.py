"""The commands as a user types them: runs in processes of their own, what is said and done at once in this one."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import fedloom.cli
from fedloom.cli.app import app


def in_a_process(*args, cwd, code=0):
    done = subprocess.run([sys.executable, "-m", "fedloom", *map(str, args)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def typed(here, monkeypatch, capsys):
    """A command in this process, in the folder `here`: its exit code, standard output and standard error."""

    def typed(*args):
        monkeypatch.setattr(sys, "argv", ["fedloom", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            fedloom.cli.main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err

    monkeypatch.chdir(here)
    monkeypatch.setattr("fedloom.cli.ends.end_on_sigterm", lambda: None)
    return typed


@pytest.fixture
def here(tmp_path, small):
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    return tmp_path


def test_options_of_a_method_may_be_settings(typed):
    plain = typed("run", "small.yaml", "--dry-run", "--json", "-m", "hhfl:up=topk:up.share=0.1")
    as_settings = ("--set", "method.up=topk", "--set", "training.lr=0.2", "--set", "method.up.share=0.1")
    found = typed("run", "small.yaml", "--dry-run", "--json", "-m", "hhfl", *as_settings)
    assert found[0] == 0 and json.loads(found[1])["final"] == json.loads(plain[1])["final"]
    usual = typed("run", "small.yaml", "--dry-run", "--json", "-m", "hhfl")
    assert json.loads(usual[1])["final"]["bytes"] > json.loads(found[1])["final"]["bytes"]
    code, _, said = typed("run", "small.yaml", "--dry-run", "-m", "hhfl", "--set", "method.upp=topk")
    assert code == 2 and "option 'upp=topk' of method hhfl is not known" in said


def test_settings_of_methods_go_to_every_method_that_is_compared(typed):
    code, said, _ = typed(
        *("compare", "small.yaml", "-m", "hhfl,fedavg", "--seeds", "1", "--jobs", "1", "--json"),
        *("--set", "method.down=float16", "--set", "training.cloud_rounds=1"),
    )
    assert code == 0 and [row["method"] for row in json.loads(said)["rows"]] == [
        "hhfl:down=float16",
        "fedavg:down=float16",
    ]


def test_help_is_quick_because_nothing_heavy_is_imported(here):
    heavy = ("torch", "numpy", "polars", "pydantic", "plotly")
    code = f"import sys, fedloom.cli.app; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    text = in_a_process("--help", cwd=here)
    for command in ("run", "compare", "demo", "report", "list", "data"):
        assert command in text
    assert in_a_process("--version", cwd=here).startswith("fedloom ")


@pytest.mark.slow
def test_run_json_and_default_folder(here):
    summary = json.loads(in_a_process("run", "small.yaml", "--json", "--quiet", cwd=here))
    assert summary["folder"] == "runs/small-hierfedavg-s0" and (here / summary["folder"] / "summary.json").exists()
    error = in_a_process("run", "small.yaml", cwd=here, code=2)
    assert "already holds this run, finished" in error and "Traceback" not in error
    assert "this run, finished" not in in_a_process("run", "small.yaml", "--resume", "--quiet", cwd=here)


@pytest.mark.slow
def test_dry_run_writes_nothing(here):
    out = in_a_process("run", "small.yaml", "--dry-run", "--verbose", cwd=here)
    assert "of simulated time" in out and "accuracy" not in out
    assert sorted(p.name for p in here.iterdir()) == ["small.yaml"]


def test_classes_that_nobody_has_are_named(here, monkeypatch):
    monkeypatch.chdir(here)
    args = [
        "run",
        "small.yaml",
        "--dry-run",
        "--set",
        "fleet.n_devices=2",
        "--set",
        "task.partition.classes_per_client=1",
    ]
    done = CliRunner().invoke(app, args)
    assert "note: no client has samples of class " in done.stderr
    assert "note" not in CliRunner().invoke(app, ["run", "small.yaml", "--dry-run"]).stderr


def test_dry_runs_say_where_they_differ_and_check_their_options(here, monkeypatch):
    monkeypatch.chdir(here)
    text = CliRunner().invoke(app, ["run", "small.yaml", "--dry-run", "-m", "ltc"]).stderr
    assert "note: nothing is learnt in a dry run, so ltc groups by the rest it knows" in text
    assert "nothing is learnt" not in CliRunner().invoke(app, ["run", "small.yaml", "--dry-run", "-m", "hhfl"]).stderr
    wrong = CliRunner().invoke(app, ["run", "small.yaml", "--dry-run", "--engine", "foo"])
    assert "engine must be one of auto, native, torch; got 'foo'" in str(wrong.exception)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "small.yaml", "--set", "trainig.lr=1"], "unknown key trainig; did you mean training?"),
        (
            ["run", "small.yaml", "--set", "fleet.n_devices=-2"],
            "fleet.n_devices must be greater than or equal to 1, got -2",
        ),
        (["run", "small.yaml", "-m", "fedavgg"], "unknown method 'fedavgg'; did you mean fedavg"),
        (
            [
                "run",
                "small.yaml",
                "--set",
                "task.gaussian=null",
                "--set",
                "task.dataset=mnist",
                "--from",
                "nowhere",
            ],
            "looked in\n  nowhere",
        ),
        (["run", "small.yaml", "--set", "task.partition.classes_per_client=5"], "at most the number of classes, 4"),
        (["run", "small.yaml", "-m", "fedprox:mu=[1"], "the value of option mu of method fedprox cannot be read"),
        (["run", "small.yaml", "-m", "fedprox:mu=abc"], "option mu of method fedprox must be a number, got 'abc'"),
        (["run", "small.yaml", "-m", "fedprox:mu=.inf"], "mu must be a number of at least 0, got inf"),
        (["run", "small.yaml", "--seed", 2**70], "seed must be in 0..2^63-1"),
        (["run", "small.yaml", "--set", "..=3"], "a change must look like training.lr=0.05, got '..=3'"),
        (["run", "small.yaml", "--set", "fleet.table=nope.csv"], "there is no file nope.csv"),
        (["run", "small.yaml", "--out", "small.yaml"], "small.yaml is a file; --out must be a folder"),
        (["compare", "small.yaml", "--out", "small.yaml"], "cannot be written"),
        (["run", "."], ". is a directory; a scenario is a YAML file"),
        (["run", "missing.yaml"], "there is no scenario file missing.yaml"),
        (
            [
                "run",
                "small.yaml",
                "--set",
                "fleet.placement={kind: coordinates, positions_m: [[0,0],[1,0],[2,0],[3,0],[4,0],[999,0]]}",
            ],
            "devices [5] are in reach of none",
        ),
        (["compare", "small.yaml", "--methods", ","], "--methods must name at least one method"),
        (["compare", "small.yaml", "--methods", "fedavg,fedavg"], "names a method twice"),
        (["compare", "small.yaml", "--methods", "fedavg,nope"], "unknown method 'nope'"),
        (
            ["compare", "small.yaml", "--x", "parsecs", "--seeds", "1", "--methods", "fedavg"],
            "steps, seconds, joules, bytes",
        ),
        (["list", "unicorns"], "can list methods, scenarios, datasets, models, papers; got 'unicorns'"),
        (["data", "mnits"], "unknown dataset 'mnits'; nearest: mnist"),
        (["report", "nothing-here"], "nothing-here"),
    ],
)
def test_bad_input_is_explained_in_one_message(typed, args, message):
    code, _, error = typed(*args)
    assert code == 2 and error.lstrip().startswith("fedloom: ") and message in error


@pytest.mark.slow
def test_divergence_is_a_failure_not_bad_input(here):
    error = in_a_process("run", "small.yaml", "--set", "training.lr=1e30", "--quiet", cwd=here, code=1)
    assert "no longer finite" in error and "lower training.lr" in error and "Traceback" not in error


@pytest.mark.slow
def test_ctrl_c_in_the_middle_and_resume(here):
    command = [sys.executable, "-m", "fedloom", "run", "small.yaml", "--set", "training.cloud_rounds=500"]
    process = subprocess.Popen(
        command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    checkpoint = here / "runs" / "small-hierfedavg-s0" / "checkpoint" / "state.safetensors"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume goes on from there" in error and "Traceback" not in error
    more = in_a_process(*command[3:], "--resume", "--quiet", "--json", cwd=here)
    assert json.loads(more)["resumed"] is True


@pytest.mark.slow
def test_compare_makes_a_table_and_a_report_and_does_not_run_twice(here):
    args = [
        "compare",
        "small.yaml",
        "--methods",
        "fedavg,hierfedavg,fedprox:mu=0.1",
        "--seeds",
        2,
        "--x",
        "seconds",
    ]
    out = in_a_process(*args, cwd=here)
    for word in ("fedavg", "hierfedavg", "fedprox:mu=0.1", "±", "report: runs/small/report.html"):
        assert word in out
    assert (here / "runs/small/report.html").stat().st_size > 10_000
    first = {p: p.stat().st_mtime_ns for p in here.rglob("metrics.parquet")}
    assert len(first) == 6
    again = json.loads(in_a_process(*args, "--json", "--quiet", cwd=here))
    assert {p: p.stat().st_mtime_ns for p in here.rglob("metrics.parquet")} == first
    assert again["report"] == "runs/small/report.html"
    out = in_a_process("report", "runs/small", "--out", "again.html", cwd=here)
    assert "again.html" in out and (here / "again.html").exists()


@pytest.mark.parametrize("what", ["methods", "scenarios", "datasets", "models", "papers"])
def test_lists(typed, what):
    rows = json.loads(typed("list", what, "--json")[1])
    assert rows and all(isinstance(value, str | int) for row in rows for value in row.values())
    assert next(iter(rows[0].values())) in typed("list", what)[1]


def test_list_methods_shows_what_clients_reveal(typed):
    rows = json.loads(typed("list", "methods", "--json")[1])
    assert {r["method"]: r["clients reveal"] for r in rows}["fedavg"] == "sizes"


def test_embedded_data_needs_nothing(typed):
    assert "8000 training and 2000 test samples" in typed("data", "fashion-mini")[1]
    assert json.loads(typed("data", "digits", "--json")[1])["train"] == 1437
