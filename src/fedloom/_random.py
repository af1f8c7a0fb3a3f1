"""Random generators by name: the same seed and name give the same numbers, whatever was drawn elsewhere.

Every draw of a run comes from a stream that is keyed by the run's seed, the purpose of the draw and counters
(cloud round, edge round, client, ...). So two methods that share a seed see the same placement, partition, links
and mini-batches, and a run that is resumed needs no generator state.
"""

import zlib

import numpy as np


def stream(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """A generator for one purpose of one run.

    >>> stream(1, "placement").integers(100) == stream(1, "placement").integers(100)
    np.True_
    >>> stream(1, "links", 3).integers(10**9) == stream(1, "links", 4).integers(10**9)
    np.False_
    >>> stream(1, "links").integers(10**9) == stream(1, "links", 0).integers(10**9)
    np.False_
    """
    entropy = [
        seed,
        zlib.crc32(purpose.encode()),
        len(counters),
        *counters,
    ]  # the length: zeros at the end count
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))
