"""What is known of each device of a fleet that exists, and the table it comes from."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet.availability_trace import read_trace
from fedloom.fleet.settings.measured import with_measurements
from fedloom.fleet.table import read_fleet

Speed = Annotated[float, Field(ge=1e-9, le=1e15)]
OwnWatts = Annotated[float, Field(ge=1e-15, le=1e9)]
OwnJoules = Annotated[float, Field(ge=1e-9, le=1e18)]
OwnRate = Annotated[float, Field(ge=1e-9, le=1e18)]


class DeviceSettings(Settings):
    """A number for each device, in the order of their places; what is not given is as the links and `compute` say.

    `power_w` is with what a device sends, to edge servers, to the cloud and to each other: over radio links it decides the rate
    too, so that the two directions between devices differ. `steps_per_s` or `samples_per_s`: how fast it trains. `up_bit_s`,
    `down_bit_s`: measured rates to and from edge servers and the cloud. `battery_j`: what its battery holds, null for mains;
    it counts if the fleet has a `battery`.
    """

    power_w: Row[OwnWatts] | None = None
    steps_per_s: Row[Speed] | None = None
    samples_per_s: Row[Speed] | None = None
    up_bit_s: Row[OwnRate] | None = None
    down_bit_s: Row[OwnRate] | None = None
    battery_j: Row[OwnJoules | None] | None = Field(default=None, exclude_if=lambda value: value is None)

    @model_validator(mode="after")
    def _one_speed(self) -> Self:
        if self.steps_per_s is not None and self.samples_per_s is not None:
            raise ValueError("give steps_per_s or samples_per_s, not both")
        return self

    def check(self, n_devices: int) -> None:
        """Refuse numbers for other than so many devices."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is not None and len(value) != n_devices:
                raise ValueError(f"{name} must have a number for each of {n_devices} devices, got {len(value)}")


def with_table(data: dict[str, Any]) -> dict[str, Any]:
    """Settings of a fleet whose `table` is a file, with what stands in it instead: number and places of devices, and what is
    known of each. Samples and classes of the table are for plans; in a run the data are what they are."""
    rest = {key: value for key, value in data.items() if key not in ("table", "placement")}
    path = data["table"]
    if not isinstance(path, str | Path):
        raise ValueError(f"table must be the path of a CSV or Parquet file, got {path!r:.60}")
    try:
        found = read_fleet(path)
    except OSError as error:
        raise ValueError(f"table: {path} cannot be read ({error.strerror or error})") from None
    n = found.n_devices
    if data.get("n_devices", n) != n:
        raise ValueError(f"{path} has {n} devices, but n_devices is {data['n_devices']!r:.20}; leave n_devices out")
    if data.get("devices") is not None:
        raise ValueError("table and devices both say what is known of each device; leave one of them out")
    places = found.position_m.tolist()
    if found.height_m is not None:
        places = [[*place, height] for place, height in zip(places, found.height_m.tolist())]
    columns = {name: getattr(found, name) for name in DeviceSettings.model_fields}
    known = {name: column.tolist() for name, column in columns.items() if column is not None}
    if data.get("battery") is None:
        known.pop("battery_j", None)  # it is for plans
    elif "battery_j" in known:
        known["battery_j"] = [None if math.isinf(joules) else joules for joules in known["battery_j"]]
    own = {"devices": known} if known else {}
    rest = with_measurements(with_traces({**rest, "n_devices": n}, found.ids), found.ids, found.origin)
    return {**rest, "placement": {"kind": "coordinates", "positions_m": places}, **own}


def with_traces(data: dict[str, Any], devices: int | Sequence[str]) -> dict[str, Any]:
    """Settings of a fleet with what stands in the files of its traces of who is there, and who is plugged in, instead of their
    paths. devices: how many there are, or their ids."""
    found = dict(data)
    if isinstance(data.get("availability"), Mapping):
        found["availability"] = _with_trace(data["availability"], devices)
    battery = data.get("battery")
    charging = battery.get("charging") if isinstance(battery, Mapping) else None
    if isinstance(charging, Mapping) and isinstance(charging.get("when"), Mapping):
        when = _with_trace(charging["when"], devices)
        found["battery"] = {**data["battery"], "charging": {**charging, "when": when}}
    return found


def _with_trace(data: Mapping[str, Any], devices: int | Sequence[str]) -> dict[str, Any]:
    if data.get("kind") != "trace" or data.get("file") is None:
        return dict(data)
    path = data["file"]
    if not isinstance(path, str | Path):
        raise ValueError(f"the file of a trace must be the path of a CSV or Parquet file, got {path!r:.60}")
    try:
        trace = read_trace(path, devices)
    except OSError as error:
        raise ValueError(f"trace: {path} cannot be read ({error.strerror or error})") from None
    rest = {key: value for key, value in data.items() if key != "file"}
    return {**rest, "first_on": trace.first_on, "changes_s": trace.changes_s}
