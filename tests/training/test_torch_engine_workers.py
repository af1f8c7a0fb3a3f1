"""The torch engine gives the same bits for any number of workers and any order of jobs, and fails clearly."""

import functools
import os
import re
import signal
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedloom.training import models, rows
from fedloom.training.engine import Jobs, Mix, NotFinite, Task
from fedloom.training.rule import Exponential, LocalRule
from fedloom.training.torch_engine import TorchEngine

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]  # a worker that is lost must not hang the driver

K = 12
COLUMNS = ("start", "client", "n_steps", "first_step", "lr_step")
RULE = LocalRule(lr=0.05, schedule=Exponential(ratio=0.9, every_steps=3), momentum=0.9, weight_decay=0.01, proximal=0.1)
MODELS = {
    "mlp": lambda: models.build("mlp", (1, 16, 16), 3, seed=0, hidden=(8,)),
    "cnn-bn": lambda: models.build("cnn-bn", (1, 20, 20), 3, seed=0),
    "dropout": lambda: nn.Sequential(nn.Dropout(0.5), models.build("mlp", (256,), 3, seed=0, hidden=(8,))),
}


def make_task(model, side=16, n=130, **options):
    rng = np.random.default_rng(1)
    cuts = np.sort(rng.choice(np.arange(2, n - 2, 2), K - 1, replace=False))
    return Task(
        model=model,
        x_train=rng.normal(size=(n, 1, side, side)).astype(np.float32), y_train=rng.integers(0, 3, n),
        x_test=rng.normal(size=(1200, 1, side, side)).astype(np.float32), y_test=rng.integers(0, 3, 1200),
        parts=tuple(np.split(rng.permutation(n), cuts)),
        **{"batch_size": 5, **options},
    )  # fmt: skip


def make_jobs(n_jobs, n_starts, seed=0):
    """Ragged work: several jobs of some clients, steps 0..6, any start, distinct (client, first_step)."""
    rng = np.random.default_rng(seed)
    pairs = rng.choice(K * 40, n_jobs, replace=False)
    return Jobs(
        start=rng.integers(0, n_starts, n_jobs),
        client=pairs // 40,
        n_steps=rng.integers(0, 7, n_jobs),
        first_step=pairs % 40,
        lr_step=rng.integers(0, 50, n_jobs),
    )


def make_mix(n_jobs, n_targets, seed=0):
    """About half of all pairs, so that most jobs count in several averages and some in none."""
    rng = np.random.default_rng(seed)
    job, target = np.nonzero(rng.uniform(size=(n_jobs, n_targets)) < 0.5)
    return Mix(n_targets=n_targets, target=target, job=job, weight=rng.uniform(-0.5, 1, len(job)))


def make_starts(model, n):
    rng = np.random.default_rng(7)
    row = rows.to_row(model)
    noise = rng.normal(scale=0.05, size=(n, len(row)))
    noise[:, ~rows.trainable_mask(model)] = 0
    return (row + noise).astype(np.float32)


def permuted(jobs, mix, order):
    """The same jobs handed over in another order, and the entries of the mix in another one."""
    place = np.argsort(order)
    shuffle = np.random.default_rng(len(order)).permutation(len(mix.job))
    return (
        Jobs(**{name: getattr(jobs, name)[order] for name in COLUMNS}),
        Mix(
            n_targets=mix.n_targets,
            target=mix.target[shuffle], job=place[mix.job[shuffle]], weight=mix.weight[shuffle],
        ),
    )  # fmt: skip


@functools.cache
def engines(name):
    task = make_task(MODELS[name](), side=20 if name == "cnn-bn" else 16)
    return {n: TorchEngine(task, RULE, seed=3, n_workers=n) for n in (1, 2, 3)}


@pytest.fixture(scope="module", autouse=True)
def stop_workers():
    yield
    for name in MODELS:
        for engine in engines(name).values():
            engine.close()


