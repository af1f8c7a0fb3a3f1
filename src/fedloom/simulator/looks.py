"""Looking at a federation between cloud rounds: what the cloud would make of the aggregators' models, which nobody holds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fedloom.protocol import Edge, Federation
from fedloom.simulator.book import Model
from fedloom.simulator.held import Held


class Look(NamedTuple):
    """After so many edge rounds: the model, and others that a state has."""

    edge_rounds: int
    model: Model
    models: dict[str, Any]


class Looks:
    """Every so many edge rounds (None: never)."""

    def __init__(self, machines: Federation, held: Held, every: int | None) -> None:
        self._machines, self._held, self._every = machines, held, every
        self._noted: dict[int, dict[int, Model]] = {}  # by edge round of this cloud round: models of groups that had it
        self._n_looked = 0

    def forget(self) -> None:
        """A cloud round is over."""
        self._noted = {}

    def kept(self) -> list[Model]:
        """The models that are to be looked at later, in a fixed order."""
        return [models[n] for _, models in sorted(self._noted.items()) for n in sorted(models)]

    def note(self, edge: Edge, done: int) -> None:
        """Keep a group's models if they are to be looked at after so many edge rounds of this cloud round."""
        if self._every is not None and self._machines.cloud.mode.waits and done % self._every == 0:
            self._noted.setdefault(done, {}).update({n: self._held.edges[n] for n in edge.aggregators.tolist()})

    def due(self, rounds_before: int) -> Iterator[Look]:
        """What is to be looked at now.

        With a cloud that merges at once: its model, when the groups have had so many edge rounds on average. Else what it would
        make of the aggregators' models after the same number of edge rounds, as soon as the last group has had them (a
        group that has fewer in this cloud round stays at its last); not after the last one, when the cloud merges.
        """
        if self._every is None:
            return
        edges = self._machines.edges
        if not self._machines.cloud.mode.waits:
            done = sum(edge.n_rounds for edge in edges) // len(edges)
            if done >= self._n_looked + self._every:
                self._n_looked = done - done % self._every
                yield Look(done, self._held.model, {})
            return
        for done in sorted(self._noted):
            waited_for = [edge for edge in edges if edge.rounds_left > 0]
            if not waited_for or any(edge.n_rounds - rounds_before < done for edge in waited_for):
                return
            yield self._would_be(rounds_before + done, self._noted.pop(done))

    def _would_be(self, edge_rounds: int, noted: dict[int, Model]) -> Look:
        held, cloud = self._held, self._machines.cloud
        models = list(held.edges)
        for n, model in noted.items():
            models[n] = model
        reports = cloud.reports(cloud.attendance, cloud.fresh(range(len(cloud.edges))))
        weights = cloud.merge.weights(reports)
        merged = held.at_cloud(reports, weights, models)
        edges = [(m, w) for m, w in zip(models, weights.edge.tolist()) if w]
        clusters = held.clusters_of(models, weights.edge, models)
        of_clusters = [clusters[c] for c in held.topology.clusters.tolist()]
        return Look(edge_rounds, merged, {"edges": edges, "reported_models": models, "cluster_models": of_clusters})
