"""Everything on this machine: a federation as processes of their own, on loopback, or each in a network of its own.

Processes are forked from a clean one that has the libraries loaded and has never used gRPC, which cannot be forked; so they are
there within a fraction of a second each, and can be killed and started again.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fedloom.deployment.naming import CLOUD
from fedloom.deployment.shaping import Network, enter
from fedloom.training.orphans import end_with

LOADED = ["torch", "fedloom.deployment.roles"]


def serve(folder: str, parent: int, network: Network | None = None) -> None:
    """In a process of its own: the role of a bundle; with a network, from the namespace of its node."""
    if network is not None:
        enter(network.namespace(Path(folder).name))
    end_with(parent)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    from fedloom.deployment.roles import run_role

    torch.set_num_threads(1)
    try:
        run_role(Path(folder), network=network)
    except Exception as error:  # it stands in the log, if there was one yet
        print(f"{Path(folder).name} has ended: {error}", file=sys.stderr)
        raise SystemExit(1) from None


class Processes:
    """The nodes of the bundles in a folder, by name. network: where each has a namespace; None: they are on loopback."""

    def __init__(self, folder: Path, names: Sequence[str], network: Network | None = None) -> None:
        self.folder, self.names, self._network = folder, [CLOUD, *names], network
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(LOADED)
        self.running: dict[str, BaseProcess] = {}
        self._ended: set[str] = set()

    def start(self, name: str) -> None:
        process = self._context.Process(
            target=_serve_in_child, args=(str(self.folder / name), self._network), name=name, daemon=True
        )
        with _without_main():
            process.start()
        self.running[name] = process

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.running[name]
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join(10)

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    def failed(self) -> list[str]:
        """Those that have ended, and not because all was done."""
        return [name for name, process in self.running.items() if process.exitcode not in (None, 0)]

    @property
    def over(self) -> bool:
        """The cloud has come to the end."""
        return self.running[CLOUD].exitcode == 0

    def stop(self) -> None:
        """End all that are left."""
        for process in self.running.values():
            if process.is_alive():
                process.terminate()
        end_s = time.monotonic() + 5
        for process in self.running.values():
            process.join(max(0.0, end_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(5)


@contextlib.contextmanager
def started(folder: Path, names: Sequence[str], network: Network | None = None) -> Iterator[Processes]:
    """All nodes, started; ended when the context is."""
    processes = Processes(folder, names, network)
    try:
        for name in processes.names:
            processes.start(name)
        yield processes
    finally:
        processes.stop()


def free_ports(n: int) -> list[int]:
    """So many ports of loopback that nobody listens at now."""
    held = []
    try:
        for _ in range(n):
            made = socket.socket()
            held.append(made)
            made.bind(("127.0.0.1", 0))
        return [made.getsockname()[1] for made in held]
    finally:
        for made in held:
            made.close()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """New processes run the program of the main one again, up to its `if __name__ == "__main__"`, which it may not have. Ours
    need nothing of it: what they do is in this file."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {
        name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__
    }
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(hidden)


def _serve_in_child(folder: str, network: Network | None) -> None:
    serve(folder, os.getppid(), network)
