"""Geometry, path loss, fields, fading, interference, rates and energy. Arrays in, arrays out; metres, watt, hertz, bit, seconds,
joules."""

from fedloom.radio import penetration, tr38901
from fedloom.radio.fading import rayleigh_gain, rician_gain
from fedloom.radio.fields import Waves, field_at, pair_field, plane_waves
from fedloom.radio.friis import ChannelGains, channel_gains, noise_std, noisy, snr_matrix
from fedloom.radio.geometry import distances
from fedloom.radio.interference import from_other_cells_w, from_other_devices_w
from fedloom.radio.link import airtime_s, energy_j, noise_w, shannon_rate, snr
from fedloom.radio.path_loss import (
    db_to_ratio,
    dbm_to_w,
    free_space_gain,
    log_distance_loss_db,
    ratio_to_db,
    w_to_dbm,
)

__all__ = [
    "distances",
    "log_distance_loss_db",
    "free_space_gain",
    "tr38901",
    "penetration",
    "Waves",
    "plane_waves",
    "field_at",
    "pair_field",
    "rayleigh_gain",
    "rician_gain",
    "from_other_cells_w",
    "from_other_devices_w",
    "db_to_ratio",
    "ratio_to_db",
    "dbm_to_w",
    "w_to_dbm",
    "noise_w",
    "snr",
    "shannon_rate",
    "airtime_s",
    "energy_j",
    "ChannelGains",
    "channel_gains",
    "snr_matrix",
    "noise_std",
    "noisy",
]
