"""Federations whose nodes are killed at random moments while letters are lost and doubled.

    PYTHONPATH=tests python -m deployment 100

So many kills in all, over all roles and nine methods. Every federation must end with the model of a simulation fed with its
journal, and in lockstep with the simulator's. A seed that fails is printed, and its folder is kept.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from deployment.federation import recorded, simulated
from deployment.test_faults import with_faults
from small import for_method

LOCKSTEP = ("hhfl", "hierfedavg", "ddc", "camu", "macfl_r")
TIMED = ("csahfl", "feduc_r", "fedat", "hiflash_r")


def main(wanted: int, first_seed: int) -> int:
    n_kills, bad, seed = 0, 0, first_seed
    while n_kills < wanted:
        for name in (*LOCKSTEP, *TIMED):
            scenario, method = for_method(name, cloud_rounds=3)
            folder = Path(tempfile.mkdtemp(prefix=f"fedloom-{name}-{seed}-"))
            row, killed = with_faults(scenario, method, folder, seed, kills=10, lose=0.02, double=0.05)
            n_kills += len(killed)
            same = np.array_equal(row, recorded(scenario, method, folder))
            if name in LOCKSTEP:
                same = same and np.array_equal(row, simulated(scenario, method))
            if same:
                shutil.rmtree(folder)
            else:
                bad += 1
                print(f"{name}, seed {seed}: another model after kills of {killed}; see {folder}")
        seed += 1
        print(f"{n_kills} kills, {bad} federations with another model", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in ([*sys.argv[1:], "0"] if len(sys.argv) > 1 else ["100", "0"])[:2])))
