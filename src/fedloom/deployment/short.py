"""Work beside the loop that answers others: in a thread, or in place if it is short.

The way to a thread and back costs a good part of a millisecond of two threads that take turns, which is more than a small model
takes to train, to merge or to write.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import TypeVar

IN_PLACE_S = 0.003
T = TypeVar("T")


class Short:
    """Remembers how long each kind of work took the last time."""

    def __init__(self) -> None:
        self._lasted_s: dict[str, float] = {}

    async def do(self, kind: str, work: Callable[[], T]) -> T:
        """What some work gives; it is done in place if the last of its kind took no longer than IN_PLACE_S."""

        def timed() -> T:
            began_s = time.perf_counter()
            try:
                return work()
            finally:
                self._lasted_s[kind] = time.perf_counter() - began_s

        if self._lasted_s.get(kind, math.inf) <= IN_PLACE_S:
            return timed()
        return await asyncio.to_thread(timed)
