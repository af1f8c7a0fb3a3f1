"""FedLoom: a method by name, with clock, ledger and timeline; three cells, a cloud round of one edge round, evaluation off."""

import sys

import numpy as np
from given import Given, Watch

from fedloom import data
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.training import rows


def main() -> None:
    given = Given.read(sys.argv[1])
    watch = Watch(given, ("fedloom", "numpy"))
    x, y = given.samples()
    k, n = y.shape
    x, y = x.reshape(k * n, *given.shape), y.reshape(-1)
    dataset = data.Dataset(
        name="given", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20], n_classes=given.n_outputs
    )  # fmt: skip
    simulation = Simulation(
        scenario(settings(given)), make_method(sys.argv[2]), given.seed,
        dataset=dataset, parts=np.split(np.arange(k * n), k), model=network(given), n_workers=2,
    )  # fmt: skip
    rounds = simulation.rounds()
    next(rounds)  # the first model is measured
    for number in range(1, given.n_rounds + 1):
        next(rounds)
        if number in (1, given.checked_round):  # models that nobody has looked at may wait to be computed
            simulation.result()
        watch.lap(lambda: values(simulation))
    rounds.close()


def network(given: Given) -> object:
    """The named network with the given first values; only large ones need torch for them."""
    from fedloom.training.networks import network as named

    made = named(given.model, given.shape, given.n_outputs, seed=1)
    start = given.start()
    first = np.concatenate([start[part.name].reshape(-1) for part in rows.layout(made)])
    if not np.array_equal(rows.to_row(made), first):
        raise RuntimeError("the first model is not the given one")
    return made


def values(simulation: Simulation) -> dict[str, np.ndarray]:
    """The global model by the names of torch."""
    row, found = simulation.result().row, {}
    for part in rows.layout(simulation.setting.model):
        found[part.name], row = row[: part.n_values].reshape(part.shape), row[part.n_values :]
    return found


def settings(given: Given) -> dict:
    return {
        "name": "peers",
        "fleet": {
            "n_devices": given.n_clients,
            "cells": {"kind": "grid", "shape": "triangle", "n": 3, "spacing_m": 1000, "radius_m": 830},
            "placement": {"kind": "cells"},
            "homes": "even",
            "device_edge": {"up": {"kind": "radio"}, "down": {"kind": "rate", "bit_s": 1e7}},
            "compute": {"law": {"kind": "uniform", "low": 0.01, "high": 0.03}},
        },
        "task": {"model": {"kind": given.model}},
        "training": {
            "batch_size": given.batch_size,
            "local_steps": given.n_steps,
            "edge_rounds": 1,
            "cloud_rounds": given.n_rounds,
            "lr": given.lr,
        },
        "evaluation": {"every": 10**6, "models": "global", "local_samples": 0},
    }


if __name__ == "__main__":
    main()
