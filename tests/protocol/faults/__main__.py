"""`python -m tests.protocol.faults --events 5000000`: random federations under faults until so many events have happened.
`--seed N` replays one of them."""

import argparse
import time

from .plan import plan_of
from .trial import tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--keep-going", action="store_true", help="count failures, do not stop at the first")
    options = parser.parse_args()
    if options.seed is not None:
        print(plan_of(options.seed))
        print(tried(options.seed))
        return
    seed, events, merges, versions, failed, start_s = options.first, 0, 0, 0, [], time.process_time()
    while events < options.events:
        try:
            outcome = tried(seed)
        except AssertionError as failure:
            if not options.keep_going:
                raise
            failed.append(seed)
            if len(failed) > 20:
                break
            print(str(failure)[:600], flush=True)
            outcome = (1, 0, 0)
        events, merges, versions = events + outcome[0], merges + outcome[1], versions + outcome[2]
        seed += 1
    print(
        f"{events:,} events in {seed - options.first:,} federations, {merges:,} merges at edges, {versions:,} at clouds, "
        f"{len(failed)} failed, {time.process_time() - start_s:.1f} s of CPU"
    )


if __name__ == "__main__":
    main()
