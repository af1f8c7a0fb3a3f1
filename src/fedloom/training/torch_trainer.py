"""One torch model bound to one vector, and the loops over mini-batches that train and score it.

The tensors of the model are views of the vector, so that loading a start row and returning a result are single copies.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedloom.training import losses
from fedloom.training import rows as model_rows
from fedloom.training.batches import batches
from fedloom.training.convolution import convolve_quickly
from fedloom.training.devices import seed_generator
from fedloom.training.dropout import dropout_key, use_counters
from fedloom.training.engine import Task
from fedloom.training.in_place import relu_in_place
from fedloom.training.models import as_module
from fedloom.training.pooling import pool_by_channels
from fedloom.training.rule import LocalRule

Inputs = torch.Tensor | dict[str, torch.Tensor]

EVAL_BATCH = 500  # samples per forward pass in evaluation: fixed, because it decides the order of the sums


class Trainer:
    """One model bound to one vector, and the loops over mini-batches."""

    def __init__(self, task: Task, rule: LocalRule, seed: int, device: str = "cpu") -> None:
        self.task, self.rule, self.seed, self.device = task, rule, seed, device
        self.model = copy.deepcopy(as_module(task.model)).to(device)  # engines may share a task
        relu_in_place(self.model)
        if device == "cpu":
            pool_by_channels(self.model)
            convolve_quickly(self.model)
        self.dropouts = use_counters(self.model)
        self.row = model_rows.bind(self.model)
        self._tensors = [tensor for _, tensor in model_rows.tensors(self.model)]
        self.params: list[torch.Tensor] = [p for p in self.model.parameters() if p.requires_grad]
        self.x = {"train": as_tensors(task.x_train, device), "test": as_tensors(task.x_test, device)}
        self.loss_of = losses.function(task.loss)
        self.y = {"train": torch.from_numpy(task.y_train).to(device), "test": torch.from_numpy(task.y_test)}
        self.parts = task.parts

    def place(self, row: torch.Tensor) -> None:
        """From now on the model's tensors are views of this vector (P,), with the values that it has.

        It must begin at a multiple of 64 bytes: matrix products of other alignments may round otherwise.
        """
        self.row = row
        for tensor, part in zip(self._tensors, row.split_with_sizes([t.numel() for t in self._tensors])):
            tensor.data = part.view(tensor.shape)

    def train(self, start: torch.Tensor, client: int, n_steps: int, first_step: int, lr_step: int) -> bool:
        """Leave the trained model in `self.row`; say whether it is finite."""
        self.row.copy_(start)
        self.steps(client, n_steps, first_step, lr_step)
        return math.isfinite(self.row.sum().item())

    def steps(
        self,
        client: int,
        n_steps: int,
        first_step: int,
        lr_step: int,
        *,
        change: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        """Train what is in `self.row`. change: what a client rule makes of each gradient (P,)."""
        task, rule, params = self.task, self.rule, self.params
        model, x, y, part = self.model, self.x["train"], self.y["train"], self.parts[client]
        key = ((self.seed * 1_000_003 + client) * 1_000_003 + first_step) % 2**63
        seed_generator(self.device, key)  # for modules that draw
        model.train()
        anchor = [p.detach().clone() for p in params] if rule.proximal else []
        velocity: list[torch.Tensor] = []
        optimiser = None if rule.optimiser is None else rule.optimiser.of(params)
        plan = batches(self.seed, client, len(part), task.batch_size, first_step, n_steps, task.drop_last)
        for j, (lr, positions) in enumerate(zip(rule.rates(lr_step, n_steps).tolist(), plan)):
            for layer in self.dropouts:
                layer.key = dropout_key(self.seed, client, first_step + j)
            index = torch.from_numpy(part[positions]).to(self.device)
            loss = self.loss_of(outputs(model, picked(x, index)), y.index_select(0, index))
            # gradients are not to be written: parameters may share one
            step: Sequence[torch.Tensor] = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
            with torch.no_grad():
                if rule.proximal:
                    step = torch._foreach_add(list(step), torch._foreach_sub(params, anchor), alpha=rule.proximal)
                if change is not None:
                    step = self._apart(change(self._flat(step)))
                if rule.clip_norm is not None:
                    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(step))))
                    step = torch._foreach_mul(list(step), (rule.clip_norm / (norm + 1e-6)).clamp(max=1.0))
                if rule.weight_decay:
                    step = torch._foreach_add(list(step), params, alpha=rule.weight_decay)
                if rule.momentum:
                    if velocity:
                        torch._foreach_mul_(velocity, rule.momentum)
                        torch._foreach_add_(velocity, list(step))
                    else:
                        velocity = [g.clone() for g in step]
                    step = velocity
                if optimiser is None:
                    torch._foreach_add_(params, list(step), alpha=-lr)
                else:
                    _step(optimiser, params, step, lr)
            del loss, step  # or the next step would need memory of its own

    def gradient(self, row: torch.Tensor, client: int) -> NDArray[np.float32]:
        """Gradient (P,) of the client's mean loss over all its samples, in evaluation mode; zero at buffers."""
        self.row.copy_(row)
        self.model.eval()
        part = self.parts[client]
        x, y = self.x["train"], self.y["train"]
        total = [torch.zeros_like(p) for p in self.params]
        for low in range(0, len(part), EVAL_BATCH):
            index = torch.from_numpy(part[low : low + EVAL_BATCH]).to(self.device)
            loss = self.loss_of(outputs(self.model, picked(x, index)), y[index]) * (len(index) / len(part))
            grads = torch.autograd.grad(loss, self.params, allow_unused=True, materialize_grads=True)
            torch._foreach_add_(total, list(grads))
        return self._flat(total).detach().cpu().numpy()

    def _flat(self, of_params: Sequence[torch.Tensor]) -> torch.Tensor:
        """(P,) of tensors for each parameter; zero at buffers."""
        by_name = {id(p): g for p, g in zip(self.params, of_params)}
        found = (by_name[id(t)] if id(t) in by_name else torch.zeros_like(t) for t in self._tensors)
        return torch.cat([g.reshape(-1) for g in found])

    def _apart(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Tensors for each parameter of (P,)."""
        parts = flat.split_with_sizes([t.numel() for t in self._tensors])
        by_name = {id(t): part.view(t.shape) for t, part in zip(self._tensors, parts)}
        return [by_name[id(p)] for p in self.params]

    def outputs(self, row: torch.Tensor, split: str) -> NDArray[np.float32]:
        """Outputs (n, outputs) on the whole split."""
        self.row.copy_(row)
        self.model.eval()
        with torch.inference_mode():
            x, n = self.x[split], len(self.y[split])
            found = [outputs(self.model, _between(x, a, a + EVAL_BATCH)) for a in range(0, n, EVAL_BATCH)]
            return torch.cat(found).cpu().numpy()

    def evaluate(self, row: torch.Tensor, split: str, low: int, high: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Sums over samples low..high-1 of (loss, mean squared error, mean absolute error), and what was right."""
        self.row.copy_(row)
        self.model.eval()
        sums, right = np.zeros(3), []
        with torch.inference_mode():
            for a in range(low, high, EVAL_BATCH):
                b = min(a + EVAL_BATCH, high)
                output = outputs(self.model, _between(self.x[split], a, b)).cpu()
                more, which = losses.scored(self.task.loss, output, self.y[split][a:b].cpu())
                sums += more
                right.append(which)
        return sums, np.concatenate(right)


def as_tensors(x: NDArray[Any], device: str = "cpu") -> Inputs:
    """Inputs (n, ...) as a tensor, or several by name."""
    if x.dtype.names is None:
        return torch.from_numpy(x).to(device)
    return {name: torch.from_numpy(np.ascontiguousarray(x[name])).to(device) for name in x.dtype.names}


def picked(x: Inputs, index: torch.Tensor) -> Inputs:
    """Those of some samples."""
    if isinstance(x, torch.Tensor):
        return x.index_select(0, index)
    return {name: part.index_select(0, index) for name, part in x.items()}


def _between(x: Inputs, low: int, high: int) -> Inputs:
    return x[low:high] if isinstance(x, torch.Tensor) else {name: part[low:high] for name, part in x.items()}


def outputs(model: nn.Module, x: Inputs) -> torch.Tensor:
    """What the model makes of inputs: its argument, or several by name."""
    out: torch.Tensor = model(x) if isinstance(x, torch.Tensor) else model(**x)
    return out


def _step(
    optimiser: torch.optim.Optimizer, params: Sequence[torch.Tensor], step: Sequence[torch.Tensor], lr: float
) -> None:
    """One step of an optimiser of torch along gradients."""
    for parameter, gradient in zip(params, step):
        parameter.grad = gradient
    for group in optimiser.param_groups:
        group["lr"] = lr
    optimiser.step()
    optimiser.zero_grad()
