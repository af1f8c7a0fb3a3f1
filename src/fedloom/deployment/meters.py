"""Joules that a device has used so far, by its own meter: a function of the user's own code, or the processor's counters (RAPL).

`module:function` is called on the device with the name of the node, before and after training, and gives the joules so far; the
difference is what the training took. Without a meter joules are those of the fleet's model, with measured seconds.
"""

import math
from collections.abc import Callable
from pathlib import Path

from fedloom.deployment.own import imported

RAPL = "rapl"
POWERCAP = Path("/sys/class/powercap")
Meter = Callable[[], float]


def meter_of(name: str | None, node: str) -> Meter | None:
    """The meter of a node; ValueError if it does not work."""
    if name is None:
        return None
    if name == RAPL:
        return Rapl(POWERCAP)
    found = imported(name, node, "a meter")

    def read() -> float:
        value = found(node)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(
                f"the meter {name} must give joules used so far, a number; on {node} it gave {value!r:.100}"
            )
        return float(value)

    read()
    return read


class Rapl:
    """Joules of all processors of this machine, also of what else runs on it. Counters begin anew when they are full."""

    def __init__(self, folder: Path) -> None:
        self._packages = [path for path in sorted(folder.glob("*-rapl:*")) if path.name.count(":") == 1]
        if not self._packages:
            raise ValueError(f"there are no counters of energy in {folder} here; use a meter of your own, or none")
        try:
            self._full_uj = [int((path / "max_energy_range_uj").read_text()) for path in self._packages]
            self._last_uj = self._read_uj()
        except OSError as error:
            raise ValueError(
                f"the counters of energy cannot be read: {error}; as root they can, or use no meter"
            ) from None
        self._total_uj = 0

    def __call__(self) -> float:
        now_uj = self._read_uj()
        for now, last, full in zip(now_uj, self._last_uj, self._full_uj):
            self._total_uj += now - last if now >= last else now + full - last
        self._last_uj = now_uj
        return self._total_uj / 1e6

    def _read_uj(self) -> list[int]:
        return [int((path / "energy_uj").read_text()) for path in self._packages]
