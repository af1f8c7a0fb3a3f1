"""Runs of the adapter on a grid in this process."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedloom.flower import client_app, strategy
from fedloom.flower.arrays import layout_of_arrays
from fedloom.simulator import Scenario
from flower.grid import LocalGrid

TIMEOUT_S = 120.0


def grid_of(scenario, method, seed=0, **options):
    """Our own client app on every device."""
    app = client_app(Scenario.model_validate(scenario), method, seed)
    return LocalGrid([app] * scenario["fleet"]["n_devices"], **options)


def run(scenario, method, grid, *arrays, quorum=0.0, timeout=TIMEOUT_S, **options):
    made = strategy(Scenario.model_validate(scenario), method, quorum=quorum)
    return made.start(grid, *arrays, timeout=timeout, **options)


def row_of(result):
    return layout_of_arrays(result.arrays).row(result.arrays)


def own_app(step, n_samples=10, labels=None, gradient=None):
    """A ClientApp as users write one: `step` makes the arrays that are sent back of those that came."""
    app = ClientApp()

    @app.query("device")
    def who(message, context):
        told = {"device": context.node_config["partition-id"], "num-examples": n_samples}
        if labels is not None:
            told["labels"] = labels
        return Message(RecordDict({"fedloom": MetricRecord(told)}), reply_to=message)

    @app.train()
    def train(message, context):
        made = step(
            message.content["arrays"]["w"].numpy(), context.node_config["partition-id"], message.content["config"]
        )
        reply = {"a": ArrayRecord({"w": Array(made)}), "m": MetricRecord({"num-examples": n_samples, "loss": 0.5})}
        return Message(RecordDict(reply), reply_to=message)

    if gradient is not None:

        @app.query("feature")
        def feature(message, context):
            value = gradient(message.content["arrays"]["w"].numpy(), context.node_config["partition-id"])
            return Message(RecordDict({"a": ArrayRecord({"g": Array(value)})}), reply_to=message)

    return app


def first(values=(0.0, 0.0), dtype=np.float32):
    return ArrayRecord({"w": Array(np.array(values, dtype=dtype))})
