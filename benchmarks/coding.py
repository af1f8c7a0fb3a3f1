"""How fast models are coded: a million values of one client, on one core. Target: each codec under 10 ms.

    python benchmarks/coding.py [--values 1000000] [--repeats 15] [--json]

  encode, decode   to bytes, and from bytes
  coded            what arrives, without bytes: what the simulator does
Before anything is timed, what coded gives must be what decode gives of encode, to the bit, in as many bits as n_bits says.
Milliseconds of processor time, median of the repeats; the seconds on the clock of both ways together stand beside.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from conditions import conditions
from fedloom._random import key_of
from fedloom.coding import codec

SEED, TARGET_MS = 1, 10
CODECS = (
    *("float32", "float16", "bfloat16", "qsgd:bits=1", "qsgd:bits=4", "qsgd:bits=7", "qsgd:bits=8", "qsgd:bits=16"),
    *("sign", "sign:bucket=512", "topk:share=0.01", "topk:share=0.1", "randomk:share=0.01", "randomk:share=0.1"),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    row = np.random.default_rng(SEED).normal(0, 1e-3, options.values).astype(np.float32)
    out: dict[str, Any] = {text: measured(text, row, options.repeats) for text in CODECS}
    slowest = max(found["encode_ms"] + found["decode_ms"] for found in out.values())
    if options.json:
        print(json.dumps({"codecs": out, "slowest_ms": slowest, **conditions()}))
        return
    print(f"{options.values:,} values, processor time in ms (target: under {TARGET_MS}, encode and decode together)")
    print(
        f"{'codec':20} {'bits/value':>10} {'encode':>8} {'decode':>8} {'together':>8} {'coded':>8} {'on the clock':>13}"
    )
    for text, found in out.items():
        both = found["encode_ms"] + found["decode_ms"]
        print(
            f"{text:20} {found['bits_per_value']:10.3f} {found['encode_ms']:8.2f} {found['decode_ms']:8.2f} {both:8.2f} "
            f"{found['coded_ms']:8.2f} {found['both_wall_ms']:13.2f}"
        )
    print(f"slowest: {slowest:.2f} ms")
    where = conditions()
    print(where["machine"], where["date"], where["commit"])


def measured(text: str, row: np.ndarray, repeats: int) -> dict[str, float]:
    """Equality first, then milliseconds."""
    it, n, key = codec(text), len(row), key_of(SEED, "benchmark", 0)
    message = it.encode(row, key)
    assert np.array_equal(it.decode(message, n, key).view(np.uint32), it.coded(row, key).view(np.uint32))
    assert 8 * len(message) == it.n_bits(n)
    encode_ms, encode_wall_ms = timed(lambda: it.encode(row, key), repeats)
    decode_ms, decode_wall_ms = timed(lambda: it.decode(message, n, key), repeats)
    coded_ms, _ = timed(lambda: it.coded(row, key), repeats)
    return {
        "bits_per_value": it.n_bits(n) / n,
        "encode_ms": encode_ms,
        "decode_ms": decode_ms,
        "coded_ms": coded_ms,
        "both_wall_ms": encode_wall_ms + decode_wall_ms,
    }


def timed(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Milliseconds of processor time and on the clock, medians."""
    cpu_s, wall_s = [], []
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        work()
        wall_s.append(time.perf_counter() - start)
        cpu_s.append(time.process_time() - start_cpu)
    return 1000 * statistics.median(cpu_s), 1000 * statistics.median(wall_s)


if __name__ == "__main__":
    main()
