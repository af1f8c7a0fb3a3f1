"""How fast this machine trains and evaluates, and so how long a run will take that was only tried on the clock."""

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.simulator.estimate import Work, estimate
from fedloom.simulator.room import free_memory_bytes
from fedloom.training import rows
from fedloom.training.choose import make_engine
from fedloom.training.engine import Jobs, KeepsState, Loss, Mix, Task, n_cores
from fedloom.training.rule import LocalRule
from fedloom.training.state import layout_of

if TYPE_CHECKING:
    from fedloom.simulator.simulation import Simulation
    from fedloom.training.rows import AnyModel

USUAL_FLOPS = 1e10  # of a core, where nothing was measured
LARGE = 2e8  # values of a model that is not tried
EVALUATED = 512  # test samples that the speed of evaluation is measured on, at least
MEASURE_S = 0.4  # seconds spent on measuring the speed, about


class Samples(NamedTuple):
    """Inputs (n, ...), targets, and the loss, to measure a speed with; fewer than are needed count several times."""

    x: NDArray[Any]
    y: NDArray[Any]
    loss: Loss


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Samples a second in training and evaluation, with all workers; measured here, or assumed."""

    trained_s: float
    evaluated_s: float
    measured: bool

    def seconds(self, work: Work) -> float:
        """Of training and evaluation."""
        return work.samples / self.trained_s + work.evaluated / self.evaluated_s


def measured_speed(simulation: "Simulation", n_workers: int | None = None, engine: str = "auto", **where: Any) -> Speed:
    """How fast this machine trains and evaluates the model of a run, by a few steps on some of its samples; of a model of which
    even a step takes long, by a single sample; of a huge one assumed. where: device and together of the torch engine."""
    dataset = simulation.dataset
    batch = int(min(simulation.scenario.training.batch_size, simulation.world.n_samples.max()))
    n_workers = n_workers or n_cores()
    some = np.arange(min(dataset.n_train, 2 * n_workers * batch))
    samples = Samples(dataset.inputs("train", some), dataset.y_train[some], simulation.setting.loss or dataset.loss)
    rule = replace(simulation.rule, lr=1e-9)
    return speed_of(simulation.setting.model, samples, batch, rule, n_workers, engine, **where)


def speed_of(
    model: "AnyModel",
    samples: Samples,
    batch: int,
    rule: LocalRule,
    n_workers: int,
    engine: str = "auto",
    clock: Callable[[], float] = time.perf_counter,
    **where: Any,
) -> Speed:
    """As above, of any model and samples. clock: seconds, `time.process_time` where a busy machine should not count and there is
    one worker."""
    n_params = rows.n_values(model)
    if n_params > LARGE:
        usual = USUAL_FLOPS * n_workers / (6 * n_params)
        return Speed(trained_s=usual, evaluated_s=3 * usual, measured=False)
    if _may_take_long(n_params, samples.x[:1], batch):
        sample_s = _forward_s(model, samples.x[:1], clock)
        if 3 * sample_s * batch > MEASURE_S:  # a step does take long: by what a single sample takes
            return Speed(trained_s=n_workers / (3 * sample_s), evaluated_s=n_workers / sample_s, measured=True)
    n_clients = 2 * n_workers
    trained = np.arange(n_clients * batch) % len(samples.x)
    x, y = samples.x[trained], samples.y[trained]
    looked_at = np.arange(max(len(x), EVALUATED)) % len(x)  # evaluation takes many samples at once
    task = Task(
        model=model,
        x_train=x,
        y_train=y,
        x_test=x[looked_at],
        y_test=y[looked_at],
        parts=tuple(np.arange(k * batch, (k + 1) * batch) for k in range(n_clients)),
        loss=samples.loss,
        batch_size=batch,
    )
    made, _ = make_engine(task, rule, 0, n_workers, engine, **where)
    row = rows.to_row(model)[None]
    layout = layout_of(rule.client, n_params)
    zeros, everyone = np.zeros(n_clients, dtype=np.int64), np.arange(n_clients)
    mix = Mix(n_targets=1, target=zeros, job=everyone, weight=np.ones(n_clients))

    def train(n_steps: int) -> float:
        """Every client does so many steps; returns the seconds."""
        jobs = Jobs(start=zeros, client=everyone, n_steps=zeros + n_steps, first_step=zeros, lr_step=zeros)
        before = clock()
        if layout is None:
            made.train_average(row, jobs, mix)
        else:
            assert isinstance(made, KeepsState)
            own = np.tile(layout.first_own(row[0]), (n_clients, 1))
            made.train_with_state(layout.widened(row[0])[None], jobs, mix, own)
        return clock() - before

    try:
        train(1)  # workers are started, and code is loaded
        trained_s = evaluated_s = 0.0
        n_steps = 1
        while trained_s < MEASURE_S / 4:
            trained_s, n_trained = train(n_steps), n_clients * n_steps * batch
            n_steps *= 4
        n_evaluated = 0
        before = clock()
        while evaluated_s < MEASURE_S / 8:
            made.evaluate(row)
            n_evaluated += len(looked_at)
            evaluated_s = clock() - before
    finally:
        made.close()
    return Speed(trained_s=n_trained / trained_s, evaluated_s=n_evaluated / evaluated_s, measured=True)


def _may_take_long(n_params: int, sample: NDArray[Any], batch: int) -> bool:
    """Whether a step would take seconds if every value of the model met every value of a sample, more than any does; where not,
    there is nothing to try, and torch need not be loaded for it."""
    n_inputs = sample.size if sample.dtype.names is None else sample.nbytes
    return 6 * n_params * n_inputs * batch > 2 * USUAL_FLOPS


def _forward_s(model: "AnyModel", x: NDArray[Any], clock: Callable[[], float]) -> float:
    """Seconds of a forward pass of one sample on one core."""
    import torch

    from fedloom.training.models import as_module
    from fedloom.training.torch_trainer import as_tensors, outputs

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mine, sample = copy.deepcopy(as_module(model)).eval(), as_tensors(x)
        with torch.inference_mode():
            outputs(mine, sample)
            before = clock()
            outputs(mine, sample)
            return clock() - before
    finally:
        torch.set_num_threads(threads)


def real_run(
    simulation: "Simulation", clock_s: float, n_workers: int | None = None, engine: str = "auto", **where: Any
) -> dict[str, Any]:
    """Of a dry run that is over and took clock_s: what the real run takes, in seconds and bytes, with the terms. where: device
    and together of the torch engine."""
    place = simulation.places[-1] if simulation.places else None
    found = estimate(
        simulation.scenario,
        simulation.method,
        dataset=simulation.dataset,
        model=simulation.setting.model,
        n_workers=n_workers,
        steps=simulation.federation.steps_done,
        aggregators=None if place is None else int(place.topology.cover.any(axis=1).sum()),
    )
    speed = measured_speed(simulation, n_workers, engine, **where)
    return {
        "seconds": clock_s + speed.seconds(found.work),
        "memory_bytes": found.memory_bytes,
        "disk_bytes": found.disk_bytes,
        "free_memory_bytes": free_memory_bytes(),
        "memory": [asdict(term) for term in found.memory],
        "disk": [asdict(term) for term in found.disk],
        "work": asdict(found.work),
        "speed": asdict(speed),
    }
