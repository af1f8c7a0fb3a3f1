"""Magnet tracking: where a small magnet is and where it points, from the field at a plane of sensors
(LTC, section 5.1).

    B = (mu0 / 4 pi) m (3 (u . e) e - u) / |r|^3,   r = s - p,   e = r / |r|        field of a dipole
    x = sign(B) |B|^(1/3)                                                           input: B falls as r^-3, so x as 1 / r
    y = (p / 0.1 m, u)                                                              target
    label = 2 (2 [y >= 0] + [x >= 0]) + [u_z < 0]                                   quadrant of the plane, and half of space

The magnet is at p with unit axis u; a turn about u cannot be seen, so there are five degrees of freedom. Labels make
partitions by class possible, as targets have none. Counts, cube root and the eight labels are published; the geometry, the
moment and the scale of the targets are ours: 16 sensors in a 4x4 grid on the plane z = 0, p in a box above them, u uniform on
the sphere.

Positions are in metres, fields in millitesla. n samples, S sensors.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from fedloom import _check
from fedloom._settings import Settings
from fedloom.data.dataset import Dataset

Floats = NDArray[np.float64]

MU0_OVER_4PI = 1e-7  # T m / A
MT_PER_T = 1e3
GRID_M = (-0.06, -0.02, 0.02, 0.06)
LOW_M, HIGH_M = (-0.08, -0.08, 0.02), (0.08, 0.08, 0.12)
TARGET_M = 0.1  # a position of 1 in the targets
MM_PER_TARGET = 1e3 * TARGET_M
N_LABELS = 8
AT_ONCE = 1 << 14  # samples whose fields are computed together: about 6 MB


class MagnetSettings(Settings):
    """The generated dataset `magnet`. The published experiments have 10^6 samples, here split 900,000 to 100,000."""

    n_train: int = Field(36_000, ge=1, le=10**15)
    n_test: int = Field(4_000, ge=1, le=10**15)
    moment_am2: float = Field(
        0.8, gt=0, le=1e6, description="A m^2; 0.8 is a cylinder of neodymium of about 10 x 10 mm"
    )
    noise_mt: float = Field(0.0, ge=0, le=1e6, description="standard deviation of the sensors' noise, mT on each axis")
    seed: int = Field(0, ge=0, lt=2**63, description="of the data; independent of a run's seed")


def sensor_grid() -> Floats:
    """Positions (16, 3) of the sensors, x slowest."""
    x, y = np.meshgrid(GRID_M, GRID_M, indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)


def dipole_field(position_m: ArrayLike, axis: ArrayLike, sensors_m: ArrayLike, moment_am2: float = 0.8) -> Floats:
    """Field (n, S, 3) in mT of n dipoles at S sensors.

    position_m (n, 3), axis (n, 3) unit vectors, sensors_m (S, 3), moment_am2 in A m^2. A magnet at a sensor is refused:
    the field has no value there.

    >>> above = dipole_field([[0, 0, 0.05]], [[0, 0, 1]], [[0, 0, 0]])
    >>> above.shape, round(float(above[0, 0, 2]), 6)
    ((1, 1, 3), 1.28)
    """
    p = _check.array("position_m", position_m, (None, 3))
    u = _check.array("axis", axis, p.shape)
    s = _check.array("sensors_m", sensors_m, (None, 3))
    _check.positive("moment_am2", moment_am2)
    if not np.allclose(np.linalg.norm(u, axis=1), 1, rtol=0, atol=1e-6):
        raise ValueError(f"axis must hold unit vectors, got lengths from {_lengths(u)}; divide each by its length")
    r = s[None] - p[:, None]  # (n, S, 3)
    distance = np.linalg.norm(r, axis=2, keepdims=True)
    if (distance == 0).any():
        i, j = np.argwhere(distance[:, :, 0] == 0)[0].tolist()
        raise ValueError(f"magnet {i} is at the very place of sensor {j}, where the field has no value")
    e = r / distance
    along = np.einsum("nsi,ni->ns", e, u)[:, :, None]
    tesla = MU0_OVER_4PI * moment_am2 * (3 * along * e - u[:, None]) / distance**3
    return np.asarray(MT_PER_T * tesla)


def draw_poses(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Positions (n, 3) in m, uniform in the box, and axes (n, 3), uniform on the sphere."""
    _check.whole("n", n)
    position = rng.uniform(LOW_M, HIGH_M, size=(n, 3))
    axis = rng.standard_normal((n, 3))
    return position, axis / np.linalg.norm(axis, axis=1, keepdims=True)


