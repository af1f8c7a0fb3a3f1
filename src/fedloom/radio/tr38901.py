"""Path loss and line of sight of 3GPP TR 38.901 (version 16.1): Tables 7.4.1-1, 7.4.2-1, 7.5-6.

    uma         urban macro: sites above the roofs            umi         urban micro: sites in the street canyon, below the roofs
    rma         rural macro                                   inh-open, inh-mixed   indoor hotspot: open and mixed office

    PL_los  = a + b log10(d_3d) + 20 log10(f)                 up to the breakpoint, beyond it with 40 log10(d_3d)
    PL_nlos = max(PL_los, PL'_nlos)                           dB; d in m, f in GHz
    d_bp    = 4 (h_site - h_e) (h_device - h_e) f / c         uma, umi;   rma: 2 pi h_site h_device f / c;   c = 3e8 m/s, as there

d_2d is the distance on the ground (`ground_m`), d_3d that of the antennas. A "site" is a base station or access point.

**Outside of the tables' ranges** (Table 7.4.1-1): below 10 m on the ground a loss no longer falls (indoors: below 1 m between the
antennas); beyond the last distance of the table (5 km; 10 km for rma with a line of sight; 150 m indoors) it goes on by its
formula. Where a formula has a height, the nearest of its range counts (device: 1.5 to 22.5 m, in rma 1 to 10 m; site of rma: 10
to 150 m); d_3d has the heights as they are. Effective heights are at least 0.5 m, that of an antenna at 1.5 m.

**Left out**: the optional formulas for no line of sight; frequencies within the bandwidth; oxygen; blockage; ground reflection.
All functions take arrays that broadcast.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LIGHT_M_S = 3.0e8  # the specification's, Note 1 of Table 7.4.1-1
LEAST_EFFECTIVE_M = 0.5


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What the tables say of one: usual heights (Tables 7.2-1 to 7.2-3), carriers, ranges of heights, standard deviations of
    shadowing with a line of sight, without, and into buildings (Tables 7.4.1-1 and 7.5-6), the distances over which these are
    correlated (Table 7.5-6), those over which the line of sight is (Table 7.6.3.1-2), the mean K of Rician fading (Table 7.5-6),
    and how far into a building devices are at most (7.4.3; 0: there are no walls in between)."""

    site_height_m: float
    device_height_m: float
    site_heights_m: tuple[float, float]
    device_heights_m: tuple[float, float]
    most_carrier_hz: float = 100e9
    ground_floor_m: float = 10.0
    los_std_db: float
    nlos_std_db: float
    indoor_std_db: float
    los_correlation_m: float
    nlos_correlation_m: float
    indoor_correlation_m: float
    sight_correlation_m: float
    k_db: float
    inside_m: float


