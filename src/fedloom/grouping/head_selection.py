"""Which candidates become heads: heads are opened, exchanged and closed as long as Psi falls (DDC, Algorithm 1).

    add        H + n                 if Psi(H + n) < Psi(H)                                             (19)
    exchange   H + n - n'            if Psi(H + n - n') < Psi(H)
    remove     H - n                 if Psi(H - n) < Psi(H)

Psi(H), see `head_scores`, is the value of the association under heads H that `associate` finds, infinite if their
capacities cannot hold everybody. Passes of the three kinds follow each other until none of them changes anything. Each change
lowers Psi, so the search ends; it ends in a local optimum.

    full   as published: every trial is associated, candidates in rising order, the first that helps is taken
    fast   ours, for large instances: trials are estimated from the clusters there are, see `head_trials`, and only the most
           promising are associated, from these clusters; the first that helps is taken, and estimates are made anew

The published text leaves open, and here is: the start, heads opened one by one where they shorten the total distance most,
until there is room for everybody; "first", as above; a smallest gain of 1e-9 of Psi; values are kept per set of heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.association import (
    Effort,
    association_of,
    best_clustering,
    default_effort,
    kick,
    one_thread,
)
from fedloom.grouping.head_clusters import Clustering
from fedloom.grouping.head_problem import HeadProblem, check_capacity
from fedloom.grouping.head_scores import HeadScores
from fedloom.grouping.head_trials import (
    add_estimates,
    after_add,
    after_exchange,
    after_remove,
    exchange_estimates,
    remove_estimates,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Trial = tuple[int | None, int | None]

SEARCHES = ("auto", "full", "fast")
GAIN = 1e-9  # of Psi, at least of 1: a change must lower it by more
FULL_UP_TO = 200  # devices times candidates for which "auto" is "full"


@dataclass(frozen=True, slots=True)
class HeadChange:
    """What was done to the heads, "start", "add", "exchange", "remove" or "associate" (the same heads, better clusters),
    the candidates opened and closed, and Psi after it."""

    kind: str
    opened: int | None
    closed: int | None
    objective: float


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadSelection:
    """heads, assign, clusters, scores: as in `Association`. history: the changes made, in order, from the start on.
    n_associations: sets of heads that were tried."""

    heads: Ints
    assign: Ints
    clusters: list[Ints]
    scores: HeadScores
    history: list[HeadChange]
    n_associations: int


def select_heads(
    problem: HeadProblem,
    *,
    start: ArrayLike | None = None,
    search: str = "auto",
    n_best: int | None = None,
    max_cycles: int | None = None,
    effort: Effort | None = None,
    watch: Callable[[int, float], None] | None = None,
    rng: np.random.Generator,
) -> HeadSelection:
    """Heads and the head of each device, with Psi as small as the search finds it.

    start: heads to begin with, with room for everybody. search: see above; "auto" is "full" for small instances. n_best, for
    the fast search: trials associated after each estimate, by default 8 up to 1,000 devices and 3 above. max_cycles: most
    rounds of the three passes. effort: of an association; in the fast search only of the last one, which is made for the
    heads found. watch: told the number of heads and Psi after every set of heads that was tried.
    """
    _check.one_of("search", search, SEARCHES)
    n, n_candidates = problem.distance_m.shape
    check_capacity(problem, np.arange(n_candidates))
    _check.wholes(max_cycles=max_cycles, least=0)
    _check.wholes(n_best=n_best)
    columns = opening_heads(problem) if start is None else np.sort(problem.columns(start))
    check_capacity(problem, columns)
    full = search == "full" or (search == "auto" and n * n_candidates <= FULL_UP_TO)
    work = _Search(
        problem,
        full=full,
        n_best=n_best or (8 if n <= 1000 else 3),
        effort=effort or default_effort(n),
        rng=rng,
        watch=watch,
    )
    with one_thread(problem):
        work.begin(columns)
        cycle = 0
        while (max_cycles is None or cycle < max_cycles) and work.cycle():
            cycle += 1
        work.finish()
    found = association_of(problem, work.now.assign)
    return HeadSelection(
        heads=found.heads,
        assign=found.assign,
        clusters=found.clusters,
        scores=found.scores,
        history=work.history,
        n_associations=len(work.seen),
    )


def opening_heads(problem: HeadProblem) -> Ints:
    """Places among the candidates (k,), rising: heads opened one by one until there is room for everybody, each the one that
    makes the sum of all distance costs, to the nearest open head and of heads to the server, smallest. Ties: the lowest."""
    nearest = np.full(problem.n_devices, np.inf)
    chosen: list[int] = []
    while problem.capacity[chosen].sum() < problem.n_devices:
        total = np.minimum(nearest[:, None], problem.cost).sum(axis=0) + problem.server_cost
        total[chosen] = np.inf
        best = int(np.argmax(total <= total.min() * (1 + 1e-12)))
        chosen.append(best)
        nearest = np.minimum(nearest, problem.cost[:, best])
    return np.sort(np.array(chosen))


class _Search:
    """Where the search is: the clusters under the present heads, and the sets of heads it has seen.

    A trial is a pair of places among the candidates, (opened, closed); one of them may be None.
    """

    def __init__(
        self,
        problem: HeadProblem,
        *,
        full: bool,
        n_best: int,
        effort: Effort,
        rng: np.random.Generator,
        watch: Callable[[int, float], None] | None,
    ) -> None:
        self.watch = watch
        self.problem, self.full, self.n_best, self.effort, self.rng = problem, full, n_best, effort, rng
        self.quick = Effort(n_starts=1, n_kicks=8 if problem.n_devices <= 300 else 0, n_swap_rounds=1)
        self.seen: set[frozenset[int]] = set()
        self.history: list[HeadChange] = []

    def begin(self, columns: Ints) -> None:
        self.now = best_clustering(self.problem, columns, None, self.effort if self.full else self.quick, self.rng)
        self.objective = self._objective(self.now)
        self.seen.add(frozenset(columns.tolist()))
        self.history.append(HeadChange("start", None, None, self.objective))

    def cycle(self) -> bool:
        """One pass of each kind; whether anything changed."""
        before = len(self.history)
        if self.full:
            for opened in self._closed():
                self._try(opened, None)
            for opened in range(len(self.problem.candidates)):
                if opened not in self.now.columns:
                    any(self._try(opened, closed) for closed in self._open())
            for closed in self._open():
                self._try(None, closed)
        else:
            for trials in (self._adds, self._exchanges, self._removes):
                while any(self._try(*trial) for trial in self._most_promising(*trials())):
                    pass
        return len(self.history) > before

    def finish(self) -> None:
        """The fast search has made do with little effort: associate once more under the heads found."""
        if self.full:
            return
        best = best_clustering(self.problem, self.now.columns, self.now.cluster, self.effort, self.rng)
        if self._objective(best) < self.objective:
            self.now, self.objective = best, self._objective(best)
            self.history.append(HeadChange("associate", None, None, self.objective))

    def _open(self) -> list[int]:
        return sorted(self.now.columns.tolist())

    def _closed(self) -> list[int]:
        return sorted(set(range(len(self.problem.candidates))) - set(self.now.columns.tolist()))

    def _adds(self) -> tuple[list[Trial], Floats]:
        return [(n, None) for n in range(len(self.problem.candidates))], add_estimates(self.now)

    def _exchanges(self) -> tuple[list[Trial], Floats]:
        estimates = exchange_estimates(self.now)
        a, n = np.nonzero(np.isfinite(estimates))
        return list(zip(n.tolist(), self.now.columns[a].tolist())), estimates[a, n]

    def _removes(self) -> tuple[list[Trial], Floats]:
        return [(None, n) for n in self.now.columns.tolist()], remove_estimates(self.now)

    def _most_promising(self, trials: list[Trial], estimates: Floats) -> list[Trial]:
        """The `n_best` of trials that are new, those of the lowest estimates first."""
        n_real = np.count_nonzero(np.isfinite(estimates))
        ranked = (trials[i] for i in np.argsort(estimates, kind="stable")[:n_real].tolist())
        return list(islice((trial for trial in ranked if self._is_new(trial)), self.n_best))

    def _heads(self, trial: Trial) -> frozenset[int]:
        opened, closed = trial
        heads = set(self.now.columns.tolist()) - {closed}
        return frozenset(heads if opened is None else heads | {opened})

    def _is_new(self, trial: Trial) -> bool:
        """Whether these heads have room for everybody and were not tried yet."""
        heads = self._heads(trial)
        return heads not in self.seen and self.problem.capacity[list(heads)].sum() >= self.problem.n_devices

    def _try(self, opened: int | None, closed: int | None) -> bool:
        """Associate under the heads with one opened and one closed, and keep it if it is better."""
        if not self._is_new((opened, closed)):
            return False
        self.seen.add(self._heads((opened, closed)))
        trial = self._associated(opened, closed)
        objective = self._objective(trial)
        if self.watch is not None:
            self.watch(len(self.now.columns), self.objective)
        if not objective < self.objective - GAIN * max(1.0, abs(self.objective)):
            return False
        self.now, self.objective = trial, objective
        kind = "add" if closed is None else "remove" if opened is None else "exchange"
        self.history.append(HeadChange(kind, self._device(opened), self._device(closed), objective))
        return True

    def _associated(self, opened: int | None, closed: int | None) -> Clustering:
        """The clusters of a trial: from those there are, and in the full search from fresh starts too."""
        columns, cluster = self._after(opened, closed)
        if self.full:
            return best_clustering(self.problem, columns, cluster, self.effort, self.rng)
        clustering = Clustering(self.problem, columns, cluster)
        was, place = self.now.assign, {int(h): c for c, h in enumerate(clustering.heads)}
        moved = clustering.assign != was
        changed = np.zeros(len(columns), dtype=np.bool_)
        changed[cluster[moved]] = True
        changed[[place[h] for h in np.unique(was[moved]).tolist() if h in place]] = True
        clustering.descend(self.quick.n_swap_rounds, changed)
        kick(clustering, self.quick, self.rng)
        return clustering

    def _after(self, opened: int | None, closed: int | None) -> tuple[Ints, Ints]:
        if closed is None and opened is not None:
            return after_add(self.now, opened)
        a = self.now.columns.tolist().index(closed)
        return after_remove(self.now, a) if opened is None else after_exchange(self.now, a, opened)

    def _device(self, place: int | None) -> int | None:
        return None if place is None else int(self.problem.candidates[place])

    def _objective(self, clustering: Clustering) -> float:
        return clustering.value + float(self.problem.server_cost[clustering.columns].sum())
