"""What each part of open learning does to three methods: accuracy at equal steps, seconds, joules and bytes, over five seeds.

    python tools/parts_study.py             makes what is missing of docs/parts.json, then docs/parts.md
    python tools/parts_study.py --page      only the page

Every run is scenario, method and seed as `fedloom run` makes it, with one part exchanged. Stopped and started again it goes on.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedloom as fl
from fedloom.mixing import robust, server
from fedloom.record.files import write_whole
from fedloom.record.statistics import Interval, interval, paired

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS, PAGE = DOCS / "parts.json", DOCS / "parts.md"
SEEDS = range(5)
BASES = {"hhfl": "cells-overlap", "hierfedavg": "cells-overlap", "csahfl": "edge-mobility"}
PLAIN = "as it is"

Change = Callable[[fl.Method], fl.Method]


def robustly(rule: Callable[..., Any]) -> Change:
    """A merge by value at aggregators, with the weights that the method gives."""
    return lambda method: method.with_(merge_edge=robust.at_edge(rule, method.merge_edge.weigh))


def stepped(then: Any) -> Change:
    """A step of the cloud in place of its average."""
    return lambda method: method.with_(merge_cloud=fl.CloudLinear(method.merge_cloud.weigh, then))


PARTS: dict[str, Change] = {
    PLAIN: lambda method: method,
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
MEASURED = {"time_s": "seconds", "energy_j": "joules", "bytes": "bytes"}


def run(base: str, part: str, seed: int) -> dict[str, Any]:
    """The curve of a run, and what it cost."""
    began_s = time.perf_counter()
    metrics = fl.simulate(fl.scenario(BASES[base]), PARTS[part](fl.make_method(base)), seed=seed).metrics
    found = {name: metrics[name].to_list() for name in ("local_steps", "accuracy")}
    personal = metrics["personal_accuracy"][-1] if "personal_accuracy" in metrics.columns else None
    cost = {name: metrics[name][-1] for name in MEASURED}
    return {**found, **cost, "personal_accuracy": personal, "took_s": round(time.perf_counter() - began_s, 2)}


def at_equal_steps(runs: dict[str, dict[str, Any]], base: str, part: str, seed: int) -> float:
    """Accuracy where the shortest of all parts of this method and seed has ended."""
    steps = min(runs[f"{base} | {other} | {seed}"]["local_steps"][-1] for other in PARTS)
    found = runs[f"{base} | {part} | {seed}"]
    return float(np.interp(steps, found["local_steps"], found["accuracy"]))


def page(runs: dict[str, dict[str, Any]]) -> str:
    """The page, from the results."""
    lines = [
        "# What open parts do",
        "",
        "One part of a method is exchanged, and all else stays: data, fleet, seeds, learning rate. Differences are paired over "
        f"{len(SEEDS)} seeds, with 95 % intervals; **bold** where the interval excludes zero. Accuracy is that of the global "
        "model at equal local steps, in points. Nothing was tuned: a rate that suits the mean need not suit another part. "
        "Made by `python tools/parts_study.py` from runs whose figures are in docs/parts.json.",
    ]
    for base, scenario in BASES.items():
        accuracy = {p: {s: at_equal_steps(runs, base, p, s) for s in SEEDS} for p in PARTS}
        plain = interval([100 * x for x in accuracy[PLAIN].values()])
        lines += ["", f"## {base} on {scenario}", "", f"As it is: {plain.mean:.1f} % ± {plain.half:.1f}.", ""]
        lines += ["| part | accuracy, points | seconds | joules | bytes |", "|---|---|---|---|---|"]
        for part in list(PARTS)[1:]:
            points = interval([100 * x for x in paired(accuracy[part], accuracy[PLAIN])])
            cells = [_shown(points, "")]
            for cost in MEASURED:
                share = [
                    runs[f"{base} | {part} | {s}"][cost] / runs[f"{base} | {PLAIN} | {s}"][cost] - 1 for s in SEEDS
                ]
                cells.append(_shown(interval([100 * x for x in share]), " %"))
            lines.append(f"| {part} | {' | '.join(cells)} |")
        personal = [runs[f"{base} | Ditto | {s}"]["personal_accuracy"] for s in SEEDS]
        own = interval([100 * x for x in personal])
        lines += ["", f"Ditto's personal models, on the whole test set: {own.mean:.1f} % ± {own.half:.1f}."]
    return "\n".join([*lines, ""])


def _shown(found: Interval, unit: str) -> str:
    if abs(found.mean) < 0.05 and found.half < 0.05:
        return "the same"
    text = f"{found.mean:+.1f}{unit}" + ("" if found.half < 0.05 else f" ± {found.half:.1f}")
    return f"**{text}**" if found.excludes() else text


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--page", action="store_true", help="only the page")
    given = options.parse_args()
    runs: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wanted = [(base, part, seed) for seed in SEEDS for base in BASES for part in PARTS]
    for i, (base, part, seed) in enumerate(wanted if not given.page else ()):
        key = f"{base} | {part} | {seed}"
        if key not in runs:
            runs[key] = run(base, part, seed)
            write_whole(RESULTS, (json.dumps(runs, indent=0) + "\n").encode())
            print(
                f"{i + 1} of {len(wanted)}: {key}, {runs[key]['accuracy'][-1]:.1%}, {runs[key]['took_s']} s", flush=True
            )
    PAGE.write_text(page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
