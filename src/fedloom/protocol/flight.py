"""Updates under way: what clients were sent to do and has not been merged yet."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(eq=False)
class Flight:
    """m jobs of clients that were sent to work together.

    An update is named by (client, ticket): the ticket is the number of the client's job, so that a second copy is known as
    such. left_at: the group's count of edge rounds (async: of merges) when the client left, for its staleness. host: of the
    aggregator it was sent from. steps: local steps that it was sent to do. arrives_s: when it is back; infinite as long as that
    is not known. at: its place in `load`, which is the driver's and never looked into: there the models are.
    """

    client: Ints
    ticket: Ints
    left_at: Ints
    host: Ints
    steps: Ints
    arrives_s: Floats
    at: Ints
    load: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, client: Ints, ticket: Ints, left_at: int, host: Ints, steps: Ints) -> "Flight":
        """Clients (m,) that leave now."""
        m = len(client)
        return cls(client, ticket, np.full(m, left_at), host, steps, np.full(m, np.inf), np.arange(m))

    def __len__(self) -> int:
        return len(self.client)

    def pick(self, which: NDArray[Any]) -> "Flight":
        """Some of them: a mask (m,) or positions."""
        if which.dtype == np.bool_ and np.count_nonzero(which) == len(which):
            return self
        return Flight(
            self.client[which],
            self.ticket[which],
            self.left_at[which],
            self.host[which],
            self.steps[which],
            self.arrives_s[which],
            self.at[which],
            self.load,
        )

    def split(self, mask: NDArray[np.bool_]) -> tuple["Flight", "Flight"]:
        """Those in the mask (m,), and the others. Mostly it is all of them."""
        return (self, self.pick(NOBODY)) if np.count_nonzero(mask) == len(mask) else (self.pick(mask), self.pick(~mask))

    def missing(self, tickets: Ints) -> NDArray[np.bool_]:
        """(m,) those that are not here yet, of the jobs with these tickets (K,) of their clients."""
        return np.asarray(np.isinf(self.arrives_s) & (tickets[self.client] == self.ticket))

    @property
    def names(self) -> list[tuple[int, int]]:
        """(client, ticket) of each."""
        return list(zip(self.client.tolist(), self.ticket.tolist()))
