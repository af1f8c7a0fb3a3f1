"""What a deployment takes beyond training, on loopback with mutual TLS.

    python benchmarks/deploy.py [--json]

1. Seconds of an edge round of 2 clients with 50,000 values, as processes (cloud, edge server, two devices), beyond the local
   training in it: time between two merges less the slowest training. Target: at most 15 ms.
2. 200 devices in one process, each with a channel of its own, on one edge server in a process of its own: each fetches a model of
   1 MB and sends an update of 1 MB, round after round. Bytes a second, the slowest call, refusals. Target: all is carried, round
   after round, without an error.
3. Memory at that edge server for each device that is connected and idle. Target: under 1 MB.
"""

import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from conditions import conditions
from fedloom.deployment.bundles import make_bundles
from fedloom.deployment.certificates import Authority
from fedloom.deployment.letters import Letter
from fedloom.deployment.links import GrpcLink, GrpcServer
from fedloom.deployment.local import free_ports, started
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import CLOUD
from fedloom.deployment.node import Node
from fedloom.deployment.roster import roster_of
from fedloom.deployment.store import Store
from fedloom.simulator import Scenario, make_method

RUN = "0123456789abcdef0123456789abcdef"
N_DEVICES, ROUNDS = 200, 5
N_VALUES = 250_000  # 1 MB
SCENARIO = {
    "name": "two-clients",
    "fleet": {"n_devices": 2},
    "task": {
        "dataset": "gaussian",
        "gaussian": {"n_classes": 8, "n_features": 240, "n_train": 400, "n_test": 80},
        "model": {"kind": "mlp", "hidden": [200]},
    },
    "training": {"batch_size": 8, "local_steps": 2, "edge_rounds": 40, "cloud_rounds": 3, "lr": 0.1},
}


def edge_rounds(where: Path) -> dict[str, float]:
    """Milliseconds of an edge round beyond its training, over all but the first of every cloud round."""
    chosen = Scenario.model_validate(SCENARIO)
    roster, serving = roster_of(chosen, make_method("hierfedavg"), 0)
    serves = {name: f"127.0.0.1:{port}" for name, port in zip(serving, free_ports(len(serving)))}
    dumped = chosen.model_dump(mode="json")
    make_bundles(where, scenario=dumped, method="hierfedavg", seed=0, roster=roster, serves=serves)
    with started(where, roster) as processes:
        while not processes.over:
            if processes.failed():
                raise RuntimeError(f"{processes.failed()} have ended; see the logs in {where}")
            time.sleep(0.05)
    jobs = json.loads((where / CLOUD / "record" / "measured.json").read_text())["jobs"]
    rounds: dict[int, list[tuple[float, float, float]]] = {}
    for send, start_s, train_s, all_s in zip(*(jobs[name] for name in ("send", "start_s", "train_s", "all_s"))):
        rounds.setdefault(send, []).append((start_s, train_s, start_s + all_s))
    found, training = [], []
    for jobs_of_round in rounds.values():
        start_s, train_s, there_s = zip(*jobs_of_round)
        found.append(max(there_s) - min(start_s) - max(train_s))
        training.append(max(train_s))
    return {
        "overhead_ms": 1e3 * statistics.median(found),
        "overhead_p95_ms": 1e3 * float(np.quantile(found, 0.95)),
        "training_ms": 1e3 * statistics.median(training),
        "rounds": len(found),
    }


def serve_edge(folder: str, listen: str, pipe: Any) -> None:
    """In a process of its own: an edge server, which tells how much memory it has when it is asked."""
    asyncio.run(_serve_edge(Path(folder), listen, pipe))


async def _serve_edge(folder: Path, listen: str, pipe: Any) -> None:
    log = Log("edge-0")
    authority = Authority.read(folder / "ca", RUN)
    credentials = authority.issue("edge-0", serves=True)
    store = Store(folder / "edge", RUN)
    store.put("m-0", np.zeros(N_VALUES, dtype=np.float32))
    node = Node("edge-0", make_method("hierfedavg"), store, Nobody(), log, N_VALUES)
    async with GrpcServer(node, credentials, listen, RUN, 4 * N_VALUES + (1 << 20), log, n_nodes=N_DEVICES):
        pipe.send("listening")
        while (asked := await asyncio.to_thread(pipe.recv)) != "end":
            if asked == "merged":  # what a merge leaves behind: the updates are not needed any more
                store.drop([name for name in store.names if name.startswith("u-")])
            pipe.send((resident_bytes(), log.counts.get("refused", 0)))


