"""A dozen kills of commands of all kinds (`python -m tests.kills --n 1000` makes more), and that the harness sees faults."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from .commands import left_by, plan_case
from .trial import Shot, Story, _attempt, _differences, _in_session, _orphans, _unsound

LISTENS = "import signal, time; signal.signal(signal.SIGTERM,"
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_dozen_kills_lose_nothing():
    """In a process of its own, which has no threads: it forks."""
    command = [sys.executable, "-m", "tests.kills", "--n", "12", "--seed", "100000"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *_, last = [line.split("|") for line in ended.stdout.splitlines() if line.startswith("all")]
    _, trials, *hits, _, _, identical, faults = (part.strip() for part in last)
    assert sum(map(int, hits)) >= 12 and trials == identical and faults == "0"


def test_a_file_that_is_missing_left_or_other_is_named(tmp_path):
    (tmp_path / "metrics.parquet").write_bytes(b"a")
    (tmp_path / "report.html").write_text("<!DOCTYPE html><html></html>\n")
    (tmp_path / "summary.json").write_text('{"final": {"accuracy": 0.5}, "wall_s": 1.5}')
    wanted = left_by(tmp_path)
    (tmp_path / "summary.json").write_text('{"final": {"accuracy": 0.5}, "wall_s": 2.5}')
    assert _differences(left_by(tmp_path), wanted) == []
    (tmp_path / "summary.json").write_text('{"final": {"accuracy": 0.6}, "wall_s": 1.5}')
    (tmp_path / "report.html").write_text("<!DOCTYPE html><html>")
    (tmp_path / "report.html.1.tmp").write_text("<!DOCTYPE")
    (tmp_path / "metrics.parquet").unlink()
    found = _differences(left_by(tmp_path), wanted)
    assert [line.partition(":")[0] for line in found] == [
        "metrics.parquet is missing",
        "report.html.1.tmp is left",
        "report.html differs",
        "summary.json differs",
    ]


def test_a_record_that_is_unfinished_or_does_not_fit_is_named(tmp_path):
    assert _unsound(tmp_path) == []
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "run.json").write_text("{}")
    found = _unsound(tmp_path)
    assert any("manifest.json" in fault for fault in found) and "record is unfinished" in found


def test_a_process_that_is_left_behind_is_found_and_ended(monkeypatch):
    monkeypatch.setattr("kills.trial.ORPHAN_S", 0.2)
    first = subprocess.Popen(["sh", "-c", "sleep 600 &"], start_new_session=True)
    assert first.wait() == 0
    found, took = _orphans(first.pid)
    assert found == ["sleep"] and took > 0.2
    end = time.monotonic() + 10
    while _in_session(first.pid):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("raise KeyError('x')", "said ['Traceback (most recent call last)']"),
        ("import sys; sys.exit(3)", "ended with 3, not 0"),
        (
            f"{LISTENS} lambda *_: exit(1)); kept = open('ready.tmp', 'w'); time.sleep(60)",
            "ended with 1, not -15 or 143",
        ),
        (
            f"{LISTENS} lambda *_: exit(143)); kept = open('ready.tmp', 'w'); time.sleep(60)",
            "did not say that it was stopped",
        ),
    ],
)
def test_wrong_ends_are_seen(tmp_path, monkeypatch, body, fault):
    """With another program in the place of FedLoom."""
    other = tmp_path / "other.py"
    other.write_text(f"#!{sys.executable}\n{body}\n")
    other.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(other))
    case = replace(plan_case("ddc"), forked=False)
    shot = Shot(signal=signal.SIGTERM, after_s=0.0, aimed=True, later_s=0.0, to_all=False)
    story = Story(case=case)
    (tmp_path / "said.txt").touch()
    _attempt(case, tmp_path, tmp_path / "said.txt", shot if "SIGTERM" in body else None, (), story)
    assert any(fault in line for line in story.faults), story.faults
