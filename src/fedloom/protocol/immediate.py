"""A cloud that merges each report when it comes, and lets its sender go on at once, if a bound on staleness allows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedloom.pacing import StalenessBound, may_start, next_bound
from fedloom.protocol.cloud import Cloud
from fedloom.protocol.messages import Action, Score


@dataclass(frozen=True, kw_only=True)
class Immediate:
    """Merges every report at once."""

    bound: StalenessBound | None = None
    """How far aggregators may run ahead of each other."""

    exists: ClassVar[bool] = True
    waits: ClassVar[bool] = False
    cluster_share: ClassVar[float] = 0.0
    warmup: ClassVar[int] = 0
    uplink: ClassVar[None] = None

    def reports_of_each(self, rounds: int | None, of_scenario: int) -> int:
        """As many as make the scenario's edge rounds."""
        return 1 if rounds is None else max(1, round(of_scenario / rounds))

    def begin(self, cloud: Cloud) -> list[Action]:
        """Only the first time: later the groups go on by themselves."""
        return [] if cloud.begun else [action for i in range(len(cloud.edges)) for action in cloud.down(i)]

    def reported(self, cloud: Cloud, group: int, at_s: float) -> list[Action]:
        merged = cloud.merged([group])
        cloud.waiting.append(group)
        wanted = self._scores(cloud, at_s)
        return [*merged, *(Score(version) for version in wanted)] if wanted else [*merged, *self._restart(cloud)]

    def finish(self, cloud: Cloud) -> list[Action]:
        return []

    def fell_asleep(self, cloud: Cloud) -> list[Action]:
        """Nobody has to wait for it."""
        return self._restart(cloud)

    def idle(self, cloud: Cloud, group: int) -> list[Action]:
        """As who has reported: it gets the newest model, when those at work are not too far behind that."""
        cloud.out.pop(group, None)
        cloud.waiting += [] if group in cloud.waiting else [group]
        return self._restart(cloud)

    def recovered(self, cloud: Cloud, idle: Sequence[int]) -> list[Action]:
        cloud.waiting = list(idle)
        return self._restart(cloud)

    def scored(self, cloud: Cloud, version: int, accuracy: float, at_s: float) -> list[Action]:
        """Move the bound by how fast accuracy rose since the last time."""
        assert cloud.bound is not None
        if version == 0:
            cloud.window = (0.0, accuracy)
            return [] if self._due(cloud, cloud.bound, at_s) else self._restart(cloud)
        since_s, before = cloud.window
        cloud.window = (at_s, accuracy)
        cloud.bound = next_bound(cloud.bound, accuracy - before, at_s - since_s)
        return self._restart(cloud)

    def _scores(self, cloud: Cloud, at_s: float) -> list[int]:
        """The versions whose accuracy is wanted now."""
        if cloud.bound is None or not cloud.bound.adapt_every:
            return []
        first = [0] if cloud.version == 1 else []
        return [*first, cloud.version] if self._due(cloud, cloud.bound, at_s) else first

    def _due(self, cloud: Cloud, bound: StalenessBound, at_s: float) -> bool:
        """A window is over."""
        return cloud.version % bound.adapt_every == 0 and at_s > cloud.window[0]

    def _restart(self, cloud: Cloud) -> list[Action]:
        """Those who have nothing to do go on, unless that would take them too far ahead of those at work."""
        actions: list[Action] = []
        for group in list(cloud.waiting):
            if cloud.bound is not None:
                idle = {*cloud.waiting, *(edge.group for edge in cloud.edges if edge.asleep)}
                working = [int(cloud.fetched[e.aggregators].min()) for e in cloud.edges if e.group not in idle]
                if not may_start(cloud.version, working, cloud.bound.s_max):
                    continue
            cloud.waiting.remove(group)
            actions += cloud.down(group)
        return actions
