"""How a client trains, as numbers for the compiled kernels; what they cannot do is refused with a reason."""

from collections.abc import Callable

from fedloom.training.engine import Unsupported
from fedloom.training.rule import LocalRule, Optimiser

LEAST_EPS = 1e-30  # the kernels divide by it where there is no gradient, and compute in float32
OTHER_OPTIONS = (
    "dampening", "nesterov", "amsgrad", "maximize", "foreach", "fused", "capturable", "differentiable"
)  # fmt: skip


def numbers_of(rule: LocalRule) -> list[float]:
    """Weight decay, proximal term, momentum and clipping norm (0: none); with Adam also its betas, eps, and 1 if the decay works
    on the values and not on the gradient (AdamW)."""
    if rule.client is not None:
        raise Unsupported(f"it has no client rules with state ({type(rule.client).__name__})")
    decay, momentum, adam = rule.weight_decay, rule.momentum, list[float]()
    if rule.optimiser is not None:
        decay, momentum, adam = _of_torch(rule.optimiser)
    return [decay, rule.proximal, momentum, rule.clip_norm or 0.0, *adam]


def called(function: Callable[..., object]) -> str:
    """The name of a function of one's own."""
    return getattr(function, "__name__", type(function).__name__)


def _of_torch(optimiser: Optimiser) -> tuple[float, float, list[float]]:
    """Of one of torch's: weight decay, momentum, and of Adam betas, eps, decoupled or not."""
    make = optimiser.make
    if make not in ("SGD", "Adam", "AdamW"):
        named = f"of your own ({called(make)})" if callable(make) else make
        raise Unsupported(f"it has no optimiser {named}, only SGD, Adam and AdamW")
    import torch

    chosen = optimiser.of([torch.zeros(1)]).defaults
    for option in OTHER_OPTIONS:
        if chosen.get(option):
            raise Unsupported(f"it has no option {option} of {make}")
    decay = float(chosen["weight_decay"])
    if make == "SGD":
        return decay, float(chosen["momentum"]), []
    eps = float(chosen["eps"])
    if eps < LEAST_EPS:
        raise Unsupported(f"it has no {make} with eps below {LEAST_EPS:g}")
    decoupled = make == "AdamW" or bool(chosen.get("decoupled_weight_decay"))
    return decay, 0.0, [*(float(beta) for beta in chosen["betas"]), eps, float(decoupled)]
