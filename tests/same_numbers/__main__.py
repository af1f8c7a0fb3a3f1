"""python -m tests.same_numbers FILE [PART]: write digests, or compare with those that are there; of the cases whose names contain
PART, such as "small plain" or "cells-overlap". Run in the root of the project."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from same_numbers.cases import cases, digests


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    file = Path(sys.argv[1])
    only = sys.argv[2] if len(sys.argv) > 2 else ""
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
