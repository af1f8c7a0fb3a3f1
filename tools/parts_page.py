"""docs/parts.md from the results of tools/parts_study.py: differences to methods as they are, in tables and words.

Every figure is that at equal local steps, where the shortest run of a method and seed has ended. Accuracy in points, costs in
percent. A difference is told only where its 95 % interval excludes zero.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.record.statistics import LEAST, Interval, interval

PLAIN = "as it is"
COSTS = {"time_s": "seconds", "energy_j": "joules", "bytes": "bytes"}
SMALL = 0.05  # points or percent: what is shown with one decimal as 0.0

Runs = Mapping[str, Mapping[str, Any]]


def key(base: str, part: str, seed: int) -> str:
    """The name of a run among the results."""
    return f"{base} | {part} | {seed}"


def page(runs: Runs, bases: Mapping[str, str], parts: Sequence[str]) -> str:
    """The page, from the results: bases, methods and the scenarios that they ran on; parts, the plain one among them."""
    found = {base: differences(runs, base, parts) for base in bases}
    lines = [
        "# What open parts do",
        "",
        "One part of a method is exchanged and all else stays: data, fleet, learning rate, random numbers. A row is the "
        "difference that it makes, paired over so many seeds: the mean ± half of the 95 % interval, **bold** where the "
        "interval excludes zero. All figures are those at equal local steps; accuracy is that of the global model, in points. "
        "Nothing was tuned: a learning rate that suits the mean need not suit another part. Nobody attacks, no link is noisy.",
        "",
        f"`python tools/parts_study.py` makes the runs and this page; the curves of all {len(runs)} are in `docs/parts.json`. "
        "About the parts: [merges](merges.md), [server optimisers and client rules](own.md), [coding](coding.md).",
        "",
        "## What it comes to",
        "",
        *(f"- **{part}**: {in_words(of)}" for part in parts[1:] if (of := _with_each(found, part))),
        *_left_out(found, parts),
    ]
    for base, scenario in bases.items():
        lines += _section(runs, base, scenario, found[base])
    return "\n".join([*lines, ""])


def seeds_of(runs: Runs, base: str, part: str) -> list[int]:
    """Those that a method has been run with both as it is and with a part."""
    named = {tuple(name.split(" | ")) for name in runs}
    return sorted(int(s) for b, p, s in named if (b, p) == (base, part) and (base, PLAIN, s) in named)


def at_equal_steps(runs: Runs, base: str, part: str, seed: int, measure: str) -> float:
    """Where the shortest of the runs of a method and seed has ended."""
    same = [found for name, found in runs.items() if name.startswith(f"{base} | ") and name.endswith(f" | {seed}")]
    found = runs[key(base, part, seed)]
    return float(np.interp(min(run["local_steps"][-1] for run in same), found["local_steps"], found[measure]))


def differences(runs: Runs, base: str, parts: Sequence[str]) -> dict[str, dict[str, Interval]]:
    """Of every part that was run with enough seeds, to the method as it is: accuracy in points, costs in percent."""
    out = {}
    for part in parts[1:]:
        seeds = seeds_of(runs, base, part)
        if len(seeds) < LEAST:
            continue
        pairs = {
            measure: [[at_equal_steps(runs, base, p, s, measure) for p in (part, PLAIN)] for s in seeds]
            for measure in ("accuracy", *COSTS)
        }
        points = [100 * (new - plain) for new, plain in pairs["accuracy"]]
        percent = {cost: [100 * (new / plain - 1) for new, plain in pairs[cost]] for cost in COSTS}
        out[part] = {"accuracy": interval(points), **{cost: interval(p) for cost, p in percent.items()}}
    return out


def in_words(found: Mapping[str, Mapping[str, Interval]]) -> str:
    """What a part does to accuracy with each method, and to what runs cost."""
    by_word: dict[str, list[str]] = {}
    for base, of in found.items():
        accuracy = of["accuracy"]
        if _nothing(accuracy):
            by_word.setdefault("the same accuracy", []).append(base)
        elif accuracy.excludes():
            word = "more accurate" if accuracy.mean > 0 else "less accurate"
            by_word.setdefault(word, []).append(f"{base} ({accuracy.mean:+.1f})")
        else:
            by_word.setdefault("no difference in accuracy that the seeds can tell", []).append(base)
    words = [f"{word} with {_and(names)}" for word, names in by_word.items()]
    costs = []
    for cost, name in COSTS.items():
        means = [of[cost].mean for of in found.values()]
        if max(map(abs, means)) >= 0.5:
            low, high = (f"{value:+z.0f}".replace("+0", "0") for value in (min(means), max(means)))
            costs.append(f"{name} {low} %" if low == high else f"{name} {low} to {high} %")
    return "; ".join([*words, ", ".join(costs) if costs else "seconds, joules and bytes as before"]) + "."


def _section(runs: Runs, base: str, scenario: str, found: Mapping[str, Mapping[str, Interval]]) -> list[str]:
    seeds = seeds_of(runs, base, PLAIN)
    plain = {m: [at_equal_steps(runs, base, PLAIN, s, m) for s in seeds] for m in ("accuracy", *COSTS)}
    accuracy = interval([100 * x for x in plain["accuracy"]])
    costs = {cost: float(np.mean(plain[cost])) for cost in COSTS}
    lines = [
        *("", f"## {base} on {scenario}", ""),
        f"As it is: {accuracy.mean:.1f} % ± {accuracy.half:.1f} after {costs['time_s']:,.0f} s, {costs['energy_j']:,.0f} J and "
        f"{costs['bytes'] / 1e6:,.0f} MB ({len(seeds)} seeds).",
        *("", "| part | seeds | accuracy, points | seconds | joules | bytes |", "|---|---|---|---|---|---|"),
    ]
    for part, of in found.items():
        cells = [_shown(of["accuracy"], ""), *(_shown(of[cost], " %") for cost in COSTS)]
        lines.append(f"| {part} | {of['accuracy'].n} | {' | '.join(cells)} |")
    if "Ditto" in found:
        ends = [runs[key(base, "Ditto", s)] for s in seeds_of(runs, base, "Ditto")]
        own, shared = ([100 * end[name] for end in ends] for name in ("local_by_personal", "local_by_global"))
        gain = interval([a - b for a, b in zip(own, shared)])
        lines += [
            "",
            f"On the labels that a client has, its personal model of Ditto tells {np.mean(own):.1f} % right at the end, "
            f"the shared model {np.mean(shared):.1f} %: {_shown(gain, '')} points.",
        ]
    return lines


def _with_each(found: Mapping[str, Mapping[str, Any]], part: str) -> dict[str, Any]:
    """What a part did to every method that it was run with."""
    return {base: of[part] for base, of in found.items() if part in of}


def _left_out(found: Mapping[str, Mapping[str, Any]], parts: Sequence[str]) -> list[str]:
    missing = []
    for part in parts[1:]:
        without = [base for base, of in found.items() if part not in of]
        missing += [part if len(without) == len(found) else f"{part} with {_and(without)}"] if without else []
    return ["", f"Left out, as they were run with fewer than {LEAST} seeds: {'; '.join(missing)}."] if missing else []


def _shown(found: Interval, unit: str) -> str:
    if _nothing(found):
        return "the same"
    text = f"{found.mean:+.1f}{unit}" + ("" if found.half < SMALL else f" ± {found.half:.1f}")
    return f"**{text}**" if found.excludes() else text


def _nothing(found: Interval) -> bool:
    return abs(found.mean) < SMALL and found.half < SMALL


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
