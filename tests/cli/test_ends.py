"""How commands end: exit codes, signals, limits, no orphans, and messages that help."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import fedloom.cli
from fedloom.cli.app import app
from fedloom.cli.ends import Ended, explained
from fedloom.cli.jobs import Job
from fedloom.cli.limits import guarded, memory_bytes, used_bytes, wall_seconds
from fedloom.cli.many import make_runs, scenario_file
from fedloom.fleet.cells import check_covered
from fedloom.gate.names import folder_name
from fedloom.record.files import NotWritten, write_whole
from fedloom.record.folder import FolderError
from fedloom.simulator import scenario


@pytest.fixture
def here(tmp_path, small, monkeypatch):
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def raised(make):
    try:
        make()
    except Exception as error:
        return error


def because_of(cause):
    raise FolderError("the checkpoint could not be written") from cause


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (raised(lambda: np.zeros(10**15)), 1, "there is too little memory (Unable to allocate"),
        (MemoryError(), 1, "there is too little memory; use fewer devices"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."),
            1,
            "there is too little memory; use",
        ),
        (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply"),
        (OverflowError("cannot convert float infinity to integer"), 2, "a number became too large to compute with"),
        (ValueError("embedded null byte"), 2, "holds a null character"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "the disk is full (No space left on device); make room"),
        (OSError(errno.ENOSPC, "No space left", "run.json"), 1, "the disk where run.json is is full"),
        (raised(lambda: because_of(OSError(errno.ENOSPC, "full"))), 1, "the checkpoint could not be written"),
        (FolderError("holds another run"), 2, "holds another run"),
        (RuntimeError("a worker failed"), 1, "a worker failed"),
    ],
)
def test_errors_are_one_clear_line_with_the_right_exit_code(error, code, words, monkeypatch, capsys):
    def fails():
        raise error

    monkeypatch.setattr("fedloom.cli.app.app", fails)
    monkeypatch.setattr("fedloom.cli.ends.end_on_sigterm", lambda: None)
    monkeypatch.setattr("fedloom.cli.ends.end_at_once", lambda: None)
    with pytest.raises(SystemExit) as end:
        fedloom.cli.main()
    said = capsys.readouterr().err
    assert end.value.code == code and words in said and "Traceback" not in said and said.count("\n") == 1


def test_a_fault_of_the_program_keeps_its_traceback():
    assert explained(KeyError("x")) is None


@pytest.mark.slow
def test_sigterm_ends_a_run_like_ctrl_c(here):
    command = [sys.executable, "-m", "fedloom", "run", "small.yaml", "--set", "training.cloud_rounds=50000", "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoint = here / "runs" / "small-hierfedavg-s0" / "checkpoint" / "state.safetensors"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143 and "--resume goes on from there" in said and "Traceback" not in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_command_line_is_imported_is_one_line(tmp_path, number, code):
    """The first import of `fedloom.cli.app` is where the signal comes."""
    (tmp_path / "typer.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-m", "fedloom"], env=environment, capture_output=True, text=True)
    assert ended.returncode in (code, -number) and ended.stderr == "fedloom: stopped\n"


def test_a_signal_after_the_last_word_is_no_traceback():
    """While Python ends itself there is nobody who could catch what a handler raises."""
    text = (
        "import atexit, os, signal, sys, fedloom.cli\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "sys.argv = ['fedloom', '--version']\n"
        "fedloom.cli.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGTERM and ended.stderr == ""


def alive(pids):
    """Those of the processes that run; what only waits to be collected does not."""

    def runs(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return [pid for pid in pids if runs(pid)]


def children(pid):
    found = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True).stdout.split()
    return [int(child) for child in found]


def ended(pids, seconds):
    """Whether these processes end by themselves within so long; those that do not are ended here."""
    end = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < end:
        time.sleep(0.05)
    left = alive(pids)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return not left


LONG_JOB = """
import numpy as np
from torch import nn
from fedloom.training.engine import Jobs, Task
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine
x, y = np.zeros((4, 3), np.float32), np.zeros(4, np.int64)
task = Task(model=nn.Linear(3, 2), x_train=x, y_train=y, x_test=x, y_test=y, parts=(np.arange(2), np.arange(2, 4)))
zeros = np.zeros(2, np.int64)
jobs = Jobs(start=zeros, client=np.arange(2), n_steps=zeros + 10**7, first_step=zeros, lr_step=zeros)
print("ready", flush=True)
TorchEngine(task, LocalRule(lr=0.1), 0, 2).train(np.zeros((1, 8), np.float32), jobs)
"""


@pytest.mark.slow
def test_training_workers_end_in_the_middle_of_a_job_if_their_parent_is_killed():
    process = subprocess.Popen([sys.executable, "-c", LONG_JOB], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    while len(workers := children(process.pid)) < 2:
        time.sleep(0.02)
    process.stdout.close()
    time.sleep(0.5)  # they are at work
    process.kill()
    process.wait()
    assert ended(workers, 10)


@pytest.mark.slow
def test_workers_of_compare_end_if_it_is_killed(here):
    # one cloud round takes minutes: a worker that waits for its end would be an orphan
    changes = ["training.edge_rounds=2000", "training.local_steps=500", "training.cloud_rounds=9"]
    command = [sys.executable, "-m", "fedloom", "compare", "small.yaml", "--methods", "fedavg", "--seeds", "1", "-q"]
    process = subprocess.Popen([*command, *(part for change in changes for part in ("--set", change))])
    while not list(here.rglob("metrics.parquet")):  # of the model before the first round
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    workers = children(process.pid)
    process.kill()
    process.wait()
    assert workers and ended(workers, 10)


def test_max_time_stops_with_a_checkpoint_and_says_how_to_go_on(here):
    args = ["run", "small.yaml", "--set", "training.cloud_rounds=100000", "--max-time", "1s", "-q"]
    began = time.monotonic()
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 1 and time.monotonic() - began < 60
    assert "stopped by --max-time 1s after cloud round " in done.stderr
    assert "the same command with --resume goes on from there" in done.stderr
    assert (here / "runs" / "small-hierfedavg-s0" / "checkpoint" / "state.safetensors").exists()


def test_max_time_stops_in_the_middle_of_a_round_too(here):
    args = ["run", "small.yaml", "--set", "training.edge_rounds=100000", "--max-time", "0.5s", "-q"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 1
    assert (
        "stopped by --max-time 0.5s after cloud round 0 of 4; the same command with --resume begins again"
        in done.stderr
    )


def test_a_run_that_was_stopped_by_time_ends_like_one_that_was_not(here):
    args = ["run", "small.yaml", "--set", "training.cloud_rounds=1500", "-q"]
    for limit in (["--max-time", "0.3s"], ["--max-time", "0.5s", "--resume"], ["--resume"]):
        done = CliRunner().invoke(app, [*args, *limit, "--out", "a"])
        assert done.exit_code == (1 if "--max-time" in limit else 0), done.stderr
    assert CliRunner().invoke(app, [*args, "--out", "b"]).exit_code == 0
    for name in ("metrics.parquet", "timeline.parquet", "topology.parquet"):
        a, b = (polars.read_parquet(here / folder / name) for folder in "ab")
        assert a.equals(b)


def test_max_memory_stops_too(here):
    args = ["run", "small.yaml", "--set", "training.cloud_rounds=100000", "--max-memory", "1MB", "-q"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 1 and "stopped by --max-memory 1MB after cloud round" in done.stderr


def test_limits_of_many_runs_keep_what_was_done(here, small):
    small["training"]["cloud_rounds"] = 100_000
    (here / "long.json").write_text(json.dumps(small))
    job = Job(name="x", scenario=here / "long.json", method="fedavg", seed=0, folder=here / "x", cloud_rounds=100_000)
    with pytest.raises(SystemExit) as end:
        make_runs([job], max_time="0.5s", quiet=True)
    assert end.value.code == 1


def test_a_limit_between_rounds_does_not_strike_again_while_the_command_saves():
    saved = []
    with pytest.raises(Ended), guarded("0.3s") as guard:
        guard.round_over(more=True)
        time.sleep(0.2)
        try:
            guard.round_over(more=True)  # another 0.2 s would not fit
        finally:
            time.sleep(0.8)
            saved.append("the last round")
    assert saved


def test_a_limit_is_not_lost_in_a_finaliser():
    class Slow:
        def __del__(self):
            time.sleep(1.0)  # the limit is reached in here, where exceptions are ignored

    with pytest.raises(Ended), guarded("0.3s"):
        Slow()
        time.sleep(60)


def test_sigterm_is_not_lost_in_a_callback_of_the_collector():
    program = """
