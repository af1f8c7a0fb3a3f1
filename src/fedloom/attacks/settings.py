"""How a scenario says who is hostile, and what they do: `hostile: {clients: {share: 0.2, attack: {kind: sign-flip}}}`."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fedloom._settings import Row, Settings

Factor = Annotated[float, Field(gt=0, le=1e30)]
Number = Annotated[int, Field(ge=0, le=10**9)]
Share = Annotated[float, Field(gt=0, le=1)]


class SignFlip(Settings):
    """Minus `factor` times what was learnt."""

    kind: Literal["sign-flip"]
    factor: Factor = 1.0


class Scale(Settings):
    """`factor` times what was learnt."""

    kind: Literal["scale"]
    factor: Factor = 10.0


class Noise(Settings):
    """Gaussian noise of standard deviation `std` on every value: on top of what was learnt (`keep`), or in its place."""

    kind: Literal["noise"]
    std: Factor = 1.0
    keep: bool = True


class Alie(Settings):
    """A little is enough: the mean minus z standard deviations of the updates that are known; by default the largest z that
    should not be noticed. `knows`: the updates of all clients sent out together, or those of the hostile ones."""

    kind: Literal["alie"]
    z: Factor | None = None
    knows: Literal["all", "hostile"] = "all"


class Ipm(Settings):
    """Inner product manipulation: minus `factor` times the mean of the updates that are known."""

    kind: Literal["ipm"]
    factor: Factor = 0.5
    knows: Literal["all", "hostile"] = "all"


class MinMax(Settings):
    """As far from the mean of the known updates, in a direction, as the two of them that differ most are from each other."""

    kind: Literal["min-max"]
    direction: Literal["unit", "std", "sign"] = "std"
    knows: Literal["all", "hostile"] = "all"


class Replay(Settings):
    """What was sent `lag` times ago is sent again; the first one until there is such."""

    kind: Literal["replay"]
    lag: Annotated[int, Field(ge=1, le=10_000)] = 5


class FreeRider(Settings):
    """Nothing is learnt, and no energy spent on it: what was fetched is sent back, with noise of `std`. `pretends`: it waits for
    as long as it would have taken."""

    kind: Literal["free-rider"]
    std: Annotated[float, Field(ge=0, le=1e30)] = 0.0
    pretends: bool = True


class NotFinite(Settings):
    """Values that are no numbers: a broken device."""

    kind: Literal["not-finite"]


class LabelFlip(Settings):
    """It learns from wrong labels: `mirror` (C - 1 - y), `next` (y + 1), or all of one class."""

    kind: Literal["label-flip"]
    to: Literal["mirror", "next"] | Annotated[int, Field(ge=0, le=10**6)] = "mirror"


class Backdoor(Settings):
    """A `share` of its samples gets a mark of `size` pixels and the label `target`; what it learns of that is sent `factor`
    times. How often the mark takes in the global model is measured as backdoor_success."""

    kind: Literal["backdoor"]
    target: Annotated[int, Field(ge=0, le=10**6)] = 0
    size: Annotated[int, Field(ge=1, le=1000)] = 3
    share: Share = 0.5
    factor: Factor = 1.0


class Withhold(Settings):
    """What was merged is kept back: the model that came from above is sent in its place."""

    kind: Literal["withhold"]


Alone = SignFlip | Scale | Noise | NotFinite | Replay
Attack = Alone | Alie | Ipm | MinMax | FreeRider | LabelFlip | Backdoor | Withhold
OfClients = Annotated[Alone | Alie | Ipm | MinMax | FreeRider | LabelFlip | Backdoor, Field(discriminator="kind")]
OfAggregators = Annotated[Alone | Withhold, Field(discriminator="kind")]


class LieSettings(Settings):
    """What hostile clients say of themselves: `samples` times as many samples; labels that look `even`, or as in a `mirror`; to
    be `speed` times as fast; links between devices `links` times as good, until the cloud round `links_until` is over; to be in
    the `centre` of all, or opposite of it; features that are the `mean` of the others', or the negative of their own; to an
    audit, to have sent the negative of what they did (`sketches: flip`)."""

    samples: Factor | None = None
    labels: Literal["even", "mirror"] | None = None
    speed: Factor | None = None
    links: Factor | None = None
    links_until: Annotated[int, Field(ge=1, le=10**9)] | None = None
    position: Literal["centre", "mirror"] | None = None
    features: Literal["mean", "flip"] | None = None
    sketches: Literal["flip"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> "LieSettings":
        if self.links_until is not None and self.links is None:
            raise ValueError("links_until says how long links are lied about; give links, too")
        return self


class HostileClients(Settings):
    """A `share` of the devices by lot (`where`: anywhere, of one-cell, or bridging several), or `devices` by number; what they do
    to updates (`attack`) from a cloud round on, and what they say of themselves (`lies`)."""

    share: Share | None = None
    devices: Row[Number] | None = Field(default=None, min_length=1)
    where: Literal["anywhere", "one-cell", "bridging"] = "anywhere"
    attack: OfClients | None = None
    lies: LieSettings | None = None
    from_round: Annotated[int, Field(ge=1, le=10**9)] = 1

    @model_validator(mode="after")
    def _fits(self) -> "HostileClients":
        _one_of(self.share, self.devices, "devices")
        if self.devices is not None and self.where != "anywhere":
            raise ValueError(f"where: {self.where} is for a share that is drawn; devices are named here")
        if self.attack is None and self.lies is None:
            raise ValueError("hostile clients need an attack, or lies, or both")
        if self.from_round > 1 and isinstance(self.attack, LabelFlip | Backdoor):
            raise ValueError(
                f"{self.attack.kind} is in the data from the beginning; leave from_round out (got {self.from_round})"
            )
        return self


class HostileHeads(Settings):
    """Devices that alter what they send when they are heads: to the `cloud`, to their `members`, or `both`."""

    share: Share | None = None
    devices: Row[Number] | None = Field(default=None, min_length=1)
    attack: OfAggregators
    to: Literal["cloud", "members", "both"] = "both"
    from_round: Annotated[int, Field(ge=1, le=10**9)] = 1

    @model_validator(mode="after")
    def _fits(self) -> "HostileHeads":
        _one_of(self.share, self.devices, "devices")
        return self


class HostileEdges(Settings):
    """Edge servers, by share or by the numbers of their `cells`, that alter what they send: to the `cloud`, to their `members`,
    or `both`."""

    share: Share | None = None
    cells: Row[Number] | None = Field(default=None, min_length=1)
    attack: OfAggregators
    to: Literal["cloud", "members", "both"] = "both"
    from_round: Annotated[int, Field(ge=1, le=10**9)] = 1

    @model_validator(mode="after")
    def _fits(self) -> "HostileEdges":
        _one_of(self.share, self.cells, "cells")
        return self


class HostileSettings(Settings):
    """Hostile clients, heads and edge servers."""

    clients: HostileClients | None = None
    heads: HostileHeads | None = None
    edges: HostileEdges | None = None


def _one_of(share: float | None, numbers: tuple[int, ...] | None, name: str) -> None:
    if (share is None) == (numbers is None):
        raise ValueError(f"give share or {name}, one of them (got {share} and {numbers})")
