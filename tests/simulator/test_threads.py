"""A run's linear algebra is done in one thread, so that its bits do not depend on the number of cores."""

import os
import subprocess
import sys

SCRIPT = """
import sys
import numpy
from threadpoolctl import threadpool_info
import fedloom as fl
from tests.small import SMALL

def threads():
    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

def grouping(view, rng):
    import scipy.linalg  # a second library, loaded in the middle of a run
    assert len(threads()) > len(before)
    print("inside", sorted(threads().values()))
    return fl.make_method("hierfedavg").group.rule(view, rng)

before = threads()
assert "scipy.linalg" not in sys.modules
print("before", sorted(before.values()))
method = fl.make_method("hierfedavg").with_(group=grouping)
fl.simulate(fl.scenario(SMALL), method, seed=1, dry_run=True)
print("after", [threads()[lib] for lib in before])
"""


def test_a_run_takes_one_thread_for_linear_algebra_and_gives_the_others_back():
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    several = min(2, os.cpu_count() or 1)
    assert done.stdout.splitlines() == [f"before [{several}]", "inside [1, 1]", f"after [{several}]"]
