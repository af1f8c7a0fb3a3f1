"""How many trained models wait in the torch engine's memory: apart from it, because estimates of memory go without torch."""

from fedloom.training.sums import LARGE_MODEL

CHUNK = 4  # most jobs in one message to a worker


def chunk_size(n_params: float) -> int:
    """Most jobs in one message to a worker: one if models are large, so that few results wait in memory."""
    return CHUNK if n_params <= LARGE_MODEL else 1


def messages_ahead(n_params: float) -> int:
    """Messages that a worker has at a time: the next one too, so that it need not wait for us, unless a model takes far longer to
    train than that."""
    return 2 if n_params <= LARGE_MODEL else 1


def ring_size(n_params: float) -> int:
    """Messages whose results may be waiting, per worker: one is done while others are at theirs."""
    return messages_ahead(n_params) + 1
