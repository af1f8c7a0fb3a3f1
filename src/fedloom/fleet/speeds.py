"""How fast the devices of a fleet compute: as measured in time, as is known of each, or as a law says."""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.fleet import compute
from fedloom.fleet.settings.compute import ComputeSettings, FixedLaw
from fedloom.fleet.settings.fleet import FleetSettings
from fedloom.fleet.trace import Held

Array = NDArray[np.float64]


class Speeds:
    """settings: with the unit that speeds are in. in_time: they were measured, and change with time."""

    def __init__(self, settings: FleetSettings, seed: int) -> None:
        own, trace, given = settings.devices, settings.compute.trace, settings.compute
        steps = None if own is None else own.steps_per_s
        samples = None if own is None else own.samples_per_s
        self._seed, self._n, self._tick_s = seed, settings.n_devices, settings.tick_s
        self._held = None if trace is None else Held(trace.times_s, trace.steps_per_s)
        self._own: Array | None = None
        self.in_time, self.settings = trace is not None, given
        if steps is not None:
            self._own = np.array(steps, dtype=np.float64)
        elif samples is not None:
            self._own = 1 / np.array(samples, dtype=np.float64)
        if steps is not None or samples is not None or trace is not None:
            self.settings = ComputeSettings(
                law=FixedLaw(value=1.0),
                unit="seconds-per-sample" if samples is not None else "steps-per-second",
                power_w=given.power_w,
                jitter_sigma=given.jitter_sigma,
            )

    def at(self, t: int) -> Array:
        """(K,) in a round or tick."""
        if self._held is not None:
            return self._held.at(t * self._tick_s)
        if self._own is not None:
            return self._own
        return compute.draw(self.settings.law, self._n, stream(self._seed, "compute", t))
