"""What convergence bounds are made of, measured in a run."""

import numpy as np
from numpy.typing import NDArray

from fedloom import bounds
from fedloom.simulator.world import CloudRound
from fedloom.training.engine import Engine

Row = NDArray[np.float32]


def theory(
    engine: Engine, n_samples: NDArray[np.int64], row: Row, before: Row | None, state: CloudRound | None
) -> dict[str, float]:
    """Training loss at `row` (P,), and of the cloud round that led there from `before` (P,), the mean local steps of a sample's
    owner and the mismatch of gradients at its start, in means over clusters and over clients. n_samples (K,)."""
    found = {"train_loss": float(engine.evaluate(row[None], "train").loss[0])}
    if state is None or before is None:
        return found | {"step_mass": 0.0, "mismatch_cluster": 0.0, "mismatch_client": 0.0}
    inside = np.flatnonzero(state.topology.cover.any(axis=0))  # devices may be left out
    gradients = engine.gradient(before[None], [(0, k) for k in inside.tolist()])
    used = state.topology.cover[state.topology.cover.any(axis=1)][:, inside]
    sizes, client_steps = n_samples[inside], state.client_steps[inside]
    return found | {
        "step_mass": float(sizes @ client_steps / sizes.sum()),
        "mismatch_cluster": float(bounds.cluster_mismatch(gradients, used, sizes).mean()),
        "mismatch_client": float(bounds.client_mismatch(gradients, used, sizes).mean()),
    }
