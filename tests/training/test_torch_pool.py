"""Rows that workers share, and models that are bound to them."""

import mmap

import numpy as np
import pytest
import torch
from torch import nn

from fedloom.training import models, rows, torch_pool
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine
from fedloom.training.torch_pool import _shared
from fedloom.training.torch_trainer import Trainer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_params", [1, 512, 1000, 1024, 4097])
def test_shared_rows_begin_with_a_page_and_do_not_overlap(n_params, dtype):
    shared, _ = _shared(3, n_params, dtype)
    assert shared.shape == (3, n_params) and shared.dtype == dtype
    assert all(row.data_ptr() % mmap.PAGESIZE == 0 for row in shared)
    for i in range(3):
        shared[i] = i
    assert all((row == i).all() for i, row in enumerate(shared))


@pytest.mark.parametrize("name", ["cnn-bn", "mlp"])
def test_a_model_that_is_placed_elsewhere_trains_there_to_the_same_bits(name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 1, 16, 16)).astype(np.float32), rng.integers(0, 3, 30)
    model = models.build(name, (1, 16, 16), 3, seed=0)
    trainer = Trainer(
        Task(model=model, x_train=x, y_train=y, x_test=x, y_test=y, parts=(np.arange(30),), batch_size=10),
        LocalRule(lr=0.1), seed=1,
    )  # fmt: skip
    start = torch.from_numpy(rows.to_row(model))
    trainer.train(start, 0, 4, 0, 0)
    first = trainer.row
    slot = _shared(2, len(start), torch.float32)[0][1]
    trainer.place(slot)
    assert trainer.train(start, 0, 4, 0, 0) and trainer.row is slot
    assert torch.equal(slot, first) and not torch.equal(slot, start)
    assert all(
        isinstance(t, nn.Parameter) or not t.requires_grad for _, t in rows.tensors(trainer.model)
    )  # still what they were
    trainer.place(start.clone())
    np.testing.assert_array_equal(rows.to_row(trainer.model), start.numpy())


def test_large_sums_do_not_stay_in_memory_and_are_the_same_the_next_time(monkeypatch):
    monkeypatch.setattr(torch_pool, "LARGE_SUMS", 0)
    monkeypatch.setattr(torch_pool, "PIECE_OF_SUMS", mmap.PAGESIZE)  # a sum has several
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 16)).astype(np.float32), rng.integers(0, 3, 30)
    model = models.build("mlp", (16,), 3, seed=0)
    parts = tuple(np.array_split(np.arange(30), 3))
    task = Task(model=model, x_train=x, y_train=y, x_test=x, y_test=y, parts=parts, batch_size=5)
    zeros, clients = np.zeros(3, dtype=np.int64), np.arange(3)
    jobs = Jobs(start=zeros, client=clients, n_steps=zeros + 2, first_step=zeros, lr_step=zeros)
    mix = Mix(n_targets=2, target=np.array([0, 0, 1]), job=clients, weight=np.array([0.25, 0.75, 1.0]))
    engine = TorchEngine(task, LocalRule(lr=0.1), 1, n_workers=2)
    first = engine.train_average(rows.to_row(model)[None], jobs, mix)
    assert first.nbytes > 4 * mmap.PAGESIZE
    alone = TorchEngine(task, LocalRule(lr=0.1), 1, n_workers=1).train_average(rows.to_row(model)[None], jobs, mix)
    np.testing.assert_array_equal(first, alone)
    assert first.any() and not engine._pool.sums.any()  # pages that are given back are zero
    np.testing.assert_array_equal(engine.train_average(rows.to_row(model)[None], jobs, mix), first)
    engine.close()
