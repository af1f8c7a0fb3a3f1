"""Federations whose nodes are killed at random moments.

    PYTHONPATH=tests python -m deployment 100                 in memory, while letters are lost and doubled too
    PYTHONPATH=tests python -m deployment 100 --processes     kill -9 of real processes, over mutual TLS

So many kills in all, over all roles and several methods. Every federation must end with the model of a simulation fed with its
journal, and in lockstep with the simulator's. A seed that fails is printed, and its folder is kept.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from deployment.federation import recorded, simulated
from deployment.processes import final_row, kill_processes
from deployment.test_faults import with_faults
from fedloom.deployment.bundles import read_bundle
from small import for_method

LOCKSTEP = ("hhfl", "hierfedavg", "ddc", "camu", "macfl_r")
TIMED = ("csahfl", "feduc_r", "fedat", "hiflash_r")
AS_PROCESSES = ("hierfedavg", "ddc", "hhfl", "csahfl", "fedavg")


def in_memory(name, folder, seed):
    """Who was killed, and whether the model is the right one."""
    scenario, method = for_method(name, cloud_rounds=3)
    row, killed = with_faults(scenario, method, folder, seed, kills=10, lose=0.02, double=0.05)
    return killed, _is_right(name, scenario, method, row, folder / "cloud" / "journal")


def as_processes(name, folder, seed, kills):
    scenario, method = for_method(name, cloud_rounds=60)
    killed = kill_processes(scenario, method, folder / "all", seed, kills, within_s=600.0)
    run = read_bundle(folder / "all" / "cloud")[0].run
    row = final_row(folder / "all", scenario, method)
    return killed, _is_right(name, scenario, method, row, folder / "all" / "cloud" / "state" / "journal", run)


def _is_right(name, scenario, method, row, journal, *run):
    same = np.array_equal(row, recorded(scenario, method, journal, *run))
    return same and (name in TIMED or np.array_equal(row, simulated(scenario, method)))


def main(wanted, seed, processes):
    roles, bad, n_federations, began_s = Counter(), 0, 0, time.monotonic()
    while roles.total() < wanted:
        for name in AS_PROCESSES if processes else (*LOCKSTEP, *TIMED):
            folder = Path(tempfile.mkdtemp(prefix=f"fedloom-{name}-{seed}-"))
            left = max(1, wanted - roles.total())
            killed, right = (
                as_processes(name, folder, seed, min(20, left)) if processes else in_memory(name, folder, seed)
            )
            roles.update(node.split("-")[0] for node in killed)
            n_federations += 1
            if right:
                shutil.rmtree(folder)
            else:
                bad += 1
                print(f"{name}, seed {seed}: another model after kills of {killed}; see {folder}")
            if roles.total() >= wanted:
                break
        seed += 1
        took_s = time.monotonic() - began_s
        print(
            f"{n_federations} federations, {roles.total()} kills {dict(roles)}, {bad} with another model, {took_s:.0f} s",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Kill nodes of deployed federations, and compare the models.")
    options.add_argument("kills", type=int, nargs="?", default=100)
    options.add_argument("seed", type=int, nargs="?", default=0)
    options.add_argument("--processes", action="store_true", help="real processes; else in memory")
    chosen = options.parse_args()
    sys.exit(main(chosen.kills, chosen.seed, chosen.processes))
