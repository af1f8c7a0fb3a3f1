"""The client of Flower's simulation: a module of its own, so that the actors load it once and keep data and model."""

import functools
import os

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from given import Given

FOLDER = "PEERS_FOLDER"
app = ClientApp()


@functools.cache
def _once() -> tuple[Given, torch.Tensor, torch.Tensor, torch.nn.Module]:
    torch.set_num_threads(1)
    given = Given.read(os.environ[FOLDER])
    x, y = given.samples()
    return given, torch.from_numpy(x), torch.from_numpy(y), given.module()


@app.train()
def train(message: Message, context: Context) -> Message:
    given, x, y, model = _once()
    k = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=given.lr)
    for index in torch.randperm(len(y[k])).split(given.batch_size):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[k, index]), y[k, index]).backward()
        optimizer.step()
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y[k])})}
    return Message(content=RecordDict(content), reply_to=message)
