"""DDC: joules of all uploads, in three readings, ours, of the published constants (DDC, section 5).

    E(d)      = P bits / (B log2(1 + P / (10^(PL(d)/10) N0 B)))             joules of one upload, PL log-distance
    members   = sum_{u no head} E(d_u,h(u))                                 a head's own upload is free
    heads     = sum_n E(d_n,cs)
    total     = floor(T / tau1) members + floor(T / tau2) heads

    literal      the whole band for every link, as printed
    shared       a U-th of the band for every link, U devices
    per_global   as shared, but members count once per tau2, like heads

The published joules fit none of them: with `literal` they are some twenty times higher, and `per_global` meets one point of
their curve. Downlinks, fading and interference are left out. FedAvg is no members, all devices as heads, and tau2 = its period.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check, radio

Floats = NDArray[np.float64]

ENERGY_READINGS = ("literal", "shared", "per_global")
MODEL_BITS = 224_000.0  # 28 kB


@dataclass(frozen=True, kw_only=True)
class DdcEnergy:
    """Joules: members_j of one upload of all members, heads_j of one upload of all heads, total_j of all rounds."""

    members_j: float
    heads_j: float
    total_j: float


def upload_j(
    distance_m: ArrayLike,
    bits: float = MODEL_BITS,
    *,
    power_w: float = 0.01,
    bandwidth_hz: float = 1e6,
    noise_dbm_hz: float = -173.0,
) -> Floats:
    """E(d): joules of one upload over `distance_m` (any shape, at least 1 m counts); the same shape.

    >>> print(f"{upload_j(100.0):.5e}")
    2.07464e-04
    """
    gain = radio.db_to_ratio(-radio.log_distance_loss_db(distance_m))
    signal = radio.snr(power_w, gain, radio.noise_w(noise_dbm_hz, bandwidth_hz))
    return radio.energy_j(power_w, radio.airtime_s(bits, radio.shannon_rate(bandwidth_hz, signal)))


def ddc_energy(
    member_m: ArrayLike,
    server_m: ArrayLike,
    *,
    rounds: int,
    tau1: int,
    tau2: int,
    n_devices: int,
    reading: str = "literal",
    bits: float = MODEL_BITS,
    power_w: float = 0.01,
    bandwidth_hz: float = 1e6,
    noise_dbm_hz: float = -173.0,
) -> DdcEnergy:
    """Joules of T `rounds`. member_m (U - k,): metres from members to their heads, without the heads. server_m (k,): from
    heads to the server. tau1, tau2: rounds between uploads. n_devices: U, by which the band is shared."""
    _check.one_of("reading", reading, ENERGY_READINGS)
    for name, value in (("tau1", tau1), ("tau2", tau2), ("n_devices", n_devices)):
        _check.whole(name, value)
    _check.whole("rounds", rounds, least=0)
    members, heads = (_check.array(n, m, (None,)) for n, m in (("member_m", member_m), ("server_m", server_m)))
    if len(members) + len(heads) > n_devices:
        raise ValueError(
            f"{len(members)} members and {len(heads)} heads are more than n_devices, {n_devices}; "
            f"leave the heads out of member_m"
        )
    band = bandwidth_hz if reading == "literal" else bandwidth_hz / n_devices
    members_j, heads_j = (
        float(upload_j(m, bits, power_w=power_w, bandwidth_hz=band, noise_dbm_hz=noise_dbm_hz).sum())
        for m in (members, heads)
    )
    every = tau2 if reading == "per_global" else tau1
    total_j = rounds // every * members_j + rounds // tau2 * heads_j
    return DdcEnergy(members_j=members_j, heads_j=heads_j, total_j=total_j)
