"""Your own ClientApp under any method of FedLoom: three devices in three cells find two numbers. How: docs/flower.md."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

server = ServerApp()
client = ClientApp()


@client.query("device")
def who(message, context):
    told = {"device": context.node_config["partition-id"], "num-examples": 50}
    return Message(RecordDict({"fedloom": MetricRecord(told)}), reply_to=message)


@client.train()
def train(message, context):
    rng = np.random.default_rng(context.node_config["partition-id"])
    x = rng.normal(size=(50, 2))
    y = x @ [2.0, -1.0]
    w = message.content["arrays"]["w"].numpy()
    for _ in range(message.content["config"]["local-steps"]):
        w = w - 0.5 * x.T @ (x @ w - y) / len(x)
    reply = {"arrays": ArrayRecord({"w": Array(w)}), "metrics": MetricRecord({"num-examples": 50})}
    return Message(RecordDict(reply), reply_to=message)


@server.main()
def main(grid, context):
    import fedloom as fl  # devices need Flower only
    from fedloom.flower import strategy

    scenario = fl.scenario(
        "cells-overlap", ["fleet.n_devices=3", "fleet.placement={kind: cells}", "training.edge_rounds=2"]
    )
    result = strategy(scenario, "hierfedavg").start(grid, ArrayRecord({"w": Array(np.zeros(2))}), num_rounds=2)
    print("found:", result.arrays["w"].numpy().round(2))
