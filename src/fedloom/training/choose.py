"""Which engine trains: the native one where it supports the model and was measured to be faster, else torch."""

from fedloom import _check
from fedloom.training import rows
from fedloom.training.engine import Engine, Task
from fedloom.training.native import NativeEngine, Unsupported
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine

ENGINES = ("auto", "native", "torch")
# Beyond this many values a model, its gradients and a batch leave the second-level cache, and torch's matrix products are as
# good or better (benchmarks/engine.py).
MOST_VALUES = 1_000_000


def make_engine(
    task: Task, rule: LocalRule, seed: int, n_workers: int | None = None, engine: str = "auto"
) -> tuple[Engine, str]:
    """The engine and, in words, which one it is and why. `engine`: auto, native (or an error), torch."""
    _check.one_of("engine", engine, ENGINES)
    why = "as asked for"
    if engine != "torch":
        try:
            n_params = rows.n_values(task.model)
            if engine == "auto" and n_params > MOST_VALUES:
                raise Unsupported(f"torch is faster for models as large as this one ({n_params:,} values)")
            native = NativeEngine(task, rule, seed, n_workers)
            return native, f"native ({native.build}), {native.n_workers} threads"
        except Unsupported as error:
            if engine == "native":
                raise ValueError(f"the native engine cannot train this model: {error}") from None
            why = f"not native: {error}"
    torch = TorchEngine(task, rule, seed, n_workers)
    return torch, f"torch, {torch.n_workers} processes ({why})"
