"""How many trained models wait in the torch engine's memory: apart from it, because estimates of memory go without torch."""

from fedloom.training.sums import LARGE_MODEL

CHUNK = 4  # most jobs in one message to a worker
RING = 3  # messages whose results may be waiting, per worker


def chunk_size(n_params: float) -> int:
    """Most jobs in one message to a worker: one if models are large, so that few results wait in memory."""
    return CHUNK if n_params <= LARGE_MODEL else 1
