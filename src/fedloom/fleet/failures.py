"""From settings and a seed to when devices are there, and to their batteries."""

import numpy as np

from fedloom._random import uniform_of
from fedloom.fleet.availability import DAY_S, HOUR_S, Turns, exponential, periodic, traced
from fedloom.fleet.battery import Batteries
from fedloom.fleet.settings.failures import Daily, OnOff, Trace
from fedloom.fleet.settings.fleet import FleetSettings


def turns(law: OnOff | Daily | Trace, seed: int, purpose: str, n_devices: int) -> Turns:
    """When each of the devices is on; its lots are for this purpose alone."""
    if isinstance(law, Trace):
        return traced(np.array(law.first_on), [np.array(times, dtype=np.float64) for times in law.changes_s])
    lots = uniform_of(seed, f"{purpose} phase", np.arange(n_devices))
    if isinstance(law, Daily):
        on_s = np.full(n_devices, (law.to_h - law.from_h) % 24 * HOUR_S)
        return periodic(on_s, DAY_S - on_s, HOUR_S * (law.from_h + law.spread_h * (2 * lots - 1)))
    if law.law == "exponential":
        return exponential(seed, purpose, n_devices, law.on_s, law.off_s)
    return periodic(np.full(n_devices, law.on_s), np.full(n_devices, law.off_s), lots * (law.on_s + law.off_s))


def availability(settings: FleetSettings, seed: int) -> Turns | None:
    """When devices are there; None: always."""
    law = settings.availability
    return None if law is None else turns(law, seed, "availability", settings.n_devices)


def batteries(settings: FleetSettings, seed: int) -> Batteries | None:
    """As they are at the start; None: devices need none."""
    battery, own = settings.battery, settings.devices
    if battery is None:
        return None
    capacity_j = np.full(settings.n_devices, np.inf if battery.capacity_j is None else battery.capacity_j)
    if own is not None and own.battery_j is not None:
        capacity_j = np.array([np.inf if joules is None else joules for joules in own.battery_j])
    charging = battery.charging
    return Batteries(
        capacity_j,
        capacity_j * battery.level,
        idle_w=battery.idle_w,
        charge_w=0.0 if charging is None else charging.power_w,
        back_at=battery.back_at,
        plugged=None if charging is None else turns(charging.when, seed, "charging", settings.n_devices),
    )
