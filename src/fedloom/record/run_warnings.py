"""What a reader must know before believing a comparison: seeds, unfinished or diverged runs, doubtful curves, other scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedloom.record.curve_health import curve_warnings
from fedloom.record.run_values import final_of, scores_of
from fedloom.record.runs import Run, by_method
from fedloom.record.statistics import LEAST


def comparison_warnings(runs: Sequence[Run]) -> tuple[str, ...]:
    """What a reader must know before believing the table."""
    found = []
    methods = by_method(runs)
    seeds = {method: sorted(run.seed for run in same) for method, same in methods.items()}
    if len({tuple(dict.fromkeys(s)) for s in seeds.values()}) > 1:
        shown = "; ".join(f"{method}: {', '.join(map(str, dict.fromkeys(s)))}" for method, s in seeds.items())
        found.append(f"the methods were run with different seeds ({shown})")
    if len(methods) > 1:
        n = len(set.intersection(*(set(s) for s in seeds.values())))
        if n < LEAST:
            found.append(
                f"{'no seed is' if not n else '1 seed is' if n == 1 else f'{n} seeds are'} common to all methods: nobody is "
                f"called better below {LEAST} (for instance --seeds 5)"
            )
    for method, s in seeds.items():
        twice = sorted({seed for seed in s if s.count(seed) > 1})
        found += [f"{method} with seed {seed} is there {s.count(seed)} times; their mean counts" for seed in twice]
    for run in runs:
        name = f"{run.method} with seed {run.seed}"
        if not run.finished:
            last = run.scenario.get("training", {}).get("cloud_rounds")
            done = int(run.metrics["cloud_round"][-1])
            of = f" of {last}" if last else ""
            found.append(f"{name} is unfinished: evaluated up to cloud round {done}{of}")
        if final_of(run) is None:
            found.append(f"{name} diverged: its last {run.measure} is not a finite number")
    for method, same in methods.items():
        found += [f"{method}{words}" for words in _curve_words(same)]
    different = sorted({key for run in runs for key in _differences(run.scenario, runs[0].scenario)})
    if different:
        more = f" and {len(different) - 4} more" if len(different) > 4 else ""
        found.append(f"the runs are of different scenarios; they differ in {', '.join(different[:4])}{more}")
    return tuple(found)


def _curve_words(runs: Sequence[Run]) -> list[str]:
    """Warnings of the curves of one method; of the same kind once, with the other seeds that have it."""
    kinds: dict[str, list[tuple[int, str]]] = {}
    for run in runs:
        for sentence in run_warnings(run):
            kinds.setdefault(sentence.split(":")[0], []).append((run.seed, sentence))
    words = []
    for (seed, sentence), *more in kinds.values():
        also = f" (so with seed{'s' if len(more) > 1 else ''} {', '.join(str(s) for s, _ in more)})" if more else ""
        words.append(f" with seed {seed}: {sentence}{also}")
    return words


def run_warnings(run: Run) -> list[str]:
    """What the run itself warned of, and whether its curve can be believed (`fedloom.record.curve_health`)."""
    said = list((run.summary or {}).get("warnings") or [])
    return said + curve_warnings([v for v in scores_of(run) if v is not None], run.measure == "accuracy")


def _differences(a: Any, b: Any, at: str = "") -> list[str]:
    """Dotted names of the settings in which two scenarios differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = dict.fromkeys([*a, *b])
        return [name for k in keys for name in _differences(a.get(k), b.get(k), f"{at}.{k}" if at else str(k))]
    return [] if a == b else [at]
