"""Memory that was used once is not asked for again."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux only")

FAULTS = """
import resource
from fedloom.training.heap import keep_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(b"x") * (48 << 20)  # more than glibc ever keeps by itself
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before = faults()
keep_memory()
faults()
print(before, faults())
"""


def test_pages_of_a_large_piece_are_cleared_once():
    found = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True).stdout
    before, after = (int(n) for n in found.split())
    if before < 1000:
        pytest.skip("this C library keeps large pieces anyway")
    assert after < 100
