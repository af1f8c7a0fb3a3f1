"""Accuracies of the cloud's model on samples that no client has, which a bound on staleness goes by."""

from collections.abc import Callable, Mapping

from fedloom.methods import Method
from fedloom.simulator.book import Model
from fedloom.simulator.carrying import Carrier
from fedloom.simulator.held import Held


class Scores:
    """known: by the number of cloud merges; what is given at the start is not measured again. score measures one."""

    def __init__(
        self,
        method: Method,
        carrier: Carrier,
        held: Held,
        score: Callable[[Model], float] | None,
        known: Mapping[int, float] | None,
    ) -> None:
        self._name, self._carrier, self._held, self._score = method.name, carrier, held, score
        self.known: dict[int, float] = dict(known or {})

    def of(self, version: int) -> float:
        """The accuracy of the cloud's model after so many merges: of the first, or of now."""
        model = self._held.model if version else self._held.first
        if version in self.known:  # of the run that is gone on with: there the model was computed at this moment
            self._carrier.known(model)
        else:
            if self._score is None:
                raise ValueError(
                    f"{self._name} adapts its bound on staleness by accuracy, and this federation was given no way to "
                    f"measure it; fedloom.Simulation does that"
                )
            self.known[version] = self._score(model)
        return self.known[version]
