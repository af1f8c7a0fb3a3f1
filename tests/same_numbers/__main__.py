"""python -m tests.same_numbers FILE [PART]: write digests, or compare with those that are there; of the cases whose names contain
PART, such as "small plain" or "cells-overlap". Run in the root of the project."""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from same_numbers.cases import cases, digests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="of digests: written if it is not there, else compared")
    parser.add_argument(
        "only", nargs="?", default="", help='only cases whose name has this in it, as in "small roaming "'
    )
    options = parser.parse_args()
    file, only = options.file, options.only
    known = json.loads(file.read_text()) if file.exists() else None
    found, wrong, begun = {}, [], time.perf_counter()
    for name, make in cases():
        if only not in name:
            continue
        found[name] = digests(make)
        if known is not None and found[name] != known.get(name):
            parts = [
                p for p in {*found[name], *known.get(name, {})} if found[name].get(p) != known.get(name, {}).get(p)
            ]
            wrong.append(name)
            print(f"{name}: other {', '.join(sorted(parts))}", flush=True)
    if known is None:
        file.write_text(json.dumps(found, indent=0))
    refused = sum("refused" in f for f in found.values())
    seconds = time.perf_counter() - begun
    print(f"{len(found)} cases, {refused} refused, {len(wrong)} differ, {seconds:.0f} s")
    return 1 if wrong else 0


raise SystemExit(main())
