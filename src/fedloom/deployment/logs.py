"""Logs: a line of JSON for everything worth knowing, wherever it is wanted."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any


class Log:
    """Writes lines. node: whose. kept: the last lines, for those who ask; counts: how often each event was. Any thread
    may log."""

    def __init__(self, node: str, write: Callable[[str], object] | None = None, most_kept: int = 1000) -> None:
        self.node, self._write, self._most = node, write, most_kept
        self.kept: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self, event: str, *, times: int = 1, **fields: Any) -> None:
        """times: that it has happened, told together."""
        line = {"time": round(time.time(), 3), "node": self.node, "event": event, **fields}
        line |= {"times": times} if times > 1 else {}
        with self._lock:
            self.counts[event] = self.counts.get(event, 0) + times
            self.kept = [*self.kept[-self._most + 1 :], line]
            if self._write is not None:
                self._write(json.dumps(line, default=str) + "\n")
