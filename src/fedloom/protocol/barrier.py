"""A cloud that waits for all aggregators before it merges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedloom import _check
from fedloom.pacing import StalenessBound
from fedloom.pacing.time_sharing import Share
from fedloom.protocol.cloud import Cloud
from fedloom.protocol.messages import Action


class Waits:
    """Rules of a cloud round that is over when everybody has reported."""

    waits: ClassVar[bool] = True
    bound: ClassVar[StalenessBound | None] = None

    def reports_of_each(self, rounds: int | None, of_scenario: int) -> int:
        return 1

    def begin(self, cloud: Cloud) -> list[Action]:
        return [action for i in range(len(cloud.edges)) for action in cloud.down(i)]

    def reported(self, cloud: Cloud, group: int, at_s: float) -> list[Action]:
        return []

    def fell_asleep(self, cloud: Cloud) -> list[Action]:
        return []

    def idle(self, cloud: Cloud, group: int) -> list[Action]:
        """All wait for it."""
        return cloud.down(group)

    def recovered(self, cloud: Cloud, idle: Sequence[int]) -> list[Action]:
        """Who is idle was not reached by what was sent before."""
        actions = [action for group in idle for action in cloud.down(group)]
        cloud.due = len(cloud.out)
        return actions

    def scored(self, cloud: Cloud, version: int, accuracy: float, at_s: float) -> list[Action]:
        return []


@dataclass(frozen=True, kw_only=True)
class Barrier(Waits):
    """Merges when everybody has reported."""

    cluster_share: float = 0.0
    """What goes back down is so much of the model of the aggregator's cluster, which is the mean of its aggregators' by their
    cloud weights, and the rest of the global one."""
    warmup: int = 0
    """Cloud rounds of FedAvg before the first grouping."""
    drop_late: bool = False
    """Updates that are late when the cloud merges are dropped, not merged later."""
    uplink: Share | None = None
    """When reports that share the air are there, from when each could be sent (N,) and what it takes (N,); they then wait until
    all could be sent. Else each has a link of its own."""

    exists: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.whole("warmup", self.warmup, least=0)
        if not 0 <= self.cluster_share <= 1:
            raise ValueError(f"cluster_share must be between 0 and 1, got {self.cluster_share:g}")

    def finish(self, cloud: Cloud) -> list[Action]:
        actions = cloud.merged(range(len(cloud.edges)))
        if self.drop_late:
            cloud.roster.drop_late()
        return actions
