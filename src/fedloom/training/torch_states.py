"""Jobs of a client rule with state, as torch trains them (fedloom.training.state)."""

from collections.abc import Callable, Mapping

import torch

from fedloom.training import rows as model_rows
from fedloom.training.state import ClientRule, Layout, State
from fedloom.training.torch_trainer import Trainer


class StatefulJob:
    """What a rule is told of a job; see fedloom.training.state.Job."""

    def __init__(
        self, trainer: Trainer, layout: Layout, start: torch.Tensor, own: torch.Tensor, job: list[int]
    ) -> None:
        self._trainer, self._job = trainer, job
        self.start, self.n_steps = start[: layout.n_values], job[1]
        self.lr_sum = float(trainer.rule.rates(job[3], job[1]).sum())
        self.trained = torch.from_numpy(model_rows.trainable_mask(trainer.model).astype("float32")).to(trainer.device)
        self.state: Mapping[str, torch.Tensor] = {
            state.name: row[place]
            for row, shared in ((start, True), (own, False))
            for state, place in layout.places(shared=shared)
        }

    @property
    def model(self) -> torch.Tensor:
        return self._trainer.row

    def train(
        self, start: torch.Tensor, gradient: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    ) -> torch.Tensor:
        """Another model (P,)."""
        row = self._trainer.row
        kept = row.clone()
        row.copy_(start)
        with torch.enable_grad():
            self._trainer.steps(*self._job, change=None if gradient is None else lambda g: gradient(g, row))
        found = row.clone()
        row.copy_(kept)
        return found


def train_with_state(
    trainer: Trainer, layout: Layout, start: torch.Tensor, own: torch.Tensor, job: list[int]
) -> tuple[bool, torch.Tensor]:
    """Leave the trained model in the trainer's row. start (width,), own (kept,); job: client, steps, first step, step of the
    learning rate. Whether all is finite; shared and own states after it, (width - P + kept,)."""
    rule = trainer.rule.client
    assert rule is not None
    told = StatefulJob(trainer, layout, start, own, job)
    trainer.row.copy_(told.start)
    trainer.steps(*job, change=lambda gradient: rule.gradient(gradient, told))
    with torch.no_grad():
        found = rule.after(told)
    after = torch.cat(
        [_checked(rule, layout, state, found.get(state.name), told) for state in _in_order(layout, found)]
    )
    return bool(torch.isfinite(trainer.row.sum() + after.sum())), after


def _in_order(layout: Layout, found: Mapping[str, torch.Tensor]) -> list[State]:
    """Shared states, then a client's own."""
    unknown = set(found) - {state.name for state in layout.states}
    if unknown:
        declared = ", ".join(state.name for state in layout.states)
        raise ValueError(
            f"a client rule gave states that it has not declared, {', '.join(sorted(unknown))}; it has {declared}"
        )
    return [state for shared in (True, False) for state, _ in layout.places(shared=shared)]


def _checked(
    rule: ClientRule, layout: Layout, state: State, value: torch.Tensor | None, job: StatefulJob
) -> torch.Tensor:
    if value is None:
        return job.state[state.name]
    if value.shape != (layout.size(state),):
        raise ValueError(
            f"state {state.name} of {type(rule).__name__} has shape ({layout.size(state)},) as declared, got {tuple(value.shape)}"
        )
    return value.detach().to(torch.float32)