@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_workers_gives_the_same_bits(name):
    several = engines(name)
    starts = make_starts(several[1].task.model, 5)
    jobs, mix = make_jobs(40, 5), make_mix(40, 4)
    one, scores = several[1].train(starts, jobs), several[1].evaluate(starts)
    average = several[1].train_average(starts, jobs, mix)
    assert one.dtype == np.float32 and one.shape == (40, starts.shape[1])
    assert average.dtype == np.float64 and average.shape == (4, starts.shape[1])
    for n in (2, 3):
        np.testing.assert_array_equal(several[n].train(starts, jobs), one)
        np.testing.assert_array_equal(several[n].train_average(starts, jobs, mix), average)
        np.testing.assert_array_equal(several[n].evaluate(starts).loss, scores.loss)
        np.testing.assert_array_equal(several[n].evaluate(starts).correct, scores.correct)


@given(st.permutations(range(17)), st.sampled_from([1, 2, 3]), st.sampled_from(list(MODELS)))
@settings(max_examples=12, deadline=None)
def test_any_order_of_jobs_gives_the_same_bits(order, n_workers, name):
    engine = engines(name)[n_workers]
    starts = make_starts(engine.task.model, 3)
    jobs, mix = make_jobs(17, 3, seed=1), make_mix(17, 3, seed=1)
    order = np.array(order)
    jobs_2, mix_2 = permuted(jobs, mix, order)
    reference = first_answers(name)
    np.testing.assert_array_equal(engine.train(starts, jobs_2), reference[0][order])
    np.testing.assert_array_equal(engine.train_average(starts, jobs_2, mix_2), reference[1])


@functools.cache
def first_answers(name):
    engine = engines(name)[1]
    starts = make_starts(engine.task.model, 3)
    jobs, mix = make_jobs(17, 3, seed=1), make_mix(17, 3, seed=1)
    return engine.train(starts, jobs), engine.train_average(starts, jobs, mix)


@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 5), st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_averages_are_the_weights_times_the_trained_rows(seed, n_jobs, n_targets, n_starts):
    engine = engines("mlp")[2]
    starts = make_starts(engine.task.model, n_starts)
    jobs, mix = make_jobs(n_jobs, n_starts, seed), make_mix(n_jobs, n_targets, seed)
    dense = np.zeros((n_targets, n_jobs))
    dense[mix.target, mix.job] = mix.weight
    trained = engine.train(starts, jobs).astype(np.float64)
    scale = np.abs(dense) @ np.abs(trained)
    assert (np.abs(engine.train_average(starts, jobs, mix) - dense @ trained) <= 1e-14 * scale + 1e-300).all()


def test_entries_that_name_a_job_and_a_target_twice_add_up():
    engine = engines("mlp")[2]
    starts, jobs = make_starts(engine.task.model, 1), make_jobs(2, 1)
    mix = Mix(n_targets=1, target=np.array([0, 0, 0]), job=np.array([1, 0, 1]), weight=np.array([0.25, 0.5, 0.25]))
    wanted = engine.train(starts, jobs).mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(engine.train_average(starts, jobs, mix)[0], wanted, rtol=1e-13, atol=1e-16)


def test_a_job_does_not_depend_on_the_others_of_its_batch():
    engine = engines("dropout")[2]
    starts, jobs = make_starts(engine.task.model, 4), make_jobs(20, 4)
    together = engine.train(starts, jobs)
    for j in (0, 7, 19):
        alone = Jobs(**{name: getattr(jobs, name)[[j]] for name in COLUMNS})
        np.testing.assert_array_equal(engine.train(starts, alone)[0], together[j])


def test_no_jobs_and_no_rows_are_fine():
    for n_workers in (1, 2):
        engine = engines("mlp")[n_workers]
        starts = make_starts(engine.task.model, 1)
        assert engine.train(starts, make_jobs(0, 1)).shape == (0, starts.shape[1])
        np.testing.assert_array_equal(engine.train_average(starts, make_jobs(0, 1), make_mix(0, 2)), 0)
        assert engine.evaluate(starts[:0]).loss.shape == (0,)