_INH = Scenario(
    site_height_m=3.0,
    device_height_m=1.0,
    site_heights_m=(0.0, np.inf),
    device_heights_m=(0.0, np.inf),
    ground_floor_m=0.0,
    los_std_db=3.0,
    nlos_std_db=8.03,
    indoor_std_db=8.03,
    los_correlation_m=10.0,
    nlos_correlation_m=6.0,
    indoor_correlation_m=6.0,
    sight_correlation_m=10.0,
    k_db=7.0,
    inside_m=0.0,
)
SCENARIOS = {
    "uma": Scenario(
        site_height_m=25.0,
        device_height_m=1.5,
        site_heights_m=(1.5, np.inf),
        device_heights_m=(1.5, 22.5),
        los_std_db=4.0,
        nlos_std_db=6.0,
        indoor_std_db=7.0,
        los_correlation_m=37.0,
        nlos_correlation_m=50.0,
        indoor_correlation_m=7.0,
        sight_correlation_m=50.0,
        k_db=9.0,
        inside_m=25.0,
    ),
    "umi": Scenario(
        site_height_m=10.0,
        device_height_m=1.5,
        site_heights_m=(1.5, np.inf),
        device_heights_m=(1.5, 22.5),
        los_std_db=4.0,
        nlos_std_db=7.82,
        indoor_std_db=7.0,
        los_correlation_m=10.0,
        nlos_correlation_m=13.0,
        indoor_correlation_m=7.0,
        sight_correlation_m=50.0,
        k_db=9.0,
        inside_m=25.0,
    ),
    "rma": Scenario(
        site_height_m=35.0,
        device_height_m=1.5,
        site_heights_m=(10.0, 150.0),
        device_heights_m=(1.0, 10.0),
        most_carrier_hz=30e9,
        los_std_db=4.0,  # and FAR_RMA_STD_DB beyond the breakpoint
        nlos_std_db=8.0,
        indoor_std_db=8.0,
        los_correlation_m=37.0,
        nlos_correlation_m=120.0,
        indoor_correlation_m=120.0,
        sight_correlation_m=60.0,
        k_db=7.0,
        inside_m=10.0,
    ),
    "inh-open": _INH,
    "inh-mixed": _INH,
}
FAR_RMA_STD_DB = 6.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Ways:
    """Ways between sites and devices, arrays that broadcast: ground_m on the ground, heights of the antennas, carrier_hz, and of
    uma the height h_e of what stands around (`environment_height_m`), which is 1 m for devices below 13 m. street_m, building_m:
    mean width of streets and height of buildings, of rma."""

    scenario: str
    ground_m: ArrayLike
    site_height_m: ArrayLike
    device_height_m: ArrayLike
    carrier_hz: float
    environment_m: ArrayLike = 1.0
    street_m: float = 20.0
    building_m: float = 5.0

    def __post_init__(self) -> None:
        """Check what came."""
        _check.one_of("scenario", self.scenario, tuple(SCENARIOS))
        _check.positive("ground_m", self.ground_m, zero=True)
        _check.positive("carrier_hz", self.carrier_hz)
        _check.positive("street_m and building_m", [self.street_m, self.building_m])

    @property
    def antennas_m(self) -> Array:
        """d_3d, floored."""
        ground = np.maximum(self.ground_m, SCENARIOS[self.scenario].ground_floor_m)
        rise = np.subtract(self.site_height_m, self.device_height_m, dtype=np.float64)
        return np.asarray(np.maximum(np.hypot(ground, rise), 1.0))

    @property
    def breakpoint_m(self) -> Array:
        """d_bp on the ground (Notes 1 and 5 of Table 7.4.1-1); infinite indoors, where there is none."""
        site, device = self.formula_heights_m
        per_m = self.carrier_hz / LIGHT_M_S
        if self.scenario == "rma":
            return np.asarray(2 * np.pi * site * device * per_m)
        if self.scenario in ("uma", "umi"):
            h_e = np.asarray(self.environment_m if self.scenario == "uma" else 1.0)
            effective = np.maximum(site - h_e, LEAST_EFFECTIVE_M) * np.maximum(device - h_e, LEAST_EFFECTIVE_M)
            return np.asarray(4 * effective * per_m)
        return np.asarray(np.inf)

    @property
    def beyond_breakpoint(self) -> Mask:
        """Which ways are longer than that."""
        return np.asarray(np.maximum(self.ground_m, SCENARIOS[self.scenario].ground_floor_m) > self.breakpoint_m)

    @property
    def formula_heights_m(self) -> tuple[Array, Array]:
        """Of site and device, within the ranges of the formulas."""
        scenario = SCENARIOS[self.scenario]
        site = np.clip(np.asarray(self.site_height_m, np.float64), *scenario.site_heights_m)
        return site, np.clip(np.asarray(self.device_height_m, np.float64), *scenario.device_heights_m)


def loss_db(ways: Ways, line_of_sight: ArrayLike) -> Array:
    """Path loss in dB (Table 7.4.1-1), without shadowing and walls; line_of_sight: which ways have one.

    >>> way = Ways(scenario="umi", ground_m=[100.0, 1000.0], site_height_m=10.0, device_height_m=1.5, carrier_hz=3.5e9)
    >>> loss_db(way, True).round(2), loss_db(way, False).round(2)
    (array([ 85.31, 119.15]), array([104.64, 139.89]))
    """
    los, nlos = _LOSSES[ways.scenario](ways)
    return np.where(line_of_sight, los, np.maximum(los, nlos))


def line_of_sight_probability(scenario: str, ground_m: ArrayLike, device_height_m: ArrayLike = 1.5) -> Array:
    """That a device at `ground_m` on the ground (of a device in a building: outside of it) sees its site (Table 7.4.2-1).

    >>> line_of_sight_probability("umi", [10.0, 100.0]).round(4)
    array([1.   , 0.231])
    """
    _check.one_of("scenario", scenario, tuple(SCENARIOS))
    _check.positive("ground_m", ground_m, zero=True)
    d = np.asarray(ground_m, dtype=np.float64)
    if scenario == "rma":
        return np.asarray(np.minimum(np.exp(-(d - 10) / 1000), 1.0))
    if scenario == "inh-open":
        return np.where(d <= 5, 1.0, np.where(d <= 49, np.exp(-(d - 5) / 70.8), 0.54 * np.exp(-(d - 49) / 211.7)))
    if scenario == "inh-mixed":
        return np.where(d <= 1.2, 1.0, np.where(d < 6.5, np.exp(-(d - 1.2) / 4.7), 0.32 * np.exp(-(d - 6.5) / 32.6)))
    near = 18 / np.maximum(d, 18.0)
    seen = near + np.exp(-d / (63 if scenario == "uma" else 36)) * (1 - near)
    if scenario == "uma":
        seen = seen * (1 + _tall(d, device_height_m))
    return np.asarray(np.minimum(seen, 1.0))


