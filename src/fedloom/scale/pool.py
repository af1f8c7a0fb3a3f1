"""A few long-lived actors that share out calls; what a lost one was doing is done again by another.

Calls must be pure: the answer to a call is the same whoever gives it, and however often it is asked. An actor is lost when its
process or its machine dies, or cannot be reached; a new one is asked for at once and joins when the cluster has room for it,
and until then the others go on. Answers are collected in whatever order they come.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fedloom.scale.cluster import NoCluster

DEPTH = 2  # calls at an actor: the next one is there when it has finished
TRIES = 4  # of a call whose actors are lost
PATIENCE_S = 300.0  # without any actor; on a busy machine loading torch takes a minute


class Pool:
    """`hire()` makes an actor; `actor.ready.remote()` must answer None, or a text that says why it is of no use."""

    def __init__(self, ray: Any, hire: Callable[[], Any], n_actors: int, patience_s: float = PATIENCE_S) -> None:
        self._ray, self._hire, self._patience_s = ray, hire, patience_s
        self.n_lost = 0
        self._starting: dict[Any, Any] = {}  # answer to come -> actor
        self._ready: list[Any] = []
        for _ in range(n_actors):
            self._start()

    @property
    def n_ready(self) -> int:
        return len(self._ready)

    def map(self, calls: Sequence[tuple[str, tuple[Any, ...]]], collect: Callable[[int, Any], None]) -> None:
        """Make all calls (method, arguments) and hand each answer to `collect` with the number of its call."""
        waiting = deque(range(len(calls)))
        tries = [0] * len(calls)
        running: dict[Any, tuple[Any, int]] = {}  # answer to come -> actor and call
        n_open = len(calls)

        def lost(actor: Any, error: Exception) -> None:
            if actor not in self._ready:
                return  # noticed by another of its calls
            self._dismiss(actor)
            for ref in [ref for ref, (of, _) in running.items() if of is actor]:
                call = running.pop(ref)[1]
                if tries[call] == TRIES:
                    raise RuntimeError(
                        f"{TRIES} actors were lost over the same jobs; the last: {_first_line(error)}\n(if a machine ran out "
                        f"of memory, start its node with fewer CPUs, which makes fewer actors)"
                    ) from error
                waiting.appendleft(call)
            self._start()

        while n_open:
            for depth in range(1, DEPTH + 1):
                for actor in self._ready:
                    if waiting and sum(of is actor for of, _ in running.values()) < depth:
                        call = waiting.popleft()
                        tries[call] += 1
                        method, arguments = calls[call]
                        running[getattr(actor, method).remote(*arguments)] = (actor, call)
            done, _ = self._ray.wait([*running, *self._starting], timeout=self._patience_s)
            if not done and not running:
                raise self._nobody()
            for ref in done:
                if ref in self._starting:
                    self._welcome(ref)
                elif ref in running:  # not if its actor was lost just now
                    actor, call = running[ref]
                    try:
                        answer = self._ray.get(ref)
                    except self._ray.exceptions.RayTaskError:
                        raise
                    except self._ray.exceptions.RayError as error:
                        lost(actor, error)
                        continue
                    del running[ref]
                    collect(call, answer)
                    n_open -= 1

    def close(self) -> None:
        """Let all actors go."""
        for actor in [*self._ready, *self._starting.values()]:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)
        self._ready, self._starting = [], {}

    def _start(self) -> None:
        actor = self._hire()
        self._starting[actor.ready.remote()] = actor

    def _welcome(self, ref: Any) -> None:
        """An actor has started, or has failed to."""
        actor = self._starting.pop(ref)
        try:
            complaint = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise RuntimeError(f"an actor could not be prepared: {_first_line(error)}") from error
        except self._ray.exceptions.RayError as error:
            self.n_lost += 1
            if self.n_lost > TRIES * (1 + len(self._ready) + len(self._starting)):
                raise RuntimeError(f"actors are lost as soon as they start: {_first_line(error)}") from error
            self._start()
            return
        if complaint is not None:
            raise RuntimeError(complaint)
        self._ready.append(actor)

    def _dismiss(self, actor: Any) -> None:
        self.n_lost += 1
        self._ready = [other for other in self._ready if other is not actor]
        with contextlib.suppress(Exception):
            self._ray.kill(actor)  # it may live on where we cannot reach it

    def _nobody(self) -> NoCluster:
        free = self._ray.available_resources().get("CPU", 0)
        return NoCluster(
            f"the Ray cluster gave us no actor within {self._patience_s:g} s ({free:g} of "
            f"{self._ray.cluster_resources().get('CPU', 0):g} CPUs are free); add nodes, or wait for what else runs there"
        )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
