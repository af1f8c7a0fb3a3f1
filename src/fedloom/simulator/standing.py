"""What aggregators remember of devices and the cloud of aggregators (fedloom.mixing.robust.reputation): scores by host, models of
the book like any other, so they are computed when somebody looks, and are in checkpoints."""

import numpy as np

from fedloom.simulator.book import Model, derive

Host = tuple[str, int]
CLOUD: Host = "", -1


class Standing:
    """n: so many devices or cells at most, each with a score, 1 in the beginning. A host that is an aggregator again goes on with
    what it knew; what one host knows is not told to others. A host: its kind and number."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._kept: dict[Host, Model] = {}

    @property
    def live(self) -> list[Model]:
        """What the next merges begin with, in a fixed order."""
        return [self._kept[host] for host in sorted(self._kept)]

    def before(self, host: Host) -> Model:
        """Scores (n,) that a host, or the cloud, goes by now."""
        n = self._n
        return self._kept.get(host) or derive([], lambda rows: np.ones(n), steps=0)

    def note(self, host: Host, scores: Model) -> None:
        """It has merged."""
        self._kept[host] = scores