def environment_height_m(ground_m: ArrayLike, device_height_m: ArrayLike, uniform: ArrayLike) -> Array:
    """h_e of uma (Note 1 of Table 7.4.1-1) out of numbers in (0, 1): 1 m with probability 1 / (1 + C), else any of 12, 15, 18, ..
    up to 1.5 m below the device with the same probability. Below 13 m C is 0. (Up to 13.5 m only 12 m is left.)

    >>> environment_height_m(200.0, 22.5, [0.2, 0.5, 0.9]).tolist(), environment_height_m(200.0, 1.5, 0.9).tolist()
    ([1.0, 15.0, 21.0], 1.0)
    """
    height = np.clip(np.asarray(device_height_m, np.float64), *SCENARIOS["uma"].device_heights_m)
    low = 1 / (1 + _tall(ground_m, height))
    n_steps = np.maximum(np.floor((height - 13.5) / 3) + 1, 1)
    drawn = np.asarray(uniform, dtype=np.float64)
    rest = np.maximum(drawn - low, 0) / np.where(low < 1, 1 - low, 1)  # uniform again, of those above `low`
    step = np.minimum(np.floor(rest * n_steps), n_steps - 1)
    return np.where(drawn < low, 1.0, 12 + 3 * step)


def shadow_std_db(ways: Ways, line_of_sight: ArrayLike, indoor: ArrayLike = False) -> Array:
    """Standard deviation of shadowing in dB (Table 7.4.1-1; into buildings: Table 7.5-6)."""
    scenario = SCENARIOS[ways.scenario]
    los = np.where(ways.beyond_breakpoint, FAR_RMA_STD_DB, scenario.los_std_db) if ways.scenario == "rma" else None
    outdoor = np.where(line_of_sight, scenario.los_std_db if los is None else los, scenario.nlos_std_db)
    return np.where(indoor, scenario.indoor_std_db, outdoor)


def _tall(ground_m: ArrayLike, device_height_m: ArrayLike) -> Array:
    """C(d_2d, h_device) of uma: how much better devices above 13 m see (Tables 7.4.1-1 and 7.4.2-1)."""
    d = np.asarray(ground_m, dtype=np.float64)
    height = np.clip(np.asarray(device_height_m, np.float64), 13.0, 23.0)
    far = np.where(d > 18, 1.25 * (d / 100) ** 3 * np.exp(-d / 150), 0.0)
    return np.asarray(((height - 13) / 10) ** 1.5 * far)


def _uma(ways: Ways) -> tuple[Array, Array]:
    d, f = np.log10(ways.antennas_m), 20 * np.log10(ways.carrier_hz / 1e9)
    _, height = ways.formula_heights_m
    los = 28.0 + np.where(ways.beyond_breakpoint, 40 * d - _bend(ways, 9.0), 22 * d) + f
    return los, 13.54 + 39.08 * d + f - 0.6 * (height - 1.5)


def _umi(ways: Ways) -> tuple[Array, Array]:
    d, f = np.log10(ways.antennas_m), np.log10(ways.carrier_hz / 1e9)
    _, height = ways.formula_heights_m
    los = 32.4 + np.where(ways.beyond_breakpoint, 40 * d - _bend(ways, 9.5), 21 * d) + 20 * f
    return los, 22.4 + 35.3 * d + 21.3 * f - 0.3 * (height - 1.5)


def _bend(ways: Ways, slope_db: float) -> Array:
    """What makes the two pieces meet at the breakpoint."""
    rise = np.subtract(ways.site_height_m, ways.device_height_m, dtype=np.float64)
    return np.asarray(slope_db * np.log10(ways.breakpoint_m**2 + rise**2))


def _rma(ways: Ways) -> tuple[Array, Array]:
    d, f_ghz, h = ways.antennas_m, ways.carrier_hz / 1e9, ways.building_m
    site, device = ways.formula_heights_m

    def near(d_m: Array) -> Array:
        lost = 20 * np.log10(40 * np.pi * d_m * f_ghz / 3) + min(0.03 * h**1.72, 10.0) * np.log10(d_m)
        return np.asarray(lost - min(0.044 * h**1.72, 14.77) + 0.002 * np.log10(h) * d_m)

    bend = ways.breakpoint_m
    los = np.where(ways.beyond_breakpoint, near(bend) + 40 * np.log10(d / bend), near(d))
    nlos = (
        161.04
        - 7.1 * np.log10(ways.street_m)
        + 7.5 * np.log10(h)
        - (24.37 - 3.7 * (h / site) ** 2) * np.log10(site)
        + (43.42 - 3.1 * np.log10(site)) * (np.log10(d) - 3)
        + 20 * np.log10(f_ghz)
        - (3.2 * np.log10(11.75 * device) ** 2 - 4.97)
    )
    return los, nlos


def _inh(ways: Ways) -> tuple[Array, Array]:
    d, f = np.log10(ways.antennas_m), np.log10(ways.carrier_hz / 1e9)
    return 32.4 + 17.3 * d + 20 * f, 17.3 + 38.3 * d + 24.9 * f


_LOSSES: dict[str, Callable[[Ways], tuple[Array, Array]]] = {
    "uma": _uma,
    "umi": _umi,
    "rma": _rma,
    "inh-open": _inh,
    "inh-mixed": _inh,
}
