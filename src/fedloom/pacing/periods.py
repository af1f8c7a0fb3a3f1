"""How many local steps make an edge round, and how many edge rounds a cloud round, as training goes on.

Small periods early, larger ones later (HHFL, Remark 4): while the learning rate is large, models drift apart fast and
should meet often; later, meeting rarely saves traffic. Periods change only where a cloud round starts, and the counts of
steps and edge rounds start from zero there. The remark is the paper's; both schedules and their constants are ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fedloom import _check

GUARD = 1e-9  # relative; lr (E G - 1) may meet its limit exactly

LADDER = ((1, 1), (2, 2), (5, 2), (5, 5), (10, 5), (10, 10))


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Training at the start of a cloud round: local steps done, the learning rate now and at step 0."""

    step: int
    lr: float
    first_lr: float


@dataclass(frozen=True, kw_only=True)
class Periods:
    """One cloud round: E local steps in each edge round, G edge rounds."""

    local_steps: int
    edge_rounds: int

    def __post_init__(self) -> None:
        _check.whole("local_steps (E)", self.local_steps)
        _check.whole("edge_rounds (G)", self.edge_rounds)


PeriodSchedule = Callable[[Progress], Periods]
EdgeRounds = int | PeriodSchedule | None
"""Edge rounds from one report to the next, or local work and edge rounds by the progress of training; None: the scenario's."""
Stages = Sequence[tuple[int, int, int]]


def check_edge_rounds(rounds: EdgeRounds) -> None:
    """A number of edge rounds must be a whole one of at least 1."""
    if isinstance(rounds, int):
        _check.whole("rounds", rounds)


def fixed_edge_rounds(rounds: EdgeRounds) -> int | None:
    """Edge rounds from one report to the next, where a method has a number of its own."""
    return rounds if isinstance(rounds, int) else None


def periods_at(rounds: EdgeRounds, of_scenario: Periods, progress: Progress) -> Periods:
    """The periods of a cloud round that begins at this progress.

    >>> periods_at(3, Periods(local_steps=5, edge_rounds=2), Progress(step=0, lr=0.1, first_lr=0.1))
    Periods(local_steps=5, edge_rounds=3)
    """
    if rounds is None:
        return of_scenario
    if isinstance(rounds, int):
        return replace(of_scenario, edge_rounds=rounds)
    return rounds(progress)


