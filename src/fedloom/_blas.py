"""Matrix products in one thread."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read by a library when it is loaded


@contextmanager
def one_thread() -> Iterator[None]:
    """The linear algebra of numpy and scipy runs in one thread, also of what is loaded meanwhile.

    Sums that are split over threads are added in another order, so that eigenvectors, and with them clusters, could depend on the
    number of cores. And products in a simulation are small: waiting for a second thread takes longer, on a busy machine
    hundreds of times as long.
    """
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ |= dict.fromkeys(VARIABLES, "1")
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
