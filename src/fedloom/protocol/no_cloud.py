"""No cloud: aggregators keep their own models, and agree through clients they share, if at all.

A cloud round is over when all have done its edge rounds. The mean of their models, which nobody holds, is for evaluation only.
"""

from dataclasses import dataclass
from typing import ClassVar

from fedloom.protocol.barrier import Waits
from fedloom.protocol.cloud import Cloud
from fedloom.protocol.messages import Action


@dataclass(frozen=True, kw_only=True)
class NoCloud(Waits):
    """Nobody merges the aggregators' models."""

    exists: ClassVar[bool] = False
    cluster_share: ClassVar[float] = 0.0
    warmup: ClassVar[int] = 0
    uplink: ClassVar[None] = None

    def finish(self, cloud: Cloud) -> list[Action]:
        return cloud.merged(range(len(cloud.edges)))
