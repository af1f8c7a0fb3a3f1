"""Many clients at once on one device: their models are the rows of one matrix, and a step of all is a few large operations.

What one client computes is a function of its row, so that torch.func does it for all rows (`grad`, `vmap`): matrix products
become batches of products, convolutions get a group for every client. Batches, dropout masks and rules are those of the loop over
clients (`torch_trainer`), and results are the same up to rounding. In a step the clients whose batches have as many samples are
taken together; who has fewer steps than others is done before.

What torch.func cannot do (in-place changes of what is shared, fused kernels without a rule, random numbers), a loss that looks at
values, or an optimiser that looks at more than single values is refused with a reason (`Unsupported`), and the loop trains.
"""

import copy
import dataclasses
import itertools
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedloom.training import rows as model_rows
from fedloom.training.batches import batches
from fedloom.training.dropout import dropout_key, layer_key, use_counters
from fedloom.training.engine import Unsupported
from fedloom.training.in_place import relu_in_place
from fedloom.training.models import as_module
from fedloom.training.rule import Constant, LocalRule
from fedloom.training.torch_trainer import Inputs, Trainer, outputs, picked

AT_ONCE = 64  # clients, unless it is said how many
VALUES_AT_ONCE = 1 << 26  # of all their models: 256 MB, and gradients, momentum and states of optimisers are as large
APART = 0.05  # of a gradient's norm: more is not rounding, even where a ReLU or a pooling is tied
KNOWN = {"lr", "schedule", "momentum", "weight_decay", "proximal", "clip_norm", "optimiser"}
VALUE_BY_VALUE = (
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"
)  # fmt: skip
"""Optimisers of torch that treat every value by itself, so that they may be handed the models of all clients as one tensor."""

REASONS = {
    ".item()": "the model or the loss looks at values, by .item() or a condition",
    "random": "the model draws random numbers by itself",
    "captured Tensor": "the model writes into a tensor that all clients would share",
}
"""What torch.func complains of, by a word of its message."""

Job = Sequence[int]  # client, number of steps, first step, step of the learning rate


