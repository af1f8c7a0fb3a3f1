"""Sums along the tree of blocks: by hand, against a recursion, and the same however they are shared out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.scale.engine import cut
from fedloom.training import models, rows
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule
from fedloom.training.sums import Tree, block_size, by_average, summation_order
from fedloom.training.torch_engine import TorchEngine

K = 300
ENGINES = {"native": NativeEngine, "torch": TorchEngine}


def make_jobs(n, seed=0):
    rng = np.random.default_rng(seed)
    return Jobs(
        start=rng.integers(0, 3, n),
        client=rng.permutation(K)[:n],
        n_steps=rng.integers(0, 3, n),
        first_step=rng.integers(0, 9, n),
        lr_step=np.zeros(n, dtype=np.int64),
    )


def make_mix(n_jobs, n_targets, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    job, target = np.nonzero(rng.uniform(size=(n_jobs, n_targets)) < density)
    return Mix(n_targets=n_targets, target=target, job=job, weight=rng.uniform(-0.5, 1, len(job)))


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(1)
    return Task(
        model=models.build("mlp", (8,), 3, seed=0, hidden=(6,)),
        x_train=rng.normal(size=(400, 8)).astype(np.float32),
        y_train=rng.integers(0, 3, 400),
        x_test=rng.normal(size=(10, 8)).astype(np.float32),
        y_test=rng.integers(0, 3, 10),
        parts=tuple(rng.integers(0, 400, 6) for _ in range(K)),
        batch_size=4,
    )


def test_three_blocks_by_hand():
    big = 2.0**53  # big + 1 is not a number of this precision, big + 2 is
    tree = Tree()
    for value in (big, 1.0, 1.0):
        tree.push({0: np.array([value])})
    # ((big + 1) + 1) = big, while (big + 1) would be big and 1 + 1 is added as 2 only in another tree
    np.testing.assert_array_equal(tree.total(2, 1), [[big], [0.0]])
    tree = Tree()
    for value in (0.0, big, 1.0, 1.0):
        tree.push({0: np.array([value])})
    np.testing.assert_array_equal(tree.total(1, 1), [[big + 2.0]])  # (0 + big) + (1 + 1)


def test_what_takes_no_part_in_an_average_is_left_out():
    tree = Tree()
    tree.push({1: np.array([-0.0])})
    tree.push({})
    assert np.signbit(tree.total(2, 1)[1, 0])  # adding zero would have cost the sign


def recursion(values):
    """The tree from its definition: padded to a power of two, None for what is missing."""
    while len(values) > 1:
        values = values + [None] * (len(values) % 2)
        pairs = zip(values[::2], values[1::2])
        values = [b if a is None else a if b is None else a + b for a, b in pairs]
    return values[0]


@given(st.lists(st.none() | st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_the_tree_is_the_recursion(values):
    tree = Tree()
    for value in values:
        tree.push({} if value is None else {0: np.array([value])})
    wanted = recursion(values)
    assert tree.total(1, 1)[0, 0] == (0.0 if wanted is None else wanted)


def test_memory_that_cannot_be_written_is_not_written():
    one = np.array([1.0])
    one.flags.writeable = False
    tree = Tree()
    tree.push({0: one})
    tree.push({0: np.array([2.0])})
    assert tree.total(1, 1)[0, 0] == 3.0 and one[0] == 1.0


def test_blocks_gather_what_belongs_to_one_average():
    jobs = make_jobs(200)
    target = np.arange(200) % 3
    mix = Mix(n_targets=3, target=target, job=np.arange(200), weight=np.ones(200))
    order = summation_order(jobs, mix, 64)
    assert len(set(target[order[:64]])) == 1
    for low in range(0, 200, 64):  # canonical within a block
        client = jobs.client[order[low : low + 64]]
        assert (np.diff(client) > 0).all()
    np.testing.assert_array_equal(np.sort(target), target[by_average(jobs, mix)])


def test_one_block_is_plain_addition_in_canonical_order():
    jobs, mix = make_jobs(64), make_mix(64, 4)
    np.testing.assert_array_equal(summation_order(jobs, mix, 64), jobs.canonical_order())
    assert block_size(62_006) == 64 and block_size(11_000_000) == 4


@pytest.mark.parametrize(
    ("name", "n_jobs", "n_targets"),
    [
        pytest.param(name, *n, marks=pytest.mark.full if name == "torch" and n[0] > 250 else ())
        for name in ENGINES
        for n in ((300, 3), (257, 90), (64, 2), (65, 1), (1, 1))
    ],
)
def test_spans_add_up_to_the_bits_of_the_whole(task, name, n_jobs, n_targets):
    engine = ENGINES[name](task, LocalRule(lr=0.1), 3, n_workers=1)
    other = ENGINES[name](task, LocalRule(lr=0.1), 3, n_workers=2)
    starts = np.random.default_rng(0).normal(size=(3, rows.n_values(task.model))).astype(np.float32)
    jobs, mix = make_jobs(n_jobs), make_mix(n_jobs, n_targets)
    whole = engine.train_average(starts, jobs, mix)
    np.testing.assert_array_equal(other.train_average(starts, jobs, mix), whole)
    other.close()
    for n_actors in (1, 2, 8) if name == "native" else (2,):
        tree = Tree()
        spans = cut(jobs, mix, block_size(engine.n_params), n_actors)
        for span_jobs, span_mix, targets, _ in spans:
            sums = engine.train_average(starts, span_jobs, span_mix)
            tree.push(dict(zip(targets.tolist(), sums)))
        np.testing.assert_array_equal(tree.total(n_targets, engine.n_params), whole)
        assert sum(len(span.jobs) for span in spans) == n_jobs
    dense = np.zeros((n_targets, n_jobs))
    dense[mix.target, mix.job] = mix.weight
    np.testing.assert_allclose(whole, dense @ engine.train(starts, jobs), rtol=1e-12, atol=1e-12)


def test_few_actors_get_long_spans():
    jobs, mix = make_jobs(300), make_mix(300, 2)
    lengths = {n: [len(span.jobs) for span in cut(jobs, mix, 4, n)] for n in (1, 2, 8)}  # 75 blocks
    assert lengths[1] == [64, 64, 64, 64, 44]  # 16 blocks each
    assert lengths[2] == [32] * 9 + [12]
    assert lengths[8] == [8] * 37 + [4]
