"""How long runs will take that were never made: from what they compute, and how fast this machine does it.

Samples are counted as the settings say, by `fedloom.simulator.estimate`; where the method decides how much is done (time boxes,
extra updates), a cloud round on the clock of a dry run says how much. The speed is measured once for every network, a few
tenths of a second each. Left out are searches for clusters (but for `Setup.beside_s`), bookkeeping and what is written.
"""

import itertools
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

from fedloom.gate import Refused
from fedloom.grouping import Need
from fedloom.methods import Method
from fedloom.reproduce.paper import Setup
from fedloom.simulator.estimate import Work, estimate
from fedloom.simulator.run_sizes import sizes
from fedloom.simulator.scenarios import Scenario
from fedloom.simulator.speed import Speed, speed_of

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
        work = self._work(chosen, method, setup.method)
        return START_S + setup.beside_s + self._speed(chosen).seconds(work)

    def _work(self, chosen: Scenario, method: Method, text: str) -> Work:
        training, size = chosen.training, sizes(chosen, None, None)
        steps = None
        if training.total_steps is not None:
            steps = float(training.total_steps * chosen.fleet.n_devices)
        elif _decides(method):
            steps = self._clocked(chosen, method, text)
        work = estimate(chosen, method, steps=steps).work
        passes = 0.0  # over everybody's data, beside training
        if method.needs & {Need.UPDATES, Need.GRADIENTS}:
            passes += 1 if method.group.when == "once" else training.cloud_rounds
        if chosen.evaluation.theory:
            passes += training.cloud_rounds
        return replace(work, samples=work.samples + passes * size.n_train)

    def _clocked(self, chosen: Scenario, method: Method, text: str) -> float | None:
        """Local steps of all clients, by the first cloud round on the clock; None without the data. Runs that differ in who
        holds which samples only are taken for alike."""
        content = chosen.model_dump(mode="json", include={"fleet", "model_bits"})
        key = json.dumps([content, text, chosen.task.dataset, chosen.training.model_dump(mode="json")], sort_keys=True)
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
    from fedloom.simulator import Simulation

    try:
        simulation = Simulation(chosen, method, 0, dry_run=True)
    except (Refused, OSError):
        return None
    for _ in itertools.islice(simulation.rounds(), 2):  # the first model, the first cloud round
        pass
    return float(simulation.federation.steps_done)


def _measured(chosen: Scenario) -> Speed:
    """By a few steps on one core, in seconds of the processor, as other programs may run."""
    from fedloom.data import DATASETS
    from fedloom.training import networks
    from fedloom.training.rule import LocalRule

    size, task, training = sizes(chosen, None, None), chosen.task, chosen.training
    shape = (task.gaussian.n_features,) if task.gaussian is not None else DATASETS[task.dataset].shape
    outputs: Any = size.n_outputs
    if task.gaussian is None and not DATASETS[task.dataset].n_classes:
        outputs = (size.n_outputs,)
    options = task.model.model_dump(exclude={"kind"}, exclude_none=True)
    model = networks.network(task.model.kind, shape, size.n_outputs, 0, **options)
    batch = int(max(1, min(training.batch_size, size.n_train)))
    rule = LocalRule(lr=1e-9, momentum=training.momentum, clip_norm=training.clip_norm)
    return speed_of(model, shape, outputs, batch, rule, 1, clock=time.process_time)
