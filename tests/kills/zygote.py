"""Commands in children of this process: it has imported all they need, and has started no thread that a child would miss."""

import contextlib
import copy
import importlib
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

N_WORKERS = 2  # of compare and reproduce
IMPORTED = (
    *(
        "matplotlib.pyplot",
        "matplotlib.backends.backend_pdf",
        "matplotlib.backends.backend_svg",
        "plotly.graph_objects",
    ),
    *(
        "scipy.cluster.vq",
        "scipy.optimize",
        "sklearn.cluster",
        "torch.nn",
        "fedloom.simulator.simulation",
        "fedloom.training.native",
    ),
    *(f"fedloom.cli.{name}" for name in ("app", "limits", "live", "many", "plan", "reproduction", "verify", "worker")),
    *(f"fedloom.record.{name}" for name in ("paper_figures", "plan_page", "report")),
)


def imported() -> None:
    """Import what commands import, without threads of numeric libraries; before anything else imports them.

    What polars starts when it is imported (a thread of its allocator, which starts anew in a child, and one that looks after
    files of tables larger than memory) is not missed.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    for name in IMPORTED:
        importlib.import_module(name)
    n_threads = len(list(Path("/proc/self/task").iterdir()))
    if n_threads != 1:
        raise RuntimeError(f"{n_threads} threads run after imports: a fork would not have them")
    importlib.import_module("polars.io.plugins")


def learnt(modules: Path) -> None:
    """Import what a command in a child has imported besides (see `forked`), and pack the pages' code once for all."""
    from plotly.offline import get_plotlyjs

    from fedloom.record import report

    for name in modules.read_text().split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    report._packed = lru_cache(report._packed)
    report._packed(get_plotlyjs())


def forked(argv: Sequence[str], folder: Path, said: Path, *, hurried: bool, modules: Path | None = None) -> int:
    """Start the command in a child, in a session of its own; its words go to `said`. Returns its process id.

    modules: a file for the names of all modules that it has at its end.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        _speak_to(said)
        os.chdir(folder)
        code = _called(argv, hurried)
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _speak_to(said: Path) -> None:
    """A file for both standard outputs: that of the harness, and what Python has for it, are left alone."""
    file = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)


def _called(argv: Sequence[str], hurried: bool) -> int:
    """The command line as it is called, with its exit code; a traceback if it lets an exception through, as Python does."""
    import fedloom.cli

    if argv[0] in ("compare", "reproduce"):
        _keep_workers_ready()
    if argv[0] == "reproduce":
        _know_a_toy()
    if hurried:
        _hurry()
    sys.argv = ["fedloom", *argv]
    try:
        fedloom.cli.main()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1


def _hurry() -> None:
    """Checkpoints after every cloud round and every few batches of training, and a page of one line in the place of the report,
    so that most of the time is that of writing records; others are hit while they make the whole report."""
    from fedloom.record import folder, report
    from fedloom.record.files import write_page

    def write_short(runs: Any, path: Path, *_: Any, **__: Any) -> Path:
        write_page(path, b"<!DOCTYPE html><html>" + b"." * 1_000_000 + b"</html>")
        return path

    folder.SHARE = 10.0
    assert folder.record.__kwdefaults__ is not None
    folder.record.__kwdefaults__["checkpoint_every_s"] = 0.02
    report.write_report = write_short


def _know_a_toy() -> None:
    """A paper of one figure with small runs."""
    import fedloom.reproduce
    from fedloom.reproduce import Claim, Item, Outcome, Paper, Plot, Series, Setup, Table
    from fedloom.reproduce.verdicts import at_least
    from small import SMALL

    def judge(runs: Any) -> Any:
        final = [run.metrics["accuracy"][-1] for run in runs["flat"]]
        x = tuple(float(v) for v in runs["flat"][0].metrics["local_steps"])
        line = Series(label="flat", x=x, y=tuple(runs["flat"][0].metrics["accuracy"]))
        return Outcome(
            claims=(Claim(text="learns something", verdict=at_least(final, 0.01)),),
            tables=(Table(title="Final", columns=("", "accuracy"), rows=(("flat", f"{final[0]:.3f}"),)),),
            plots=(Plot(key="curve", caption="A curve.", x_label="steps", y_label="accuracy", series=(line,)),),
        )

    def setups(scale: str) -> Any:
        made = copy.deepcopy(SMALL)
        return {"flat": Setup(scenario=made, method="fedavg"), "tall": Setup(scenario=made, method="hierfedavg")}

    item = Item(key="one", title="Fig. 1", published="It learns.", setups=setups, judge=judge, seeds={"laptop": 2})
    toy = Paper(key="toy", name="TOY", title="A toy", authors=("Ape",), where="2026", notes="Notes.", items=(item,))
    fedloom.reproduce.find_items = lambda text: (toy, toy.items)


def _keep_workers_ready() -> None:
    """Workers that the command will start: children of it already, which wait for their pipes instead of importing torch."""
    from fedloom.cli import many

    ready = [_Ready() for _ in range(N_WORKERS)]
    waiting = iter(ready)
    many.subprocess = SimpleNamespace(  # type: ignore[assignment]
        PIPE=subprocess.PIPE, Popen=lambda command, **options: next(waiting).start(command, options["stderr"])
    )


class _Ready:
    """A worker with what is used of subprocess.Popen: pipes, wait, terminate."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            _work(theirs)
        theirs.close()
        self._code: int | None = None

    def start(self, command: Sequence[str], complaints: Any) -> "_Ready":
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        last = command[-1].encode()
        socket.send_fds(self._ours, [last], [theirs_in, theirs_out, complaints.fileno()])
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin, self.stdout = os.fdopen(ours_in, "w"), os.fdopen(ours_out)
        return self

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def terminate(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGTERM)


def _work(orders: socket.socket) -> NoReturn:
    code = 1
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # nobody has started us yet
    try:
        parent, descriptors, _, _ = socket.recv_fds(orders, 100, 3)
        if not parent:
            os._exit(0)  # the command has ended without us
        signal.signal(signal.SIGINT, before)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        orders.close()
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["fedloom.cli.worker", parent.decode()]
        import fedloom.cli.worker

        fedloom.cli.worker.main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
