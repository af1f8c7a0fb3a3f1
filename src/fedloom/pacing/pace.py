"""How much work each client gets in an edge round, and when the aggregator stops waiting: the records."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Offer:
    """One edge round before it starts: the m sampled clients, as predicted.

    full_steps (m,): the local steps asked for; unit_steps (m,): steps that belong together (an epoch, or 1);
    step_s (m,): seconds per step; link_s (m,): seconds to fetch the model and return the result; cluster (m,): the
    aggregator each reports to, where several open and close together, or None.
    """

    client: Ints
    full_steps: Ints
    unit_steps: Ints
    step_s: Floats
    link_s: Floats
    cluster: Ints | None = None

    @property
    def full_s(self) -> Floats:
        """Seconds that the whole work would take, (m,)."""
        return self.full_steps * self.step_s + self.link_s


@dataclass(frozen=True, kw_only=True, eq=False)
class Pace:
    """The decision: steps (m,) of each client, and the seconds after which the round closes at the latest.

    The round ends when everybody has arrived, if that is earlier and `early_close`; who comes later is late.
    """

    steps: Ints
    close_s: float = np.inf
    early_close: bool = True


def lockstep(offer: Offer) -> Pace:
    """Everybody does all the work and the aggregator waits for the slowest."""
    return Pace(steps=offer.full_steps)
