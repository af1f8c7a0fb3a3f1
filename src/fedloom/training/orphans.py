"""Worker processes that end with the process that started them, also if that one is killed."""

import os
import threading
import time

LOOK_S = 0.3


def end_with(parent: int) -> None:
    """Call in a worker: it ends, wherever it is, as soon as its parent is another than process `parent`.

    A thread looks. Signals of the system for this (PDEATHSIG) come when the parent's *thread* ends, which is too early.
    """
    if os.name == "posix":
        threading.Thread(target=_look, args=(parent,), daemon=True).start()


def _look(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
