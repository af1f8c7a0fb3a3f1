"""Who is where, who is at work, and which updates are under way; moves, and the age of what is under way.

An update goes with its client: if that is with another group when the update is here, and its round there is a later one than
the update was sent in, it is merged there.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.protocol.flight import Flight
from fedloom.protocol.terms import TIE, Attendance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Roster:
    """K clients. group_of (K,): where each is now, -1 for nowhere. busy_until (K,): when it is back, as far as that is known,
    else infinite. late: updates that missed their round. working: by its first client, what is at work in asynchronous groups
    and merged by itself. wander: clients move between edge rounds, so that groups may be in different ones. foreseen: when those
    at work will be back is known beforehand, as in a simulation. returns: it is not, and all come back; dropped: then, by client,
    the ticket of what is not waited for any more but still under way. lasting: when is known, and nobody fails. absent (K,):
    clients that cannot be sent to work now, as they are down; nobody_until_s: if nobody at all is there, when somebody may be
    again."""

    def __init__(
        self,
        n_clients: int,
        wander: bool = False,
        foreseen: bool = True,
        returns: bool = False,
        *,
        failing: bool = False,
    ) -> None:
        self.wander, self.foreseen, self.lasting = wander, foreseen, foreseen and not failing
        self.returns = returns and not failing
        self.dropped: dict[int, int] = {}
        self.absent: NDArray[np.bool_] | None = None
        self.nobody_until_s = -np.inf
        self.group_of = np.full(n_clients, -1)
        self.busy_until = np.zeros(n_clients)
        self.late: list[Flight] = []
        self.working: dict[int, Flight] = {}
        self._tickets = np.zeros(n_clients, dtype=np.int64)

    def __repr__(self) -> str:
        away = np.flatnonzero(np.isinf(self.busy_until)).tolist()
        late = [name for flight in self.late for name in flight.names]
        return f"Roster(group_of={self.group_of.tolist()}, away={away}, late={late}, working={sorted(self.working)})"

    def see(self, attendance: Attendance) -> None:
        """Clients are there now."""
        self.group_of = attendance.group_of

    def idle(self, clients: Ints, at_s: float) -> Ints:
        """Those of the clients (m,) that have nothing to do and are there."""
        free = self.busy_until[clients] <= at_s + TIE
        if self.absent is not None:
            free &= ~self.absent[clients]
        return clients if np.count_nonzero(free) == len(free) else clients[free]

    def at_work(self, clients: Ints, at_s: float) -> Ints:
        """Those of the clients (m,) that have something to do."""
        return clients[self.busy_until[clients] > at_s + TIE]

    def present(self, clients: Ints) -> Ints:
        """Those of the clients (m,) that are there."""
        return clients if self.absent is None else clients[~self.absent[clients]]

    def leave(self, clients: Ints, left_at: int, host: Ints, steps: Ints) -> Flight:
        """Clients (m,) go to work for steps (m,); when they will be back is not known yet."""
        flight = Flight.of(clients, self._tickets[clients], left_at, host, steps)
        self._tickets[clients] += 1
        self.busy_until[clients] = np.inf
        return flight

    def repeated(self, clients: Ints, times: Ints, back_s: Floats) -> None:
        """Clients (m,) were sent to work `times` (m,), and were back from the last at back_s (m,)."""
        self._tickets[clients] += times
        self.busy_until[clients] = back_s

    def take_late(self, group: int, attendance: Attendance, index: int, at_s: float) -> list[Flight]:
        """The late updates that are here and count in the round `index` of a group, taken out of those under way."""
        taken, still_late = [], []
        for flight in self.late:
            here = (attendance.group_of[flight.client] == group) & (flight.arrives_s <= at_s + TIE)
            if not self.foreseen:  # a round may have been open for long, and the client have moved on
                here &= self.group_of[flight.client] == group
            if self.wander:  # groups are in different rounds: not in one before the update was sent
                here &= flight.left_at < index
            mine, away = flight.split(here)
            taken += [mine] if len(mine) else []
            still_late += [away] if len(away) else []
        self.late = still_late
        return taken

    def drop_late(self) -> None:
        """Late updates are lost, and their clients free: those whose update waited here, and those of whom nobody knows whether
        they will be back."""
        for flight in self.late:
            waits = self._is_newest(flight) & np.isinf(self.busy_until[flight.client])
            if self.returns:
                away = flight.pick(waits & np.isinf(flight.arrives_s))
                self.dropped.update(away.names)
                waits &= np.isfinite(flight.arrives_s)
            back_s = np.where(np.isfinite(flight.arrives_s), flight.arrives_s, -np.inf)
            self.busy_until[flight.client[waits]] = back_s[waits]
        self.late = []

    def take_dropped(self, clients: Ints, tickets: Ints, at_s: float) -> Ints:
        """Those of the clients (m,) that bring what was dropped: they are free now."""
        back = [k for k, ticket in zip(clients.tolist(), tickets.tolist()) if self.dropped.get(k) == ticket]
        for k in back:
            del self.dropped[k]
            self.busy_until[k] = at_s
        return np.array(back, dtype=np.int64)

    def n_working(self, group: int) -> int:
        """Flights that are merged by themselves, with a client in the group now."""
        return sum(bool((self.group_of[flight.client] == group).any()) for flight in self.working.values())

    def release(self, group: int) -> list[int]:
        """Updates that waited for an asynchronous group are under way again; their first clients."""
        waiting = [f for f in self.late if self.group_of[f.client[0]] == group]
        self.late = [f for f in self.late if f not in waiting]
        for flight in waiting:
            self.working[int(flight.client[0])] = flight
        return [int(flight.client[0]) for flight in waiting]

    def parted(self, lead: int) -> Iterator[tuple[int, Flight, bool]]:
        """The flight led by a client is back: its parts by the group (or -1) in which their clients are now, and whether it is
        the largest."""
        flight = self.working.pop(lead)
        groups, size = np.unique(self.group_of[flight.client], return_counts=True)
        for i in groups.tolist():
            yield i, flight.pick(self.group_of[flight.client] == i), i == groups[size.argmax()]

    def forget(self, clients: Ints, at_s: float, *, lost: bool = False) -> list[int]:
        """Nobody waits any more for what clients (m,) are at work on and is not here yet (lost: nor has what is here). Who
        has brought nothing is free; the first clients of what is now complete."""
        self.late = [kept for flight in self.late if len(kept := _without(flight, clients, lost))]
        for k in clients.tolist() if self.dropped else ():
            self.dropped.pop(k, None)
        working, complete = {}, []
        for flight in self.working.values():
            kept = _without(flight, clients, lost)
            if len(kept):
                lead = int(kept.client[0])
                working[lead] = kept
                if len(kept) < len(flight) and not np.isinf(kept.arrives_s).any():
                    complete.append(lead)
        self.working = working
        waiting = [f.client[self._is_newest(f)] for f in self.flights([])]  # who has brought what waits, waits with it
        free = np.setdiff1d(clients, np.concatenate([clients[:0], *waiting]))
        self.busy_until[free[np.isinf(self.busy_until[free])]] = at_s
        return complete

    def _is_newest(self, flight: Flight) -> NDArray[np.bool_]:
        """(m,) whether a job is the last that its client was sent to do: it may have been sent again while an update waits."""
        return np.asarray(flight.ticket == self._tickets[flight.client] - 1)

    def keep_age(self, others: Sequence[Flight], shift: Ints) -> None:
        """Updates under way, and others, keep their age though the counts of their clients' groups are larger by shift (K,)."""
        for flight in self.flights(others):
            flight.left_at = flight.left_at + shift[flight.client]

    def flights(self, others: Sequence[Flight]) -> list[Flight]:
        """All that is under way, and others."""
        return [*self.late, *self.working.values(), *others]


def _without(flight: Flight, clients: Ints, lost: bool) -> Flight:
    """What is left of a flight without these clients' jobs that are not here yet (lost: or are)."""
    theirs = np.isin(flight.client, clients)
    return flight.pick(~theirs if lost else ~(theirs & np.isinf(flight.arrives_s)))
