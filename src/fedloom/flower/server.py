"""A method of FedLoom as a strategy of Flower: used in a ServerApp as Flower's own are, with `start`."""

import logging
import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedloom import _check
from fedloom.deployment.clock import Stopped
from fedloom.deployment.conductor import Conductor
from fedloom.deployment.journal import Journal
from fedloom.deployment.store import Store
from fedloom.flower import introductions
from fedloom.flower.post import Metrics, Post
from fedloom.flower.stateless import check_stateless
from fedloom.flower.task import Done, Task, check_own, task_of_devices, task_of_scenario
from fedloom.flower.uncoded import check_uncoded
from fedloom.methods import Method
from fedloom.methods.by_name import make_method
from fedloom.simulator.scenarios import Scenario

log = logging.getLogger("flwr")
TIMEOUT_S = 3600.0  # as Flower's strategies
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


def strategy(
    scenario: Scenario, method: str | Method, seed: int = 0, *, quorum: float | None = None, **task: Any
) -> "FedLoom":
    """A strategy for `start(grid)` in a ServerApp.

    scenario: its fleet says how many devices there are, in which cells, with which links and speeds; its training settings how
    much they do. quorum: share of those sent together who must have answered before others are given up (at least one); by
    default the method's. task: own `dataset`, `model`, `parts`, as for fedloom.Simulation; the client app must be made with the
    same.
    """
    return FedLoom(scenario, make_method(method) if isinstance(method, str) else method, seed, quorum, task)


class FedLoom(Strategy):
    """Made by `strategy`. Groups, weights, pacing and merges are the method's; edges and heads live in the ServerApp."""

    def __init__(
        self, scenario: Scenario, method: Method, seed: int, quorum: float | None, task: dict[str, Any]
    ) -> None:
        given = {} if quorum is None else {"quorum": quorum, "cloud_quorum": quorum}
        self.scenario, self.method, self.seed, self._own = scenario, method, seed, task
        self.waiting = replace(method.waiting, **given)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float = TIMEOUT_S,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
        *,
        journal: Path | None = None,
    ) -> Result:
        """Run the federation to its end.

        initial_arrays: the first values of the user's own model, trained by the user's own ClientApp; by default the scenario's
        model and data, trained by fedloom.flower.client_app. num_rounds: cloud rounds; by default the scenario's. timeout:
        seconds that a device is waited for. train_config: sent with every training message. evaluate_fn: called with the
        cloud's model before the first and after every cloud round. journal: a file of what happened when, by which the run can
        be simulated again (fedloom.deployment.recorded).
        """
        _check.positive("timeout", timeout)
        if evaluate_config is not None:
            raise ValueError(
                "devices are not asked to evaluate; give evaluate_fn, which is called with the cloud's model"
            )
        scenario = self.scenario
        check_uncoded(self.method)
        check_stateless(self.method)
        if num_rounds is not None:
            training = scenario.training.model_copy(update={"cloud_rounds": num_rounds})
            scenario = scenario.model_copy(update={"training": training})
        task = None
        if initial_arrays is None:
            task = task_of_scenario(scenario, self.method, self.seed, self._own)
        else:
            check_own(self.method)
        self.summary()
        post = Post(grid, scenario.fleet.n_devices, timeout, train_config or {})
        introduced = post.introduce()
        if initial_arrays is not None:
            task = task_of_devices(scenario, self.method, self.seed, initial_arrays, introduced)
        else:
            run = introductions.identity(self.scenario, self.method, self.seed)
            introductions.check_run({one.device: one for one in introduced}, run)
        assert task is not None
        with tempfile.TemporaryDirectory(prefix="fedloom-flower-") as folder:
            return self._conduct(post, task, timeout, evaluate_fn, journal or Path(folder) / "journal")

    def summary(self) -> None:
        log.info("FedLoom: %s (%s) on %s", self.method.name, self.method.summary, self.scenario.name)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._by_itself()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        self._by_itself()

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._by_itself()

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        self._by_itself()

    def _by_itself(self) -> NoReturn:
        raise TypeError(
            f"{self.method.name} decides itself who is sent what and when, not once a round for all; call start(grid), and "
            "do not wrap this strategy in another"
        )

    def _conduct(self, post: Post, task: Task, timeout_s: float, evaluate_fn: Evaluate | None, journal: Path) -> Result:
        book = Journal(journal, RUN)
        waiting = replace(self.waiting, patience_s=timeout_s)
        conductor = Conductor(self.method, book, Store(None, RUN), task.layout.n_values, waiting=waiting)
        conductor.silence.cut_off_s = math.inf  # nodes speak only when they are done
        result = Result()
        post.start(conductor, task)
        try:
            for done in task.rounds(conductor):
                post.round_number = done[0] + 1
                _note(result, task, done, evaluate_fn, post.metrics())
        except Stopped:
            assert post.error is not None
            raise post.error from None
        finally:
            post.stop()
            book.close()
        return result


RUN = "flower"  # every run has a journal of its own


def _note(result: Result, task: Task, done: Done, evaluate_fn: Evaluate | None, told: Metrics) -> None:
    """What is known after a cloud round."""
    number, row, measures = done
    result.arrays = task.layout.arrays(row)
    known = MetricRecord({key: _plain(value) for key, value in (measures or {}).items()})
    if evaluate_fn is not None and (found := evaluate_fn(number, result.arrays)) is not None:
        known = MetricRecord({**known, **found})
    if known:
        result.evaluate_metrics_serverapp[number] = known
        log.info("FedLoom: cloud round %d%s", number, _figures(known))
    if told:
        result.train_metrics_clientapp[number] = _mean(told)


def _mean(told: Metrics) -> MetricRecord:
    """Means of what devices told, by their samples, of what all told."""
    keys = set.intersection(*(set(values) for _, values in told))
    total = sum(weight for weight, _ in told)
    means = {key: sum(weight * values[key] for weight, values in told) / total for key in sorted(keys)}
    return MetricRecord({**means, "num-examples": total})


def _plain(value: Any) -> int | float:
    return int(value) if isinstance(value, int | np.integer) else float(value)


def _figures(known: MetricRecord) -> str:
    """Those that say most, for the log."""
    shown = [f"{key} {known[key]:.4g}" for key in ("accuracy", "loss", "time_s") if key in known]
    return f": {', '.join(shown)}" if shown else ""
