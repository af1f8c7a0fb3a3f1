"""What each part of open learning does to three methods: accuracy at equal steps, seconds, joules and bytes, over five seeds.

    python tools/parts_study.py             makes what is missing of docs/parts.json, then docs/parts.md
    python tools/parts_study.py --page      only the page
    python tools/parts_study.py --workers 2 two runs at a time

Every run is scenario, method and seed as `fedloom run` makes it, with one part exchanged. Stopped and started again it goes on.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import parts_page

import fedloom as fl
from fedloom.mixing import robust, server
from fedloom.record.files import write_whole

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS, PAGE = DOCS / "parts.json", DOCS / "parts.md"
SEEDS = range(5)
BASES = {"hhfl": "cells-overlap", "hierfedavg": "cells-overlap", "csahfl": "edge-mobility"}

Change = Callable[[fl.Method], fl.Method]


def robustly(rule: Callable[..., Any]) -> Change:
    """A merge by value at aggregators, with the weights that the method gives."""
    return lambda method: method.with_(merge_edge=robust.at_edge(rule, method.merge_edge.weigh))


def stepped(then: Any) -> Change:
    """A step of the cloud in place of its average."""
    return lambda method: method.with_(merge_cloud=fl.CloudLinear(method.merge_cloud.weigh, then))


PARTS: dict[str, Change] = {
    parts_page.PLAIN: lambda method: method,
    "coordinate median at edges": robustly(robust.coordinate_median()),
    "trimmed mean (10 %) at edges": robustly(robust.trimmed_mean(0.1)),
    "momentum 0.5 at the cloud": stepped(server.Momentum(lr=1.0, beta=0.5)),
    "Adam at the cloud": stepped(server.Adam(lr=0.03)),
    "FedNova": lambda method: method.with_(by_steps=True),
    "SCAFFOLD": lambda method: method.with_(rule="scaffold"),
    "Ditto": lambda method: method.with_(rule="ditto"),
    "float16 both ways": lambda method: method.with_(up="float16", down="float16"),
    "4 bits up, 8 down": lambda method: method.with_(up="qsgd:bits=4", down="qsgd:bits=8"),
    "largest 5 % up, 8 bits down": lambda method: method.with_(up="topk:share=0.05", down="qsgd:bits=8"),
}
CURVES = ("local_steps", "accuracy", *parts_page.COSTS)
AT_THE_END = ("local_by_global", "local_by_personal")


def run(base: str, part: str, seed: int) -> dict[str, Any]:
    """The curves of a run, accuracy and what it cost so far, and how models do on the labels of clients at the end."""
    began_s = time.perf_counter()
    method = PARTS[part](fl.make_method(base))
    metrics = fl.simulate(fl.scenario(BASES[base]), method, seed=seed, n_workers=1).metrics
    curves = {name: [float(f"{x:.7g}") for x in metrics[name].to_list()] for name in CURVES}
    end = {name: metrics[name][-1] for name in AT_THE_END if name in metrics.columns}
    return {**curves, **end, "took_s": round(time.perf_counter() - began_s, 2)}


def _run(job: tuple[str, str, int]) -> tuple[str, dict[str, Any]]:
    return parts_page.key(*job), run(*job)


def as_lines(runs: dict[str, dict[str, Any]]) -> bytes:
    """JSON with a line for each run."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in runs.items())
    return f"{{\n{lines}\n}}\n".encode()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--page", action="store_true", help="only the page")
    options.add_argument("--workers", type=int, default=1, help="runs at a time")
    given = options.parse_args()
    runs: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    wanted = [(base, part, seed) for seed in SEEDS for base in BASES for part in PARTS]
    jobs = [job for job in wanted if parts_page.key(*job) not in runs and not given.page]
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool:
        for name, found in pool.imap_unordered(_run, jobs):
            runs[name] = found
            write_whole(RESULTS, as_lines({k: runs[k] for job in wanted if (k := parts_page.key(*job)) in runs}))
            print(f"{len(runs)} of {len(wanted)}: {name}, {found['accuracy'][-1]:.1%}, {found['took_s']} s", flush=True)
    PAGE.write_text(parts_page.page(runs, BASES, list(PARTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
