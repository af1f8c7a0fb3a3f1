"""The bare loop: two forked processes with nn.Module and torch.optim.SGD (`Bare` of benchmarks/engine.py)."""

import functools
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1]))
from given import Given, Watch

from engine import Bare, with_optimizer
from fedloom.training import rows
from fedloom.training.engine import Task


def main() -> None:
    given = Given.read(sys.argv[1])
    watch = Watch(given, ("torch",))
    torch.manual_seed(given.seed)  # of dropout
    model = given.module()
    x, y = given.samples()
    k, n = y.shape
    x, y = x.reshape(k * n, *given.shape), y.reshape(-1)
    task = Task(
        model=model, x_train=x, y_train=y, x_test=x[:1], y_test=y[:1],
        parts=tuple(np.split(np.arange(k * n), k)), batch_size=given.batch_size,
    )  # fmt: skip
    work = functools.partial(with_optimizer, lr=given.lr)
    bare = Bare(work, task, given.n_steps, np.full(k, 1 / k), seed=given.seed)
    row = rows.to_row(model)
    for i in range(given.n_rounds):
        row = bare.run(row, first_step=i * given.n_steps).astype(np.float32)
        watch.lap(functools.partial(_values, model, row))
    bare.close()


def _values(model: torch.nn.Module, row: np.ndarray) -> dict[str, np.ndarray]:
    rows.load_row(model, row)
    return {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}


if __name__ == "__main__":
    main()
