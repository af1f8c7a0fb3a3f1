"""One run on a real Ray with two processors gives the bits of the local engine, also when an actor is killed."""

import os
import re

import numpy as np
import pytest
from agreement import same_run

from fedloom.record.folder import record
from fedloom.scale.cluster import NoCluster
from fedloom.scale.engine import RayEngine, Trainer, on_ray
from fedloom.scale.pool import Pool
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training.engine import Jobs, Mix, NotFinite, Task
from fedloom.training.models import build
from fedloom.training.native import NativeEngine, Unsupported
from fedloom.training.rows import to_row
from fedloom.training.rule import LocalRule
from fedloom.training.scaffold import Scaffold
from fedloom.training.torch_engine import TorchEngine

pytestmark = pytest.mark.slow  # starts Ray

K, N_STARTS = 200, 3


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(1)
    return Task(
        model=build("lenet5", (1, 28, 28), 10, seed=0),
        x_train=rng.normal(size=(300, 1, 28, 28)).astype(np.float32),
        y_train=rng.integers(0, 10, 300),
        x_test=rng.normal(size=(40, 1, 28, 28)).astype(np.float32),
        y_test=rng.integers(0, 10, 40),
        parts=tuple(rng.integers(0, 300, 8) for _ in range(K)),
        batch_size=4,
    )


@pytest.fixture(scope="module")
def batch(task):
    rng = np.random.default_rng(2)
    row = to_row(task.model)
    starts = (row + rng.normal(scale=0.01, size=(N_STARTS, len(row)))).astype(np.float32)
    jobs = Jobs(
        start=rng.integers(0, N_STARTS, K),
        client=rng.permutation(K),
        n_steps=rng.integers(0, 3, K),
        first_step=rng.integers(0, 50, K),
        lr_step=rng.integers(0, 50, K),
    )
    job, target = np.nonzero(rng.uniform(size=(K, 5)) < 0.4)
    return starts, jobs, Mix(n_targets=5, target=target, job=job, weight=rng.uniform(-0.5, 1, len(job)))


@pytest.fixture(scope="module")
def local(task):
    return NativeEngine(task, LocalRule(lr=0.05, momentum=0.5), 3, n_workers=2)


@pytest.fixture(scope="module")
def engine(two_cpus, local):
    engine = RayEngine(two_cpus, local, local.task, local.rule, 3, 2)
    yield engine
    engine.close()


def test_sums_have_the_local_bits_however_they_are_shared_out(engine, local, batch):
    starts, jobs, mix = batch
    wanted = local.train_average(starts, jobs, mix)
    for n_actors in (1, 2, 8):  # spans as for so many; two actors do the work
        engine.n_actors = n_actors
        np.testing.assert_array_equal(engine.train_average(starts, jobs, mix), wanted)
    engine.n_actors = 2
    assert engine.n_lost == 0


def test_rows_gradients_and_scores_have_the_local_bits(engine, local, batch):
    starts, jobs, _ = batch
    np.testing.assert_array_equal(engine.train(starts, jobs), local.train(starts, jobs))
    pairs = [(k % N_STARTS, k) for k in range(30)]
    np.testing.assert_array_equal(engine.gradient(starts, pairs), local.gradient(starts, pairs))
    np.testing.assert_array_equal(engine.evaluate(starts).loss, local.evaluate(starts).loss)
    np.testing.assert_array_equal(engine.outputs(starts), local.outputs(starts))


