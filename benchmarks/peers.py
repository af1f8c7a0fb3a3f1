"""How fast whole federated loops are: FedLoom, a bare loop and other simulators, the same training in turns.

    python benchmarks/peers.py --new          all from the beginning, then the page: most of an hour on two cores
    python benchmarks/peers.py                what is still due; --pieces 1: the next piece of it, a minute or less
    python benchmarks/peers.py --case softmax --loops fedavg,pfl      only pieces of this case, only these loops and the bare one
    python benchmarks/peers.py --page         writes the page from the results that are there

Every loop is a process of its own (benchmarks/peers/*_loop.py), each in its environment (peers_environments.py), made in
build/peers or --venvs. All are given the same clients, samples, first model, steps, batch size and learning rate, and train
FedAvg with all clients; the order of samples is theirs. In a piece the bare loop and a few others run one after the other, each
turn begins with another, and speeds are compared within a piece. Seconds are those of whole rounds but the first, by the loop's
own clock; memory is the largest sum over the process and all its children, pages they share counted once.

Whether they train the same: the driver computes the loss of every final model on all samples (`loss_of`), and compares it with
that of the bare loop over several seeds, as peers_page.py says. Results go to benchmarks/peers/results.json, the page to
docs/benchmarks.md.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conditions import conditions
from fedloom.training.native import load_build
from peers_environments import python_of
from peers_page import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS, PAGE = HERE / "peers" / "results.json", ROOT / "docs" / "benchmarks.md"
SEED, MOST_SECONDS, BEGAN = 1, 200, "PEERS_BEGAN"
# no telemetry, no second pool of threads, and Ray's workers as important as those of the others
ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "2",
}


@dataclass(frozen=True)
class Case:
    """What is trained. Models are compared after `checked` rounds; quick loops go on to `rounds` of them."""

    model: str
    shape: tuple[int, ...]
    n_clients: int
    n_steps: int
    batch_size: int
    lr: float
    checked: int
    rounds: int
    turns: int
    groups: tuple[tuple[str, ...], ...]  # the loops of a piece, beside the bare one


@dataclass(frozen=True)
class Loop:
    """A process: its environment and script; before: what starts it, if not the interpreter alone; turns: at most so many."""

    environment: str
    script: str
    arguments: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    quick: bool = False
    turns: int = 10**9


LOOPS = {
    "bare": Loop("fedloom", "bare_loop.py"),
    "fedavg": Loop("fedloom", "fedloom_loop.py", ("fedavg",), quick=True),
    "hierfedavg": Loop("fedloom", "fedloom_loop.py", ("hierfedavg",), quick=True),
    "fedjax": Loop("fedjax", "fedjax_loop.py"),
    "pfl": Loop("pfl", "pfl_loop.py", before=("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")),
    "fedlab": Loop("fedlab", "fedlab_loop.py"),
    "flgo": Loop("flgo", "flgo_loop.py"),
    "flower": Loop("flower", "flower_loop.py", turns=2),
}
SMALL = (("fedavg", "hierfedavg", "fedjax", "pfl"), ("fedlab", "flgo"), ("flower",))
LARGE = (("fedavg", "hierfedavg", "pfl"),)
CASES = {
    "softmax": Case("softmax", (1, 28, 28), 57, 5, 20, 0.01, 21, 201, 5, SMALL),
    "lenet5": Case("lenet5", (1, 28, 28), 100, 10, 16, 0.01, 6, 21, 5, SMALL),
    "vgg": Case("vgg", (3, 32, 32), 10, 2, 20, 0.01, 4, 4, 5, LARGE),
    "resnet18": Case("resnet18", (3, 32, 32), 10, 1, 20, 0.01, 2, 2, 5, LARGE),
}


def make_samples(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """x (K, n, ...) float32 and y (K, n) int64: noisy pictures of ten classes, three of them at each client."""
    rng = np.random.default_rng(SEED)
    classes = rng.normal(size=(10, *case.shape))
    size = (case.n_clients, case.n_steps * case.batch_size)
    own = np.array([rng.choice(10, 3, replace=False) for _ in range(case.n_clients)])
    y = np.take_along_axis(own, rng.integers(0, 3, size), axis=1)
    x = classes[y] + 2 * rng.normal(size=(*size, *case.shape))
    return x.astype(np.float32), y.astype(np.int64)


def write_given(case: Case, folder: Path) -> None:
    """Samples and the first model, for all loops of a case."""
    import torch

    from fedloom.training import models

    x, y = make_samples(case)
    np.savez(folder / "samples.npz", x=x, y=y)
    module = models.build(case.model, case.shape, 10, SEED)
    torch.save(module, folder / "model.pt")
    np.savez(folder / "start.npz", **{k: v.numpy() for k, v in module.state_dict().items() if v.is_floating_point()})


def loss_of(folder: Path, result: str) -> float:
    """Mean loss on all samples, a client at a time; BatchNorm with each client's own statistics: peers differ in what becomes of
    running ones, and training does not use them."""
    import torch

    model = torch.load(folder / "model.pt", weights_only=False).eval()
    with np.load(folder / result) as found:
        values = {name: torch.from_numpy(found[name]) for name in found}
    for name, parameter in model.named_parameters():
        parameter.data.copy_(values[name])
    for layer in model.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.train()
    with np.load(folder / "samples.npz") as found, torch.no_grad():
        pairs = zip(torch.from_numpy(found["x"]), torch.from_numpy(found["y"]))
        return float(np.mean([torch.nn.functional.cross_entropy(model(x), y).item() for x, y in pairs]))


class Memory:
    """The largest memory of a process and its children, in bytes, looked at twice a second."""

    def __init__(self, pid: int) -> None:
        self.pid, self.most, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def close(self) -> int:
        self._over.set()
        self._thread.join()
        return self.most

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.most = max(self.most, sum(_proportional_bytes(pid) for pid in _tree(self.pid)))


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def run(case: Case, name: str, folder: Path, number: int, venvs: Path) -> dict[str, Any]:
    """One loop of one piece, whose number gives the seed; raises RuntimeError with its last words if it ends early."""
    loop, result = LOOPS[name], f"{name}.npz"
    settings = {
        "model": case.model, "shape": case.shape, "n_outputs": 10, "n_clients": case.n_clients, "n_steps": case.n_steps,
        "batch_size": case.batch_size, "lr": case.lr, "seed": SEED + number, "checked_round": case.checked,
        "n_rounds": case.rounds if loop.quick else case.checked, "result": result,
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    python = str(python_of(loop.environment, venvs))
    output, most = watched(
        [python, *loop.before, str(HERE / "peers" / loop.script), str(folder), *loop.arguments], folder
    )
    said = {line["at"]: line for line in map(json.loads, _lines(output))}
    if "end" not in said:
        raise RuntimeError(" | ".join(output.strip().splitlines()[-3:]))
    return {
        "first_round_s": round(said["first round"]["seconds"], 3),
        "clients_per_s": round(case.n_clients * said["end"]["rounds"] / said["end"]["seconds"], 3),
        "rounds": said["end"]["rounds"],
        "memory_mb": round(most / 1e6),
        "loss": loss_of(folder, result),
        "versions": said["end"]["versions"],
    }


def watched(command: list[str], folder: Path) -> tuple[str, int]:
    """What a process printed, and the most memory that it and its children had; none of them outlives this call."""
    environment = os.environ | ENVIRONMENT | {BEGAN: repr(time.monotonic())}
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    memory = Memory(process.pid)
    try:
        return process.communicate(timeout=MOST_SECONDS)[0], memory.close()
    except subprocess.TimeoutExpired:
        return f"not over after {MOST_SECONDS} s", 0
    finally:
        memory.close()
        for pid in _tree(process.pid) if process.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith('{"at": ')]


def one_piece(case: Case, number: int, names: list[str], venvs: Path) -> dict[str, Any]:
    """All loops one after the other; one that fails is noted with its reason."""
    about = {**conditions(), "processor": processor(), "load": os.getloadavg()[0], "others": busy_share()}
    about["native"] = load_build().__name__.rsplit("_", 1)[1]
    begin = number % len(names)
    found, failed = {}, {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_given(case, folder)
        for name in names[begin:] + names[:begin]:
            try:
                found[name] = run(case, name, folder, number, venvs)
            except RuntimeError as error:
                if name == "bare":  # nothing to compare with
                    raise
                failed[name] = str(error)
            print(f"{case.model:10}{number:3} {name:12}{json.dumps(found.get(name, failed.get(name)))}", flush=True)
    return {"case": case.model, "number": number, **about, "runs": found, "failed": failed}


def busy_share(seconds: float = 1.0) -> float:
    """Share of all cores that others use now."""

    def ticks() -> tuple[int, int]:
        numbers = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # idle, and waiting for disks

    before = ticks()
    time.sleep(seconds)
    total, idle = (now - then for now, then in zip(ticks(), before))
    return round(1 - idle / total, 3)


def due(case: Case, earlier: list[dict[str, Any]], wanted: list[str]) -> list[list[str]]:
    """The pieces of a case that are left, turn by turn: the wanted loops of each group, after the bare loop."""
    had = {name: sum(name in piece["runs"] or name in piece["failed"] for piece in earlier) for name in LOOPS}
    pieces = []
    for turn in range(case.turns):
        for group in case.groups:
            names = [n for n in group if n in wanted and had[n] <= turn < LOOPS[n].turns]
            pieces += [["bare", *names]] if names else []
    return pieces


def processor() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--loops", default=",".join(LOOPS), help="only these and the bare one, by commas")
    parser.add_argument("--pieces", type=int, default=10**9, help="at most so many")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--venvs", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--new", action="store_true", help="forget the results that are there")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that loops end too
    results: dict[str, Any] = {"cases": {name: asdict(case) for name, case in CASES.items()}, "pieces": []}
    if options.out.exists() and not options.new:
        results["pieces"] = json.loads(options.out.read_text())["pieces"]
    left = 0 if options.page else options.pieces
    for name in (options.case,) if options.case else CASES:
        earlier = [piece for piece in results["pieces"] if piece["case"] == name]
        for number, names in enumerate(due(CASES[name], earlier, options.loops.split(","))[:left], len(earlier)):
            results["pieces"].append(one_piece(CASES[name], number, names, options.venvs.resolve()))
            options.out.write_text(json.dumps(results, indent=1) + "\n")
            left -= 1
    if options.out == RESULTS:
        PAGE.write_text(page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
