"""FedLoom's own ClientApp: a device that trains with our engines, so that the bits are the simulator's.

It keeps nothing between messages: Flower may run every message in a process of its own. What it is to do is all in the message.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedloom.deployment.worker import Worker
from fedloom.flower import introductions
from fedloom.flower.arrays import layers_of, layout_of_model
from fedloom.methods import Method
from fedloom.methods.by_name import make_method
from fedloom.simulator.scenarios import Scenario
from fedloom.simulator.setting import Setting, make_setting
from fedloom.training.choose import make_engine


def client_app(
    scenario: Scenario, method: str | Method, seed: int = 0, *, engine: str = "auto", **task: Any
) -> ClientApp:
    """For the devices of `strategy` with the same scenario, method, seed and task. A device's number is `partition-id` in the
    SuperNode's --node-config. engine: auto, native or torch."""
    made = make_method(method) if isinstance(method, str) else method
    app = ClientApp()

    @functools.cache
    def setting() -> Setting:
        return make_setting(scenario, made, seed, **task)

    @contextlib.contextmanager
    def worker(context: Context) -> Iterator[Worker]:
        found, _ = make_engine(setting().task, setting().rule, seed, 1, engine)
        try:
            yield Worker(_device(context, scenario.fleet.n_devices), setting(), found)
        finally:
            found.close()

    @app.query("device")
    def introduce(message: Message, context: Context) -> Message:
        k = _device(context, scenario.fleet.n_devices)
        told: dict[str, Any] = {"device": k, "num-examples": len(setting().parts[k])}
        told |= {"labels": setting().label_counts[k].tolist(), "run": introductions.identity(scenario, made, seed)}
        return Message(RecordDict({introductions.RECORD: MetricRecord(told)}), reply_to=message)

    @app.query("feature")
    def feature(message: Message, context: Context) -> Message:
        config, arrays = message.content.config_records["config"], message.content.array_records.get("arrays")
        start = None if arrays is None else layout_of_model(setting().model).row(arrays)
        with worker(context) as one:
            value = one.feature(str(config["kind"]), layers_of(config.get("layers")), start, None)
        record = ArrayRecord({"feature": Array(np.asarray(value))})
        return Message(RecordDict({"arrays": record}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config, layout = message.content.config_records["config"], layout_of_model(setting().model)
        start = layout.row(message.content.array_records["arrays"])
        with worker(context) as one:
            row, _ = one.train(
                start,
                n_steps=_whole(config, "local-steps"),
                first_step=_whole(config, "first-step"),
                lr_step=_whole(config, "lr-step"),
            )
            n_samples = len(setting().parts[one.client])
        metrics = MetricRecord({"num-examples": n_samples})
        return Message(RecordDict({"arrays": layout.arrays(row), "metrics": metrics}), reply_to=message)

    return app


def _device(context: Context, n_devices: int) -> int:
    found = context.node_config.get("partition-id")
    if not isinstance(found, int) or not 0 <= found < n_devices:
        raise ValueError(
            f"the SuperNode must have a device's number, 0 to {n_devices - 1}, in --node-config 'partition-id=K', got {found!r}"
        )
    return found


def _whole(config: ConfigRecord, key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int):
        raise ValueError(
            f"'{key}' of the message must be a whole number, got {value!r}; is the strategy fedloom.flower's?"
        )
    return value
