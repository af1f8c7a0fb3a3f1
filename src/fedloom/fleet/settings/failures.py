"""Devices that fail: when they are there, their batteries, work that is broken off, packets that are lost."""

import itertools
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet.settings.quantities import Share, Watts

Time = Annotated[
    float, Field(gt=0, ge=1e-3, le=1e9)
]  # s; nobody comes and goes more often than a thousand times a second
Moment = Annotated[float, Field(ge=0, le=1e9)]
Hour = Annotated[float, Field(ge=0, le=24)]
Joules = Annotated[float, Field(ge=1e-9, le=1e18)]
Chance = Annotated[float, Field(ge=0, lt=1)]


class OnOff(Settings):
    """On and off in turn, for `on_s` and `off_s` seconds: on average, each time drawn anew (exponential), or exactly (fixed),
    each device from a moment of its own."""

    kind: Literal["on-off"] = "on-off"
    on_s: Time
    off_s: Time
    law: Literal["exponential", "fixed"] = "exponential"


class Daily(Settings):
    """On every day from one hour to another, over midnight if the second is earlier; the run begins at midnight. `spread_h`: each
    device earlier or later by up to so much, by a lot of its own."""

    kind: Literal["daily"] = "daily"
    from_h: Hour
    to_h: Hour
    spread_h: Annotated[float, Field(ge=0, le=12)] = 0.0

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if (self.to_h - self.from_h) % 24 == 0:
            raise ValueError(
                f"from_h and to_h must differ, got {self.from_h:g} and {self.to_h:g}; leave it out for always"
            )
        return self


class Trace(Settings):
    """As measured. `file`: a CSV or Parquet table with the columns time_s, device and on (1 or 0), which stands for what is in
    it: `first_on`, who is on at the start, and `changes_s`, the moments at which each device changes, ascending."""

    kind: Literal["trace"] = "trace"
    first_on: Row[bool]
    changes_s: Row[Row[Moment]]

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if len(self.first_on) != len(self.changes_s):
            raise ValueError(
                f"first_on and changes_s must be of the same devices, got {len(self.first_on)} and {len(self.changes_s)}"
            )
        for k, times in enumerate(self.changes_s):
            if any(a >= b for a, b in itertools.pairwise(times)):
                raise ValueError(f"changes_s of device {k} must ascend")
        return self

    def check(self, n_devices: int) -> None:
        """Refuse a trace of other than so many devices."""
        if len(self.first_on) != n_devices:
            raise ValueError(f"the trace is of {len(self.first_on)} devices, but n_devices is {n_devices}")


Availability = Annotated[OnOff | Daily | Trace, Field(discriminator="kind")]


class Charging(Settings):
    """`power_w` while a device is plugged in, and when that is."""

    power_w: Watts
    when: Availability


class BatterySettings(Settings):
    """Of every device, unless `devices` has its `battery_j`. `level`: share that is in it at the start. A device takes `idle_w`
    all the time, `receive_w` more while a model comes down, and what the ledger books for computing and sending. One that is
    empty leaves, and is there again when it is charged to `back_at` of its capacity."""

    capacity_j: Joules | None = None
    level: Share = 1.0
    idle_w: Watts = 0.0
    receive_w: Watts = 0.0
    charging: Charging | None = None
    back_at: Share = 0.2


class Dropout(Settings):
    """`per_round`: chance that a device that is sent to work breaks off, at a moment in it that is as likely as any other. It is
    away for `off_s`, and there again."""

    per_round: Chance
    off_s: Moment = 0.0


class PacketLoss(Settings):
    """`packet`: chance that a packet between a device and an edge server, head or the cloud is lost. A message is cut into equal
    packets of at most `packet_bytes`; each is sent again until it is there, `tries` times in all. If one is not there then, the
    message is lost."""

    packet: Chance
    packet_bytes: Annotated[int, Field(ge=1, le=2**31)] = 1500
    tries: Annotated[int, Field(ge=1, le=1000)] = 8
