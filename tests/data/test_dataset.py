"""The dataset record, the settings, and the datasets that need no files."""

import subprocess
import sys
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from fedloom.data import (
    DATASETS,
    Dataset,
    GaussianSettings,
    PartitionSettings,
    gaussian_mixture,
    label_counts,
    load,
    loaders,
    make_partition,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def small(**changes):
    fields = {
        "name": "small",
        "x_train": rng().integers(0, 256, size=(6, 2, 4, 4), dtype=np.uint8),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.zeros((2, 2, 4, 4), np.uint8),
        "y_test": np.array([0, 1]),
        "n_classes": 3,
        "scale": 255.0,
    }
    return Dataset(**(fields | changes))


def test_bytes_become_pixels_between_0_and_1():
    x = np.arange(256, dtype=np.uint8).reshape(4, 1, 8, 8)
    inputs = small(x_train=x, y_train=[0, 1, 2, 0], x_test=x[:2]).inputs("train")
    assert inputs.dtype == np.float32 and inputs.min() == 0 and inputs.max() == 1
    assert np.array_equal(inputs, (x / 255).astype(np.float32))


def test_standardised_training_inputs_have_mean_0_and_std_1_in_each_channel():
    inputs = small().inputs("train", standardise=True)
    assert inputs.mean(axis=(0, 2, 3)) == pytest.approx(np.zeros(2), abs=1e-6)
    assert inputs.std(axis=(0, 2, 3)) == pytest.approx(np.ones(2), abs=1e-6)


def test_moments_match_a_plain_computation():
    data = small()
    x = data.x_train.astype(np.float64) / 255
    assert data.mean == pytest.approx(x.mean(axis=(0, 2, 3)), rel=1e-12)
    assert data.std == pytest.approx(x.std(axis=(0, 2, 3)), rel=1e-12)


def test_a_channel_that_never_varies_is_not_divided_by_zero():
    constant = small(x_train=np.full((6, 2, 4, 4), 7, np.uint8))
    assert constant.std.tolist() == [1, 1]
    assert constant.inputs("train", standardise=True) == pytest.approx(np.zeros((6, 2, 4, 4)), abs=1e-6)


def test_a_real_valued_channel_that_never_varies_is_not_blown_up():
    constant = small(x_train=np.full((6, 3), 0.1), x_test=np.zeros((2, 3)), scale=1.0)
    assert constant.std.tolist() == [1, 1, 1]


def test_inputs_of_chosen_samples_are_those_samples_and_a_copy():
    data = small(x_train=rng().normal(size=(6, 5)), x_test=np.zeros((2, 5)), scale=1.0)
    chosen = data.inputs("train", np.array([4, 1]), standardise=True)
    assert np.array_equal(chosen, data.inputs("train", standardise=True)[[4, 1]])
    before = data.x_train.copy()
    data.inputs("train")[:] = 0
    assert np.array_equal(data.x_train, before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"y_train": np.zeros(5, int)},
            r"y_train of small must have one label for each of the 6 samples, got .*\(5,\)",
        ),
        (
            {"y_test": np.array([0, 3])},
            r"y_test of small must lie in 0..2, got 3 at index 1",
        ),
        ({"y_test": np.array([0.0, 1.0])}, "y_test of small must hold whole numbers, got float64"),
        ({"x_test": np.zeros((2, 1, 4, 4), np.uint8)}, "must have samples of one shape and type"),
        ({"x_test": np.zeros((2, 2, 4, 4))}, "must have samples of one shape and type"),
        ({"x_train": np.full((6, 2), np.nan)}, r"x_train of small must be finite, got nan at index \[0, 0\]"),
        ({"x_train": np.array([[1.0], [np.inf], [-np.inf], [0], [0], [0]])}, r"got inf at index \[1, 0\]"),
        ({"x_train": np.zeros(6)}, r"x_train of small must have shape \(samples, features\)"),
        ({"x_train": np.array([["a"]] * 6)}, "x_train of small must hold real numbers"),
        ({"user": np.zeros(2, int)}, "user of small must be 6 whole numbers"),
        ({"n_classes": 0}, r"y_train of small must have shape \(6, targets\) as n_classes is 0"),
        ({"scale": 0.0}, "scale must be above 0"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small(**changes)


def test_regression_has_real_targets():
    x = rng().normal(size=(3, 4))
    data = Dataset(name="r", x_train=x, y_train=x[:, :2], x_test=x, y_test=x[:, :2], n_classes=0)
    assert data.y_train.dtype == np.float32 and data.y_train.shape == (3, 2)
    assert data.limited(2).y_train.shape == (2, 2)
    with pytest.raises(ValueError, match="has no classes, which partition kind 'dirichlet' needs"):
        make_partition(TypeAdapter(PartitionSettings).validate_python({"kind": "dirichlet"}), data, 2, rng())


def test_limit_keeps_proportions_and_the_first_samples():
    # of 8 samples, 6 of class 0: a limit of 4 keeps 3 and 1
    y = np.array([0, 0, 1, 0, 0, 1, 0, 0])
    data = small(x_train=np.arange(8.0)[:, None], x_test=np.zeros((2, 1)), y_train=y).limited(4)
    assert data.inputs("train")[:, 0].tolist() == [
        0 / 255,
        1 / np.float32(255),
        2 / np.float32(255),
        3 / np.float32(255),
    ]
    assert data.n_test == 2


def test_limit_keeps_every_user():
    data = small(user=np.array([5, 5, 5, 8, 8, 8])).limited(4)
    assert np.bincount(data.user)[[5, 8]].tolist() == [2, 2]


def test_fashion_mini_is_balanced_small_and_quick():
    data = load("fashion-mini")
    assert data.shape == (1, 28, 28) and data.x_train.dtype == np.uint8
    assert np.bincount(data.y_train).tolist() == [800] * 10
    assert np.bincount(data.y_test).tolist() == [200] * 10
    folder = resources.files("fedloom.data") / "embedded"
    assert len((folder / "fashion-mini.npz").read_bytes()) <= 6_000_000
    assert "Zalando SE" in (folder / "LICENSE-fashion-mnist.txt").read_text(encoding="utf-8")


def test_a_changed_embedded_file_is_refused(monkeypatch):
    monkeypatch.setattr(loaders, "FASHION_MINI_SHA256", "0" * 64)
    with pytest.raises(ValueError, match=r"fashion-mini.npz: expected sha256 0+, got 84fec.* reinstall fedloom"):
        load("fashion-mini")


def test_digits_are_split_by_class():
    data = load("digits")
    assert (data.n_train, data.n_test, data.shape) == (1437, 360, (1, 8, 8))
    share = np.bincount(data.y_test) / (np.bincount(data.y_train) + np.bincount(data.y_test))
    assert np.abs(share - 360 / 1797).max() < 1 / 174
    assert data.inputs("train").max() == 1
    assert np.array_equal(data.x_test, load("digits").x_test)


def test_gaussian_mixture_has_the_moments_it_says():
    data = gaussian_mixture(2, 400, 3000, 7, modes_per_class=1, spread=0.5, rng=rng())
    assert np.bincount(data.y_train).tolist() == [1500, 1500] and data.n_test == 7
    centres = np.stack([data.x_train[data.y_train == c].mean(axis=0) for c in range(2)])
    noise = data.x_train - centres[data.y_train]
    assert noise.std() == pytest.approx(1, rel=0.01)
    assert centres.std() == pytest.approx(0.5, rel=0.1)


def test_two_modes_make_a_class_wider_than_one():
    # two centres at variance 0.75^2 apart add 0.75^2 / 2 on average to the unit noise of a class
    data = gaussian_mixture(n_features=500, rng=rng())
    within = np.mean([data.x_train[data.y_train == c].var(axis=0).mean() for c in range(10)])
    assert within == pytest.approx(1 + 0.75**2 / 2, rel=0.05)


def test_gaussian_by_name_follows_its_settings_and_seed():
    a = load("gaussian", gaussian=GaussianSettings(n_features=3, n_train=50, seed=1))
    b = load("gaussian", gaussian=GaussianSettings(n_features=3, n_train=50, seed=2))
    assert a.x_train.shape == (50, 3) and not np.array_equal(a.x_train, b.x_train)
    assert np.array_equal(load("gaussian").x_train, load("gaussian").x_train)
    with pytest.raises(ValueError, match="settings `gaussian` go with dataset"):
        load("digits", gaussian=GaussianSettings())


@pytest.mark.parametrize("name", ["fashion-mini", "digits", "gaussian"])
def test_descriptions_tell_the_truth(name):
    data, says = load(name), DATASETS[name]
    assert (says.n_train, says.n_test, says.shape, says.n_classes) == (
        data.n_train,
        data.n_test,
        data.shape,
        data.n_classes,
    )


def test_an_unknown_name_gets_the_nearest_ones():
    with pytest.raises(
        ValueError, match=r"unknown dataset 'fashion_mnist'; nearest: fashion-mnist.*; known: fashion-mini,"
    ):
        load("fashion_mnist")


def test_importing_the_data_package_imports_nothing_heavy():
    heavy = "torch", "sklearn", "scipy", "pooch", "pandas"
    code = f"import sys, fedloom.data; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ({"kind": "iid"}, lambda counts: counts.sum() == 600),
        ({"kind": "classes", "classes_per_client": 3}, lambda counts: ((counts > 0).sum(axis=1) == 3).all()),
        (
            {"kind": "dirichlet", "concentration": 0.1, "min_samples": 9},
            lambda counts: counts.sum(axis=1).min() >= 9,
        ),
        ({"kind": "sizes", "relative_std": 0.5}, lambda counts: abs(counts.sum(axis=1).std() - 50) < 1),
        (
            {"kind": "sizes", "relative_std": 0.2, "classes_per_client": 4},
            lambda counts: ((counts > 0).sum(axis=1) == 4).all() and abs(counts.sum(axis=1).std() - 20) < 1,
        ),
    ],
)
def test_settings_make_the_partition_they_name(text, check):
    data = load("gaussian", gaussian=GaussianSettings(n_train=600))
    chosen = TypeAdapter(PartitionSettings).validate_python(text)
    parts = make_partition(chosen, data, 6, rng())
    assert len(parts) == 6
    assert check(label_counts(data.y_train, parts, 10))
    again = make_partition(chosen, data, 6, rng())
    assert all(np.array_equal(a, b) for a, b in zip(parts, again))