import gc, os, signal, time
from fedloom.cli.ends import end_on_sigterm
end_on_sigterm()
calls = []
def callback(phase, info):
    if not calls:
        calls.append(phase)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
gc.callbacks.append(callback)
gc.collect()
time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (143, "")


def test_a_limit_ends_what_waits():
    with pytest.raises(Ended) as end, guarded("0.2s"):
        time.sleep(60)
    assert end.value.code == 1 and end.value.why == "--max-time 0.2s"
    with guarded("0.2s"):
        pass
    time.sleep(0.4)  # nobody watches any more


@pytest.mark.parametrize("text", ["", "10", "m", "-3s", "0s", "1e9s", "10 parsecs", "nan s", "9" * 100 + "s"])
def test_a_time_needs_a_number_and_a_unit(text):
    with pytest.raises(
        ValueError, match=r"--max-time must be a number above 0 with a unit, such as 90s, 10m, 2h or 1d; got"
    ):
        wall_seconds(text)
    with pytest.raises(ValueError, match="--max-memory must be a number above 0 with a unit"):
        memory_bytes(text)


def test_memory_counts_children_once(tmp_path):
    before = used_bytes()
    code = "import sys; x = bytearray(60_000_000); print('ready', flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    grown = used_bytes() - before
    child.communicate()
    assert 60e6 < grown < 120e6


