"""What convergence bounds are made of, measured in a run.

Of the cloud round that led from w to w', with gradients g_i of clients on all their samples, G_i on one mini-batch, g_c of
clusters and g of everybody, means by samples:

    train_loss                              F(w')
    gradient_norm                           |g(w)|
    smoothness                              |g(w') - g(w)| / |w' - w|: L along the way
    noise2                                  mean of |G_i(w) - g_i(w)|^2: sigma^2
    gradient2                               mean of |G_i(w)|^2: H^2;  gradient_max: the largest |G_i(w)|
    mismatch_cluster, mismatch_client       |g_c - g| and |g_i - g_c| at w, plain means; *_max: the largest
    mismatch2_cluster, mismatch2_client     their squares: eps^2 and the mean of eps_n^2
    step_mass                               mean local steps of a sample's owner

A mismatch is of clusters without common clients: where there are some it is left out, and clients without a cluster are not
counted.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import bounds
from fedloom.simulator.world import CloudRound
from fedloom.training.engine import Engine, Jobs

Row = NDArray[np.float32]
Floats = NDArray[np.float64]

APART = 1_000_003  # between the steps whose mini-batches are looked at: others than those of training, mostly


class Theory:
    """Of one run. n_samples (K,); lr: of the first step. Gradients at the last model are kept, and made again after a resume."""

    def __init__(self, engine: Engine, n_samples: NDArray[np.int64], lr: float) -> None:
        self._engine, self._n_samples, self._lr = engine, n_samples, lr
        self._last: tuple[Row, Row] | None = None  # a model, and gradients of clients there

    def measure(self, row: Row, before: Row | None, state: CloudRound | None) -> dict[str, float]:
        """At `row` (P,), and of the cloud round that led there from `before` (P,)."""
        found = {"train_loss": float(self._engine.evaluate(row[None], "train").loss[0])}
        gradients = self._gradients(row if before is None else before)
        if state is None or before is None:
            return found
        mean = self._mean(gradients)
        then = self._mean(self._gradients(row))
        moved = float(np.linalg.norm(row.astype(np.float64) - before))
        found |= {
            "gradient_norm": float(np.linalg.norm(mean)),
            "smoothness": float(np.linalg.norm(then - mean)) / moved if moved else 0.0,
            **self._noise(before, gradients, state.cloud_round),
        }
        inside = np.flatnonzero(state.topology.cover.any(axis=0))  # devices may be left out
        sizes, steps = self._n_samples[inside], state.client_steps[inside]
        cover = state.topology.cover[state.topology.cover.any(axis=1)][:, inside]
        found["step_mass"] = float(sizes @ steps / sizes.sum())
        return found | (_mismatch(gradients[inside], cover, sizes) if (cover.sum(axis=0) == 1).all() else {})

    def _gradients(self, row: Row) -> Row:
        """(K, P) of clients at a model, in evaluation mode."""
        if self._last is None or not np.array_equal(self._last[0], row):
            jobs = [(0, k) for k in range(len(self._n_samples))]
            self._last = row.copy(), self._engine.gradient(row[None], jobs)
        return self._last[1]

    def _mean(self, gradients: Row) -> Floats:
        return np.asarray(self._n_samples @ gradients.astype(np.float64) / self._n_samples.sum())

    def _noise(self, row: Row, gradients: Row, cloud_round: int) -> dict[str, float]:
        """Of the first step that each client would make from a model with a mini-batch."""
        k = np.arange(len(self._n_samples))
        nothing = np.zeros_like(k)
        first = np.full_like(k, APART * (cloud_round + 1))
        jobs = Jobs(start=nothing, client=k, n_steps=nothing + 1, first_step=first, lr_step=nothing)
        after = self._engine.train(row[None], jobs)[:, : len(row)]
        drawn = (row.astype(np.float64) - after) / self._lr
        share = self._n_samples / self._n_samples.sum()
        square = (drawn**2).sum(axis=1)
        return {
            "noise2": float(share @ ((drawn - gradients) ** 2).sum(axis=1)),
            "gradient2": float(share @ square),
            "gradient_max": float(np.sqrt(square.max())),
        }


def _mismatch(gradients: Row, cover: NDArray[np.bool_], sizes: NDArray[np.int64]) -> dict[str, float]:
    """Of gradients (m, P) of clients, each in one cluster (N, m)."""
    of = {
        "cluster": bounds.cluster_mismatch(gradients, cover, sizes),
        "client": bounds.client_mismatch(gradients, cover, sizes),
    }
    weight = {"cluster": cover @ sizes / sizes.sum(), "client": sizes / sizes.sum()}
    found = {f"mismatch_{name}": float(values.mean()) for name, values in of.items()}
    found |= {f"mismatch_{name}_max": float(values.max()) for name, values in of.items()}
    return found | {f"mismatch2_{name}": float(weight[name] @ values**2) for name, values in of.items()}
