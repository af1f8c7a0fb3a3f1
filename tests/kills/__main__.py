"""The long run; see the package."""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from .commands import KINDS, Case, cases_of, compare_case, run_case
from .trial import Reference, Story, trial, undisturbed, warmed
from .zygote import imported

SHOWN = 50  # hits between two tables on the way


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    options.add_argument("--n", type=int, default=1000, help="kills and other signals, in all")
    options.add_argument("--seed", type=int, default=0, help="of the first trial; the next ones follow")
    options.add_argument("--command", choices=list(KINDS), action="append", help="only this kind; may be repeated")
    options.add_argument("--only", type=int, help="one trial by its number, told in full")
    given = options.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell lets what it starts in the background ignore Ctrl-C
    imported()
    kinds = given.command or list(KINDS)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fedloom-kills-") as name:
        bench = _Bench(Path(name), kinds)
        if given.only is not None:
            story = bench.try_one(given.only)
            print(f"{story.case.name}: {dict(story.hits)}, {story.repeated} repeated, {story.faults or 'no fault'}")
            print(*story.told, sep="\n")
            return int(bool(story.faults))
        stories: list[Story] = []
        number, n_hits = given.seed, 0
        while n_hits < given.n:
            story = bench.try_one(number)
            stories.append(story)
            if n_hits // SHOWN < (n_hits := n_hits + story.hits.total()) // SHOWN < given.n // SHOWN:
                print(f"{n_hits} of {given.n}, {time.perf_counter() - begun:.0f} s\n{table(stories)}", flush=True)
            if story.faults:
                print(f"trial {number} ({story.case.name}): {'; '.join(story.faults)}")
                chosen = "".join(f" --command {kind}" for kind in given.command or [])
                print(f"  again: python -m tests.kills{chosen} --only {number}", *story.told, sep="\n", flush=True)
            number += 1
    print(table(stories))
    print(f"{time.perf_counter() - begun:.0f} s")
    return int(any(story.faults for story in stories))


class _Bench:
    """Draws commands and keeps what undisturbed ones leave."""

    def __init__(self, place: Path, kinds: list[str]) -> None:
        self.place, self.kinds = place, kinds
        self._references: dict[str, Reference] = {}
        warmed(run_case("hhfl", hurried=False), place)
        runs = place / "runs"
        if "report" in kinds:
            undisturbed(compare_case(2), place)
            (place / "trial" / "all").rename(runs)
            for extra in ("scenario.json", "report.html"):
                (runs / extra).unlink()
        self.cases = {kind: cases_of(kind, runs) for kind in kinds}

    def try_one(self, number: int) -> Story:
        case = self._drawn(number)
        if case.name not in self._references:
            self._references[case.name] = undisturbed(case, self.place)
        return trial(case, self._references[case.name], number, self.place)

    def _drawn(self, number: int) -> Case:
        rng = random.Random(f"command {number}")
        kind = rng.choices(self.kinds, [KINDS[kind] for kind in self.kinds])[0]
        return rng.choice(self.cases[kind])


def table(stories: list[Story]) -> str:
    """A line for every kind of command, and one for all."""
    kinds: dict[str, list[Story]] = defaultdict(list)
    for story in stories:
        kinds[story.case.kind].append(story)
    lines = [("command", "trials", "SIGKILL", "SIGTERM", "SIGINT", "while writing", "repeated", "identical", "faults")]
    for kind, told in [*((k, kinds[k]) for k in KINDS if k in kinds), ("all", stories)]:
        hits = [sum(story.hits[name] for story in told) for name in ("SIGKILL", "SIGTERM", "SIGINT")]
        identical = sum(not story.faults for story in told)
        figures = (len(told), *hits, sum(s.aimed for s in told), sum(s.repeated for s in told), identical)
        lines.append((kind, *(f"{x:,}" for x in figures), f"{len(told) - identical:,}"))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rows = [
        " | ".join(f"{text:{'>' if i else '<'}{width}}" for i, (text, width) in enumerate(zip(line, widths)))
        for line in lines
    ]
    last = max((story.orphan_s for story in stories), default=0.0)
    return "\n".join([*rows, f"no process outlived a command by more than {last:.1f} s"])


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # nothing of what was imported has anything to clean up
