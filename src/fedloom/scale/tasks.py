"""Many independent pieces of work as Ray tasks: news while they run, one more try for what fails, errors kept to the end."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LOOK_S = 0.5  # between two looks at the news
TRIES = 2

Tell = Callable[[Any], None]


class Board:
    """An actor on the driver's machine that keeps what tasks tell until the driver looks."""

    def __init__(self) -> None:
        self._news: list[tuple[int, Any]] = []

    def tell(self, number: int, news: Any) -> None:
        self._news.append((number, news))

    def take(self) -> list[tuple[int, Any]]:
        """What is new, in the order it came; it is forgotten here."""
        taken, self._news = self._news, []
        return taken


@dataclass(kw_only=True, eq=False)
class State:
    """How far the work is: numbers of the tasks that are done and running, and the errors of those that failed for good."""

    n_tasks: int
    done: set[int] = field(default_factory=set)
    running: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{len(self.done)} of {self.n_tasks} runs done, {len(self.running)} running{failed}"


def run_tasks(
    ray: Any,
    work: Callable[..., Any],
    order: Callable[[int], tuple[Any, ...]],
    n_tasks: int,
    *,
    n_at_once: int,
    on_result: Callable[[int, Any], None],
    on_news: Callable[[int, Any], None],
    on_change: Callable[[State], None],
) -> State:
    """Run work(tell, *order(i)) for i = 0..n_tasks-1 on one processor each, at most `n_at_once` at a time.

    Whatever `work` tells goes to on_news with the task's number, its result to on_result; on_change is called when a task
    starts or ends. A task that fails, or whose machine is lost, is run once more with a fresh order; if that fails too its
    error is kept, and the others go on.
    """
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    board = ray.remote(num_cpus=0, scheduling_strategy=here)(Board).remote()
    remote = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(_do)
    state = State(n_tasks=n_tasks)
    waiting = list(range(n_tasks))
    tries = [0] * n_tasks
    refs: dict[Any, int] = {}

    def look() -> None:
        for number, news in ray.get(board.take.remote()):
            if number in state.running:
                on_news(number, news)

    try:
        while waiting or refs:
            while waiting and len(refs) < n_at_once:
                i = waiting.pop(0)
                tries[i] += 1
                refs[remote.remote(work, board, i, *order(i))] = i
                state.running.add(i)
                on_change(state)
            ended, _ = ray.wait(list(refs), timeout=LOOK_S)
            look()
            for ref in ended:
                i = refs.pop(ref)
                state.running.discard(i)
                complaint, result = _outcome(ray, ref)
                if complaint is None:
                    on_result(i, result)
                    state.done.add(i)
                elif tries[i] < TRIES:
                    waiting.append(i)
                else:
                    state.failed[i] = complaint
                on_change(state)
    finally:
        for ref in refs:
            with contextlib.suppress(Exception):
                ray.cancel(ref, force=True)
        ray.kill(board)
    return state


def _outcome(ray: Any, ref: Any) -> tuple[str | None, Any]:
    """Of a task that has ended, as `_do` returns it; or why its machine could not."""
    try:
        complaint, result = ray.get(ref)
    except ray.exceptions.RayError as error:
        return _words(error), None
    return complaint, result


def _words(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def _do(work: Callable[..., Any], board: Any, number: int, *order: Any) -> tuple[str | None, Any]:
    """What went wrong, if anything, as text (not every exception can travel), and the result."""
    try:
        return None, work(lambda news: board.tell.remote(number, news), *order)
    except Exception as error:
        return _words(error), None
