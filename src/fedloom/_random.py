"""Random generators by name: the same seed and name give the same numbers, whatever was drawn elsewhere.

Every draw of a run comes from a stream that is keyed by the run's seed, the purpose of the draw and counters
(cloud round, edge round, client, ...). So two methods that share a seed see the same placement, partition, links
and mini-batches, and a run that is resumed needs no generator state.
"""

import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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


def key_of(seed: int, purpose: str, *counters: int) -> int:
    """A whole number of 64 bits that stands for a seed, a purpose and counters: what two sides that know these agree on.

    >>> key_of(1, "upload", 7, 3) == key_of(1, "upload", 7, 3), key_of(1, "upload", 7, 3) == key_of(1, "upload", 3, 7)
    (True, False)
    """
    entropy = [seed, zlib.crc32(purpose.encode()), len(counters), *counters]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])


def bits_of(key: int, n: int) -> NDArray[np.uint32]:
    """n numbers of 32 random bits by a key (`key_of`); the first ones are the same however many are drawn. The raw output of
    SFC64, whose stream numpy keeps from version to version, and the quickest it has: for draws of every value of a model.

    >>> bits_of(5, 3).tolist() == bits_of(5, 1000)[:3].tolist()
    True
    """
    return next(bits_in_blocks(key, n, n + n % 2))


def bits_in_blocks(key: int, n: int, block: int) -> Iterator[NDArray[np.uint32]]:
    """bits_of(key, n), an even number `block` of them at a time, drawn when they are asked for."""
    generator = np.random.SFC64(key)
    for begun in range(0, n, block):
        m = min(block, n - begun)
        words = np.asarray(generator.random_raw((m + 1) // 2), dtype="<u8")
        yield words.view("<u4")[:m].astype(np.uint32, copy=False)


def normals_of(key: int, n: int) -> Floats:
    """n standard normal numbers by a key (`key_of`), in double precision.

    >>> bool((normals_of(5, 3) == normals_of(5, 1000)[:3]).all())
    True
    """
    return np.random.Generator(np.random.Philox(key)).standard_normal(n)


def state_of(key: int) -> NDArray[np.uint64]:
    """The state (4,) of SFC64 by a key: for kernels that draw bits_of(key, n) themselves."""
    return np.asarray(np.random.SFC64(key).state["state"]["state"], dtype=np.uint64)


def uniform_of(seed: int, purpose: str, who: NDArray[np.int64], *counters: int) -> Floats:
    """One number in (0, 1) for each of `who` (m,), devices or cells, in the shape of `who`.

    It depends on the seed, the purpose, the counters and that device alone: never on who else is asked for, so that two
    methods that ask for different groups of devices draw the same for a device both ask for.

    >>> alone, among_others = uniform_of(1, "lots", np.array([7]), 3), uniform_of(1, "lots", np.array([2, 7]), 3)
    >>> alone[0] == among_others[1]
    np.True_
    """
    key = np.array([key_of(seed, purpose, *counters)], dtype=np.uint64)
    mixed = mix_all(mix_all(np.asarray(who, dtype=np.uint64)) ^ key)
    return np.asarray(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def normal_of(seed: int, purpose: str, who: NDArray[np.int64], *counters: int) -> Floats:
    """Standard normal numbers in the manner of `uniform_of`."""
    from scipy.special import ndtri

    return np.asarray(ndtri(uniform_of(seed, purpose, who, *counters)))


def mix_all(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each number: one step of splitmix64; arrays of uint64 wrap around by themselves."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
