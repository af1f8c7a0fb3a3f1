"""How fast this machine trains and evaluates, and so how long a run will take that was only tried on the clock."""

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.simulator.estimate import Work, estimate
from fedloom.simulator.room import free_memory_bytes
from fedloom.training import rows
from fedloom.training.choose import make_engine
from fedloom.training.engine import Jobs, Mix, Task, n_cores
from fedloom.training.rule import LocalRule

if TYPE_CHECKING:
    from fedloom.simulator.simulation import Simulation
    from fedloom.training.rows import AnyModel

USUAL_FLOPS = 1e10  # of a core, where nothing was measured
LARGE = 2e8  # values of a model that is not tried
EVALUATED = 512  # test samples that the speed of evaluation is measured on, at least
MEASURE_S = 0.4  # seconds spent on measuring the speed, about


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Samples a second in training and evaluation, with all workers; measured here, or assumed."""

    trained_s: float
    evaluated_s: float
    measured: bool

    def seconds(self, work: Work) -> float:
        """Of training and evaluation."""
        return work.samples / self.trained_s + work.evaluated / self.evaluated_s


def measured_speed(simulation: "Simulation", n_workers: int | None = None, engine: str = "auto") -> Speed:
    """How fast this machine trains and evaluates the model of a run, by a few steps on made-up data; of a model of which even a
    step takes long, by a single sample; of a huge one assumed."""
    dataset = simulation.dataset
    batch = int(min(simulation.scenario.training.batch_size, simulation.world.n_samples.max()))
    rule = LocalRule(lr=1e-9, momentum=simulation.rule.momentum, clip_norm=simulation.rule.clip_norm)
    outputs = dataset.n_classes or tuple(dataset.y_train.shape[1:])
    return speed_of(simulation.setting.model, dataset.shape, outputs, batch, rule, n_workers or n_cores(), engine)


def speed_of(
    model: "AnyModel",
    shape: tuple[int, ...],
    outputs: int | tuple[int, ...],
    batch: int,
    rule: LocalRule,
    n_workers: int,
    engine: str = "auto",
    clock: Callable[[], float] = time.perf_counter,
) -> Speed:
    """As above, of any model. shape: of a sample; outputs: number of classes, or the shape of what is predicted; clock: seconds,
    `time.process_time` where a busy machine should not count and there is one worker."""
    n_params = rows.n_values(model)
    if n_params > LARGE:
        usual = USUAL_FLOPS * n_workers / (6 * n_params)
        return Speed(trained_s=usual, evaluated_s=3 * usual, measured=False)
    sample_s = _forward_s(model, shape, clock)
    if 3 * sample_s * batch > MEASURE_S:  # a step takes long: by what a single sample takes
        return Speed(trained_s=n_workers / (3 * sample_s), evaluated_s=n_workers / sample_s, measured=True)
    n_clients = 2 * n_workers
    rng = np.random.default_rng(0)
    x = rng.random((n_clients * batch, *shape), dtype=np.float32)
    y: Any = (
        rng.integers(outputs, size=len(x)) if isinstance(outputs, int) else rng.random((len(x), *outputs), np.float32)
    )
    looked_at = np.arange(max(len(x), EVALUATED)) % len(x)  # evaluation takes many samples at once
    task = Task(
        model=model,
        x_train=x,
        y_train=y,
        x_test=x[looked_at],
        y_test=y[looked_at],
        parts=tuple(np.arange(k * batch, (k + 1) * batch) for k in range(n_clients)),
        loss="cross-entropy" if isinstance(outputs, int) else "mse",
        batch_size=batch,
    )
    made, _ = make_engine(task, rule, 0, n_workers, engine)
    row = rows.to_row(model)[None]
    try:
        trained_s = evaluated_s = 0.0
        n_steps = 1
        while trained_s < MEASURE_S / 4:
            zeros = np.zeros(n_clients, dtype=np.int64)
            everyone = np.arange(n_clients)
            jobs = Jobs(start=zeros, client=everyone, n_steps=zeros + n_steps, first_step=zeros, lr_step=zeros)
            before = clock()
            made.train_average(row, jobs, Mix(n_targets=1, target=zeros, job=everyone, weight=np.ones(n_clients)))
            trained_s, n_trained = clock() - before, n_clients * n_steps * batch
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


def _forward_s(model: "AnyModel", shape: tuple[int, ...], clock: Callable[[], float]) -> float:
    """Seconds of a forward pass of one sample on one core."""
    import torch

    from fedloom.training.models import as_module

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mine, x = copy.deepcopy(as_module(model)).eval(), torch.zeros((1, *shape))
        with torch.inference_mode():
            mine(x)
            before = clock()
            mine(x)
            return clock() - before
    finally:
        torch.set_num_threads(threads)


def real_run(
    simulation: "Simulation", clock_s: float, n_workers: int | None = None, engine: str = "auto"
) -> dict[str, Any]:
    """Of a dry run that is over and took clock_s: what the real run takes, in seconds and bytes, with the terms."""
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
    speed = measured_speed(simulation, n_workers, engine)
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
