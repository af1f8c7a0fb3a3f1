"""A run whose clients have state, coded and merged robustly, is killed again and again and ends with the same bits."""

import signal
import subprocess
import sys
from pathlib import Path

import polars

ROOT = Path(__file__).resolve().parents[2]


def life(folder, n_batches):
    command = [sys.executable, "-m", "tests.kills.stateful_run", str(folder), str(n_batches)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_kills_in_the_middle_lose_nothing(tmp_path):
    whole = life(tmp_path / "whole", 10**6)
    assert whole.returncode == 0, whole.stderr
    ends = []
    while not ends or ends[-1] == -signal.SIGKILL:
        ends.append(life(tmp_path / "killed", 3).returncode)
        assert len(ends) < 20
    assert ends[-1] == 0 and len(ends) > 2
    for name in ("model.safetensors", "metrics.parquet", "timeline.parquet", "costs.parquet"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert polars.read_parquet(tmp_path / "whole" / "metrics.parquet")["bytes"][-1] > 0