class Nobody:
    """A link of a node that calls nobody."""

    async def call(self, to: str, letter: Letter, timeout_s: float) -> Letter:
        raise RuntimeError(f"this edge server calls nobody, not {to}")

    async def close(self) -> None:
        pass


def resident_bytes() -> int:
    """Of this process."""
    import gc

    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def streams(where: Path) -> dict[str, float]:
    """200 devices at one edge server: memory of idle ones, then rounds of fetching and sending 1 MB each."""
    where.mkdir()
    authority = Authority.new(RUN)
    authority.save(where / "ca")
    (port,) = free_ports(1)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_edge, args=(str(where), f"127.0.0.1:{port}", theirs), daemon=True)
    process.start()
    try:
        assert ours.recv() == "listening"
        return asyncio.run(_devices(authority, f"127.0.0.1:{port}", ours))
    finally:
        ours.send("end")
        process.join(10)
        process.kill()


async def _devices(authority: Authority, address: str, edge: Any) -> dict[str, float]:
    links = [
        GrpcLink(authority.issue(f"device-{k}", serves=False), {"edge-0": address}, 4 * N_VALUES + (1 << 20))
        for k in range(N_DEVICES)
    ]
    row = np.zeros(N_VALUES, dtype=np.float32)

    def asked(what: str) -> tuple[int, int]:
        edge.send(what)
        memory, refused = edge.recv()
        return memory, refused

    try:
        await links[0].call("edge-0", Letter("fetch", {"name": "m-9", "wait_s": 0}), 30.0)
        before, _ = asked("memory")
        idle = Letter(
            "fetch", {"name": "m-9", "wait_s": 0}
        )  # a model that is not there: connected, and nothing carried
        await asyncio.gather(*(link.call("edge-0", idle, 60.0) for link in links))
        idle_bytes = (asked("memory")[0] - before) / (N_DEVICES - 1)
        seconds, slowest = [], 0.0
        for number in range(ROUNDS):
            began_s = time.perf_counter()
            took = await asyncio.gather(*(_work(link, k, number, row) for k, link in enumerate(links)))
            seconds.append(time.perf_counter() - began_s)
            slowest = max(slowest, *took)
            most_bytes, refused = asked("memory")
            asked("merged")
        return {
            "devices": N_DEVICES,
            "idle_bytes": idle_bytes,
            "round_s": statistics.median(seconds),
            "megabytes_s": 2 * N_DEVICES * 4e-6 * N_VALUES / statistics.median(seconds),
            "slowest_device_s": slowest,
            "refused": refused,
            "edge_megabytes": most_bytes / 1e6,
        }
    finally:
        await asyncio.gather(*(link.close() for link in links))


async def _work(link: GrpcLink, client: int, number: int, row: Any) -> float:
    """A device fetches the model and sends an update; its seconds."""
    began_s = time.perf_counter()
    reply = await link.call("edge-0", Letter("fetch", {"name": "m-0", "wait_s": 0}), 120.0)
    assert reply.arrays["row"].shape == row.shape
    await link.call("edge-0", Letter("put", {"name": f"u-{client}-{number}"}, {"row": row}), 120.0)
    return time.perf_counter() - began_s


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        rounds = edge_rounds(Path(name) / "rounds")
        carried = streams(Path(name) / "streams")
    out = {"edge_round": rounds, "streams": carried, **conditions()}
    if "--json" in sys.argv:
        print(json.dumps(out))
        return
    print(
        f"edge round of 2 clients, 50,000 values: {rounds['overhead_ms']:.1f} ms beyond {rounds['training_ms']:.1f} ms of "
        f"training, 95 % within {rounds['overhead_p95_ms']:.1f} ms, {rounds['rounds']} rounds (target: at most 15 ms)"
    )
    print(
        f"{N_DEVICES} devices at one edge server, 1 MB down and up each: {carried['round_s']:.2f} s a round, "
        f"{carried['megabytes_s']:.0f} MB/s, slowest device {carried['slowest_device_s']:.2f} s, {carried['refused']} refused, "
        f"edge at {carried['edge_megabytes']:.0f} MB (target: sustained)"
    )
    print(f"an idle device takes {carried['idle_bytes'] / 1e3:.0f} kB at the edge server (target: under 1 MB)")
    print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()
