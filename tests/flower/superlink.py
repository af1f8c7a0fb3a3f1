"""A real SuperLink with SuperNodes on loopback, as processes of their own that are always ended.

Everything is as Flower ships it, but for what would take minutes: a SuperNode looks for messages every 0.1 s, not every 3 s, and
the process that Flower starts for every message is forked from one that has the libraries loaded.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fedloom.deployment.local import free_ports

LINK = """
import os
from fedloom.training.orphans import end_with
from flwr.superlink.cli import flower_superlink
end_with(int(os.environ["FEDLOOM_PARENT"]))
flower_superlink()
"""
NODE = """
import os, time, types
from fedloom.training.orphans import end_with
import flwr.supernode.start_client_internal as node
from flwr.supernode.cli import flower_supernode
end_with(int(os.environ["FEDLOOM_PARENT"]))
node.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.1)))
flower_supernode()
"""
EXEC = """#!{python}
import importlib, os, sys, traceback, types
from flwr.supercore.cli import flower_superexec
from flwr.supercore.superexec.executor import subprocess_executor
PROGRAMS = {{"flwr-clientapp": "flwr.supernode.cli", "flwr-serverapp": "flwr.superlink.cli"}}
for name in os.environ["FEDLOOM_LOADS"].split():
    importlib.import_module(name)

def forked(args, **options):
    if os.fork():
        return
    try:
        sys.argv = args
        getattr(importlib.import_module(PROGRAMS[args[0]]), args[0].replace("-", "_"))()
    except SystemExit:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)

subprocess_executor.subprocess = types.SimpleNamespace(Popen=forked, DEVNULL=None)
flower_superexec()
"""
LOADS = {
    "link": "flwr.superlink.cli fedloom.flower.server fedloom.simulator",
    "node": "flwr.supernode.cli fedloom.flower.client fedloom.simulator",
}
CONFIG = '[superlink]\ndefault = "test"\n[superlink.test]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
STARTED_S = 240.0


class SuperLink:
    """folder: for logs and Flower's own state. env: on top of what all processes have."""

    def __init__(self, folder, n_nodes, env):
        self.folder, self.n_nodes = folder, n_nodes
        (self.port,) = free_ports(1)
        home = folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(CONFIG.format(port=self.port))
        (home / "flower-superexec").write_text(EXEC.format(python=sys.executable))
        (home / "flower-superexec").chmod(0o755)
        commands = [str(home), str(Path(sys.executable).parent), os.environ["PATH"]]  # Flower starts its parts by name
        self.env = os.environ | {
            "PATH": os.pathsep.join(commands),
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
            "OMP_NUM_THREADS": "1",
            "FEDLOOM_PARENT": str(os.getpid()),
            **env,
        }
        self.processes = {}

    def start(self):
        where = ["--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        self._run("link", LINK, *where, "--disable-runtime-dependency-installation")
        self._wait_for("link", "Application startup complete")
        for k in range(self.n_nodes):
            self.start_node(k)
        for k in range(self.n_nodes):
            self._wait_for(f"node-{k}", "SuperNode ID")

    def start_node(self, k):
        where = ["--insecure", "--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1"]
        which = ["--port", str(free_ports(1)[0]), "--node-config", f"partition-id={k}"]
        self._run(f"node-{k}", NODE, *where, *which)

    def kill(self, name):
        """With all that it has started."""
        process = self.processes.pop(name)
        for found in _with_words(f"FLWR_HOME={self.env['FLWR_HOME']}", f"FEDLOOM_NAME={name}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found, signal.SIGKILL)
        process.wait()

    def run(self, app):
        """A Flower app to its end; what its ServerApp has logged."""
        command = ["flwr", "run", str(app), "test", "--stream"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr, self.logs())
        return done.stdout

    def logs(self):
        return {path.stem: path.read_text()[-2000:] for path in self.folder.glob("*.log")}

    def _run(self, name, program, *arguments):
        command = [sys.executable, "-c", program, *arguments]
        env = self.env | {"FEDLOOM_LOADS": LOADS[name.split("-")[0]], "FEDLOOM_NAME": name}
        with (self.folder / f"{name}.log").open("w") as file:
            self.processes[name] = subprocess.Popen(command, env=env, stdout=file, stderr=subprocess.STDOUT)

    def _wait_for(self, name, words):
        end_s = time.monotonic() + STARTED_S
        while words not in (self.folder / f"{name}.log").read_text():
            assert self.processes[name].poll() is None and time.monotonic() < end_s, self.logs()
            time.sleep(0.05)


def _with_words(*words):
    """Processes that have all of these in their environment: those of one part of one test, whoever started them."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if {word.encode() for word in words} <= set(path.read_bytes().split(b"\0")):
                yield int(path.parent.name)


@contextlib.contextmanager
def superlink(folder, n_nodes, **env):
    link = SuperLink(folder, n_nodes, env)
    try:
        link.start()
        yield link
    finally:
        for name in list(link.processes):
            link.kill(name)
