"""Codecs that draw: every build of the kernels gives the bytes that numpy gives."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedloom import _kernels
from fedloom._random import bits_of, state_of
from fedloom.coding import QSGD, RandomK, codec, randomk
from fedloom.gate import Refused

BUILDS = ("baseline", "avx2", "avx512")
NATIVE = "FEDLOOM_NATIVE"


@pytest.fixture(params=BUILDS)
def build(request, monkeypatch):
    """The kernels of one build, which codecs then use."""
    order = pytest.importorskip("fedloom._compiled_baseline", reason="the kernels were not built")
    if BUILDS.index(request.param) > BUILDS.index(order.best_instructions()):
        pytest.skip(f"this processor has no {request.param}")
    monkeypatch.setenv(NATIVE, request.param)
    kernels = _kernels.compiled()
    if kernels is None:
        pytest.skip("the kernels of codecs were not built")
    assert kernels.__name__ == f"fedloom._compiled_{request.param}"
    return kernels


def by_numpy(use):
    """What is done without kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NATIVE, "off")
        assert _kernels.compiled() is None
        return use()


def awkward(n, seed):
    """Numbers of all sizes, zeros of either sign, ties."""
    rng = np.random.default_rng(seed)
    row = rng.normal(size=n) * 10.0 ** rng.integers(-35, 30, n)
    row[rng.uniform(size=n) < 0.3] = rng.choice([0.0, -0.0, 1.0, -1.0, 1e-45])
    return row.astype(np.float32)


def same_as_numpy(text, row, key):
    it = codec(text)
    message = it.encode(row, key)
    assert message == by_numpy(lambda: it.encode(row, key))
    for found in (it.coded(row, key), it.decode(message, len(row), key)):
        assert np.array_equal(found.view(np.uint32), by_numpy(lambda: it.coded(row, key)).view(np.uint32))


@pytest.mark.parametrize("bits", range(1, 17))
def test_grid_points_are_those_of_numpy(build, bits):
    for n, bucket in ((1, 1), (7, 3), (513, 512), (5_001, 512), (5_001, 333), (5_001, 10**9), (70_001, 4_097)):
        same_as_numpy(f"qsgd:bits={bits}:bucket={bucket}", awkward(n, seed=n), key=bits)
        plain = np.random.default_rng(n).normal(size=n).astype(np.float32)
        same_as_numpy(f"qsgd:bits={bits}:bucket={bucket}", plain, key=2**64 - bits)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6000), k=st.integers(1, 6000), key=st.integers(0, 2**64 - 1))
def test_random_k_are_those_of_numpy(build, seed, n, k, key):
    same_as_numpy(f"randomk:k={min(k, n)}", np.random.default_rng(seed).normal(size=n).astype(np.float32), key)


def test_numbers_are_those_of_the_key(build):
    for n in (1, 2, 2047, 2048, 2049, 10_001):
        at, found = np.empty(n + 1, np.int64), np.empty(n + 1, np.uint32)
        numbers = bits_of(9, n)
        for low in (0, 2**31, 2**32 - 1):
            filled = build.at_least(state_of(9), n, low, at, found)
            wanted = np.flatnonzero(numbers >= low)
            assert np.array_equal(at[:filled], wanted) and np.array_equal(found[:filled], numbers[wanted])


def test_too_few_numbers_near_the_top_are_looked_for_again(build, monkeypatch):
    row = np.arange(1, 1001, dtype=np.float32)
    wanted = by_numpy(lambda: RandomK(k=50).encode(row, 3))
    monkeypatch.setattr(randomk, "MARGIN", -3)
    assert RandomK(k=50).encode(row, 3) == wanted


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**127])
def test_a_bad_value_is_refused_with_its_place(build, bad):
    row = np.ones(10_000, dtype=np.float32)
    row[7_003] = bad
    for use in (QSGD().encode, QSGD(bits=12).coded):
        with pytest.raises(Refused, match=r"a row to be coded must .* at index 7003$"):
            use(row, 1)
    row[7_003] = 2.0**126
    assert QSGD().encode(row, 1) == by_numpy(lambda: QSGD().encode(row, 1))


def test_what_a_kernel_cannot_do_it_refuses(build):
    row, codes, scales = np.ones(10, np.float32), np.empty(10, np.uint8), np.empty(2, np.float32)
    good = (row, state_of(1), 5, 14, 27, 0.0, 1e30, codes, scales)
    assert build.grid_points(*good)
    for at, other in ((1, state_of(1)[:3]), (2, 0), (2, 3), (3, 0), (4, 0), (4, 30), (7, codes[:9]), (8, scales[:1])):
        with pytest.raises(ValueError, match=r"a state of SFC64|that can be|as many codes"):
            build.grid_points(*good[:at], other, *good[at + 1 :])
    for at, other in ((0, row.astype(np.float64)), (0, np.ones(20, np.float32)[::2]), (7, codes.astype(np.int32))):
        with pytest.raises(TypeError):
            build.grid_points(*good[:at], other, *good[at + 1 :])
    with pytest.raises(ValueError, match="room for all numbers and one more"):
        build.at_least(state_of(1), 10, 0, np.empty(10, np.int64), np.empty(11, np.uint32))
