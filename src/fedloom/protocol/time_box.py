"""A time box: the edge rounds that fit into so many seconds as predicted; then everybody reports.

A round that chance keeps open until the end is closed then, who has not arrived is late, and no round opens any more.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from fedloom import _check
from fedloom.pacing import Offer, Pace, rounds_in_box
from fedloom.protocol.edge import Edge
from fedloom.protocol.messages import Action, Begin, Open
from fedloom.protocol.rounds import Rounds
from fedloom.protocol.terms import TIE

SLACK = 2e-9  # of a box: rounds that fill it exactly on paper may be over it by rounding


@dataclass(frozen=True, kw_only=True)
class TimeBox(Rounds):
    """As many edge rounds as fit into `seconds`."""

    seconds: float
    """From when the model of the cloud is here until the report; finite, so that a cloud round ends."""

    in_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive("box_s", self.seconds)
        if not math.isfinite(self.seconds):
            raise ValueError(f"box_s must be finite, so that a cloud round ends, got {self.seconds:g}")

    @property
    def box_s(self) -> float | None:
        return self.seconds

    def begin(self, edge: Edge, event: Begin) -> list[Action]:
        edge.report_at_s = event.at_s + self.seconds
        edge.slack_s = TIE + SLACK * self.seconds
        full_s = edge.terms.unit_steps * event.units * edge.here.step_s + edge.here.link_s
        slowest_s = float(full_s[edge.members].max(initial=0.0))
        return edge.begun(event, rounds_in_box(self.seconds, slowest_s) if slowest_s else 0)

    def open(self, edge: Edge, event: Open) -> list[Action]:
        """Whoever slept until the box was over reports what it has."""
        if event.at_s >= edge.report_at_s - edge.slack_s:
            edge.attend(event.attendance)
            edge.rounds_left = 0
            return [edge.report(event.at_s)]
        return super().open(edge, event)

    def paced(self, edge: Edge, at_s: float, offer: Offer) -> Pace:
        pace = self.pace(offer)
        return replace(pace, close_s=min(pace.close_s, edge.report_at_s - at_s))
