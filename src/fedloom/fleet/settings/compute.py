"""How fast the devices of a fleet train: the law of a number per device, and its unit."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet.settings.measured import SpeedTrace
from fedloom.fleet.settings.quantities import Amount, Share, Sigma, Watts, same_length

SLOWEST = 1e-9  # steps or cycles a second


class FixedLaw(Settings):
    """The same for all."""

    kind: Literal["fixed"] = "fixed"
    value: Amount

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return self.value


class UniformLaw(Settings):
    """Uniform on [low, high), or on {low..high} if `integer`."""

    kind: Literal["uniform"] = "uniform"
    low: Amount
    high: Amount
    integer: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _ordered(self.low, self.high)
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"low and high must be whole if integer, got {self.low:g} and {self.high:g}")
        return self

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return self.low


class NormalLaw(Settings):
    """Normal, clipped to low..high (CSAHFL, section 4.1, whose least and most we read as clipping)."""

    kind: Literal["normal"] = "normal"
    mean: float = Field(ge=-1e15, le=1e15)
    std: Amount
    low: Amount
    high: Amount

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _ordered(self.low, self.high)
        return self

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return self.low


class ClassesLaw(Settings):
    """A few classes of devices in fixed shares (equal if not given), each value times 1 ± `spread`."""

    kind: Literal["classes"] = "classes"
    values: Row[Amount] = Field(min_length=1)
    shares: Row[Share] | None = None
    spread: float = Field(default=0.0, ge=0, lt=1)

    @field_validator("shares")
    @classmethod
    def _shares_of_one(cls, shares: tuple[float, ...] | None, info: ValidationInfo) -> tuple[float, ...] | None:
        if shares is None:
            return shares
        same_length("shares", shares, len(info.data["values"]) if "values" in info.data else None)
        if abs(sum(shares) - 1) > 1e-6:
            raise ValueError(f"shares must sum to 1, got {sum(shares):g}")
        return shares

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return min(self.values) * (1 - self.spread)


Law = Annotated[FixedLaw | UniformLaw | NormalLaw | ClassesLaw, Field(discriminator="kind")]
Unit = Literal["seconds-per-step", "seconds-per-sample", "seconds-per-session", "steps-per-second", "cycles-per-second"]


class ComputeSettings(Settings):
    """How fast devices train: a law for one number per device, and what the number means.

    A session is `session_steps` local steps or `session_epochs` passes over the device's data. `jitter_sigma`
    is for the simulator: a realised time is multiplied by exp(sigma z), z standard normal. `trace`: speeds as measured, instead
    of a law.
    """

    law: Law = FixedLaw(value=0.01)
    unit: Unit = "seconds-per-step"
    session_steps: int | None = Field(default=None, ge=1, le=1_000_000_000)
    session_epochs: int | None = Field(default=None, ge=1, le=1_000_000_000)
    cycles_per_sample: float | None = Field(default=None, ge=1e-9, le=1e18)
    power_w: Watts = 0.0
    jitter_sigma: Sigma = 0.0
    trace: SpeedTrace | None = Field(default=None, exclude_if=lambda value: value is None)

    @model_validator(mode="after")
    def _one_speed(self) -> Self:
        if self.trace is not None and (self.law != FixedLaw(value=0.01) or self.unit != "seconds-per-step"):
            raise ValueError("trace says how fast devices are; leave out law and unit")
        return self

    @model_validator(mode="after")
    def _unit_is_complete(self) -> Self:
        n_session = (self.session_steps is not None) + (self.session_epochs is not None)
        if n_session != (self.unit == "seconds-per-session"):
            raise ValueError(
                "unit seconds-per-session needs exactly one of session_steps and session_epochs, other units "
                f"none; got unit {self.unit}, session_steps {self.session_steps}, "
                f"session_epochs {self.session_epochs}"
            )
        if (self.cycles_per_sample is not None) != (self.unit == "cycles-per-second"):
            raise ValueError(
                "unit cycles-per-second needs cycles_per_sample, other units must not have it; "
                f"got unit {self.unit}, cycles_per_sample {self.cycles_per_sample}"
            )
        if self.unit.endswith("per-second") and self.law.least < SLOWEST:
            raise ValueError(
                f"a law in {self.unit} must stay above 0, at least at {SLOWEST:g}, got a least value of {self.law.least:g}"
            )
        return self


def _ordered(low: float, high: float) -> None:
    if low > high:
        raise ValueError(f"low must be at most high, got low {low:g} and high {high:g}")
