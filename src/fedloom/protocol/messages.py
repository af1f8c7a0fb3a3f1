"""What machines are told (events) and what they answer (actions): plain records that print like a log.

`group` is the number of the edge machine that is meant or speaks: an aggregator, or several that share clients or a host and
therefore open and close together. Times are seconds of whatever clock the driver has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing import Arrivals, CloudWeights, EdgeWeights, Reports
from fedloom.protocol.flight import Flight
from fedloom.protocol.terms import Attendance

Ints = NDArray[np.int64]


# Events for an edge


class Begin(NamedTuple):
    """The model of the cloud is here from at_s on: run so many rounds of `units` of local work. steps_left: if given, the local
    steps of a client until the run is over, so that the last round may have fewer. progress: what members trained before (for a
    feature), which is merged first. ticket: the number of the cloud's order, by which a second copy is known; None: there are no
    copies."""

    at_s: float
    rounds: int
    units: int
    steps_left: int | None = None
    progress: Flight | None = None
    ticket: int | None = None


class Open(NamedTuple):
    """Open a round, the number-th of the run (from 0) by the count that the groups share."""

    at_s: float
    number: int
    attendance: Attendance


class OnTheWay(NamedTuple):
    """Those who were sent to work have left. takes_s (m,): seconds until each is back, NaN if not known; late (m,): it is known
    that they will not be back in time."""

    at_s: float
    flight: Flight
    takes_s: NDArray[np.float64]
    late: NDArray[np.bool_]


class Arrived(NamedTuple):
    """Updates are here. counts: as one of the arrivals that were waited for."""

    at_s: float
    flight: Flight
    counts: bool = True


class Due(NamedTuple):
    """The time that a round asked for is over; `edge_round`: the one that asked."""

    at_s: float
    edge_round: int


class Moved(NamedTuple):
    """Clients have come or gone while a round may be open."""

    at_s: float
    attendance: Attendance


class Gone(NamedTuple):
    """Clients (m,) will not bring back what they were sent to do, if it is not here yet: nobody waits for it any more."""

    at_s: float
    client: Ints


class Lost(NamedTuple):
    """Aggregators of the group are silent, and nobody waits for them any more: what they made since the model of the cloud is
    gone, and so is what clients (m,) did or do for them."""

    at_s: float
    aggregators: Ints
    client: Ints


# Actions of an edge


class Ready(NamedTuple):
    """Wants to open its next round at at_s."""

    group: int
    at_s: float


class Send(NamedTuple):
    """Send clients to work, steps (m,) each. parts: their flights, one for all or one for each that is merged by itself. Who is
    back after more than deadline_s is late. from_own: they start from what they trained last."""

    group: int
    client: Ints
    steps: Ints
    parts: Sequence[Flight]
    deadline_s: float = np.inf
    from_own: bool = False


class Wake(NamedTuple):
    """Wants to be told when it is at_s."""

    group: int
    at_s: float
    edge_round: int


class Again(NamedTuple):
    """An update that waited is delivered anew: that of the flight led by this client."""

    group: int
    lead: int


@dataclass(frozen=True, eq=False)
class Part:
    """The new model of an aggregator: its old one and these updates, by weights. weights is None where they depend on the
    models' values, which only the driver has."""

    aggregator: int
    flights: Sequence[Flight]
    arrivals: Arrivals
    weights: EdgeWeights | None


class Merge(NamedTuple):
    """Merge updates, at every aggregator of the group that has some. n_updates: how many are merged, not counting progress."""

    group: int
    parts: Sequence[Part]
    n_updates: int


class RoundOver(NamedTuple):
    """An edge round is over, the n_rounds-th of the group."""

    group: int
    n_rounds: int


class Report(NamedTuple):
    """Send the models of these aggregators (those with news) to the cloud; not before at_s. ticket: of the order that this
    answers."""

    group: int
    at_s: float
    aggregators: Ints
    ticket: int | None = None


class Asleep(NamedTuple):
    """Nobody is there; it goes on when somebody comes."""

    group: int


# Actions of the cloud


class Down(NamedTuple):
    """Send the group its models, and let it begin. ticket: the number of this order, which its report names."""

    group: int
    ticket: int = 0


class CloudMerge(NamedTuple):
    """Merge what the aggregators reported, by these weights; where they depend on the models' values, by others, and these are
    shown."""

    reports: Reports
    weights: CloudWeights


class Score(NamedTuple):
    """Wants to know the accuracy of the model after so many cloud merges."""

    version: int


EdgeEvent = Begin | Open | OnTheWay | Arrived | Due | Moved | Gone | Lost
Action = Ready | Send | Wake | Again | Merge | RoundOver | Report | Asleep | Down | CloudMerge | Score
