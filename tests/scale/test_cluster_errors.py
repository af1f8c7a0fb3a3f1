"""Without a cluster, or without Ray, the error says what to do."""

import importlib
import socket

import pytest

from fedloom.cli.app import app
from fedloom.scale.cluster import NoCluster, connect


def test_no_ray_names_the_extra(monkeypatch):
    real = importlib.import_module

    def missing(name):
        if name == "ray":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(NoCluster, match=r"not installed; install it with `pip install fedloom\[ray\]`"):
        connect("auto")


def test_nobody_at_the_address_says_how_to_start_a_cluster():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        NoCluster, match=rf"answers at 127.0.0.1:{port} \(.*refused\); start one with `ray start --head`"
    ):
        connect(f"127.0.0.1:{port}")


def test_no_cluster_on_this_machine_says_so(monkeypatch, tmp_path):
    import ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))

    def none(**options):
        raise ConnectionError("Could not find any running Ray instance. Please specify the one to connect to.")

    monkeypatch.setattr(ray, "init", none)
    with pytest.raises(NoCluster, match=r"at 'auto' \(Could not find any running Ray instance.*ray start --head"):
        connect("auto")


@pytest.mark.parametrize("address", ["", "somewhere", "host:port", "host:70000", "ray://host:10001"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ValueError, match=r"--ray must be auto or HOST:PORT such as 10\.0\.0\.1:6379, got"):
        connect(address)


@pytest.mark.parametrize("command", ["run", "compare", "reproduce"])
def test_commands_take_the_address(command):
    from typer.testing import CliRunner

    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert "--ray" in shown and "ADDRESS" in shown
