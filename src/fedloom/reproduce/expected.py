"""How long runs will take that were never made: from what they compute, and how fast this machine does it.

Samples are counted as the settings say, by `fedloom.simulator.estimate`; where the method decides how much is done (time boxes,
extra updates), a cloud round on the clock of a dry run says how much. The speed is measured once for every network, a few
tenths of a second each. Left out are searches for clusters (but for `Setup.beside_s`), bookkeeping and what is written.
"""

import itertools
import json
import time
from dataclasses import dataclass, field, replace

import numpy as np

from fedloom.grouping import Need
from fedloom.methods import Method
from fedloom.reproduce.paper import Setup
from fedloom.simulator.estimate import Work, estimate
from fedloom.simulator.run_sizes import sizes
from fedloom.simulator.scenarios import Scenario
from fedloom.simulator.speed import Samples, Speed, speed_of

MOST_BATCH = 64  # on which a speed is measured; a sample of a larger batch takes no longer
START_S = 4.0  # of a run: programs and data are loaded, the report is written


@dataclass(kw_only=True)
class Expectation:
    """Seconds of runs on one core. What was measured is kept: speeds by network, and work by fleet and method."""

    _speeds: dict[str, Speed] = field(default_factory=dict)
    _steps: dict[str, float | None] = field(default_factory=dict)

    def seconds(self, setup: Setup) -> float:
        """Of one run of the setup, by itself on one core."""
        from fedloom.simulator import make_method, scenario

        chosen, method = scenario(setup.scenario), make_method(setup.method)
        work = self._work(chosen, method)
        return START_S + setup.beside_s + self._speed(chosen).seconds(work)

    def _work(self, chosen: Scenario, method: Method) -> Work:
        training, size = chosen.training, sizes(chosen, None, None)
        steps = None
        if training.total_steps is not None:
            steps = float(training.total_steps * chosen.fleet.n_devices)
        elif _decides(method):
            steps = self._clocked(chosen, method)
        work = estimate(chosen, method, steps=steps).work
        passes = 0.0  # over everybody's data, beside training
        if method.needs & {Need.UPDATES, Need.GRADIENTS}:
            passes += 1 if method.group.when == "once" else training.cloud_rounds
        if chosen.evaluation.theory:
            passes += training.cloud_rounds
        return replace(work, samples=work.samples + passes * size.n_train)

    def _clocked(self, chosen: Scenario, method: Method) -> float | None:
        """Local steps of all clients, by the first cloud round on the clock. Runs that differ only in who holds which samples,
        or in how clusters are found that have the same time, are taken for alike."""
        content = chosen.model_dump(mode="json", include={"fleet", "model_bits", "training"})
        work = method.edge.box_s or method.name
        key = json.dumps([content, chosen.task.dataset, chosen.task.data_limit, work], sort_keys=True)
        if key not in self._steps:
            self._steps[key] = _first_round_steps(chosen, method)
        first = self._steps[key]
        return None if first is None else first * chosen.training.cloud_rounds

    def _speed(self, chosen: Scenario) -> Speed:
        task, training = chosen.task, chosen.training
        key = json.dumps([task.dataset, task.model.model_dump(mode="json"), training.batch_size, training.momentum])
        if key not in self._speeds:
            self._speeds[key] = _measured(chosen)
        return self._speeds[key]


def _decides(method: Method) -> bool:
    """Whether the method says how many edge rounds there are."""
    return method.edge.box_s is not None or method.allots_rounds


def _first_round_steps(chosen: Scenario, method: Method) -> float | None:
    """On the clock, with generated labels instead of the data, whose files need not be there; None if that cannot be."""
    from fedloom.simulator import Simulation

    try:
        simulation = Simulation(_stand_in(chosen), method, 0, dry_run=True)
        for _ in itertools.islice(simulation.rounds(), 2):  # the first model, the first cloud round
            pass
    except ValueError:  # e.g. a feature that the small network does not have
        return None
    return float(simulation.federation.steps_done)


def _stand_in(chosen: Scenario) -> Scenario:
    """As many samples of as many classes, models of the same size on air, and next to nothing else."""
    size, task = sizes(chosen, None, None), chosen.task
    if task.dataset in ("gaussian", "magnet"):
        return chosen
    settings = {"n_train": int(size.n_train), "n_test": 10, "n_features": 2, "n_classes": size.n_outputs}
    small = {
        "dataset": "gaussian",
        "gaussian": settings,
        "partition": task.partition.model_dump(),
        "model": {"kind": "softmax"},
    }
    content = chosen.model_dump(exclude_unset=True) | {
        "task": small,
        "model_bits": chosen.model_bits or 32 * size.n_params,
    }
    return Scenario.model_validate(content)


def _measured(chosen: Scenario) -> Speed:
    """By a few steps on one core, in seconds of the processor, as other programs may run."""
    from fedloom.data import DATASETS
    from fedloom.data.sources import plain
    from fedloom.training import networks
    from fedloom.training.rule import LocalRule

    size, task, training = sizes(chosen, None, None), chosen.task, chosen.training
    classes, shape = True, tuple[int, ...]()
    if task.gaussian is not None:
        shape = (task.gaussian.n_features,)
    else:
        about = DATASETS[plain(task.dataset)]
        classes, shape = bool(about.n_classes), about.shape
    options = task.model.model_dump(exclude={"kind"}, exclude_none=True)
    model = networks.network(task.model.kind, shape, size.n_outputs, 0, **options)
    batch = int(max(1, min(training.batch_size, size.n_train, MOST_BATCH)))
    rule = LocalRule(lr=1e-9, momentum=training.momentum, clip_norm=training.clip_norm)
    rng = np.random.default_rng(0)
    x = rng.random((2 * batch, *shape), dtype=np.float32)
    y = rng.integers(size.n_outputs, size=len(x)) if classes else rng.random((len(x), size.n_outputs), np.float32)
    samples = Samples(x, y, "cross-entropy" if classes else "mse")
    return speed_of(model, samples, batch, rule, 1, clock=time.process_time)
