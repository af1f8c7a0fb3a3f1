"""Links too weak to be of use: who reports over one, how long a model takes, and how many decibels are missing.

    SNR        = 2^(bits / (B s)) - 1                        of a link that carries a message of so many bits in s seconds
    missing    = 10 log10(SNR for `within_s` / SNR of the link)       dB, by power, antennas or a shorter way

K devices; B: bandwidth, Hz.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.planning.costs import SERVER_W
from fedloom.planning.devices import Devices
from fedloom.planning.prediction import Plan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY_S = 86_400.0  # longer than that for one model, and a plan is refused
SLOW_S = 600.0  # longer than that, and it is said


@dataclass(frozen=True, kw_only=True)
class WeakLink:
    """device and other (-1: the server) are distance_m apart, and one model takes `seconds`: missing_db too weak."""

    device: int
    other: int
    distance_m: float
    seconds: float
    missing_db: float


def weak_links(devices: Devices, plan: Plan, bits: float, within_s: float) -> list[WeakLink]:
    """Links of a plan that do not carry a model of so many bits within that time, the slowest first: of members to their
    heads, of heads to the server, or of everybody to the server."""
    is_head = plan.head == np.arange(devices.n)
    other = np.where(is_head, -1, plan.head)
    away = np.where(is_head, devices.to_server_m, plan.distance_m)
    return _slower(devices, np.flatnonzero(plan.cluster >= 0), other, away, plan.link_s, bits, within_s)


def lonely_devices(devices: Devices, bits: float, within_s: float) -> list[WeakLink]:
    """Devices that neither the server nor the nearest other device that may be a head reaches within that time, with the
    better of the two links, the slowest first."""
    from scipy.spatial import cKDTree  # takes long to import

    allowed, own = np.flatnonzero(devices.candidate), np.arange(devices.n)
    tree = cKDTree(devices.position_m[allowed])
    away, index = tree.query(devices.position_m, k=min(2, len(allowed)))
    away, index = away.reshape(devices.n, -1), index.reshape(devices.n, -1)
    itself = allowed[index] == own[:, None]
    away = np.where(itself, np.inf, away)
    near = away.argmin(axis=1)
    head, head_m = allowed[index[own, near]], away[own, near]
    alone = np.isinf(head_m)  # the only candidate
    weaker_w = np.minimum(devices.power_w, devices.power_w[head])
    head_s = np.where(alone, np.inf, radio.airtime_s(bits, devices.rates(np.where(alone, 1.0, head_m), weaker_w)))
    server_s = radio.airtime_s(bits, devices.rates(devices.to_server_m, np.minimum(devices.power_w, SERVER_W)))
    at_server = server_s <= head_s
    other, distance = np.where(at_server, -1, head), np.where(at_server, devices.to_server_m, head_m)
    return _slower(devices, own, other, distance, np.minimum(head_s, server_s), bits, within_s)


def missing_db(bits: float, bandwidth_hz: float, seconds: float, within_s: float) -> float:
    """Decibels by which a link must be better to carry so many bits within that time, if now it takes `seconds`.

    >>> round(missing_db(8e6, 1e6, 80.0, 8.0), 2)  # from 0.1 to 1 bit/s/Hz: SNR from 2^0.1 - 1 to 1
    11.44
    """
    now, wanted = (np.expm1(np.log(2) * bits / (bandwidth_hz * t)) for t in (seconds, within_s))
    return float(10 * np.log10(wanted / now)) if now > 0 else float("inf")


def _slower(
    devices: Devices, some: Ints, other: Ints, away_m: Floats, seconds: Floats, bits: float, within_s: float
) -> list[WeakLink]:
    slow = some[seconds[some] > within_s]
    return [
        WeakLink(
            device=k,
            other=int(other[k]),
            distance_m=float(away_m[k]),
            seconds=float(seconds[k]),
            missing_db=missing_db(bits, devices.link.bandwidth_hz, float(seconds[k]), within_s),
        )
        for k in slow[np.argsort(-seconds[slow], kind="stable")].tolist()
    ]
