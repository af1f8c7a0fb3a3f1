"""The magnet task: field of a dipole, generated samples, labels, errors, and a federation that learns it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import fedloom as fl
from fedloom.data import (
    DATASETS,
    Dataset,
    MagnetSettings,
    PartitionSettings,
    label_counts,
    load,
    magnet,
    make_partition,
)
from fedloom.data.magnet import (
    angle_error_deg,
    dipole_field,
    draw_poses,
    magnet_tracking,
    pose_targets,
    position_error_mm,
    sensor_grid,
    sensor_inputs,
    virtual_labels,
)

CENTRE = [[0.0, 0.0, 0.0]]


def rng(seed=0):
    return np.random.default_rng(seed)


def field_by_loop(position, axis, sensors, moment):
    """One sensor of one magnet at a time, in tesla as the formula is printed, then in mT."""
    out = np.zeros((len(position), len(sensors), 3))
    for n, (p, u) in enumerate(zip(position, axis)):
        for s, sensor in enumerate(sensors):
            r = sensor - p
            length = np.sqrt(r @ r)
            e = r / length
            out[n, s] = 1000 * 1e-7 * moment * (3 * (u @ e) * e - u) / length**3
    return out


@pytest.mark.parametrize(
    ("p", "u", "s", "field", "roots"),
    [
        # 1e-7 * 0.8 / 0.05^3 = 0.64 mT; twice that on the axis, and -1 times at the equator
        ((0, 0, 0.05), (0, 0, 1), (0, 0, 0), (0, 0, 1.28), (0, 0, 1.085767)),
        ((0, 0, 0.05), (1, 0, 0), (0, 0, 0), (-0.64, 0, 0), (-(0.64 ** (1 / 3)), 0, 0)),
        (
            *((0.03, -0.02, 0.06), (0, 0.6, 0.8), (0.02, 0.02, 0)),
            *((0.028166, -0.237068, 0.003130), (0.304260, -0.618905, 0.146273)),
        ),
    ],
)
def test_g9_the_field_of_a_dipole(p, u, s, field, roots):
    found = dipole_field([p], [u], [s])[0, 0]
    assert found == pytest.approx(field, abs=1e-6)
    assert np.cbrt(found) == pytest.approx(roots, abs=2e-6)


def test_g9_the_label():
    assert virtual_labels([[0.03, -0.02, 0.06]], [[0, 0.6, 0.8]]).tolist() == [2]  # region 1, half 0


@given(st.integers(0, 99))
def test_a_turned_magnet_turns_the_field_and_distance_enters_cubed(seed):
    position, axis = draw_poses(5, rng(seed))
    sensors = sensor_grid()
    field = dipole_field(position, axis, sensors)
    np.testing.assert_allclose(dipole_field(position, -axis, sensors), -field, rtol=1e-12)
    np.testing.assert_allclose(dipole_field(2 * position, axis, 2 * sensors), field / 8, rtol=1e-12)
    np.testing.assert_allclose(dipole_field(position, axis, sensors, 1.6), 2 * field, rtol=1e-12)
    np.testing.assert_allclose(field, field_by_loop(position, axis, sensors, 0.8), rtol=1e-10)


@given(st.integers(0, 99), st.floats(0.01, 0.3))
def test_on_the_axis_the_field_is_twice_that_at_the_equator(seed, distance):
    _, (axis, other) = draw_poses(2, rng(seed))
    equator = np.cross(axis, other) / np.linalg.norm(np.cross(axis, other))
    along = dipole_field(distance * axis[None], axis[None], CENTRE)
    across = dipole_field(distance * equator[None], axis[None], CENTRE)
    np.testing.assert_allclose(along, -2 * across, rtol=1e-9, atol=1e-9 * np.abs(along).max())


@pytest.mark.parametrize(
    ("p", "u", "message"),
    [
        ([[0.0, 0.0, 0.0]], [[0, 0, 1]], "magnet 0 is at the very place of sensor 0"),
        ([[0, 0, 0.1]], [[0, 0, 2]], "axis must hold unit vectors, got lengths from 2 to 2; divide each"),
        ([[0, 0, 0.1]], [[0, 0, 1], [0, 0, 1]], r"axis must have shape \(1, 3\), got \(2, 3\)"),
        ([[0, 0]], [[0, 1]], r"position_m must have shape \(any, 3\), got \(1, 2\)"),
    ],
)
def test_a_field_that_has_no_value_is_refused(p, u, message):
    with pytest.raises(ValueError, match=message):
        dipole_field(p, u, CENTRE)


def test_sixteen_sensors_stand_in_a_grid():
    grid = sensor_grid()
    assert {tuple(s) for s in grid.tolist()} == {
        (x, y, 0.0) for x in (-0.06, -0.02, 0.02, 0.06) for y in (-0.06, -0.02, 0.02, 0.06)
    }


def test_poses_fill_the_box_and_the_sphere():
    position, axis = draw_poses(20_000, rng())
    assert position.min(axis=0) == pytest.approx([-0.08, -0.08, 0.02], abs=1e-4)
    assert position.max(axis=0) == pytest.approx([0.08, 0.08, 0.12], abs=1e-4)
    np.testing.assert_allclose(np.linalg.norm(axis, axis=1), 1, rtol=1e-12)
    # on a sphere every coordinate is uniform in [-1, 1]: mean 0 and variance 1/3, in all directions alike
    assert axis.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.02)
    np.testing.assert_allclose(np.cov(axis.T), np.eye(3) / 3, atol=0.01)


def test_inputs_are_cube_roots_sensor_by_sensor_whatever_the_blocks(monkeypatch):
    position, axis = draw_poses(50, rng())
    x = sensor_inputs(position, axis)
    assert x.shape == (50, 48) and x.dtype == np.float32
    cubed = x.astype(np.float64).reshape(50, 16, 3) ** 3
    np.testing.assert_allclose(cubed, dipole_field(position, axis, sensor_grid()), rtol=1e-5, atol=1e-9)
    noisy = sensor_inputs(position, axis, noise_mt=0.01, rng=rng(1))
    monkeypatch.setattr(magnet, "AT_ONCE", 7)
    np.testing.assert_array_equal(sensor_inputs(position, axis), x)
    np.testing.assert_array_equal(sensor_inputs(position, axis, noise_mt=0.01, rng=rng(1)), noisy)


def test_inputs_are_of_order_one():
    x = magnet_tracking(5000, 10, rng=rng()).x_train
    assert 0.3 < x.std() < 1.0 and np.abs(x).max() < 4


def test_noise_is_added_to_the_field():
    position, axis = draw_poses(2000, rng())
    clean, noisy = (sensor_inputs(position, axis, noise_mt=n, rng=rng(1)).astype(np.float64) ** 3 for n in (0.0, 0.05))
    assert (noisy - clean).std() == pytest.approx(0.05, rel=0.01)
    with pytest.raises(ValueError, match=r"noise of 0.05 mT needs a generator to draw it; pass rng="):
        sensor_inputs(position, axis, noise_mt=0.05)
    with pytest.raises(ValueError, match="noise_mt must be at least 0, got -1"):
        sensor_inputs(position, axis, noise_mt=-1)


@pytest.mark.parametrize(
    ("position", "axis", "label"),
    [
        ((-0.01, -0.01, 0.05), (0, 0.6, 0.8), 0),
        ((0.01, -0.01, 0.05), (0, 0.6, 0.8), 2),
        ((-0.01, 0.01, 0.05), (0, 0.6, 0.8), 4),
        ((0.01, 0.01, 0.05), (0, 0.6, 0.8), 6),
        ((0.0, 0.0, 0.05), (0, 0.6, 0.8), 6),  # borders belong to the positive side
        ((-0.01, -0.01, 0.05), (0, 0.6, -0.8), 1),
        ((0.01, 0.01, 0.05), (0, 0.6, -0.8), 7),
        ((-0.01, -0.01, 0.05), (1, 0, 0), 0),  # 90 degrees from z belongs to the upper half
    ],
)
def test_labels_by_hand(position, axis, label):
    assert virtual_labels([position], [axis]).tolist() == [label]


def test_the_eight_labels_are_about_equally_frequent():
    labels = magnet_tracking(16_000, 10, rng=rng()).label_train
    assert np.abs(np.bincount(labels, minlength=8) - 2000).max() < 5 * np.sqrt(16_000 * 7 / 64)


def test_targets_are_the_position_in_tenths_of_a_metre_and_the_axis():
    position, axis = np.array([[0.03, -0.02, 0.06]]), np.array([[0, 0.6, 0.8]])
    assert pose_targets(position, axis)[0] == pytest.approx([0.3, -0.2, 0.6, 0, 0.6, 0.8])
    assert pose_targets(position, axis).dtype == np.float32


def test_inputs_targets_and_labels_of_the_dataset_belong_together():
    data = magnet_tracking(60, 30, rng=rng())
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        axis = y[:, 3:] / np.linalg.norm(y[:, 3:].astype(np.float64), axis=1, keepdims=True)
        np.testing.assert_allclose(sensor_inputs(0.1 * y[:, :3].astype(np.float64), axis), x, atol=1e-3)
    np.testing.assert_array_equal(data.label_train, virtual_labels(0.1 * data.y_train[:, :3], data.y_train[:, 3:]))


def test_errors_by_hand():
    true = [[0.3, -0.2, 0.6, 0, 0, 1], [0, 0, 0.5, 1, 0, 0]]
    found = [[0.33, -0.2, 0.64, 0, 0, 7], [0, 0, 0.5, 1, 1, 0]]  # 3 and 4 mm off is 5 mm; 0 and 45 degrees
    assert position_error_mm(found, true) == pytest.approx((5 + 0) / 2)
    assert angle_error_deg(found, true) == pytest.approx((0 + 45) / 2)


@pytest.mark.parametrize("degrees", [0.0, 1e-6, 0.01, 3.2, 90.0, 179.9999, 180.0])
@pytest.mark.parametrize("length", [1e-3, 1.0, 50.0])
def test_the_angle_is_right_from_nothing_to_half_a_turn_and_length_does_not_matter(degrees, length):
    a = np.deg2rad(degrees)
    found = [[0, 0, 0, 0, length * np.sin(a), length * np.cos(a)]]
    assert angle_error_deg(found, [[0, 0, 0, 0, 0, 1]]) == pytest.approx(degrees, rel=1e-9, abs=1e-12)


def test_an_axis_that_points_nowhere_counts_as_a_right_angle():
    assert angle_error_deg([[1.0, 2, 3, 0, 0, 0]], [[1, 2, 3, 0, 0, 1]]) == 90


@pytest.mark.parametrize("error", [position_error_mm, angle_error_deg])
def test_errors_refuse_what_is_no_pose(error):
    with pytest.raises(ValueError, match=r"predictions must have shape \(2, 6\), got \(1, 6\)"):
        error(np.zeros((1, 6)), np.ones((2, 6)))
    with pytest.raises(ValueError, match=r"targets must have shape \(any, 6\), got \(2, 3\)"):
        error(np.zeros((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="at least one target"):
        error(np.zeros((0, 6)), np.zeros((0, 6)))


def test_the_dataset_by_name_follows_its_settings_and_seed():
    small = {"n_train": 50, "n_test": 20}
    a, again, b = (load("magnet", magnet=MagnetSettings(**small, seed=s)) for s in (1, 1, 2))
    assert a.x_train.shape == (50, 48) and a.y_test.shape == (20, 6) and a.n_classes == 0
    np.testing.assert_array_equal(a.x_train, again.x_train)
    assert not np.array_equal(a.x_train, b.x_train)
    strong = load("magnet", magnet=MagnetSettings(**small, seed=1, moment_am2=0.8 * 8))
    np.testing.assert_allclose(strong.x_train, 2 * a.x_train, rtol=1e-6)
    assert not np.array_equal(load("magnet", magnet=MagnetSettings(**small, seed=1, noise_mt=0.1)).x_train, a.x_train)
    with pytest.raises(ValueError, match="settings `magnet` go with dataset \"magnet\", not with 'digits'"):
        load("digits", magnet=MagnetSettings())


@pytest.mark.parametrize("text", [{"n_train": 0}, {"moment_am2": 0}, {"noise_mt": -1}, {"sensors": 16}])
def test_settings_that_make_no_dataset_are_refused(text):
    with pytest.raises(ValidationError):
        MagnetSettings.model_validate(text)


def test_its_description_tells_the_truth():
    data, says = load("magnet"), DATASETS["magnet"]
    assert (says.n_train, says.n_test, says.shape, says.n_classes) == (
        *(data.n_train, data.n_test, data.shape),
        data.n_classes,
    )


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ({"kind": "classes", "classes_per_client": 2}, lambda counts: ((counts > 0).sum(axis=1) == 2).all()),
        ({"kind": "dirichlet", "min_samples": 9}, lambda counts: counts.sum() == 2400),
        (
            {"kind": "sizes", "relative_std": 0.3, "classes_per_client": 3},
            lambda counts: ((counts > 0).sum(axis=1) == 3).all() and abs(counts.sum(axis=1).std() - 0.3 * 200) < 2,
        ),
        ({"kind": "edge-case", "case": 3}, lambda counts: ((counts > 0).sum(axis=1) == 2).all()),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_partitions_by_class_go_by_the_labels(text, check):
    data = magnet_tracking(2400, 10, rng=rng())
    chosen = TypeAdapter(PartitionSettings).validate_python(text)
    parts = make_partition(chosen, data, 12, rng(), home=np.repeat([0, 1], 6))
    assert check(label_counts(data.label_train, parts, 8))


def test_a_limit_keeps_the_labels_with_their_samples():
    data = magnet_tracking(400, 40, rng=rng())
    few = data.limited(80)
    where = [int(np.flatnonzero((data.x_train == x).all(axis=1))[0]) for x in few.x_train]
    np.testing.assert_array_equal(few.label_train, data.label_train[where])
    share = np.bincount(data.label_train, minlength=8) * 80 / 400
    assert np.abs(np.bincount(few.label_train, minlength=8) - share).max() < 1
    assert few.errors is data.errors and few.n_labels == 8 and few.n_test == 40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_train": [0, 1]}, "label_train of r must be 3 whole numbers, one for each sample"),
        ({"label_train": [0, 1, -1]}, "label_train of r must lie in .*, got -1 at index 2"),
        (
            {"label_train": [0, 1, 1], "n_classes": 2, "y_train": [0, 1, 1], "y_test": [0, 1, 1]},
            "label_train of r is for data without classes, but n_classes is 2",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(changes, message):
    x = rng().normal(size=(3, 4))
    fields = {"name": "r", "x_train": x, "y_train": x[:, :2], "x_test": x, "y_test": x[:, :2], "n_classes": 0}
    with pytest.raises(ValueError, match=message):
        Dataset(**(fields | changes))


def federation(**task):
    return fl.scenario({
        "fleet": {"n_devices": 6},
        "task": {
            "dataset": "magnet",
            "magnet": {"n_train": 2000, "n_test": 300},
            "partition": {"kind": "sizes", "relative_std": 0.3, "classes_per_client": 3},
            "model": {"kind": "mlp", "hidden": [64]},
            **task,
        },
        "training": {"batch_size": 32, "local_epochs": 1, "edge_rounds": 2, "cloud_rounds": 6, "lr": 0.1},
    })  # fmt: skip


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_a_federation_learns_where_the_magnet_is(engine):
    simulation = fl.Simulation(federation(), fl.make_method("fedavg"), 0, engine=engine, n_workers=1)
    for _ in simulation.rounds():
        pass
    assert simulation.label_counts.shape == (6, 8)
    assert ((simulation.label_counts > 0).sum(axis=1) == 3).all()
    position, angle = ([m[name] for m in simulation.measures] for name in ("position_mm", "angle_deg"))
    assert position[0] == pytest.approx(100, abs=15) and angle[0] == pytest.approx(90, abs=10)
    assert (np.diff(position) < 0).all() and position[-1] < 70
    assert (np.diff(angle) < 0).all() and angle[-1] < 55


@pytest.mark.parametrize("standardise", [False, True])
def test_the_errors_are_those_of_the_global_model(standardise):
    chosen = federation(standardise=standardise)
    simulation = fl.Simulation(chosen, fl.make_method("fedavg"), 0, engine="native", n_workers=1)
    for _ in simulation.rounds():
        pass
    row, last = simulation.result().row, simulation.measures[-1]
    predictions = simulation.engine.outputs(row[None], "test")[0]
    targets = simulation.dataset.y_test
    assert last["position_mm"] == pytest.approx(position_error_mm(predictions, targets), rel=1e-5)
    assert last["angle_deg"] == pytest.approx(angle_error_deg(predictions, targets), rel=1e-5)
    assert last["rmse"] == pytest.approx(np.sqrt(np.square(predictions - targets).mean()), rel=1e-5)


def test_a_dry_run_has_no_errors_but_the_labels():
    result = fl.simulate(federation(), "fedavg", dry_run=True)
    assert "position_mm" not in result.metrics.columns and len(result.metrics) == 7