def test_more_starts_than_the_pool_has_room_for_fork_a_new_pool():
    engine = TorchEngine(engines("mlp")[1].task, RULE, seed=3, n_workers=2)
    few = make_starts(engine.task.model, 2)
    engine.train(few, make_jobs(6, 2))
    first = engine._pool
    engine.train(few, make_jobs(6, 2))
    assert engine._pool is first  # used again as long as the starts fit
    many = make_starts(engine.task.model, 19)
    jobs = make_jobs(60, 19)
    jobs.start[:2] = [17, 18]
    np.testing.assert_array_equal(engine.train(many, jobs), engines("mlp")[1].train(many, jobs))
    assert engine._pool is not first
    assert not any(p.is_alive() for p in first.processes)
    many = np.concatenate([many, many])
    np.testing.assert_array_equal(engine.evaluate(many).loss, engines("mlp")[1].evaluate(many).loss)
    engine.close()


def test_closing_ends_all_workers_and_use_starts_them_again():
    engine = TorchEngine(engines("mlp")[1].task, RULE, seed=3, n_workers=3)
    starts, jobs = make_starts(engine.task.model, 2), make_jobs(12, 2)
    first = engine.train(starts, jobs)
    workers = engine._pool.processes
    assert len(workers) == 3 and all(p.is_alive() for p in workers)
    engine.close()
    assert not any(p.is_alive() for p in workers)
    engine.close()  # twice does no harm
    np.testing.assert_array_equal(engine.train(starts, jobs), first)
    engine.close()


def test_the_users_generator_and_number_of_threads_are_untouched():
    torch.manual_seed(123)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    for n_workers in (1, 2):
        engine = engines("dropout")[n_workers]
        starts, jobs = make_starts(engine.task.model, 2), make_jobs(8, 2)
        engine.train(starts, jobs)
        engine.train_average(starts, jobs, make_mix(8, 1))
        engine.evaluate(starts)
        assert torch.equal(before, torch.get_rng_state())
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("n_workers", [1, 2])
def test_training_that_diverges_names_the_clients(n_workers):
    task = make_task(MODELS["mlp"]())
    for k in (3, 8):
        task.x_train[task.parts[k]] *= np.float32(1e30)
    engine = TorchEngine(task, LocalRule(lr=10.0), seed=0, n_workers=n_workers)
    n = K
    jobs = Jobs(
        start=np.zeros(n, int), client=np.arange(n)[::-1].copy(), n_steps=np.full(n, 4),
        first_step=np.zeros(n, int), lr_step=np.zeros(n, int),
    )  # fmt: skip
    starts = make_starts(task.model, 1)
    wanted = "the models of clients [3, 8] are no longer finite after local training (learning rate 10); lower"
    with pytest.raises(NotFinite, match=re.escape(wanted)) as error:
        engine.train(starts, jobs)
    assert error.value.clients == [3, 8]
    with pytest.raises(NotFinite):  # and the engine can be used again
        engine.train_average(starts, jobs, make_mix(n, 2))
    engine.close()


def test_a_long_list_of_clients_is_cut_in_the_message_only():
    error = NotFinite(list(range(12)), 0.5)
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] ... are" in str(error) and len(error.clients) == 12


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 3)

    def forward(self, x):
        time.sleep(0.05)
        return self.linear(x.flatten(1))


class Broken(Slow):
    def forward(self, x):
        if self.training and len(x) < 5:  # a ragged batch
            raise ArithmeticError("a flaw of the user's module")
        return self.linear(x.flatten(1))


def equal_jobs(n, n_steps):
    return Jobs(
        start=np.zeros(n, int), client=np.arange(n), n_steps=np.full(n, n_steps),
        first_step=np.zeros(n, int), lr_step=np.zeros(n, int),
    )  # fmt: skip


def test_a_worker_that_is_killed_at_work_ends_the_call_with_a_clear_error():
    task = make_task(Slow())
    engine = TorchEngine(task, LocalRule(), seed=0, n_workers=2)
    starts = rows.to_row(task.model)[None]
    engine.train(starts, equal_jobs(2, 1))
    victims = engine._pool.processes
    killer = threading.Timer(0.3, os.kill, (victims[1].pid, signal.SIGKILL))
    killer.start()
    began = time.perf_counter()
    with pytest.raises(RuntimeError, match=r"a training worker ended unexpectedly \(exit code -9\).*out of memory"):
        engine.train(starts, equal_jobs(K, 20))  # 6 s if nobody dies
    killer.join()
    assert time.perf_counter() - began < 4
    assert not any(p.is_alive() for p in victims)
    engine.close()