def test_models_go_out_once_and_no_rows_of_clients_come_back(engine, batch):
    starts, jobs, _ = batch
    mix = Mix(n_targets=2, target=np.arange(K) % 2, job=np.arange(K), weight=np.ones(K))
    down, up = engine.bytes_down, engine.bytes_up
    engine.train_average(starts, jobs, mix)
    assert engine.bytes_down - down == starts.nbytes  # to the one machine
    n_blocks = -(-K // 64)  # each a span of its own; sorted by average, one of them holds both
    assert engine.bytes_up - up == (n_blocks + 1) * 8 * engine.n_params


def test_diverging_clients_are_named_as_by_the_local_engine(engine, local, batch):
    starts, jobs, mix = batch
    wild = starts.copy()
    wild[1] = 1e38
    with pytest.raises(NotFinite) as wanted:
        local.train_average(wild, jobs, mix)
    with pytest.raises(NotFinite) as got:
        engine.train_average(wild, jobs, mix)
    assert str(got.value) == str(wanted.value) and got.value.clients == wanted.value.clients
    with pytest.raises(NotFinite) as got:
        engine.train(wild, jobs)
    assert got.value.clients == wanted.value.clients
    with pytest.raises(ValueError, match="rows must have shape"):
        engine.train_average(starts[:, 1:], jobs, mix)


def test_an_actor_that_is_killed_is_replaced_and_its_jobs_are_done_again(two_cpus, engine, local, batch):
    starts, jobs, mix = batch
    wanted = local.train_average(starts, jobs, mix)
    np.testing.assert_array_equal(engine.train_average(starts, jobs, mix), wanted)
    victim, killed = engine._pool._ready[0], []

    class Killing:  # ray, but the first wait, with calls under way, kills an actor
        def __getattr__(self, name):
            return getattr(two_cpus, name)

        def wait(self, refs, **options):
            if not killed:
                killed.append(victim)
                two_cpus.kill(victim)
            return two_cpus.wait(refs, **options)

    engine._pool._ray = Killing()
    np.testing.assert_array_equal(engine.train_average(starts, jobs, mix), wanted)
    assert killed and engine.n_lost == 1
    np.testing.assert_array_equal(engine.train_average(starts, jobs, mix), wanted)
    engine.close()  # makes room for other actors


def test_torch_trains_on_actors_too(two_cpus, task, batch):
    local = TorchEngine(task, LocalRule(lr=0.05), 3, n_workers=1)
    engine = RayEngine(two_cpus, local, task, local.rule, 3, 1)
    starts, jobs, mix = batch
    np.testing.assert_array_equal(engine.train_average(starts, jobs, mix), local.train_average(starts, jobs, mix))
    engine.close()


def test_states_of_clients_have_the_local_bits(two_cpus, task, batch):
    rule = LocalRule(lr=0.05, client=Scaffold())
    local = TorchEngine(task, rule, 3, n_workers=1)
    engine = RayEngine(two_cpus, local, task, rule, 3, 1)
    starts, jobs, mix = batch
    rng = np.random.default_rng(3)
    wide = np.concatenate([starts, rng.normal(scale=0.01, size=starts.shape)], axis=1).astype(np.float32)
    own = rng.normal(scale=0.01, size=(K, starts.shape[1])).astype(np.float32)
    for n_actors in (1, 4):
        engine.n_actors = n_actors
        found, wanted = (e.train_with_state(wide, jobs, mix, own) for e in (engine, local))
        np.testing.assert_array_equal(found.sums, wanted.sums)
        np.testing.assert_array_equal(found.own, wanted.own)
    engine.close()


def test_a_run_that_is_stopped_goes_on_here_or_there_with_the_same_bits(two_cpus, crowd, tmp_path):
    def start(engine, resume, stop_after=None):
        simulation = Simulation(scenario(crowd), make_method("hhfl"), 1, engine=engine)

        def on_round(done, measures):
            if done == stop_after:
                raise KeyboardInterrupt

        record(simulation, "hhfl", tmp_path / "run", resume=resume, on_round=on_round)
        return simulation

    with pytest.raises(KeyboardInterrupt):
        start(on_ray("auto"), False, 1)
    with pytest.raises(KeyboardInterrupt):
        start("auto", True, 2)
    finished = start(on_ray("auto", 1), True)
    assert finished.engine_name.startswith("native") and finished.engine_name.endswith("on 1 Ray actors")
    same_run(finished.result(), simulate(scenario(crowd), "hhfl", 1))


@pytest.fixture
def mortal():
    """An actor that can die, fail or complain; made here, so that it travels by value."""

    class Mortal:
        def __init__(self, complaint=None):
            self.complaint = complaint

        def ready(self):
            return self.complaint

        def die(self):
            os._exit(1)

        def fail(self):
            raise ValueError("seven is not eight")

    return Mortal


def test_jobs_that_kill_every_actor_end_the_run_with_a_reason(two_cpus, mortal):
    pool = Pool(two_cpus, two_cpus.remote(num_cpus=1)(mortal).remote, 1)
    with pytest.raises(RuntimeError, match=r"4 actors were lost over the same jobs(.|\n)*ran out of memory"):
        pool.map([("die", ())], lambda call, answer: None)
    assert pool.n_lost == 4
    pool.close()


def test_what_a_job_raises_is_raised_here(two_cpus, mortal):
    pool = Pool(two_cpus, two_cpus.remote(num_cpus=1)(mortal).remote, 1)
    with pytest.raises(ValueError, match="seven is not eight"):
        pool.map([("fail", ())], lambda call, answer: None)
    pool.close()
    pool = Pool(two_cpus, lambda: two_cpus.remote(num_cpus=1)(mortal).remote("too old"), 1)
    with pytest.raises(RuntimeError, match="too old"):
        pool.map([("fail", ())], lambda call, answer: None)
    pool.close()


def test_a_cluster_without_room_is_not_waited_for_for_ever(two_cpus, mortal):
    pool = Pool(two_cpus, two_cpus.remote(num_cpus=3)(mortal).remote, 1, patience_s=1)
    with pytest.raises(NoCluster, match=r"no actor within 1 s \(\d of 2 CPUs are free\); add nodes"):
        pool.map([("fail", ())], lambda call, answer: None)
    pool.close()


def test_a_machine_that_computes_differently_is_refused(engine, monkeypatch):
    shipment = engine._shipment
    monkeypatch.setenv("FEDLOOM_NATIVE", "")  # ready() sets it, in a process of its own
    assert Trainer(shipment | {"build": "baseline"}).ready() is None
    odd = shipment | {"circumstances": shipment["circumstances"] | {"torch": "0.1"}}
    assert re.search(r"is not like the driver's: torch is \S+ and not 0\.1; install the same", Trainer(odd).ready())

    def none():
        raise Unsupported("this processor has no avx512")

    monkeypatch.setattr("fedloom.training.native.load_build", none)
    complaint = Trainer(shipment).ready()
    assert "no avx512; set FEDLOOM_NATIVE on the driver to what all machines can do" in complaint
