"""Trusted data of servers (fedloom.mixing.robust.trust): which samples they are, and what they make of a model.

Servers train as one more client, the K-th, whom the fleet does not know: their seconds and joules are not booked.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.methods import Method
from fedloom.mixing import ByRows, CloudByRows
from fedloom.mixing.merges import MergeCloud, MergeEdge
from fedloom.simulator.book import Dispatch, Model
from fedloom.simulator.sick import Sick
from fedloom.simulator.world import World

Ints = NDArray[np.int64]


class Roots:
    """Jobs of the servers, numbered through the run."""

    def __init__(self, world: World, sick: Sick | None) -> None:
        self._world, self._sick, self._steps = world, sick, 0

    def reference(self, merge: MergeEdge | MergeCloud, old: Model, n_steps: int) -> Model | None:
        """What trusted data make of a model in so many steps; None if the merge has none."""
        if not isinstance(merge, ByRows | CloudByRows) or merge.root is None:
            return None
        if self._world.layout is not None:
            raise ValueError(
                "trusted data go with plain local training, and this method has a client rule; take another merge"
            )
        steps, server = np.array([max(1, n_steps)]), np.array([len(self._world.n_samples)])
        first, self._steps = np.array([self._steps]), self._steps + int(steps[0])
        job = Dispatch([old], np.zeros(1, dtype=np.int64), server, steps, first, None, self._sick)
        return job.result(0)


def wanted(method: Method) -> int:
    """Samples that the servers of a method need, 0 for none."""
    merges = [m for m in (method.merge_edge, method.merge_cloud) if isinstance(m, ByRows | CloudByRows)]
    return max((m.root.samples for m in merges if m.root is not None), default=0)


def taken(parts: Sequence[Ints], n_train: int, n: int, seed: int) -> tuple[tuple[Ints, ...], Ints]:
    """n samples that no client has, drawn from those that nobody has if there are enough, else from all training samples: then
    clients (parts) go without them. The parts that are left, and the samples (n,)."""
    held = np.unique(np.concatenate(parts))
    spare = np.setdiff1d(np.arange(n_train), held)
    among = spare if len(spare) >= n else np.arange(n_train)
    if n >= n_train:
        raise ValueError(
            f"servers want {n} trusted samples, and there are {n_train} training samples in all; take fewer"
        )
    root = stream(seed, "root").permutation(among)[:n]
    if among is spare:
        return tuple(parts), root
    left = tuple(part[~np.isin(part, root)] for part in parts)
    bare = [k for k, part in enumerate(left) if not len(part)]
    if bare:
        raise ValueError(
            f"the servers' {n} trusted samples would leave clients {bare[:10]} without any; take fewer (Root(samples=...)), or a "
            "partition that leaves some"
        )
    return left, root
