"""FedLab: its standalone pipeline with the serial trainer of FedAvg, one process."""

import logging
import sys

import torch
import torchvision_operators  # noqa: F401
from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline
from given import Given, Watch
from torch.utils.data import DataLoader, TensorDataset


class Clients(FedDataset):
    def __init__(self, given: Given) -> None:
        x, y = (torch.from_numpy(values) for values in given.samples())
        self.parts = [TensorDataset(x[k], y[k]) for k in range(given.n_clients)]

    def get_dataloader(self, id, batch_size=None, type="train"):  # noqa: A002
        return DataLoader(self.parts[id], batch_size=batch_size, shuffle=True)


class Pipeline(StandalonePipeline):
    def __init__(self, handler, trainer, watch: Watch) -> None:
        super().__init__(handler, trainer)
        self.watch = watch

    def evaluate(self) -> None:
        """Called after every round."""
        model = self.handler.model
        self.watch.lap(lambda: {name: p.detach().numpy() for name, p in model.named_parameters()})


def main() -> None:
    given = Given.read(sys.argv[1])
    logging.disable(logging.INFO)
    torch.set_num_threads(2)
    torch.manual_seed(given.seed)
    handler = FedAvgServerHandler(given.module(), given.n_rounds, 1.0)
    trainer = FedAvgSerialClientTrainer(given.module(), given.n_clients)
    trainer.setup_dataset(Clients(given))
    trainer.setup_optim(1, given.batch_size, given.lr)
    Pipeline(handler, trainer, Watch(given, ("fedlab", "torch"))).main()


if __name__ == "__main__":
    main()
