"""FLGo: its FedAvg with all clients, one process, a client at a time; evaluation off."""

import os
import sys
from typing import Any

import numpy as np
import torchvision_operators  # noqa: F401

os.environ["PEERS_FOLDER"] = sys.argv[1]

import flgo
import flgo.algorithm.fedavg as fedavg
import flgo_samples
from flgo.benchmark.toolkits.partition import BasicPartitioner
from given import Given, Watch


class InRuns(BasicPartitioner):
    def __init__(self, n_clients: int) -> None:
        self.num_clients = n_clients

    def __call__(self, data: Any) -> list[list[int]]:
        return [part.tolist() for part in np.split(np.arange(len(data)), self.num_clients)]


class Server(fedavg.Server):
    watch: Watch

    def iterate(self) -> bool:
        updated = super().iterate()
        self.watch.lap(lambda: {name: p.detach().numpy() for name, p in self.model.model.named_parameters()})
        return updated


class Algorithm:
    __name__ = "fedavg"
    Server, Client = Server, fedavg.Client


def main() -> None:
    given = Given.read(sys.argv[1])
    Server.watch = Watch(given, ("flgo", "torch"))
    task = str(given.folder / f"flgo-{given.seed}")
    flgo.gen_task_by_(flgo_samples, InRuns(given.n_clients), task)
    options = {
        "num_rounds": given.n_rounds, "sample": "full", "proportion": 1.0, "aggregate": "uniform", "num_epochs": 1,
        "batch_size": given.batch_size, "learning_rate": given.lr, "learning_rate_decay": 1.0, "train_holdout": 0.0,
        "eval_interval": -1, "no_log_console": True, "no_tqdm": True, "seed": given.seed,
        "torch_num_threads": 2,
    }  # fmt: skip
    model = flgo.convert_model(lambda: given.module(), model_name=given.model)
    flgo.init(task, Algorithm(), options, model=model).run()


if __name__ == "__main__":
    main()
