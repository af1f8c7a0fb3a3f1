"""Devices: how far each has come, which decides what it trains on and how it is told apart from an earlier time.

A device does local steps all its life; mini-batches are picked by their number. In one edge round it may be sent to work more
than once (by asynchronous groups), and what happens to it then is another draw of chance each time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass
class Device:
    """One device in a real network, and what it owes. ticket: of its newest job; done: it is trained; taken: an edge has it.

    An order is repeated until the update is there, so that a device that has lost its state gets it again, under the same ticket.
    """

    ticket: int = -1
    done: bool = False
    taken: bool = False

    def ordered(self, ticket: int) -> bool:
        """An order is here: whether to begin. A copy is not begun again, nor one that a newer order has overtaken."""
        if ticket <= self.ticket:
            return False
        self.ticket, self.done, self.taken = ticket, False, False
        return True

    def finished(self, ticket: int) -> None:
        """A job is trained."""
        self.done |= ticket == self.ticket

    def accepted(self, ticket: int) -> None:
        """An edge has the update, or does not want it any more."""
        self.taken |= ticket == self.ticket

    @property
    def owes(self) -> bool:
        """Whether to send its update (again)."""
        return self.done and not self.taken


class Departure(NamedTuple):
    """m devices go to work: first_step (m,): steps each has done before; times (m,): how often it was sent before in this edge
    round."""

    first_step: Ints
    times: Ints


class Devices:
    """K devices. steps (K,): done or under way, in all; in_cloud_round (K,): of them in this cloud round, without features."""

    def __init__(self, n_devices: int) -> None:
        self.steps = np.zeros(n_devices, dtype=np.int64)
        self.in_cloud_round = np.zeros(n_devices, dtype=np.int64)
        self._last_round = np.full(n_devices, -1)
        self._times = np.zeros(n_devices, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Devices(steps={self.steps.tolist()})"

    def begin_cloud_round(self) -> None:
        """Count its steps from zero."""
        self.in_cloud_round = np.zeros_like(self.in_cloud_round)

    def practise(self, clients: Ints, steps: Ints) -> Ints:
        """Clients (m,) do steps (m,) for a feature; returns the steps each has done before."""
        first_step = self.steps[clients]
        self.steps[clients] = first_step + steps
        return first_step

    def leave(self, clients: Ints, steps: Ints, edge_round: int) -> Departure:
        """Clients (m,) go to work for steps (m,) in an edge round."""
        again = self._last_round[clients] == edge_round
        times = np.where(again, self._times[clients] + 1, 0)
        self._times[clients], self._last_round[clients] = times, edge_round
        self.in_cloud_round[clients] += steps
        return Departure(self.practise(clients, steps), times)

    def repeated(self, clients: Ints, steps: Ints, edge_round: Ints) -> None:
        """Clients (m,) have done steps (m,) in a cloud round like the last, once in an edge round; edge_round (m,): the last."""
        self.in_cloud_round = np.zeros_like(self.in_cloud_round)
        self.in_cloud_round[clients] = steps
        self.steps += self.in_cloud_round
        self._last_round[clients] = edge_round
