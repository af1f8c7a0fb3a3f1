"""Reaching a Ray cluster, with errors that say how to start one."""

import importlib
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

START = (
    "start one with `ray start --head` on one machine and `ray start --address=HEAD:6379` on the others (docs/scale.md), "
    "and run fedloom on one of them"
)


TOKEN = Path.home() / ".ray" / "auth_token"  # where Ray keeps it


class NoCluster(RuntimeError):
    """There is no cluster to run on, or none of it can be used."""


def load_ray() -> Any:
    """The ray module."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # tasks without a GPU do not hide it
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise NoCluster("--ray needs Ray, which is not installed; install it with `pip install fedloom[ray]`") from None


def connect(address: str) -> Any:
    """The ray module, attached to the cluster at `address`: HOST:PORT, or auto for the one this machine belongs to."""
    _use_token_as_ray_start_does()
    ray = load_ray()
    if ray.is_initialized():
        return ray
    if address != "auto":
        _knock(address)
    try:
        ray.init(address=address, logging_level="error", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise NoCluster(f"no Ray cluster can be used at {address!r} ({reason}); {START}{_token_hint()}") from None
    return ray


def _use_token_as_ray_start_does() -> None:
    """`ray start` asks for a token if there is one, but who attaches must say so; it is read when ray is imported."""
    there = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ or TOKEN.exists()
    if there and "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _token_hint() -> str:
    mode = os.environ.get("RAY_AUTH_MODE", "disabled")
    other = "disabled" if mode == "token" else "token"
    return f". If it is running: this was tried with RAY_AUTH_MODE={mode}; was it started with {other}?"


def _knock(address: str) -> None:
    """Ray itself would wait for a minute."""
    found = re.fullmatch(r"\[?([^/]+?)\]?:(\d{1,5})", address)
    if found is None or int(found[2]) > 65535:
        raise ValueError(f"--ray must be auto or HOST:PORT such as 10.0.0.1:6379, got {address!r}")
    try:
        socket.create_connection((found[1], int(found[2])), timeout=5).close()
    except OSError as error:
        raise NoCluster(f"no Ray cluster answers at {address} ({error.strerror or error}); {START}") from None


def n_cpus(ray: Any) -> int:
    """Processors of the whole cluster, busy or not."""
    found = int(ray.cluster_resources().get("CPU", 0))
    if found == 0:
        raise NoCluster("the Ray cluster offers no CPUs; start its nodes without --num-cpus=0, or add nodes")
    return found
