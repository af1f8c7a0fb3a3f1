"""The command on a cluster that `ray start` made, and a driver that is killed in the middle."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedloom.scale import cluster

pytestmark = pytest.mark.slow  # starts Ray


@pytest.fixture
def address(tmp_path):
    """HOST:PORT of a cluster of one machine, made as the documents say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = Path(sys.executable).with_name("ray")
    options = ["--num-cpus=2", "--include-dashboard=false", "--object-store-memory=80000000", "--disable-usage-stats"]
    started = subprocess.Popen(
        [ray, "start", "--head", f"--port={port}", *options, "--block"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield f"127.0.0.1:{port}"
    started.terminate()
    started.wait(30)


def fedloom(*args):
    return [sys.executable, "-m", "fedloom", *map(str, args)]


def until(what, seconds=60.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.1)


@pytest.mark.full  # half a minute
def test_a_driver_that_is_killed_goes_on_with_the_bits_of_a_local_run(address, crowd, tmp_path):
    crowd["training"]["cloud_rounds"] = 150  # more than the two seconds after which the first checkpoint is written
    crowd["evaluation"] = {"every": 30}
    (tmp_path / "crowd.json").write_text(json.dumps(crowd))
    run = ["run", tmp_path / "crowd.json", "--method", "hhfl", "--seed", 4, "--quiet"]
    subprocess.run(fedloom(*run, "--out", tmp_path / "here"), check=True, capture_output=True)
    there = tmp_path / "there"
    until(lambda: not socket.socket().connect_ex(("127.0.0.1", int(address.split(":")[1]))))
    driver = subprocess.Popen(fedloom(*run, "--out", there, "--ray", address), stderr=subprocess.PIPE, text=True)
    until(lambda: (there / "checkpoint").exists() or driver.poll() is not None)
    os.kill(driver.pid, signal.SIGKILL)
    _, error = driver.communicate()
    assert driver.returncode == -signal.SIGKILL, error
    assert not (there / "summary.json").exists()
    subprocess.run(fedloom(*run, "--out", there, "--ray", address, "--resume"), check=True, capture_output=True)
    for file in ("metrics.parquet", "topology.parquet"):
        assert (there / file).read_bytes() == (tmp_path / "here" / file).read_bytes()
    assert "Ray" in json.loads((there / "run.json").read_text())["trained_by"]


@pytest.mark.parametrize(("there", "mode"), [(True, "token"), (False, None)])
def test_a_token_is_used_where_ray_start_uses_it(there, mode, tmp_path, monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(cluster, "TOKEN", tmp_path / "auth_token")
    if there:
        (tmp_path / "auth_token").write_text("secret")
    cluster._use_token_as_ray_start_does()
    assert os.environ.get("RAY_AUTH_MODE") == mode
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster._use_token_as_ray_start_does()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
