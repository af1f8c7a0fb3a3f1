"""The commands that are killed: how each is called, called again, and what it leaves."""

import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedloom.record.files import _sealed, json_bytes, load_manifest, write_whole
from small import for_method

KINDS = {"run": 62, "compare": 11, "reproduce": 8, "report": 9, "plan": 8, "process": 2}
"""Kinds of commands, and how often each is drawn, of a hundred."""
SHIPPED = "compare, as shipped"
METHODS = ("hierfedavg", "hhfl", "csahfl", "ltc", "camu", "ddc", "fedat", "hiflash_r")
VOLATILE = {"wall_s", "engine_s", "jobs_per_batch", "resumed", "started", "trained_by"}
"""What a record says of the time it took, and of how it came about: with how many workers, in how many batches."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """argv: of the command, in the folder that `prepare` has filled; again: what is added when it is repeated.

    hurried: checkpoints are written as often as can be, and a short page for the report. forked: the command runs in a child
    of the harness.
    """

    kind: str
    name: str
    argv: tuple[str, ...]
    again: tuple[str, ...] = ()
    prepare: Callable[[Path], object] = lambda folder: None
    hurried: bool = True
    forked: bool = True


def scenario(method: str, **changes: Any) -> tuple[dict[str, Any], str]:
    """A small one in which the method runs, and the method with the options that fit it."""
    made, text = for_method(method, cloud_rounds=6, **changes)
    return made, text


def write_json(name: str, content: Any) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(json.dumps(content))


def run_case(method: str, hurried: bool) -> Case:
    made, text = scenario(method)
    return Case(
        kind="run",
        name=f"run {method}{'' if hurried else ', as shipped'}",
        argv=("run", "small.json", "--method", text, "--out", "record", "--workers", "1", "--quiet"),
        again=("--resume",),
        prepare=write_json("small.json", made),
        hurried=hurried,
    )


def compare_case(jobs: int) -> Case:
    argv = (
        "compare",
        "small.json",
        "--methods",
        "fedavg,hhfl",
        "--seeds",
        "1",
        "--out",
        "all",
        "--jobs",
        str(jobs),
        "-q",
    )
    return Case(
        kind="compare",
        name=f"compare, {jobs} at a time",
        argv=argv,
        prepare=write_json("small.json", scenario("hhfl")[0]),
    )


def reproduce_case() -> Case:
    argv = ("reproduce", "toy", "--out", "page", "--cache", "cache", "--jobs", "2", "--quiet")
    return Case(kind="reproduce", name="reproduce", argv=argv)


def report_case(figures: bool, runs: Path) -> Case:
    """Of finished runs, which the command must leave as they are."""
    more = ("--figures", "figures") if figures else ()
    where = "runs" if figures else "runs/fedavg-s0"
    return Case(
        kind="report",
        name="report of several, figures" if figures else "report of one",
        argv=("report", where, *more),
        hurried=False,
        prepare=lambda folder: _copied(runs, folder / "runs"),
    )


def _copied(runs: Path, target: Path) -> None:
    shutil.copytree(runs, target, ignore=shutil.ignore_patterns("report.html"))
    for path in target.rglob("manifest.json"):  # whoever leaves out the report must take it off the list
        manifest = load_manifest(path.parent)
        assert manifest is not None
        states = {name: state for name, state in manifest.states.items() if name != "report.html"}
        write_whole(path, json_bytes(_sealed({"identity": manifest.identity, "files": states})))


def plan_case(method: str) -> Case:
    return Case(
        kind="plan",
        name=f"plan {method}",
        argv=("plan", "fleet.csv", "--method", method, "--out", "plan", "--quiet"),
        prepare=lambda folder: (folder / "fleet.csv").write_text(_fleet()),
    )


def _fleet() -> str:
    rng = random.Random(0)
    lines = [
        f"d{i},{rng.randrange(900)},{rng.randrange(900)},{rng.uniform(5, 20):.2f},{rng.randrange(50)},{rng.randrange(50)}"
        for i in range(10)
    ]
    return "\n".join(["id,x_m,y_m,steps_per_s,label_a,label_b", *lines]) + "\n"


def process_case(command: str) -> Case:
    """In a process of its own, with real imports: two workers of the torch engine, or of a comparison."""
    if command == "run":
        made, text = scenario("hhfl")
        argv = (
            "run",
            "small.json",
            "--method",
            text,
            "--out",
            "record",
            "--engine",
            "torch",
            "--workers",
            "2",
            "--quiet",
        )
        return Case(
            kind="process",
            name="run, torch, 2 workers",
            argv=argv,
            again=("--resume",),
            prepare=write_json("small.json", made),
            forked=False,
        )
    argv = ("compare", "small.json", "--methods", "fedavg,hhfl", "--seeds", "1", "--out", "all", "--jobs", "2")
    return Case(
        kind="process",
        name="compare, 2 processes",
        argv=argv,
        prepare=write_json("small.json", scenario("hhfl")[0]),
        forked=False,
    )


def cases_of(kind: str, runs: Path) -> list[Case]:
    """All commands of a kind. runs: where finished runs lie, for reports."""
    return {
        "run": lambda: [run_case(m, hurried=True) for m in METHODS] + [run_case(m, hurried=False) for m in METHODS[:2]],
        "compare": lambda: [compare_case(2), compare_case(1), replace(compare_case(2), name=SHIPPED, hurried=False)],
        "reproduce": lambda: [reproduce_case()],
        "report": lambda: [report_case(True, runs), report_case(False, runs)],
        "plan": lambda: [plan_case("ddc"), plan_case("geographic")],
        "process": lambda: [process_case("run"), process_case("compare")],
    }[kind]()


def left_by(folder: Path) -> dict[str, Any]:
    """What is compared of a folder: by path, the bytes of every file, or what of them must not differ.

    Left out are the lock (the system lets go of it), the checkpoint before the last and the manifest, which verify checks.
    """
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    kept = (p for p in files if p.name not in (".lock", "before.safetensors", "manifest.json"))
    return {p.relative_to(folder).as_posix(): _compared(p) for p in kept}


def _compared(path: Path) -> Any:
    content = path.read_bytes()
    if path.suffix == ".json" and path.name != "scenario.json":
        return _without_times(json.loads(content))
    if path.suffix == ".html":
        return "whole" if content.startswith(b"<!") and content.rstrip().endswith(b"</html>") else "cut off"
    if path.suffix == ".pdf":
        return "whole" if content.startswith(b"%PDF") and content.rstrip().endswith(b"%%EOF") else "cut off"
    if path.suffix == ".md":
        return re.sub(rb"[0-9.]+ minutes of runs", b"", content)
    return content


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(inner) for key, inner in value.items() if key not in VOLATILE}
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value
