"""Columns in order: every build of the kernels gives what numpy gives, and sums what the training engine of the build gives."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedloom import _kernels, _sums
from fedloom.mixing.order import column_median, sorted_columns

BUILDS = ("baseline", "avx2", "avx512")


@pytest.fixture(params=BUILDS)
def build(request):
    """The kernels of one build."""
    baseline = pytest.importorskip("fedloom._compiled_baseline", reason="the kernels were not built")
    if BUILDS.index(request.param) > BUILDS.index(baseline.best_instructions()):
        pytest.skip(f"this processor has no {request.param}")
    return importlib.import_module(f"fedloom._compiled_{request.param}")


def awkward(m, n_columns, seed=0):
    """Numbers of all sizes, with ties, zeros of either sign, the largest and the smallest."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(m, n_columns)) * 10.0 ** rng.integers(-30, 30, (m, n_columns))).astype(np.float32)
    rows[rng.uniform(size=rows.shape) < 0.3] = rng.choice(
        np.array([0.0, -0.0, 1.0, 1e-45, -1.7e38, 1.7e38], np.float32)
    )
    return np.where(rng.uniform(size=rows.shape) < 0.3, rng.integers(-2, 3, rows.shape), rows).astype(np.float32)


@pytest.mark.parametrize("m", [*range(1, 34), 64, 100, 127, 129, 1000, 2048])
def test_medians_and_order_are_those_of_numpy(build, m):
    for n_columns in (1, 15, 16, 17, 400) if m < 130 else (33,):
        rows = awkward(m, n_columns, seed=m)
        found = build.median(rows, 1)
        np.testing.assert_array_equal(found, np.median(rows, axis=0))
        assert found.dtype == np.float32 and not (np.signbit(found) & (found == 0)).any()
        np.testing.assert_array_equal(build.sorted_columns(rows, 1), np.sort(rows, axis=0))


def test_threads_cannot_be_seen(build):
    rows = awkward(21, 3001)
    for n_threads in (2, 3, 50):
        np.testing.assert_array_equal(build.median(rows, n_threads), build.median(rows, 1))
        np.testing.assert_array_equal(build.sorted_columns(rows, n_threads), build.sorted_columns(rows, 1))


def test_the_order_of_rows_cannot_be_seen(build):
    rows = awkward(30, 500)
    shuffled = rows[np.random.default_rng(1).permutation(30)]
    assert build.median(rows, 1).tobytes() == build.median(shuffled, 1).tobytes()
    assert build.sorted_columns(rows, 1).tobytes() == build.sorted_columns(shuffled, 1).tobytes()


def test_what_a_kernel_cannot_do_it_refuses(build):
    with pytest.raises(ValueError, match="rows must be at least one"):
        build.median(np.zeros((0, 3), dtype=np.float32), 1)
    with pytest.raises(ValueError, match="not too many"):
        build.median(np.zeros((build.MOST_ROWS + 1, 3), dtype=np.float32), 1)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        build.sorted_columns(np.zeros((2, 3), dtype=np.float32), 0)
    with pytest.raises(ValueError, match="every row needs a weight"):
        build.weighted_sum([np.zeros(3, dtype=np.float32)], [1.0, 2.0])
    with pytest.raises(ValueError, match="rows must have the same length"):
        build.weighted_sum([np.zeros(3, dtype=np.float32), np.zeros(2, dtype=np.float32)], [1.0, 2.0])


def test_sums_are_those_of_the_training_engine_of_the_build(build, monkeypatch):
    from fedloom.training import models, native
    from fedloom.training.engine import Jobs, Mix, Task
    from fedloom.training.rule import LocalRule

    rng = np.random.default_rng(0)
    monkeypatch.setenv("FEDLOOM_NATIVE", build.__name__.rsplit("_", 1)[1])
    task = Task(
        model=models.build("mlp", (30,), 10, seed=0, hidden=(29,)),
        x_train=rng.normal(size=(40, 30)).astype(np.float32),
        y_train=rng.integers(0, 10, 40),
        x_test=rng.normal(size=(4, 30)).astype(np.float32),
        y_test=rng.integers(0, 10, 4),
        parts=tuple(np.arange(40) for _ in range(50)),
        batch_size=4,
    )
    engine = native.NativeEngine(task, LocalRule(lr=0.1), 3, n_workers=1)
    starts = rng.normal(size=(50, engine.n_params)).astype(np.float32)
    every = np.arange(50)
    jobs = Jobs(start=every, client=every, n_steps=every % 3, first_step=0 * every, lr_step=0 * every)
    weight = rng.uniform(size=50)
    mix = Mix(n_targets=1, target=0 * every, job=every, weight=weight)
    wanted = engine.train_average(starts, jobs, mix)[0]
    np.testing.assert_array_equal(build.weighted_sum(list(engine.train(starts, jobs)), weight.tolist()), wanted)
    np.testing.assert_array_equal(_sums.weighted_sum(engine.train(starts, jobs), weight), wanted)


def test_without_kernels_sums_are_the_same(monkeypatch):
    rows, weights = awkward(30, 1001).clip(-1e6, 1e6), np.random.default_rng(0).uniform(size=30)
    found = _sums.weighted_sum(rows, weights)
    monkeypatch.setenv("FEDLOOM_NATIVE", "off")
    assert _kernels.compiled() is None
    np.testing.assert_allclose(_sums.weighted_sum(rows, weights), found, rtol=1e-15, atol=1e-9)


@pytest.mark.parametrize("kernels", ["", "off"])
@given(
    rows=arrays.arrays(
        np.float32, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=st.floats(-1e3, 1e3, width=32)
    )
)
def test_with_and_without_kernels_it_is_numpy(kernels, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDLOOM_NATIVE", kernels)
        np.testing.assert_array_equal(column_median(rows), np.median(rows, axis=0))
        np.testing.assert_array_equal(sorted_columns(rows), np.sort(rows, axis=0))


def test_more_rows_than_a_network_has_are_left_to_numpy():
    rows = np.random.default_rng(0).normal(size=(2100, 3)).astype(np.float32)
    np.testing.assert_array_equal(column_median(rows), np.median(rows, axis=0))
    np.testing.assert_array_equal(sorted_columns(rows), np.sort(rows, axis=0))


def test_rows_that_do_not_lie_together_are_taken():
    rows = np.random.default_rng(0).normal(size=(12, 40)).astype(np.float32)[::3, ::2]
    np.testing.assert_array_equal(column_median(rows), np.median(rows, axis=0))
    np.testing.assert_array_equal(sorted_columns(np.asfortranarray(rows)), np.sort(rows, axis=0))


@pytest.mark.parametrize("rows", [np.zeros((0, 3), np.float32), np.zeros(3, np.float32), np.zeros((2, 3))])
def test_only_models_have_columns(rows):
    with pytest.raises(ValueError, match=r"rows must be at least one model, \(m, P\) in float32, got"):
        column_median(rows)


def test_the_variable_of_the_training_engine_chooses_the_build(monkeypatch):
    pytest.importorskip("fedloom._compiled_baseline", reason="the kernels were not built")
    monkeypatch.setenv("FEDLOOM_NATIVE", "baseline")
    assert _kernels.compiled().__name__ == "fedloom._compiled_baseline"
    monkeypatch.setenv("FEDLOOM_NATIVE", "no such build")
    assert _kernels.compiled() is None
