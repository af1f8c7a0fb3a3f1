"""Flower: FedAvg in its simulation, Ray with two actors of one core each."""

import logging
import os
import sys

from flower_client import FOLDER, app
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from given import Given, Watch


def main() -> None:
    given = Given.read(sys.argv[1])
    os.environ[FOLDER] = sys.argv[1]
    logging.getLogger("flwr").setLevel(logging.WARNING)
    watch = Watch(given, ("flwr", "ray", "torch"))
    server = ServerApp()

    def lap(number: int, arrays: ArrayRecord) -> None:
        if number:  # 0: before the first round
            watch.lap(arrays.to_torch_state_dict)

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=given.n_clients, min_available_nodes=given.n_clients)
        strategy.start(grid, ArrayRecord(given.module().state_dict()), given.n_rounds, evaluate_fn=lap)

    backend = {"init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, app, given.n_clients, backend_config=backend)


if __name__ == "__main__":
    main()