def usual_number(n_params: int) -> int:
    """Clients at once for models of so many values."""
    return max(1, min(AT_ONCE, VALUES_AT_ONCE // n_params))


class Together:
    """Trains many clients of a trainer's task at once, on its device and from its tensors; Unsupported if that cannot be.

    Of a row (P,) the values `moved` (Q of them) are trained; the others (R) are buffers, which a step may change, and frozen
    weights.
    """

    def __init__(self, trainer: Trainer) -> None:
        refuse_rule(trainer.rule)
        self._trainer, self._device = trainer, trainer.device
        self._model = copy.deepcopy(as_module(trainer.task.model)).to(trainer.device)
        relu_in_place(self._model)
        self._dropouts = use_counters(self._model)
        for layer in self._model.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.num_batches_tracked = None  # a counter that nobody reads, and that clients would share
        self._model.train()
        parts = model_rows.layout(self._model)
        trained = model_rows.trainable_mask(self._model)
        self._moved, self._still = (torch.from_numpy(np.flatnonzero(w)).to(self._device) for w in (trained, ~trained))
        self._moved_parts = [(part.name, part.shape) for part in parts if part.trained]
        self._still_parts = [(part.name, part.shape) for part in parts if not part.trained]
        self._gradients = vmap(grad(self._loss, has_aux=True))
        self._try_out()

    def train(self, starts: torch.Tensor, jobs: Sequence[Job]) -> torch.Tensor:
        """Start rows (N, P) on the device -> trained rows (N, P). With an optimiser of torch all jobs must have the same learning
        rates (`cuts`)."""
        rule = self._trainer.rule
        moving, still = starts[:, self._moved], starts[:, self._still]  # copies
        done_moving, done_still = moving.clone(), still.clone()
        update = _Update(rule, moving)
        n_steps = np.array([job[1] for job in jobs])
        rates = np.zeros((len(jobs), int(n_steps.max(initial=0))))
        for i, (_, n, _, lr_step) in enumerate(jobs):
            rates[i, :n] = rule.rates(lr_step, n)
        plans = [self._plan(job) for job in jobs]
        for j in range(rates.shape[1]):
            step = torch.zeros_like(moving)
            active = np.flatnonzero(n_steps > j)
            samples = {int(i): next(plans[i]) for i in active}
            for which in _of_one_size(samples):
                clients = [(jobs[i][0], jobs[i][2] + j) for i in which]
                at = torch.tensor(which, device=self._device)
                found = self._step(moving[at], still[at], clients, np.stack([samples[i] for i in which]))
                step[at], still[at] = found
            update(step, rates[:, j])
            over = torch.from_numpy(np.flatnonzero(n_steps == j + 1)).to(self._device)
            done_moving[over], done_still[over] = moving[over], still[over]
        out = torch.empty_like(starts)
        out[:, self._moved], out[:, self._still] = done_moving, done_still
        return out

    def _plan(self, job: Job) -> Iterator[NDArray[np.int64]]:
        """The samples of a job's batches."""
        task, (client, n_steps, first_step, _) = self._trainer.task, job
        part = task.parts[client]
        plan = batches(
            self._trainer.seed, client, len(part), task.batch_size, first_step, n_steps, drop_last=task.drop_last
        )
        return (part[positions] for positions in plan)

    def _step(
        self, moving: torch.Tensor, still: torch.Tensor, clients: list[tuple[int, int]], samples: NDArray[np.int64]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients (G, Q) of G clients (client, step) with batches `samples` (G, B), and the other values (G, R) after it."""
        seed = self._trainer.seed
        keys = [
            [layer_key(dropout_key(seed, client, step), layer.layer) for layer in self._dropouts]
            for client, step in clients
        ]
        index = torch.from_numpy(samples.reshape(-1)).to(self._device)
        x, y = picked(self._trainer.x["train"], index), self._trainer.y["train"].index_select(0, index)
        n = len(clients)
        grouped = _grouped(x, n) if isinstance(x, torch.Tensor) else {name: _grouped(x[name], n) for name in x}
        drawn = torch.tensor(keys, dtype=torch.int32, device=self._device).view(n, len(self._dropouts))
        with sdpa_kernel(SDPBackend.MATH):  # of attention the only kernel that may be taken for many clients
            found: tuple[torch.Tensor, torch.Tensor] = self._gradients(moving, still, drawn, grouped, _grouped(y, n))
        return found

    def _loss(
        self, moving: torch.Tensor, still: torch.Tensor, keys: torch.Tensor, x: Inputs, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of one client: the loss () of a batch, and the values (R,) that are not trained after it."""
        for i, layer in enumerate(self._dropouts):
            layer.key = keys[i]
        fixed = {name: part.clone() for name, part in _named(still, self._still_parts).items()}  # buffers are written
        values = _named(moving, self._moved_parts) | fixed
        arguments: tuple[torch.Tensor, ...] = (x,) if isinstance(x, torch.Tensor) else ()
        by_name = {} if isinstance(x, torch.Tensor) else x
        loss = self._trainer.loss_of(functional_call(self._model, values, arguments, by_name), y)
        after = torch.cat([part.reshape(-1) for part in fixed.values()]) if fixed else still
        return loss.reshape(()), after

    def _try_out(self) -> None:
        """Unsupported if torch.func cannot do a step of two clients, does it one after the other, or does it otherwise."""
        trainer = self._trainer
        jobs = [(k % trainer.task.n_clients, k) for k in range(2)]  # client, step
        firsts = [next(self._plan((client, 1, step, 0))) for client, step in jobs]
        n = min(len(first) for first in firsts)
        samples = np.stack([first[:n] for first in firsts])
        start = trainer.row.detach().clone()
        moving, still = start[self._moved].expand(2, -1), start[self._still].expand(2, -1)
        try:
            with warnings.catch_warnings(record=True) as complaints:
                warnings.simplefilter("always")
                found, _ = self._step(moving, still, jobs, samples)
        except Exception as error:
            raise Unsupported(_in_words(error)) from None
        slow = [str(one.message) for one in complaints if "batching rule" in str(one.message)]
        if slow:
            raise Unsupported(f"torch.func has no rule for {slow[0].split('batching rule for ')[1].split('.')[0]}")
        for (client, step), which, gradient in zip(jobs, samples, found):
            alone = self._alone(client, step, which)
            if not bool(torch.linalg.vector_norm(gradient - alone) <= APART * torch.linalg.vector_norm(alone)):
                raise Unsupported("its gradients are others than those of a client by itself")

    def _alone(self, client: int, step: int, samples: NDArray[np.int64]) -> torch.Tensor:
        """Gradient (Q,) of the trainer's model for one batch."""
        trainer = self._trainer
        for layer in trainer.dropouts:
            layer.key = dropout_key(trainer.seed, client, step)
        index = torch.from_numpy(samples).to(self._device)
        trainer.model.train()
        output = outputs(trainer.model, picked(trainer.x["train"], index))
        loss = trainer.loss_of(output, trainer.y["train"].index_select(0, index))
        parts = torch.autograd.grad(loss, trainer.params, allow_unused=True, materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in parts])


class _Update:
    """One step of all clients by the rule (fedloom.training.rule), in place of their values (N, Q)."""

    def __init__(self, rule: LocalRule, values: torch.Tensor) -> None:
        self._rule, self._values = rule, values
        self._anchor = values.clone() if rule.proximal else None
        self._velocity: torch.Tensor | None = None
        self._optimiser = None if rule.optimiser is None else rule.optimiser.of([values])

    def __call__(self, step: torch.Tensor, lr: NDArray[np.float64]) -> None:
        """step: gradients (N, Q); lr (N,), 0 of those that are over."""
        rule, values = self._rule, self._values
        if self._anchor is not None:
            step = step.add(values - self._anchor, alpha=rule.proximal)
        if rule.clip_norm is not None:
            norm = torch.linalg.vector_norm(step, dim=1, keepdim=True)
            step = step * (rule.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        if rule.weight_decay:
            step = step.add(values, alpha=rule.weight_decay)
        if rule.momentum:
            step = step if self._velocity is None else rule.momentum * self._velocity + step
            self._velocity = step
        if self._optimiser is None:
            values.sub_(torch.from_numpy(lr.astype(np.float32)).to(values.device)[:, None] * step)
            return
        values.grad = step
        for group in self._optimiser.param_groups:
            group["lr"] = float(lr.max())  # of those that are not over it is the same
        self._optimiser.step()


def refuse_rule(rule: LocalRule) -> None:
    """Raise Unsupported if the rule asks for what is not done for many clients at once."""
    for field in dataclasses.fields(rule):
        if field.name not in KNOWN and getattr(rule, field.name) != field.default:
            raise Unsupported(f"{field.name} is for one client after the other")
    if rule.optimiser is not None and rule.optimiser.make not in VALUE_BY_VALUE:
        named = "of your own" if callable(rule.optimiser.make) else rule.optimiser.make
        raise Unsupported(f"the optimiser {named} may look at more than single values")


def cuts(rule: LocalRule, lr_steps: Sequence[int], most: int) -> list[int]:
    """Where to cut a list of jobs, whose learning rates begin at these steps, so that at most so many are trained at once and,
    with an optimiser of torch, which knows but one learning rate, only those that have the same.

    >>> cuts(LocalRule(), [0, 0, 5, 5, 5], most=2)
    [0, 2, 4, 5]
    """
    apart = rule.optimiser is not None and rule.schedule != Constant()
    found = [0]
    for i in range(1, len(lr_steps)):
        if i - found[-1] == most or (apart and lr_steps[i] != lr_steps[i - 1]):
            found.append(i)
    return [*found, len(lr_steps)]


def _named(values: torch.Tensor, parts: list[tuple[str, tuple[int, ...]]]) -> dict[str, torch.Tensor]:
    """The tensors that stand one after the other in a vector."""
    pieces = values.split_with_sizes([int(np.prod(shape)) for _, shape in parts])
    return {name: piece.view(shape) for (name, shape), piece in zip(parts, pieces)}


def _grouped(x: torch.Tensor, n: int) -> torch.Tensor:
    """(n B, ...) -> (n, B, ...)."""
    return x.view(n, len(x) // n, *x.shape[1:])


def _of_one_size(samples: dict[int, NDArray[np.int64]]) -> list[list[int]]:
    """Jobs whose batches have as many samples."""
    by_size = sorted(samples, key=lambda i: len(samples[i]))
    return [list(group) for _, group in itertools.groupby(by_size, key=lambda i: len(samples[i]))]


def _in_words(error: Exception) -> str:
    """Why torch.func refuses a model or a loss."""
    text = " ".join(str(error).split()) or type(error).__name__
    for sign, words in REASONS.items():
        if sign in text:
            return words
    return f"torch.func refuses it: {text.split('. ')[0].rstrip('.')[:160]}"
