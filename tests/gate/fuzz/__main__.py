"""The long run; see the package."""

import argparse
import time
from collections.abc import Sequence

from .apart import try_all
from .parsers import Parser, all_parsers
from .reach import reached, table
from .trial import bytes_taken, input_of, tried


def main() -> int:
    known = {parser.name: parser for parser in all_parsers()}
    options = argparse.ArgumentParser(prog="python -m tests.gate.fuzz", description=__doc__)
    options.add_argument("--n", type=int, default=100_000, help="inputs for each parser")
    options.add_argument("--first", type=int, default=0, help="number of the first input")
    options.add_argument("--parser", choices=sorted(known), action="append", help="only this one; may be repeated")
    options.add_argument("--only", type=int, help="one input by its number, shown in full")
    options.add_argument("--coverage", action="store_true", help="only say which lines the inputs reach; slow")
    given = options.parse_args()
    chosen = [known[name] for name in given.parser] if given.parser else list(known.values())
    if given.only is not None:
        return sum(_show(parser, given.only) for parser in chosen)
    numbers = range(given.first, given.first + given.n)
    if given.coverage:
        return _cover(chosen, numbers)
    n_faults = 0
    for parser in chosen:
        begun = time.perf_counter()
        count = try_all(parser, numbers, lambda text: print(text, flush=True))
        print(
            f"{parser.name}: {count.n:,} inputs, {count.accepted:,} accepted, {count.refused:,} refused, {count.faults} faults, "
            f"{time.perf_counter() - begun:.0f} s",
            flush=True,
        )
        n_faults += count.faults
    return 1 if n_faults else 0


def _show(parser: Parser, number: int) -> int:
    data = input_of(parser, number)
    outcome = tried(parser, data)
    print(
        f"{data!r}\naccepted: {outcome.accepted}; {bytes_taken(parser, data):,} bytes taken; {outcome.fault or 'no fault'}"
    )
    return int(outcome.fault is not None)


def _cover(chosen: Sequence[Parser], numbers: range) -> int:
    with reached() as lines:
        n_faults = sum(tried(parser, input_of(parser, n)).fault is not None for parser in chosen for n in numbers)
    print("\n".join(table(lines)))
    return 1 if n_faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
