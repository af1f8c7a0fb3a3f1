"""Attacks as functions of arrays: by hand, against loops, in their limits, and what they refuse."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.attacks import altered, flipped, hostile_cells, hostile_devices, lies, stamped, supporters_z, together
from fedloom.attacks.alone import alone
from fedloom.attacks.settings import (
    Alie,
    Backdoor,
    FreeRider,
    Ipm,
    LabelFlip,
    MinMax,
    Noise,
    NotFinite,
    Replay,
    Scale,
    SignFlip,
    Withhold,
)


def drawn(seed=1):
    return lambda: np.random.default_rng(seed)


CHANGE = np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize(
    ("attack", "wanted"),
    [
        (SignFlip(kind="sign-flip"), [-1.0, 2.0, -0.5]),
        (SignFlip(kind="sign-flip", factor=3.0), [-3.0, 6.0, -1.5]),
        (Scale(kind="scale", factor=10.0), [10.0, -20.0, 5.0]),
        (Backdoor(kind="backdoor", factor=2.0), [2.0, -4.0, 1.0]),
        (FreeRider(kind="free-rider"), [0.0, 0.0, 0.0]),
        (Withhold(kind="withhold"), [0.0, 0.0, 0.0]),
        (LabelFlip(kind="label-flip"), [1.0, -2.0, 0.5]),
        (Replay(kind="replay"), [1.0, -2.0, 0.5]),
    ],
)
def test_a_change_by_hand(attack, wanted):
    assert alone(attack, CHANGE, drawn()).tolist() == wanted


def test_noise_is_added_or_alone_and_of_its_standard_deviation():
    zeros, z = np.zeros(20_000), np.random.default_rng(1).standard_normal(20_000)
    assert np.array_equal(alone(Noise(kind="noise", std=0.5), zeros + 3, drawn()), 3 + 0.5 * z)
    assert np.array_equal(alone(Noise(kind="noise", std=0.5, keep=False), zeros + 3, drawn()), 0.5 * z)
    assert np.array_equal(alone(FreeRider(kind="free-rider", std=2.0), zeros + 3, drawn()), 2 * z)
    assert abs(z.std() - 1) < 0.02


def test_only_trained_values_are_altered_and_what_is_not_finite_is_left_to_be_seen():
    row, start = np.array([3, 5, 7], dtype=np.float32), np.array([1, 1, 1], dtype=np.float32)
    trained = np.array([True, False, True])
    assert altered(SignFlip(kind="sign-flip"), row, start, trained, drawn()).tolist() == [-1, 5, -5]
    assert altered(SignFlip(kind="sign-flip"), row, start, None, drawn()).tolist() == [-1, -3, -5]
    assert np.isnan(altered(NotFinite(kind="not-finite"), row, start, trained, drawn())).tolist() == [True, False, True]
    assert np.isinf(altered(Scale(kind="scale", factor=1e30), row * 1e20, start, None, drawn())).all()


def test_conspirators_need_each_other():
    with pytest.raises(ValueError, match="alie is worked out by several together"):
        alone(Alie(kind="alie"), CHANGE, drawn())


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_what_is_worked_out_together_is_what_loops_give(k, p, seed):
    changes = np.random.default_rng(seed).normal(size=(k, p))
    mean = [sum(changes[i][j] for i in range(k)) / k for j in range(p)]
    std = [(sum((changes[i][j] - mean[j]) ** 2 for i in range(k)) / k) ** 0.5 for j in range(p)]
    little = together(Alie(kind="alie", z=0.7), changes, 9, 2)
    assert np.allclose(little, [m - 0.7 * s for m, s in zip(mean, std)])
    assert np.allclose(together(Ipm(kind="ipm", factor=2.0), changes, 9, 2), [-2 * m for m in mean])
    most = max(np.linalg.norm(a - b) for a in changes for b in changes)
    for direction in ("unit", "std", "sign"):
        found = together(MinMax(kind="min-max", direction=direction), changes, 9, 2)
        farthest = max(np.linalg.norm(found - c) for c in changes)
        assert farthest <= most + 1e-9
        if k > 1 and not (direction == "unit" and not np.linalg.norm(mean)):
            assert farthest == pytest.approx(most)  # it goes as far as it may


def test_the_z_that_is_not_noticed():
    # 50 workers, 24 corrupted: s = 26 - 24 = 2, (50 - 24 - 2) / 26 = 0.923
    assert supporters_z(50, 24) == pytest.approx(1.4261, abs=1e-3)
    assert supporters_z(10, 10) == 0.0  # nobody to hide from
    assert supporters_z(2, 1) == 0.0
    assert supporters_z(100, 10) < supporters_z(100, 30)  # more of them need fewer others, and dare more


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20))
def test_labels_are_flipped_as_a_loop_would(labels):
    found = np.array(labels)
    assert flipped(found, 7).tolist() == [6 - y for y in labels]
    assert flipped(flipped(found, 7), 7).tolist() == labels
    assert flipped(found, 7, "next").tolist() == [(y + 1) % 7 for y in labels]
    assert flipped(found, 7, 3).tolist() == [3] * len(labels)


def test_labels_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"class in 0..6, got 7"):
        flipped(np.array([1]), 7, 7)
    with pytest.raises(ValueError, match="to must be"):
        flipped(np.array([1]), 7, "back")


def test_a_mark_is_in_the_corner_and_nowhere_else():
    images = np.zeros((2, 3, 5, 4), dtype=np.float32)
    found = stamped(images, 2, 0.9)
    for n in range(2):
        for c in range(3):
            for h in range(5):
                for w in range(4):
                    assert found[n, c, h, w] == np.float32(0.9 if h >= 3 and w >= 2 else 0.0)
    assert not images.any()
    assert stamped(np.zeros((1, 4)), 3, 1.0).tolist() == [[0, 1, 1, 1]]
    with pytest.raises(ValueError, match="inputs that are numbers"):
        stamped(np.zeros((1, 4), dtype=np.int32), 3, 1.0)


IN_REACH = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], dtype=bool)
HOME = np.array([0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("seed", range(5))
def test_who_is_hostile(seed):
    shares = [hostile_devices(s, "anywhere", IN_REACH, HOME, seed).tolist() for s in (0.1, 0.34, 0.5, 1.0)]
    assert [len(s) for s in shares] == [1, 2, 3, 6]
    assert all(set(a) <= set(b) for a, b in pairwise(shares))
    assert set(hostile_devices(0.34, "bridging", IN_REACH, HOME, seed)) == {2, 3}
    cell = hostile_devices(0.5, "one-cell", IN_REACH, HOME, seed)
    assert cell.tolist() in ([0, 1, 2], [3, 4, 5])
    assert set(cell) < set(hostile_devices(0.67, "one-cell", IN_REACH, HOME, seed))  # it spills over
    assert len(hostile_cells(0.5, 4, seed)) == 2


def test_too_few_bridges_are_told():
    with pytest.raises(
        ValueError, match=r"3 bridging devices are wanted \(share 0.5 of 6\), and 2 are in reach of several"
    ):
        hostile_devices(0.5, "bridging", IN_REACH, HOME, 0)


def test_lies_are_told_by_liars_only():
    liars = np.array([True, False, False])
    assert lies.sizes(np.array([3, 3, 3]), liars, 0.01).tolist() == [1, 3, 3]
    assert lies.labels(np.array([[5, 0, 0], [0, 1, 0], [1, 1, 1]]), liars, "even").tolist() == [
        [2, 2, 1],
        [0, 1, 0],
        [1, 1, 1],
    ]
    assert lies.labels(np.array([[5, 1], [0, 1], [1, 2]]), liars, "mirror").tolist() == [[1, 5], [0, 1], [1, 2]]
    assert lies.seconds(np.array([1.0, 1.0, 1.0]), liars, 4.0).tolist() == [0.25, 1, 1]
    where = np.array([[0.0, 3.0], [3.0, 0.0], [0.0, 0.0]])
    assert lies.positions(where, liars, "centre").tolist() == [[1, 1], [3, 0], [0, 0]]
    assert lies.positions(where, liars, "mirror").tolist() == [[2, -1], [3, 0], [0, 0]]
    assert lies.features(where, liars, "flip").tolist() == [[0, -3], [3, 0], [0, 0]]
    assert lies.features(where, liars, "mean").tolist() == [[1.5, 0], [3, 0], [0, 0]]
    assert lies.features(where, np.ones(3, dtype=bool), "mean").tolist() == where.tolist()  # nobody to look like
