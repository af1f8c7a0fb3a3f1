"""Which engine trains: the native one where it supports the model and was measured to be faster, else torch."""

from fedloom import _check
from fedloom.training import rows
from fedloom.training.engine import Engine, Task, Unsupported
from fedloom.training.layers import Conv2d, Network
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule

ENGINES = ("auto", "native", "torch")
# Beyond this many values a model, its gradients and a batch leave the second-level cache. Then torch's convolutions are as good
# or better, and so are its matrix products for large batches (benchmarks/engine.py).
MOST_VALUES = 1_000_000
LARGE_BATCH = 64


def make_engine(
    task: Task, rule: LocalRule, seed: int, n_workers: int | None = None, engine: str = "auto"
) -> tuple[Engine, str]:
    """The engine and, in words, which one it is and why. `engine`: auto, native (or an error), torch."""
    _check.one_of("engine", engine, ENGINES)
    why = "as asked for"
    if engine != "torch":
        try:
            if engine == "auto":
                _refuse_large(task)
            native = NativeEngine(task, rule, seed, n_workers)
            return native, f"native ({native.build}), {native.n_workers} threads"
        except Unsupported as error:
            if engine == "native":
                raise ValueError(f"the native engine cannot train this model: {error}") from None
            why = f"not native: {error}"
    from fedloom.training.torch_engine import TorchEngine  # torch takes longer to import than many a run

    torch = TorchEngine(task, rule, seed, n_workers)
    return torch, f"torch, {torch.n_workers} processes ({why})"


def _refuse_large(task: Task) -> None:
    """Raise Unsupported if torch was measured to be faster for a model of this size."""
    n_values = rows.n_values(task.model)
    if n_values <= MOST_VALUES:
        return
    convolves = _convolves(task)
    if convolves or task.batch_size > LARGE_BATCH:
        what = "convolutional models" if convolves else f"batches of {task.batch_size} in models"
        raise Unsupported(f"torch is faster for {what} as large as this one ({n_values:,} values)")


def _convolves(task: Task) -> bool:
    if isinstance(task.model, Network):
        return any(isinstance(layer, Conv2d) for _, layer in task.model.leaves())
    from torch import nn

    return any(isinstance(layer, nn.Conv2d) for layer in task.model.modules())
