"""Who is there: devices go down and come back, and the federation is told when it matters.

Those at work are told of when it is known that they will not bring their updates (Failed). Heads are looked after (Check): when
one is down its cluster is without an aggregator. Whoever else is down is not sent to work; if nobody at all is there, all wait
for the moment when somebody may be (Returned).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.protocol import Federation
from fedloom.protocol.messages import Send
from fedloom.simulator.absent import Absent
from fedloom.simulator.clock import Back, Check, Failed, Lost, Returned, Timepiece
from fedloom.simulator.outages import Fate, Outages

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Presence:
    """absent (K,): who is down; of each a time before which it will not be back."""

    def __init__(self, outages: Outages, machines: Federation, silent: Absent, clock: Timepiece) -> None:
        self.outages, self._machines, self._silent, self._clock = outages, machines, silent, clock
        self._checks: dict[int, float] = {}  # by head, when it is looked after next
        self._stirs_s = np.inf  # when those who sleep are next woken, if somebody is there
        self.look()

    def look(self) -> None:
        """See who is down now."""
        self.absent, self._back_s = self.outages.down(self._clock.now_s)
        mine = self._machines.roster.group_of >= 0
        if self._machines.roster.wander or not mine.any():  # others may come
            mine[:] = True
        who = np.flatnonzero(mine)
        somebody_s = self.somebody_s(who)
        self._machines.see_absent(self.absent, somebody_s if somebody_s > self._clock.now_s else -np.inf)

    @property
    def back_s(self) -> Floats:
        """(K,) before when each will not be there; now, if it is."""
        return np.where(self.absent, self._back_s, self._clock.now_s)

    def somebody_s(self, who: Ints) -> float:
        """Not before then is one of `who` there; now, if one is."""
        there = not self.absent[who].all()
        return self._clock.now_s if there else float(self._back_s[who].min(initial=np.inf))

    def sent(self, action: Send) -> None:
        """Clients have gone to work: of some it will be known later that they fail."""
        fate: Fate | None = action.parts[0].load.fate
        if fate is None:
            return
        for part in action.parts:
            for j in np.flatnonzero(np.isfinite(fate.known_s[part.at])).tolist():
                failed = Failed((int(part.client[j]),), (int(part.ticket[j]),))
                self._clock.foresee(float(fate.known_s[part.at[j]]), failed)

    def watch(self, topology: Topology, among: Ints | None = None) -> None:
        """Look after the heads of a topology (or those of them among these devices) when they may go down, or come back."""
        hosts = np.unique(topology.host) if topology.kind == "head" else np.zeros(0, dtype=np.int64)
        for host in (hosts if among is None else np.intersect1d(hosts, among)).tolist():
            self._watch(host)

    def _watch(self, host: int) -> None:
        now_s, silent = self._clock.now_s, self._silent.is_silent("head", host)
        at_s = now_s if self.absent[host] != silent else self.outages.next_change_s(host, now_s)
        if np.isfinite(at_s) and at_s < self._checks.get(host, np.inf):
            self._checks[host] = at_s
            self._clock.foresee(at_s, Check(host))

    def check(self, host: int, topology: Topology) -> Iterator[Lost | Back]:
        """A head may be down now, or up again."""
        silent = self._silent.is_silent("head", host)
        if silent and not self.absent[host]:
            yield Back("head", host)
        elif self.absent[host] and not silent and topology.kind == "head" and (topology.host == host).any():
            yield Lost("head", host, ())
        if self._checks.get(host, -np.inf) <= self._clock.now_s:  # else it is looked after later
            self._checks.pop(host, None)
            if self._silent.is_silent("head", host) or (topology.kind == "head" and (topology.host == host).any()):
                self._watch(host)

    def stir(self, asleep: Sequence[Ints]) -> None:
        """Groups with these members sleep: they are woken when one of them may be there."""
        at_s = min((self.somebody_s(members) for members in asleep if self.absent[members].any()), default=np.inf)
        if np.isfinite(at_s) and not self._clock.now_s < self._stirs_s <= at_s:
            self._stirs_s = at_s
            self._clock.foresee(at_s, Returned())
