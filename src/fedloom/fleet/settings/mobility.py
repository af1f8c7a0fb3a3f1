"""How the devices of a fleet move: between cells by chance after every round or tick, or over the ground in time."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from fedloom._settings import Pair, Settings
from fedloom.fleet.settings.measured import TraceMobility
from fedloom.fleet.settings.quantities import Region, Seconds

When = Literal["never", "cloud-round", "edge-round", "tick"]
Speed = Annotated[float, Field(ge=1e-3, le=1e6)]  # m/s: nobody stands still for ever


def _has_size(area_m: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    if not (area_m[0] < area_m[1] and area_m[2] < area_m[3]):
        raise ValueError(f"must be (x_min, x_max, y_min, y_max) with min < max, got {area_m}")
    return area_m


Area = Annotated[Region, AfterValidator(_has_size)]


class MobilitySettings(Settings):
    """Between rounds a device stays with probability `p_stay`, else goes to a neighbour cell (CSAHFL, section 4.1).

    `every` cloud round: the first is as the devices were placed. Every edge round: they have moved once before the first. Every
    tick of the fleet (`tick_s`): the first tick is as they were placed.
    """

    kind: Literal["markov"] = Field(default="markov", exclude=True)  # what has no kind is this
    p_stay: float = Field(ge=0, le=1)
    neighbours: Literal["ring", "path", "complete", "adjacent"] = "ring"
    every: Literal["cloud-round", "edge-round", "tick"] = "cloud-round"


class WaypointMobility(Settings):
    """Random waypoint: a device walks straight to a point that is drawn in `area_m`, (x_min, x_max, y_min, y_max), at a speed
    that is drawn in `speed_m_s`, stays there for a time in `pause_s`, and goes on. All are uniform. Without `area_m`: the
    rectangle around devices and cells, or around devices only where a cell reaches everybody. It begins where it was placed."""

    kind: Literal["waypoint"] = "waypoint"
    speed_m_s: Pair[Speed] = (0.5, 1.5)
    pause_s: Pair[Seconds] = (0.0, 60.0)
    area_m: Area | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in ("speed_m_s", "pause_s"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be (least, most), got {low:g} and {high:g}")
        return self

    @property
    def every(self) -> When:
        """Positions change from tick to tick."""
        return "tick"


class GaussMarkovMobility(Settings):
    """Velocities with a memory (Gauss-Markov): each device has a mean velocity of `speed_m_s` in a direction of its own; both
    coordinates of its velocity vary around that by `sigma_m_s`, and what they are now is forgotten after about `memory_s`.
    Borders of `area_m`, as for waypoint, mirror the walk."""

    kind: Literal["gauss-markov"] = "gauss-markov"
    speed_m_s: float = Field(default=1.0, ge=0, le=1e6)
    sigma_m_s: float = Field(default=0.5, ge=0, le=1e6)
    memory_s: float = Field(default=60.0, ge=1e-3, le=1e9)
    area_m: Area | None = None

    @property
    def every(self) -> When:
        """Positions change from tick to tick."""
        return "tick"


class Handover(Settings):
    """When a device that moves over the ground changes its home: when another cell is nearer by more than `hysteresis_m`, or its
    path loss is less by more than `hysteresis_db`, for `time_to_trigger_s`. Without it, whenever another is better."""

    hysteresis_m: float | None = Field(default=None, ge=0, le=1e9)
    hysteresis_db: float | None = Field(default=None, ge=0, le=500)
    time_to_trigger_s: Seconds = 0.0

    @model_validator(mode="after")
    def _one_margin(self) -> Self:
        if (self.hysteresis_m is None) == (self.hysteresis_db is None):
            raise ValueError(
                "give hysteresis_db, for cells with radio links, or hysteresis_m, for any; got "
                f"hysteresis_db {self.hysteresis_db} and hysteresis_m {self.hysteresis_m}"
            )
        return self


def _kind(value: Any) -> Any:
    return value.get("kind", "markov") if isinstance(value, Mapping) else getattr(value, "kind", "markov")


def is_walk(value: Any) -> bool:
    """Whether devices move over the ground, not from cell to cell."""
    return value is not None and _kind(value) != "markov"


Mobility = Annotated[
    Annotated[MobilitySettings, Tag("markov")]
    | Annotated[WaypointMobility, Tag("waypoint")]
    | Annotated[GaussMarkovMobility, Tag("gauss-markov")]
    | Annotated[TraceMobility, Tag("trace")],
    Discriminator(_kind),
]
