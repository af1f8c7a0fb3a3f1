"""A time box: the edge rounds that fit into so many seconds as predicted; then everybody reports.

A round that chance keeps open until the end is closed then, who has not arrived is late, and no round opens any more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fedloom import _check
from fedloom.pacing import Offer, Pace, lockstep, rounds_in_box
from fedloom.pacing.time_sharing import Share
from fedloom.protocol.edge import Edge
from fedloom.protocol.messages import Action, Begin, Open
from fedloom.protocol.rounds import Together
from fedloom.protocol.terms import TIE

SLACK = 2e-9  # of a box: rounds that fill it exactly on paper may be over it by rounding


@dataclass(frozen=True, kw_only=True)
class TimeBox(Together):
    """As many edge rounds as fit into `seconds`."""

    seconds: float
    """From when the model of the cloud is here until the report; finite, so that a cloud round ends."""
    pace: Callable[[Offer], Pace] = lockstep
    """How much work each sampled client gets, and how long the edge waits in a round."""
    uplink: Share | None = None
    """When uploads that share the air are over, as for `Rounds`."""
    lost_on_move: bool = False
    """Updates of clients that have meanwhile moved to another host are lost, not merged there."""

    in_step: ClassVar[bool] = False
    rounds: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check.positive("box_s", self.seconds)
        if not math.isfinite(self.seconds):
            raise ValueError(f"box_s must be finite, so that a cloud round ends, got {self.seconds:g}")

    @property
    def box_s(self) -> float | None:
        return self.seconds

    @property
    def waits_for_all(self) -> bool:
        return self.pace is lockstep

    def begin(self, edge: Edge, event: Begin) -> list[Action]:
        edge.report_at_s = event.at_s + self.seconds
        edge.slack_s = TIE + SLACK * self.seconds
        steps = edge.terms.unit_steps[edge.members] * event.units
        full_s = steps * edge.here.step_s[edge.members] + edge.here.links_s(edge.members, steps)
        slowest_s = float(full_s.max(initial=0.0))
        return edge.begun(event, rounds_in_box(self.seconds, slowest_s) if slowest_s else 0)

    def open(self, edge: Edge, event: Open) -> list[Action]:
        """Whoever slept until the box was over reports what it has."""
        if event.at_s >= edge.report_at_s - edge.slack_s:
            edge.attend(event.attendance)
            edge.rounds_left = 0
            return [edge.report(event.at_s)]
        return self.opened(edge, event, self.pace)
