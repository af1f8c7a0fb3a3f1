"""pfl: FederatedAveraging on the simulated backend, two processes of torchrun; each has its own half of the clients.

pfl walks through a client's samples in their order: they are shuffled when they are asked for. Clients are silos of their
process: the plain sampler of two processes would train some client twice and another not at all in a round of an odd number
of clients.
"""

import sys

import torch
from given import Given, Watch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel


class Network(torch.nn.Module):
    """What pfl asks of a module: a loss, and metrics, which it wants in the first round; they cost nothing here."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.inner.train()
        return torch.nn.functional.cross_entropy(self.inner(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        return {"none": Weighted(0, len(x))}


class Laps(TrainingProcessCallback):
    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if pytorch_ops.distributed.global_rank == 0:
            inner = model.pytorch_model.inner
            self.watch.lap(lambda: {name: p.detach().numpy() for name, p in inner.named_parameters()})
        return False, Metrics()


def main() -> None:
    given = Given.read(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(given.seed + 1000 * pytorch_ops.distributed.global_rank)  # of dropout and of the order of samples
    x, y = (torch.from_numpy(values) for values in given.samples())

    def client(k: int) -> Dataset:
        order = torch.randperm(len(y[k]))
        return Dataset((x[k][order], y[k][order]), user_id=str(k))

    sampler = get_user_sampler("minimize_reuse", range(given.n_clients), num_silos=pytorch_ops.distributed.world_size)
    clients = FederatedDataset(client, sampler)
    network = Network(given.module())
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=given.n_rounds,
            evaluation_frequency=10**9,
            train_cohort_size=given.n_clients,
            val_cohort_size=None,
        ),
        SimulatedBackend(clients, clients),
        model,
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=given.lr, local_batch_size=given.batch_size
        ),
        callbacks=[Laps(Watch(given, ("pfl", "torch")))],
        send_metrics_to_platform=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
