"""Where the torch engine computes: on processors, or on a device that torch knows. torch is loaded when one is asked for."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from fedloom import _check

DEVICES = ("auto", "cpu", "cuda", "mps")


def find_device(wanted: str) -> str:
    """cpu, cuda or mps: what is asked for, or with auto the first of cuda, mps and cpu that is there."""
    _check.one_of("device", wanted, DEVICES)
    if wanted == "cpu":
        return wanted
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    there = [*(["cuda"] if cuda else []), *(["mps"] if mps else []), "cpu"]
    if wanted == "auto":
        return there[0]
    if wanted not in there:
        built = torch.version.cuda is not None if wanted == "cuda" else torch.backends.mps.is_built()
        why = "torch finds none" if built else "this torch was built without it"
        raise ValueError(
            f"device {wanted} is not there ({why}, version {torch.__version__}); there is {', '.join(there)}, and auto takes "
            f"{there[0]}"
        )
    return wanted


@contextmanager
def single_precision(device: str, cudnn: bool = True) -> Iterator[None]:
    """Products of float32 as such: by itself cuDNN rounds the factors of convolutions to 10 bits, and may choose other algorithms
    in every run. Without cuDNN: it has no gradients of LSTM layers in evaluation mode. On other devices nothing is to be done."""
    if device != "cuda":
        yield
        return
    import torch

    with torch.backends.cudnn.flags(enabled=cudnn, benchmark=False, deterministic=True, allow_tf32=False):
        yield


def seed_generator(device: str, key: int) -> None:
    """Set the generator that modules on this device draw from."""
    import torch

    if device == "cuda":
        torch.cuda.manual_seed(key)
    elif device == "mps":
        torch.mps.manual_seed(key)
    else:
        torch.default_generator.manual_seed(key)  # torch.manual_seed takes longer than a step


def kept_generators(device: str) -> AbstractContextManager[None]:
    """Afterwards torch's generators are as they were (that of mps is not)."""
    import torch

    return torch.random.fork_rng(devices=[torch.cuda.current_device()] if device == "cuda" else [])
