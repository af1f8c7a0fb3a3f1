"""When somebody is there, in fleets that change with time: nobody may be, and the clock goes on until somebody is."""

import numpy as np

from fedloom.fleet import Snapshot
from fedloom.methods import Method
from fedloom.protocol import Federation
from fedloom.simulator.clock import Coming, Timepiece
from fedloom.simulator.scene import Scenes
from fedloom.simulator.world import World

MOST_TRIES = 10_000  # ticks in which a cloud round could begin


class Vigil:
    """Kept until clients of a federation are there."""

    def __init__(self, method: Method, world: World, machines: Federation, scenes: Scenes, clock: Timepiece) -> None:
        self._method, self._fleet, self._machines = method, world.fleet, machines
        self._scenes, self._clock = scenes, clock

    @property
    def _waits(self) -> bool:
        """A cloud round begins when somebody is there."""
        return self._fleet.in_time and (not self._machines.edges or self._method.cloud.waits)

    def somebody_comes(self) -> bool:
        """A cloud round that waits for somebody does not wait for ever; ValueError if already the first would."""
        now_s = self._clock.now_s
        if not self._waits or np.isfinite(self._fleet.somebody_s(now_s)):
            return True
        if not self._machines.edges:
            raise ValueError(
                f"no device is in reach of a cell from {now_s:g} s on; enlarge radius_m, or let them move where cells are"
            )
        return False

    def snapshot(self, cloud_round: int, index: int, *, anybody: bool) -> Snapshot:
        """Of a cloud round that begins now, or when somebody is there who reports to anybody (anybody: or could, as groups are
        made anew). Where groups go on by themselves, nobody waits for that."""
        fleet, clock = self._fleet, self._clock
        if not self._waits:
            return fleet.snapshot(cloud_round, index, clock.now_s)
        begun_s = clock.now_s
        clock.spend(fleet.somebody_s(begun_s) - begun_s)
        for _ in range(MOST_TRIES):
            now = fleet.snapshot(cloud_round, index, clock.now_s)
            if anybody or self._scenes.topology_at(now).cover.any():
                return now
            later_s = fleet.somebody_s(clock.now_s, later=True)
            if not np.isfinite(later_s):
                break
            clock.spend(later_s - clock.now_s)
        raise ValueError(
            f"nobody who belongs to a group of {self._method.name} is there from {begun_s:g} s on, until {clock.now_s:g} s; use "
            "a method that groups again when clients move, or a fleet that stays in reach"
        )

    def look_again(self) -> None:
        """If nobody is anywhere, no group opens a round and sees who comes: the clock is to tell."""
        if self._fleet.in_time and all(edge.asleep for edge in self._machines.edges):
            at_s = self._fleet.somebody_s(self._clock.now_s, later=True)
            if np.isfinite(at_s):
                self._clock.foresee(at_s, Coming())