def sensor_inputs(
    position_m: Floats,
    axis: Floats,
    moment_am2: float = 0.8,
    noise_mt: float = 0.0,
    rng: np.random.Generator | None = None,
) -> NDArray[np.float32]:
    """Inputs (n, 48): cube roots of the fields at the sensors, sensor by sensor (Bx, By, Bz); noise is added to the fields.

    `rng` draws the noise and is needed only if noise_mt is above 0.
    """
    _check.positive("noise_mt", noise_mt, zero=True)
    if noise_mt and rng is None:
        raise ValueError(f"noise of {noise_mt:g} mT needs a generator to draw it; pass rng=...")
    sensors = sensor_grid()
    out = np.empty((len(position_m), sensors.size), dtype=np.float32)
    for first in range(0, len(out), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        field = dipole_field(position_m[part], axis[part], sensors, moment_am2)
        if rng is not None and noise_mt:
            field += noise_mt * rng.standard_normal(field.shape)
        out[part] = np.cbrt(field).reshape(len(field), -1)
    return out


def pose_targets(position_m: Floats, axis: Floats) -> NDArray[np.float32]:
    """Targets (n, 6): position / 0.1 m, then axis."""
    return np.concatenate([position_m / TARGET_M, axis], axis=1).astype(np.float32)


def virtual_labels(position_m: ArrayLike, axis: ArrayLike) -> NDArray[np.int64]:
    """Labels (n,) in 0..7: twice the quadrant of the position, plus 1 if the axis points down (u_z < 0).

    >>> virtual_labels([[0.03, -0.02, 0.06]], [[0, 0.6, 0.8]]).tolist()
    [2]
    """
    p, u = _check.array("position_m", position_m, (None, 3)), _check.array("axis", axis, (None, 3))
    region = 2 * (p[:, 1] >= 0) + (p[:, 0] >= 0)
    return np.asarray(2 * region + (u[:, 2] < 0), dtype=np.int64)


def position_error_mm(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Mean distance in mm between predicted and true positions; both (n, 6) as the targets are.

    >>> position_error_mm([[0.03, 0.04, 0, 0, 0, 1]], [[0, 0, 0, 0, 0, 1]])
    5.0
    """
    predicted, true = _poses(predictions, targets)
    return float(MM_PER_TARGET * np.linalg.norm(predicted[:, :3] - true[:, :3], axis=1).mean())


def angle_error_deg(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Mean angle in degrees, 0 to 180, between predicted and true axes; both (n, 6) as the targets are.

    A predicted axis need not have length 1; one of length 0 points nowhere and counts as 90 degrees. The angle is taken from
    sine and cosine, as the cosine alone cannot tell small angles apart.

    >>> round(angle_error_deg([[0, 0, 0, 0, 3, 3]], [[0, 0, 0, 0, 0, 1]]), 9)
    45.0
    """
    predicted, true = _poses(predictions, targets)
    a, b = predicted[:, 3:], true[:, 3:]
    sine, cosine = np.linalg.norm(np.cross(a, b), axis=1), np.einsum("ni,ni->n", a, b)
    angle = np.where((sine == 0) & (cosine == 0), np.pi / 2, np.arctan2(sine, cosine))
    return float(np.rad2deg(angle).mean())


def magnet_tracking(
    n_train: int = 36_000,
    n_test: int = 4_000,
    *,
    moment_am2: float = 0.8,
    noise_mt: float = 0.0,
    rng: np.random.Generator,
) -> Dataset:
    """The task: 48 inputs, 6 targets, labels 0..7 for partitions, errors position_mm and angle_deg."""

    def draw(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        position, axis = draw_poses(n, rng)
        x = sensor_inputs(position, axis, moment_am2, noise_mt, rng)
        return x, pose_targets(position, axis), virtual_labels(position, axis)

    _check.whole("n_train", n_train)
    _check.whole("n_test", n_test)
    x_train, y_train, label_train = draw(n_train)
    x_test, y_test, _ = draw(n_test)
    return Dataset(
        name="magnet",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        n_classes=0,
        label_train=label_train,
        errors={"position_mm": position_error_mm, "angle_deg": angle_error_deg},
    )


def _poses(predictions: ArrayLike, targets: ArrayLike) -> tuple[Floats, Floats]:
    true = _check.array("targets", targets, (None, 6))
    if not len(true):
        raise ValueError("there must be at least one target to compare with, got none")
    return _check.array("predictions", predictions, true.shape), true


def _lengths(u: Floats) -> str:
    length = np.linalg.norm(u, axis=1)
    return f"{length.min():g} to {length.max():g}"
