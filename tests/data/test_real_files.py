"""The published files, read from the folder in FEDLOOM_DATA. Without it these fail, not skip."""

import os

import numpy as np
import pytest

from fedloom.data import DATASETS, check, load

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def files_are_there():
    if not os.environ.get("FEDLOOM_DATA"):
        pytest.fail("set FEDLOOM_DATA to a folder with the datasets mnist, fashion-mnist, cifar10, svhn and hapt")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_the_files_are_the_published_ones_and_as_described(name):
    assert all(file.published for file in check(name))
    data, says = load(name), DATASETS[name]
    assert (data.n_train, data.n_test, data.shape) == (says.n_train, says.n_test, says.shape)
    assert np.bincount(data.y_test).sum() == 10_000 and len(np.unique(data.y_train)) == 10


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("mnist", [0.1307], [0.3081]),
        ("fashion-mnist", [0.2860], [0.3530]),
        ("cifar10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    ],
)
def test_pixel_moments_are_the_well_known_ones(name, mean, std):
    data = load(name)
    assert data.mean == pytest.approx(np.array(mean), abs=5e-5)
    assert data.std == pytest.approx(np.array(std), abs=5e-5)


def test_fashion_mini_is_the_first_of_each_class_of_fashion_mnist():
    whole, mini = load("fashion-mnist"), load("fashion-mini")
    for x, y, small_x, small_y, n in (
        (whole.x_train, whole.y_train, mini.x_train, mini.y_train, 800),
        (whole.x_test, whole.y_test, mini.x_test, mini.y_test, 200),
    ):
        index = np.sort(np.concatenate([np.flatnonzero(y == c)[:n] for c in range(10)]))
        assert np.array_equal(x[index], small_x) and np.array_equal(y[index], small_y)


def test_svhn_has_ten_digits_of_which_one_is_commonest():
    data = load("svhn:own")  # a variant will do
    assert data.shape == (3, 32, 32) and len(np.unique(data.y_train)) == 10
    assert np.bincount(data.y_train).argmax() == 1


def test_hapt_has_thirty_people_in_both_splits():
    data, says = load("hapt"), DATASETS["hapt"]
    assert (data.n_train, data.n_test, data.shape) == (says.n_train, says.n_test, says.shape)
    assert np.unique(data.user).tolist() == np.unique(data.user_test).tolist() == list(range(1, 31))
    # the phone is worn upright while walking: gravity, 1 g, lies mostly along x
    assert data.inputs("train")[data.y_train == 0, 0].mean() == pytest.approx(1, abs=0.1)
