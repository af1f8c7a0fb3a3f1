"""Which engine trains: the native one where it supports the model and was measured to be faster, else torch; and why.

An engine's name says what it is, how it goes about it and, in brackets, why not another one:

    native (avx512), 2 threads
    torch, 2 processes (not native: it has no optimiser RAdam, only SGD, Adam and AdamW)
    torch-cuda, 64 clients at once (not native: it has no device cuda)
"""

from fedloom import _check
from fedloom.training import rows
from fedloom.training.devices import DEVICES
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
    task: Task,
    rule: LocalRule,
    seed: int,
    n_workers: int | None = None,
    engine: str = "auto",
    *,
    device: str = "cpu",
    together: int | None = None,
) -> tuple[Engine, str]:
    """The engine and, in words, which one it is and why. `engine`: auto, native (or an error), torch. device (auto, cpu, cuda,
    mps) and together, clients at once: of the torch engine."""
    check_choice(engine, device, together)
    why = "as asked for"
    if engine != "torch":
        try:
            _refuse_settings(device, together)
            if engine == "auto":
                _refuse_large(task)
            native = NativeEngine(task, rule, seed, n_workers)
            return native, f"native ({native.build}), {native.n_workers} threads{native.why_build}"
        except Unsupported as error:
            if engine == "native":
                raise ValueError(f"the native engine cannot train this model: {error}") from None
            why = f"not native: {error}"
    from fedloom.training.torch_engine import TorchEngine  # torch takes longer to import than many a run

    torch = TorchEngine(task, rule, seed, n_workers, device=device, together=together)
    return torch, f"{torch.name} ({'; '.join(filter(None, (why, torch.why_not)))})"


def check_choice(engine: str, device: str, together: int | None) -> None:
    """Refuse words and numbers that mean nothing; whether the device is there is not asked."""
    _check.one_of("engine", engine, ENGINES)
    _check.one_of("device", device, DEVICES)
    _check.wholes(together=together)


def kind_of(name: str) -> str:
    """What of an engine's name decides the bits of a run: numbers of workers and reasons do not.

    >>> kind_of("torch, 2 processes (as asked for)"), kind_of("torch-cuda, 64 clients at once (as asked for)")
    ('torch,', 'torch-cuda, 64 clients at once')
    """
    if name.startswith("torch-"):
        return name.split(" (")[0]
    first = name.split()[0]
    return "torch," if first == "torch" else first  # on a cluster no comma follows


def _refuse_settings(device: str, together: int | None) -> None:
    """Raise Unsupported if a device or clients at once are asked for."""
    if device not in ("auto", "cpu"):
        raise Unsupported(f"it has no device {device}")
    if together is not None and together > 1:
        raise Unsupported(f"it trains client by client, not {together} at once")


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
