"""Every method as processes on a shipped scenario with fewer devices, 8 or 12, each a process of its own over mutual TLS.

    PYTHONPATH=tests python -m deployment.bits [METHOD ...]

METHOD may have options (hhfl:up=topk:up.share=0.01); without one all are run as they are, and some with models that are coded.

The deployed model must be the simulator's to the bit where every round waits for all; where time decides, that of a simulation
fed with the times in the cloud's journal. A method runs on the first of the scenarios that it fits. Prints a line for each.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from deployment.federation import recorded, simulated
from deployment.processes import bundles, ended, final_row
from deployment.test_bits import BOXED, LOCKSTEP, SERVER, TIMED
from fedloom.deployment.bundles import read_bundle
from fedloom.deployment.local import started
from fedloom.deployment.naming import CLOUD
from fedloom.simulator import Simulation, make_method, scenario
from small import TEXTS

SHIPPED = {
    "cells-overlap": [
        "fleet.n_devices=12",
        "fleet.placement={kind: three-cells, exclusive: 2, pair: 2, triple: 0}",
        "task.partition={kind: iid}",
    ],
    "disc-100": ["fleet.n_devices=8"],
    "d2d-mesh": ["fleet.n_devices=8", "training.local_epochs=null", "training.local_steps=4", "training.edge_rounds=2"],
}
CLOUD_ROUNDS = 2


CODED = [
    "hhfl:up=topk:up.share=0.01:down=qsgd:down.bits=8",
    "hierfedavg:up=sign:down=float16",
    "ddc:up=qsgd:up.bits=4:down=bfloat16",
    "fedavg:up=randomk:up.share=0.1",
    "csahfl:up=topk:up.share=0.1:down=qsgd:down.bits=8",
]


def text_of(given):
    """The method with options that fit few devices, and boxes of the wall's seconds in which they can do something."""
    name, _, own = given.partition(":")
    text = TEXTS.get(name, name)
    if name in BOXED:
        text = f"{name}:n_clusters=2:box_s=10"
    elif name in SERVER:
        text = f"{name}:hierarchical=true"
    return f"{text}:{own}" if own else text


def in_lockstep(given):
    return given.partition(":")[0] in (*LOCKSTEP, *SERVER)


def fitting(method):
    """The name of the first scenario that a method fits, and the scenario; ValueError with the reasons if there is none."""
    refused = []
    for name, changes in SHIPPED.items():
        chosen = scenario(name, [*changes, f"training.cloud_rounds={CLOUD_ROUNDS}"])
        try:
            list(Simulation(chosen, make_method(method), dry_run=True).rounds())
        except ValueError as error:
            refused.append(f"{name}: {error}")
        else:
            return name, chosen
    raise ValueError(f"{method} fits no scenario: {'; '.join(refused)}")


def compared(name, folder):
    """The scenario, how many devices, and whether the deployed model is what it must be."""
    method = text_of(name)
    shipped, chosen = fitting(method)
    bundle = bundles(folder, chosen, method)
    with started(folder, bundle.roster) as processes:
        ended(processes, folder)
    row = final_row(folder, chosen, method)
    run = read_bundle(folder / CLOUD)[0].run
    same = np.array_equal(row, recorded(chosen, method, folder / CLOUD / "state" / "journal", run))
    return (
        shipped,
        chosen.fleet.n_devices,
        same and (not in_lockstep(name) or np.array_equal(row, simulated(chosen, method))),
    )


def main(names):
    wrong = []
    for name in names or [*sorted([*LOCKSTEP, *SERVER, *BOXED, *TIMED]), *CODED]:
        with tempfile.TemporaryDirectory(prefix="fedloom-bits-") as folder:
            began_s = time.monotonic()
            shipped, n_devices, same = compared(name, Path(folder) / "all")
        word = "the simulator's" if in_lockstep(name) else "that of the recorded times"
        took = f"{time.monotonic() - began_s:.0f} s"
        print(f"{name} on {shipped}, {n_devices} devices: {word if same else 'ANOTHER MODEL'}, {took}", flush=True)
        wrong += [] if same else [name]
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", metavar="METHOD", nargs="*", help="by default all, some of them with models that are coded"
    )
    sys.exit(main(parser.parse_args().names))
