"""HHFL with SCAFFOLD, top-k coding and trimmed means, recorded: python -m tests.kills.stateful_run FOLDER N ends itself by kill
-9 in the N-th batch of training of its life, or is through before."""

import os
import signal
import sys
from pathlib import Path

from fedloom.record.folder import record
from fedloom.simulator import Simulation, make_method, scenario

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small import for_method


def main(folder: Path, n_batches: int) -> None:
    made, _ = for_method("hhfl", participation=0.7)
    text = "hhfl:rule=scaffold:up=topk:up.share=0.1:merge_edge=trimmed_mean:merge_edge.share=0.25"
    simulation = Simulation(scenario(made), make_method(text), seed=5, n_workers=2)
    train, n = simulation.engine.train_with_state, 0

    def trained(*arguments):
        nonlocal n
        n += 1
        found = train(*arguments)
        if n == n_batches:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    simulation.engine.train_with_state = trained
    record(simulation, text, folder, resume=True, checkpoint_every_s=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