def staged(stages: Stages) -> PeriodSchedule:
    """Periods by stages [(start_step, E, G), ...], the first at step 0 (in the spirit of HHFL, Remark 4).

    A stage asked for at step s begins with the first cloud round that starts at s or later.
    """
    by_start = _checked(stages)
    return lambda progress: _at(by_start, progress.step)


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Periods that grow as the learning rate falls: see `lr_ladder`. kappa: what lr (E G - 1) may be, over the first rate."""

    rungs: tuple[Periods, ...]
    start: Periods
    kappa: int

    def __call__(self, progress: Progress) -> Periods:
        _check.positive("first_lr", progress.first_lr)
        _check.positive("lr", progress.lr, zero=True)
        limit = progress.first_lr * self.kappa * (1 + GUARD)
        fitting = [p for p in self.rungs if progress.lr * (_steps(p) - 1) <= limit]
        return max(self.start, *fitting, key=self.rungs.index)


def lr_ladder(rungs: Sequence[tuple[int, int]] = LADDER, start: tuple[int, int] = (2, 2)) -> Ladder:
    """Periods that grow as the learning rate falls.

    The highest rung (E, G) with lr (E G - 1) <= kappa, kappa = lr_0 (E_0 G_0 - 1) for the rung `start`, so about as
    much drift fits in a cloud round as in the first. Never below `start`; with a learning rate that does not rise, a
    cloud round never has a lower rung than the one before.
    """
    ladder = tuple(Periods(local_steps=e, edge_rounds=g) for e, g in rungs)
    steps = [_steps(p) for p in ladder]
    first = Periods(local_steps=start[0], edge_rounds=start[1])
    if steps != sorted(steps):
        raise ValueError(f"the rungs must not shrink: local steps per cloud round (E G) are {steps}")
    if first not in ladder:
        raise ValueError(f"start must be one of the rungs {list(rungs)}, got {start}")
    if _steps(first) == 1:
        raise ValueError("from start (1, 1) the ladder never rises, as one step leaves no room to drift; start higher")
    return Ladder(rungs=ladder, start=first, kappa=_steps(first) - 1)


def ladder_note(periods: EdgeRounds, lr: Callable[[int], float], cloud_rounds: int) -> str | None:
    """A remark if periods are to grow with a falling learning rate and never do in so many cloud rounds; else None.

    lr: learning rate at a local step. Other schedules than ladders, and none at all, need no remark.

    >>> ladder_note(lr_ladder(), lambda step: 0.1 / (1 + step), 5) is None, ladder_note(lr_ladder(), lambda step: 0.1, 5) is None
    (True, False)
    """
    if not isinstance(periods, Ladder):
        return None
    step, first = 0, lr(0)
    for _ in range(cloud_rounds):
        now = periods(Progress(step=step, lr=lr(step), first_lr=first))
        if now != periods.start:
            return None
        step += _steps(now)
    start = periods.start
    why = "does not fall" if lr(step) >= first else f"falls only from {first:g} to {lr(step):g}"
    return (
        f"periods are to grow as the learning rate falls, but it {why} in {cloud_rounds} cloud rounds, so that they stay at "
        f"{start.local_steps} local steps and {start.edge_rounds} edge rounds; set training.lr_decay, or give stages instead"
    )


def _steps(periods: Periods) -> int:
    """Local steps of a cloud round."""
    return periods.local_steps * periods.edge_rounds


def aggregation_steps(stages: Stages, total_steps: int) -> tuple[list[int], list[int]]:
    """Steps after which edges aggregate and after which the cloud does, within `total_steps`.

    >>> aggregation_steps([(0, 1, 2), (5, 3, 2)], 20)
    ([1, 2, 3, 4, 5, 6, 9, 12, 15, 18], [2, 4, 6, 12, 18])
    """
    by_start = _checked(stages)
    _check.whole("total_steps", total_steps, least=0)
    edge_steps: list[int] = []
    cloud_steps: list[int] = []
    step = 0
    while step < total_steps:
        now = _at(by_start, step)
        ends = range(step + now.local_steps, step + now.local_steps * now.edge_rounds + 1, now.local_steps)
        edge_steps += [t for t in ends if t <= total_steps]
        step = ends[-1]
        if step <= total_steps:
            cloud_steps.append(step)
    return edge_steps, cloud_steps


def n_rounds(stages: Stages, total_steps: int) -> tuple[int, int]:
    """Edge rounds and cloud rounds in `total_steps`, an unfinished last one counting as one.

    With one stage these are ceil(T / E) and ceil(T / (E G)) of eq. (29).

    >>> n_rounds([(0, 1, 2), (5, 3, 2)], 20), n_rounds([(0, 5, 5)], 63)
    ((11, 6), (13, 3))
    """
    edge_steps, cloud_steps = aggregation_steps(stages, total_steps)
    return len(edge_steps) + _unfinished(edge_steps, total_steps), len(cloud_steps) + _unfinished(
        cloud_steps, total_steps
    )


def _unfinished(steps: list[int], total_steps: int) -> bool:
    return total_steps > (steps[-1] if steps else 0)


def _at(by_start: list[tuple[int, Periods]], step: int) -> Periods:
    return [periods for start, periods in by_start if start <= step][-1]


def _checked(stages: Stages) -> list[tuple[int, Periods]]:
    if not stages:
        raise ValueError("stages must have at least one (start_step, E, G), got none")
    by_start = []
    for i, stage in enumerate(stages):
        if len(stage) != 3:
            raise ValueError(f"stage {i} must be (start_step, E, G), got {stage!r}")
        start, local_steps, edge_rounds = stage
        _check.whole(f"start step of stage {i}", start, least=0)
        _check.whole(f"E of stage {i}", local_steps)
        _check.whole(f"G of stage {i}", edge_rounds)
        by_start.append((start, Periods(local_steps=local_steps, edge_rounds=edge_rounds)))
    starts = [start for start, _ in by_start]
    if starts[0] != 0:
        raise ValueError(f"the first stage must start at step 0, got {starts[0]}")
    if any(later <= earlier for earlier, later in pairwise(starts)):
        raise ValueError(f"stages must start one after the other, got start steps {starts}")
    return by_start
