"""What a client minimises and what counts as right, by the kind of targets; and losses of one's own.

    cross-entropy   outputs (n, C), labels (n,)
    tokens          outputs (n, L, C), labels (n, L), -1 where there is none: mean over the tokens that have one
    multi-label     outputs (n, C), targets (n, C) of 0 and 1: binary cross-entropy, mean over the labels
    mse             outputs (n, m), targets (n, m)

A loss of one's own is a function of outputs and targets that gives the mean over a batch, a tensor of one value. What is counted
beside it goes by the targets: whole numbers are labels, of which outputs name the likeliest; others are values.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
NONE = -1  # in the place of a token's label: there is none


def function(loss: str | Function) -> Function:
    """Of outputs and targets of a batch, their mean loss."""
    return loss if callable(loss) else _BY_NAME[loss]


def scored(
    loss: str | Function, output: torch.Tensor, target: torch.Tensor
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | NDArray[np.float64]]:
    """Sums over n samples of (loss, mean squared error, mean absolute error), and what was right of each: (n,) bool or the share
    of its tokens or labels, empty if targets are values."""
    sums, right = np.zeros(3), np.zeros(0)
    if loss == "multi-label":
        right = ((output > 0) == (target > 0.5)).double().mean(1).numpy()
        sums[0] = functional.binary_cross_entropy_with_logits(output, target, reduction="none").mean(1).sum().item()
        return sums, right
    if target.is_floating_point():
        error = (output - target).double()
        squared, absolute = error.square().mean(1).sum().item(), error.abs().mean(1).sum().item()
        return np.array([_own(loss, output, target, squared), squared, absolute]), right
    if target.ndim == 1:
        plain = functional.cross_entropy(output, target, reduction="sum").item() if loss == "cross-entropy" else 0.0
        sums[0] = _own(loss, output, target, plain)
        return sums, (output.argmax(1) == target).numpy()
    there = target != NONE
    of_token = functional.cross_entropy(output.transpose(1, 2), target, ignore_index=NONE, reduction="none").double()
    n = there.sum(1)
    sums[0] = _own(loss, output, target, (of_token.sum(1) / n).sum().item())
    return sums, (((output.argmax(2) == target) & there).sum(1) / n.double()).numpy()


def _own(loss: str | Function, output: torch.Tensor, target: torch.Tensor, plain: float) -> float:
    """The sum of a loss over samples: of a function that gives means, or the plain one."""
    return loss(output, target).item() * len(target) if callable(loss) else plain


def _tokens(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=NONE)


_BY_NAME: dict[str, Function] = {
    "cross-entropy": functional.cross_entropy,
    "tokens": _tokens,
    "multi-label": functional.binary_cross_entropy_with_logits,
    "mse": functional.mse_loss,
}
