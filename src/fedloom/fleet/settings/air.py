"""The air of a fleet: which band there is, and how those who send in it share it.

By default every link has a band of its own, as in the papers. A band that is shared carries at any moment what its senders'
rates give for their parts of it, never more.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Discriminator, Field, Tag, model_validator

from fedloom._settings import Row, Settings

T = TypeVar("T")


def _form(value: Any) -> str:
    """Which part of `OneOrEach` a value is meant for."""
    return "each" if isinstance(value, list | tuple) else "one"


OneOrEach = Annotated[Annotated[T, Tag("one")] | Annotated[Row[T], Tag("each")], Discriminator(_form)]


class Sharing(Settings):
    """How messages share a band.

    own: they do not, every link has one. time: one after the other, each with the whole band, as they are ready. equal: all at
    once, in equal parts. blocks: every `slot_s` seconds `blocks` parts of equal width are dealt out, in turn (round-robin) or to
    whom the rate is highest against its own average over about `window` slots (proportional-fair).
    """

    sharing: Literal["own", "time", "equal", "blocks"] = "own"
    scheduler: Literal["round-robin", "proportional-fair"] = "round-robin"
    blocks: int = Field(default=50, ge=1, le=100_000)
    slot_s: float = Field(default=1e-3, ge=1e-6, le=1e6)
    window: float = Field(default=100.0, ge=1, le=1e9)

    @model_validator(mode="after")
    def _no_idle_settings(self) -> Self:
        names = ("scheduler", "blocks", "slot_s", "window")
        idle = [name for name in names if getattr(self, name) != type(self).model_fields[name].default]
        if self.sharing != "blocks" and idle:
            raise ValueError(f"{' and '.join(idle)} has no effect with sharing {self.sharing}; set sharing: blocks")
        if self.scheduler != "proportional-fair" and "window" in idle:
            raise ValueError("window has no effect with round-robin; set scheduler: proportional-fair")
        return self


class Downward(Sharing):
    """`broadcast`: a model for several receivers of one sender is sent once, so slowly that all hear it; else to each."""

    broadcast: bool = False

    @model_validator(mode="after")
    def _needs_a_band(self) -> Self:
        if self.broadcast and self.sharing == "own":
            raise ValueError("broadcast needs a band for all who listen: set sharing to time, equal or blocks")
        return self


class Peers(Downward):
    """Between devices. `band`: every head has one, for both directions, or there is one for all devices. `broadcast`: of a head
    to its members."""

    band: Literal["head", "all"] = "head"

    @model_validator(mode="after")
    def _no_idle_band(self) -> Self:
        if self.band != "head" and self.sharing == "own":
            raise ValueError("band has no effect with sharing own; set sharing to time, equal or blocks")
        return self


class ToServer(Settings):
    """At the server: one band up and one down, for all."""

    up: Sharing = Sharing()
    down: Sharing = Sharing()


class AirSettings(Settings):
    """`up` and `down`: of the cells, one for all or one each. `d2d`: between devices. `cloud`: of devices that send to the server
    over a link of their own; `backhaul`: of the edge servers, if their links are radio."""

    up: OneOrEach[Sharing] = Sharing()
    down: OneOrEach[Downward] = Downward()
    d2d: Peers = Peers()
    cloud: ToServer = ToServer()
    backhaul: ToServer = ToServer()

    @property
    def is_shared(self) -> bool:
        """Whether any band is."""
        cells = [one for way in (self.up, self.down) for one in (way if isinstance(way, tuple) else (way,))]
        servers = [one for at in (self.cloud, self.backhaul) for one in (at.up, at.down)]
        return any(one.sharing != "own" for one in (*cells, self.d2d, *servers))

    def check(self, n_cells: int) -> None:
        """Where cells have settings of their own, each needs them."""
        for name in ("up", "down"):
            of_cells = getattr(self, name)
            if isinstance(of_cells, tuple) and len(of_cells) != n_cells:
                raise ValueError(
                    f"{name} must be one for all cells or one for each of {n_cells}, got {len(of_cells)} of them"
                )
        if isinstance(self.down, tuple) and len({cell.broadcast for cell in self.down}) > 1:
            raise ValueError(
                "cells broadcast models to their clients all or none; set down.broadcast alike for all cells"
            )

    def of(self, hop: str, direction: str, where: int) -> tuple[str, int, Sharing]:
        """The band of a link of a hop: its name and number, and how it is shared. where: the cell, or the head's device."""
        if hop == "device_edge":
            of_cells = self.up if direction == "up" else self.down
            return direction, where, of_cells[where] if isinstance(of_cells, tuple) else of_cells
        if hop == "device_head":
            return "d2d", where if self.d2d.band == "head" else 0, self.d2d
        at = self.cloud if hop == "device_cloud" else self.backhaul
        return f"{hop} {direction}", 0, at.up if direction == "up" else at.down

    def broadcasts(self, hop: str) -> bool:
        """Whether models go down so from cells (device_edge) or heads (device_head)."""
        if hop == "device_head":
            return self.d2d.broadcast
        return (self.down[0] if isinstance(self.down, tuple) else self.down).broadcast
