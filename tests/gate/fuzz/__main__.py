"""The long run; see the package."""

import argparse
import time

from .parsers import all_parsers
from .trial import bytes_taken, input_of, tried


def main() -> int:
    known = {parser.name: parser for parser in all_parsers()}
    options = argparse.ArgumentParser(prog="python -m tests.gate.fuzz", description=__doc__)
    options.add_argument("--n", type=int, default=100_000, help="inputs for each parser")
    options.add_argument("--first", type=int, default=0, help="number of the first input")
    options.add_argument("--parser", choices=sorted(known), action="append", help="only this one; may be repeated")
    options.add_argument("--only", type=int, help="one input by its number, shown in full")
    given = options.parse_args()
    chosen = [known[name] for name in given.parser] if given.parser else list(known.values())
    n_faults = 0
    for parser in chosen:
        numbers = range(given.first, given.first + given.n) if given.only is None else [given.only]
        begun, n_accepted, faults = time.perf_counter(), 0, 0
        for number in numbers:
            data = input_of(parser, number)
            outcome = tried(parser, data)
            n_accepted += outcome.accepted
            if given.only is not None:
                print(f"{data!r}\naccepted: {outcome.accepted}; {bytes_taken(parser, data):,} bytes taken")
            if outcome.fault is not None:
                faults += 1
                print(f"{parser.name} {number}: {outcome.fault}\n  input: {data[:2000]!r}", flush=True)
        seconds = time.perf_counter() - begun
        print(
            f"{parser.name}: {len(numbers):,} inputs, {n_accepted:,} accepted, {len(numbers) - n_accepted - faults:,} refused, "
            f"{faults} faults, {seconds:.0f} s",
            flush=True,
        )
        n_faults += faults
    return 1 if n_faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