def test_user_partition_takes_users_whole():
    data = small(user=np.array([1, 2, 3, 1, 2, 3]))
    by_user = TypeAdapter(PartitionSettings).validate_python({"kind": "user"})
    assert [part.tolist() for part in make_partition(by_user, data, 3, rng())] == [[0, 3], [1, 4], [2, 5]]
    assert len(make_partition(by_user, data, 2, rng())) == 2
    with pytest.raises(ValueError, match="has 3 users, too few for 4 clients"):
        make_partition(by_user, data, 4, rng())
    with pytest.raises(ValueError, match="does not say which user a sample comes from"):
        make_partition(by_user, small(), 2, rng())


@pytest.mark.parametrize(
    "text", [{"kind": "shards"}, {"kind": "classes", "classes": 2}, {"kind": "dirichlet", "concentration": 0}]
)
def test_settings_refuse_unknown_kinds_and_keys(text):
    with pytest.raises(ValidationError):
        TypeAdapter(PartitionSettings).validate_python(text)


def test_published_samples_are_known_by_name_and_limit_until_they_are_others():
    whole, part = load("fashion-mini"), load("fashion-mini", limit=100)
    assert (whole.published, part.published) == ("fashion-mini, limit None", "fashion-mini, limit 100")
    assert replace(whole, x_train=whole.x_train + 1).published == ""
    with pytest.raises(ValueError, match="read-only"):
        whole.x_train[0] = 0
    assert load("gaussian").published == ""