def test_a_scenario_file_is_whole_or_not_there(tmp_path, small, monkeypatch):
    content = scenario(small).model_dump_json()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritten, match=r"No space left on device\); make room in") as error:
        scenario_file(tmp_path / "runs", content)
    assert explained(error.value)[1] == 1 and not list((tmp_path / "runs").iterdir())
    monkeypatch.undo()
    assert scenario_file(tmp_path / "runs", content).read_text() == content


@pytest.mark.parametrize("left", ["", '{"fleet": {"n_dev'])
def test_half_a_scenario_file_does_not_lock_a_comparison(tmp_path, small, left):
    (tmp_path / "scenario.json").write_text(left)
    content = scenario(small).model_dump_json()
    assert scenario_file(tmp_path, content).read_text() == content


def test_files_are_written_beside_and_leave_nothing_when_that_fails(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", b"old")
    monkeypatch.setattr(Path, "replace", lambda *_: because_of(None))
    with pytest.raises(FolderError):
        write_whole(tmp_path / "a", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"] and (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize(
    "name", ["../../escaped/x", "/elsewhere/escaped", "a\nb", "", ".", "..", "~", "x" * 5000, "a\0b"]
)
def test_no_name_leaves_its_folder(name):
    safe = folder_name(name)
    assert Path("runs", safe).parent == Path("runs") and safe not in ("", ".", "..") and len(safe) < 120
    assert safe.isprintable() and safe != folder_name(name + "x")


def test_a_name_that_leaves_runs_is_refused(here):
    done = CliRunner().invoke(app, ["run", "small.yaml", "--set", 'name="../../escaped"', "-q"])
    said, code = explained(done.exception)
    assert code == 2 and "must be letters, digits, dots, dashes and underscores" in said
    assert not (here / "runs").exists()


def test_advice_is_not_what_is_already_so(tmp_path, small, monkeypatch):
    with pytest.raises(ValueError, match=r"devices \[1\] .* or leave them out \(uncovered: drop\)"):
        check_covered([[True, False]])
    with pytest.raises(ValueError, match=r"devices \[0, 1\]") as nobody:
        check_covered([[False, False]])
    assert "uncovered" not in str(nobody.value)  # then nobody is left

    bad = Job(name="bad", scenario=tmp_path / "no.json", method="fedavg", seed=0, folder=tmp_path / "x", cloud_rounds=1)
    with pytest.raises(ValueError, match="mend this, and the same command goes on from there"):
        make_runs([bad], quiet=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(RuntimeError, match="too little memory: try a smaller model or fewer devices"):
        make_runs([bad], quiet=True, n_jobs=1)


@pytest.mark.parametrize(("number", "code"), [(errno.EROFS, 2), (errno.ENOSPC, 1)])
def test_a_report_that_cannot_be_written_names_the_option(here, monkeypatch, number, code):
    reason = os.strerror(number)

    def refused(path, content):
        raise OSError(number, reason)

    run = ["run", "small.yaml", "--set", "training.cloud_rounds=1", "-q", "--out", "a"]
    CliRunner().invoke(app, run)
    monkeypatch.setattr(Path, "write_bytes", refused)
    error = CliRunner().invoke(app, ["report", "a"]).exception
    assert str(error) == f"a/report.html cannot be written ({reason}); name another file with --out"
    assert explained(error)[1] == code
    error = CliRunner().invoke(app, [*run, "--resume"]).exception
    words = f"the run is finished and recorded in a, but its report could not be written ({reason}); make it"
    assert words in str(error) and explained(error)[1] == 1


def test_a_full_disk_at_the_first_file_names_the_folder(here, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    error = CliRunner().invoke(app, ["run", "small.yaml", "-q", "--out", "a"]).exception
    assert explained(error)[1] == 1 and "a" in str(error) and "No space left on device" in str(error)


def test_the_signals_are_those_of_the_documents():
    assert 128 + signal.SIGTERM == 143 and 128 + signal.SIGINT == 130
