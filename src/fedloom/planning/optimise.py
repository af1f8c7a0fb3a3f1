"""Who clusters with whom, for what is asked for: heads, members and their number.

Heads of least energy within limits are found by `open_heads`. What is asked for says the limits: the fewest seconds, or the
least drain of a battery, that a grouping can keep is found by halving, for a mix several of both are tried. Then single
changes (`polish`), counted by what is asked for itself. The plans of k-means, over all their numbers of clusters, are among
the starts, and the best of all is returned: it is never worse than they are.

K devices.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.balance import balanced
from fedloom.planning.costs import Prices, costs_of
from fedloom.planning.devices import check_room
from fedloom.planning.objectives import LEAST_BALANCE, MIXED, Objective, better, figures_of
from fedloom.planning.open_heads import Limits, Opened, assign, kicked, search_heads, terms_within
from fedloom.planning.partitions import most_alike
from fedloom.planning.polish import polished
from fedloom.planning.reach import Reach, reach_of
from fedloom.planning.simple_plans import Grouped, fewest_heads, k_means_sweep, most_clusters

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Watch = Callable[[str], None]

HALVINGS = 14
SMALL = 16  # devices up to which the search is repeated from other heads
KICKS = 36
REPEATS = 100  # of the whole of it
TRIES = 2500  # single changes that are counted
MOST_SETS = 400  # of heads, that are all tried
MOST_GROUPINGS = 5000  # that are all tried
BEST = 8  # of them, that are polished
ROUND_PARTS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)  # of an edge round, that are tried as limits where bands are shared
BAND_PARTS = (1.0, 0.1)  # of the server's air, that the air of a head is counted as there
AIR_LIMITS = tuple(itertools.product(BAND_PARTS, ROUND_PARTS))
FEW_LIMITS = tuple((BAND_PARTS[-1], part) for part in (0.5, 1.0, 1.4))  # that are tried for every number of clusters
POLISHED = 2  # of these plans
BEGUN = 3  # plans of k-means, with different numbers of clusters, that a mix begins with
BETWEEN = 4  # numbers of clusters that are tried on each side of the best of k-means
LADDER = 10  # numbers of clusters in the table


@dataclass(frozen=True, kw_only=True, eq=False)
class Optimised:
    """best: what was asked for. by_number: the best plan found with each of some numbers of clusters, rising. sweep: the plans
    of k-means. objective: with the references of a mix."""

    best: Grouped
    by_number: list[Grouped]
    sweep: list[Grouped]
    objective: Objective

    @property
    def by_k_means(self) -> frozenset[int]:
        """Numbers of clusters for which nothing better was found than the plan of k-means."""
        theirs = set(map(id, self.sweep))
        return frozenset(one.figures.clusters for one in self.by_number if id(one) in theirs)


def objective_of(name: str, sweep: list[Grouped]) -> Objective:
    """By name; references of a mix are the best of the sweep."""
    least = {m: min(float(getattr(g.figures, m)) for g in sweep) for m in MIXED}
    least["balance"] = max(least["balance"], LEAST_BALANCE)
    return Objective(name=name, reference={m: value if value > 0 else 1.0 for m, value in least.items()})


def optimise(
    prices: Prices, name: str, rng: np.random.Generator, watch: Watch = lambda text: None, ladder: bool = True
) -> Optimised:
    """The best grouping for one of OBJECTIVES. ladder: also for single numbers of clusters."""
    check_room(prices.devices)
    sweep = k_means_sweep(prices, rng, lambda k: watch(f"k-means, {k} clusters"))
    objective = objective_of(name, sweep)
    between = _numbers_between(sweep, objective)
    sweep += k_means_sweep(prices, rng, lambda k: watch(f"k-means, {k} clusters"), between)
    watch("links")
    search = _Search(reach_of(prices, rng), objective, sweep, rng, watch)
    found = [search.polished(head) for head in search.starts()]
    best = search.repeated(min([*sweep, *found], key=lambda g: objective.key(g.figures)))
    by_number = _by_number([*search.ladder(best), *found, *sweep], objective) if ladder else []
    return Optimised(best=best, by_number=by_number, sweep=sweep, objective=objective)


class _Search:
    """What is asked for, of a fleet, and where to begin."""

    def __init__(
        self, reach: Reach, objective: Objective, sweep: list[Grouped], rng: np.random.Generator, watch: Watch
    ) -> None:
        self.reach, self.objective, self.sweep, self.rng, self.watch = reach, objective, sweep, rng, watch
        devices = reach.prices.devices
        self.shared = devices.air.is_shared
        fewest = fewest_heads(devices.capacity[devices.candidate], devices.n)
        self.limits = Limits(n_max=min(most_clusters(devices), int(devices.candidate.sum())), n_min=fewest)
        ranked = sorted(sweep, key=lambda g: objective.key(g.figures))
        frugal = sorted(sweep, key=lambda g: g.figures.joules)
        fast = sorted(sweep, key=lambda g: g.figures.seconds)
        self.first = [g.head for g in (ranked[0], frugal[0], fast[0], frugal[len(frugal) // 2])]

    def starts(self) -> Iterator[Ints]:
        """Groupings (K,) to polish, by what is asked for."""
        name = self.objective.name
        ranked = sorted(_by_number(self.sweep, self.objective), key=lambda g: self.objective.key(g.figures))
        yield from (g.head for g in ranked[: BEGUN if name == "mix" else 1])
        if name in ("joules", "bytes"):
            yield from self._head_of(self._frugal(self._bytes_limits() if name == "bytes" else self.limits))
        elif name == "seconds" and self.shared:
            yield from (g.head for g in self._of_little_air(self.limits)[:POLISHED])
        elif name == "seconds":
            yield from self._head_of(self._least("seconds", self.limits))
        elif name == "battery":
            yield from self._head_of(self._least("drain", self.limits))
        elif name == "balance":
            yield from self._balanced()
        else:
            yield from self._mixed()
        if name in ("balance", "mix") or (name == "seconds" and self.shared):
            yield from self._of_all_heads()

    def polished(self, head: Ints) -> Grouped:
        """After single changes."""
        self.watch(f"{len(np.unique(head))} heads, single changes")
        out = polished(self.reach, head, self.objective, self.limits, TRIES, self.rng)
        return Grouped(out, figures_of(self.reach.prices, out))

    def repeated(self, best: Grouped) -> Grouped:
        """Of a small fleet the search is repeated from groupings near the best."""
        for turn in range(REPEATS if len(best.head) <= SMALL else 0):
            other = self.polished(
                self._shaken(best.head) if turn % 3 == 0 else self._by_chance(best.head, turn % 3 == 1)
            )
            if better(self.objective.key(other.figures), self.objective.key(best.figures)):
                best = other
        return best

    def ladder(self, best: Grouped) -> Iterator[Grouped]:
        """The best found for some numbers of clusters, from the fewest to the most."""
        low, high = self.limits.n_min, self.limits.n_max
        numbers = {int(k) for k in np.geomspace(low, max(high, low), LADDER).round()} | {best.figures.clusters}
        for k in sorted(numbers):
            self.watch(f"{k} clusters")
            near = min(self.sweep, key=lambda g: (abs(g.figures.clusters - k), self.objective.key(g.figures)))
            limits = replace(self.limits, n_min=k, n_max=k)
            start = _mask(near.head)
            if self.objective.name == "seconds" and self.shared:
                yield from self._of_little_air(limits, near.head, FEW_LIMITS)[:1]
                continue
            if self.objective.name in ("seconds", "battery"):
                which = "seconds" if self.objective.name == "seconds" else "drain"
                found = self._least(which, limits, start, HALVINGS // 2)
            else:
                found = search_heads(self.reach, limits, start)
            for head in self._head_of(found):
                if self.objective.name == "balance":
                    head = balanced(self.reach.prices, head, self.rng)
                yield Grouped(head, figures_of(self.reach.prices, head))

    def _frugal(self, limits: Limits) -> Opened:
        """Of least energy, from several starts."""
        terms = terms_within(self.reach, limits)
        best: Opened | None = None
        for head in self.first:
            found = search_heads(self.reach, limits, _mask(head), terms)
            self.watch(f"{int(found.open.sum())} heads, {found.total:.4g} J")
            best = found if best is None or found.total < best.total else best
        assert best is not None
        for _ in range(KICKS if len(best.open) <= SMALL else 0):
            found = search_heads(self.reach, limits, kicked(best.open, terms, 0.4, self.rng), terms)
            best = found if found.total < best.total else best
        return best

    def _of_little_air(
        self, limits: Limits, start: Ints | None = None, tried: Sequence[tuple[float, float]] = AIR_LIMITS
    ) -> list[Grouped]:
        """Where bands are shared: of least air within several limits of an edge round, around that of the fastest plan of
        k-means; the best first. start (K,): heads to begin with, if not those. tried: parts of air and of the round."""
        fast = min(self.sweep, key=lambda g: g.figures.seconds).head if start is None else start
        round_s = float(costs_of(self.reach.prices, np.arange(len(fast)), fast).round_s.max())
        found = []
        for band_part, part in tried:
            one = self._within("round_s", part * round_s, replace(limits, band_part=band_part), [_mask(fast)])
            self.watch(f"edge rounds of {part * round_s:.4g} s: {'no' if one is None else int(one.open.sum())} heads")
            found += [] if one is None else [self._grouped(one)]
        return sorted(found, key=lambda g: self.objective.key(g.figures))

    def _bytes_limits(self) -> Limits:
        """Traffic falls with the number of heads where there are several edge rounds, else it does not depend on it."""
        several = self.reach.prices.work.edge_rounds > 1
        return replace(self.limits, n_min=self.limits.n_max) if several else self.limits

    def _least(self, which: str, limits: Limits, start: Mask | None = None, halvings: int = HALVINGS) -> Opened:
        """Of least energy within the least limit of `which`, seconds or drain, that is found to be kept."""
        reach = self.reach
        alone, pair = (reach.alone_s, reach.seconds) if which == "seconds" else (reach.alone_drain, reach.drain)
        least_pair = np.where(reach.there, pair, np.inf)[:, 1:].min(axis=1, initial=np.inf)
        low = float(np.minimum(np.where(reach.there[:, 0], alone, np.inf), least_pair).max())
        begin = [_mask(head) for head in self.first] if start is None else [start]
        best = self._within(which, low, limits, begin)
        if best is not None:
            return best
        sweep = min(self.sweep, key=lambda g: _figure(g, which))
        high = _figure(sweep, which)
        best = self._within(which, high, limits, [_mask(sweep.head), *begin])
        while best is None and high < 1e9 * max(low, 1e-9):
            high *= 2
            best = self._within(which, high, limits, begin)
        assert best is not None
        for _ in range(halvings):
            if high <= low * (1 + 1e-9):
                break
            middle = float(np.sqrt(max(low, high * 1e-6) * high))
            found = self._within(which, middle, limits, [best.open, *begin[:1]])
            self.watch(f"{which} {middle:.4g}: {'yes' if found else 'no'}")
            if found is None:
                low = middle
                continue
            best = found
            high = min(middle, _figure(self._grouped(found), which))
        return best

    def _within(self, which: str, limit: float, limits: Limits, begin: list[Mask]) -> Opened | None:
        """Of least energy within a limit, from the first start that finds heads for everybody; None if none does."""
        seconds, drain, round_s = (limit if which == name else np.inf for name in ("seconds", "drain", "round_s"))
        limits = replace(limits, seconds=seconds, drain=drain, round_s=round_s)
        terms = terms_within(self.reach, limits)
        if not np.isfinite(terms.place).any(axis=1).all():
            return None
        for start in begin:
            found = search_heads(self.reach, limits, start, terms)
            if found.complete:
                return found
        for _ in range(KICKS // 2 if len(terms.place) <= SMALL else 1):
            found = search_heads(self.reach, limits, kicked(begin[0], terms, 0.4, self.rng), terms)
            if found.complete:
                return found
        return None

    def _balanced(self) -> Iterator[Ints]:
        """Members so that labels are alike, with the fewest heads, and with a few more; of a few devices the best of all."""
        low, high = self.limits.n_min, self.limits.n_max
        alike = most_alike(self.reach.prices, low, high)
        if alike is not None:
            yield alike
        for k in sorted({int(k) for k in np.clip([low, low + 1, low + 2, 1.5 * low], low, high)}):
            found = search_heads(self.reach, replace(self.limits, n_min=k, n_max=k), _mask(self.first[0]))
            for head in self._head_of(found):
                yield balanced(self.reach.prices, head, self.rng)

    def _mixed(self) -> Iterator[Ints]:
        """Of least energy within several limits of seconds and drain, between the least of both and those of least energy;
        the best by the mix, as they are and with labels alike."""
        frugal, fast = self._frugal(self.limits), self._least("seconds", self.limits)
        spared = self._least("drain", self.limits)
        ends = [self._grouped(found) for found in (frugal, fast, spared)]
        found = [*ends, *(self._of_little_air(self.limits) if self.shared else ())]
        for part in (0.25, 0.5, 0.75):
            for which, end in (("seconds", ends[1]), ("drain", ends[2])):
                low, high = _figure(end, which), _figure(ends[0], which)
                if low < high:
                    one = self._within(which, low ** (1 - part) * high**part, self.limits, [_mask(end.head)])
                    found += [] if one is None else [self._grouped(one)]
        ranked = sorted(found, key=lambda g: self.objective.key(g.figures))
        for grouped in ranked[:3]:
            yield grouped.head
        yield balanced(self.reach.prices, ranked[0].head, self.rng)

    def _of_all_heads(self) -> Iterator[Ints]:
        """Of a few devices: every set of heads, members at the cheapest and with labels alike; the best of these."""
        devices = self.reach.prices.devices
        allowed = np.flatnonzero(devices.candidate).tolist()
        numbers = range(self.limits.n_min, self.limits.n_max + 1)
        if sum(math.comb(len(allowed), k) for k in numbers) > MOST_SETS:
            return
        if sum(math.comb(len(allowed), k) * k ** (devices.n - k) for k in numbers) <= MOST_GROUPINGS:
            yield self._best_of_all(allowed, numbers)
            return
        terms, found = terms_within(self.reach, self.limits), []
        for hosts in itertools.chain.from_iterable(itertools.combinations(allowed, k) for k in numbers):
            opened = assign(self.reach, terms, np.isin(np.arange(devices.n), hosts))
            for head in self._head_of(opened):
                both = head, balanced(self.reach.prices, head, self.rng)
                found += [Grouped(one, figures_of(self.reach.prices, one)) for one in both]
        found.sort(key=lambda g: self.objective.key(g.figures))
        yield from (g.head for g in found[:BEST])

    def _best_of_all(self, allowed: list[int], numbers: range) -> Ints:
        """Of all groupings with room."""
        prices, best = self.reach.prices, None
        own, capacity = np.arange(prices.devices.n), prices.devices.capacity
        for hosts in itertools.chain.from_iterable(itertools.combinations(allowed, k) for k in numbers):
            members = np.setdiff1d(own, hosts)
            for choice in itertools.product(hosts, repeat=len(members)):
                head = own.copy()
                head[members] = choice
                if (np.bincount(head, minlength=len(own))[list(hosts)] > capacity[list(hosts)]).any():
                    continue
                key = self.objective.key(figures_of(prices, head))
                if best is None or key < best[0]:
                    best = key, head
        assert best is not None
        return best[1]

    def _grouped(self, opened: Opened) -> Grouped:
        head = opened.head(self.reach)
        return Grouped(head, figures_of(self.reach.prices, head))

    def _head_of(self, opened: Opened) -> Iterator[Ints]:
        if opened.complete:
            yield opened.head(self.reach)

    def _shaken(self, head: Ints) -> Ints:
        """A cluster or two dissolved: other heads near, members at the cheapest with room."""
        terms = terms_within(self.reach, self.limits)
        found = search_heads(self.reach, self.limits, kicked(_mask(head), terms, 0.5, self.rng), terms)
        return found.head(self.reach) if found.complete else head

    def _by_chance(self, head: Ints, other_heads: bool) -> Ints:
        """Members at heads with room by chance; other_heads: of any number, else a third of the members with these heads."""
        devices, rng = self.reach.prices.devices, self.rng
        hosts = np.flatnonzero(_mask(head))
        if other_heads:
            allowed = rng.permutation(np.flatnonzero(devices.candidate))
            hosts = allowed[: rng.integers(self.limits.n_min, self.limits.n_max + 1)]
            while devices.capacity[hosts].sum() < devices.n:
                hosts = allowed[: len(hosts) + 1]
            if len(hosts) > self.limits.n_max:
                return head
        left = np.repeat(hosts, devices.capacity[hosts] - 1)
        members = rng.permutation(np.setdiff1d(np.arange(devices.n), hosts))
        out = np.arange(devices.n)
        out[members] = rng.choice(left, len(members), replace=False)
        if other_heads:
            return out
        stay = members[len(members) // 3 :]
        out[stay] = head[stay]
        size = np.bincount(out, minlength=devices.n)
        return out if (size <= devices.capacity)[hosts].all() else head


def _numbers_between(sweep: list[Grouped], objective: Objective) -> list[int]:
    """Numbers of clusters that were not tried: at most BETWEEN on each side of the best, up to the next that was."""
    tried = sorted({g.figures.clusters for g in sweep})
    best = tried.index(min(sweep, key=lambda g: objective.key(g.figures)).figures.clusters)
    found: set[int] = set()
    for low, high in itertools.pairwise(tried[max(best - 1, 0) : best + 2]):
        found |= {int(k) for k in np.linspace(low, high, BETWEEN + 2).round()}
    return sorted(found - set(tried))


def _by_number(found: list[Grouped], objective: Objective) -> list[Grouped]:
    best: dict[int, Grouped] = {}
    for grouped in found:
        n = grouped.figures.clusters
        if n not in best or better(objective.key(grouped.figures), objective.key(best[n].figures)):
            best[n] = grouped
    return [best[n] for n in sorted(best)]


def _figure(grouped: Grouped, which: str) -> float:
    return grouped.figures.seconds if which == "seconds" else grouped.figures.battery


def _mask(head: Ints) -> Mask:
    """(K,): who is a head."""
    return np.asarray(head == np.arange(len(head)))