def test_a_worker_that_was_killed_while_idle_gives_the_same_error():
    engine = TorchEngine(engines("mlp")[1].task, RULE, seed=3, n_workers=2)
    starts, jobs = make_starts(engine.task.model, 2), make_jobs(12, 2)
    first = engine.train(starts, jobs)
    victim = engine._pool.processes[0]
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    with pytest.raises(RuntimeError, match=r"a training worker ended unexpectedly \(exit code -9\)"):
        engine.train(starts, jobs)
    engine.close()
    np.testing.assert_array_equal(engine.train(starts, jobs), first)
    engine.close()


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_module_that_raises_gives_its_own_traceback(n_workers):
    task = make_task(Broken())
    engine = TorchEngine(task, LocalRule(), seed=0, n_workers=n_workers)
    starts = rows.to_row(task.model)[None]
    with pytest.raises((RuntimeError, ArithmeticError), match="a flaw of the user's module") as error:
        engine.train(starts, equal_jobs(K, 8))
    if n_workers > 1:
        assert "a training worker failed" in str(error.value)
        assert 'raise ArithmeticError("a flaw of the user\'s module")' in str(error.value)
    engine.close()


def test_an_engine_whose_workers_failed_can_be_used_again():
    task = make_task(Broken())
    engine = TorchEngine(task, LocalRule(), seed=0, n_workers=2)
    starts = rows.to_row(task.model)[None]
    with pytest.raises(RuntimeError, match="a training worker failed"):
        engine.train(starts, equal_jobs(K, 8))
    assert np.isfinite(engine.evaluate(np.repeat(starts, 3, axis=0)).loss).all()
    engine.close()


@pytest.mark.parametrize("call", ["train", "evaluate"])
def test_rows_of_another_model_are_refused(call):
    engine = engines("mlp")[1]
    rows_ = np.zeros((2, 5), dtype=np.float32)
    wanted = f"rows must have shape (any, {engine.n_params}) for this model, got (2, 5)"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        engine.train(rows_, make_jobs(2, 2)) if call == "train" else engine.evaluate(rows_)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_start_that_does_not_exist_is_refused(n_workers):
    engine = engines("mlp")[n_workers]
    jobs = equal_jobs(4, 1)
    jobs.start[2] = 5
    with pytest.raises(ValueError, match=r"start of a job must be in 0\.\.1, got 5"):
        engine.train(make_starts(engine.task.model, 2), jobs)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("client", K, f"client of a job must be in 0..{K - 1}, got {K}"),
        ("client", -1, f"client of a job must be in 0..{K - 1}, got -1"),
        ("n_steps", -2, "n_steps of a job must be at least 0, got -2"),
        ("first_step", -1, "first_step of a job must be at least 0, got -1"),
    ],
)
def test_a_job_that_cannot_be_is_refused(name, value, message):
    engine = engines("mlp")[1]
    jobs = equal_jobs(4, 1)
    getattr(jobs, name)[3] = value
    with pytest.raises(ValueError, match=re.escape(message)):
        engine.train(make_starts(engine.task.model, 1), jobs)


def test_an_average_over_a_job_that_does_not_exist_is_refused():
    engine = engines("mlp")[1]
    mix = Mix(n_targets=1, target=np.array([0, 0]), job=np.array([0, 4]), weight=np.array([0.5, 0.5]))
    with pytest.raises((ValueError, IndexError)):
        engine.train_average(make_starts(engine.task.model, 2), equal_jobs(4, 1), mix)


def test_canonical_order_is_by_client_then_counter():
    jobs = Jobs(
        start=np.zeros(4, int), client=np.array([2, 0, 2, 1]), n_steps=np.ones(4, int),
        first_step=np.array([5, 9, 1, 0]), lr_step=np.zeros(4, int),
    )  # fmt: skip
    assert len(jobs) == 4
    np.testing.assert_array_equal(jobs.canonical_order(), [1, 3, 2, 0])
