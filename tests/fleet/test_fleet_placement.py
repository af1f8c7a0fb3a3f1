"""Where devices and cells stand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import cells, placement
from fedloom.radio import distances


def rng(seed=0):
    return np.random.default_rng(seed)


def test_disc_is_uniform_by_area():
    points = placement.disc(20_000, 10.0, rng(), (5.0, -5.0)) - (5.0, -5.0)
    r = np.hypot(*points.T)
    assert r.max() <= 10
    assert (r < 5).mean() == pytest.approx(0.25, abs=0.015)  # half the radius, a quarter of the area
    assert np.abs(points.mean(axis=0)).max() < 0.15


def test_square_is_inside_and_centred():
    points = placement.square(5000, 4.0, rng(), (10.0, 20.0))
    assert np.abs(points - (10, 20)).max() <= 2
    np.testing.assert_allclose(points.mean(axis=0), (10, 20), atol=0.1)


def test_rectangles_come_region_by_region():
    points = placement.rectangles([(-10, 0, -5, 5), (10, 20, -5, 5)], [15, 15], rng(), z_m=0.0)
    assert points.shape == (30, 3)
    assert ((points[:15, 0] >= -10) & (points[:15, 0] <= 0)).all()
    assert ((points[15:, 0] >= 10) & (points[15:, 0] <= 20)).all()
    assert (np.abs(points[:, 1]) <= 5).all()
    assert (points[:, 2] == 0).all()
    far = distances(points, [[-50.0, 0.0, 10.0]])
    assert far[:15].max() < far[15:].min()  # the second region is the weaker one
    assert placement.rectangles([(0, 1, 0, 1)], [2], rng()).shape == (2, 2)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_around_cells_stays_inside(seed, counts):
    centres = placement.cell_grid("hex", len(counts), 1000.0) + 1e6
    radius = np.linspace(1, 900, len(counts))
    points = placement.around_cells(centres, radius, counts, rng(seed))
    assert points.shape == (sum(counts), 2)
    own = np.repeat(np.arange(len(counts)), counts)
    in_reach = cells.reach(points, centres, radius)
    assert in_reach[own, np.arange(len(own))].all()


def test_triangle_has_the_published_centres():
    np.testing.assert_allclose(placement.cell_grid("triangle", 3, 2.0), [(0, 0), (2, 0), (1, 3**0.5)], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 10, 19, 20, 37])
def test_hexagonal_spiral_has_distinct_cells_that_touch(n):
    centres = placement.cell_grid("hex", n, 100.0)
    assert centres.shape == (n, 2)
    d = distances(centres, centres)
    np.fill_diagonal(d, np.inf)
    if n > 1:
        np.testing.assert_allclose(d.min(axis=1), 100.0)  # everybody has a neighbour, and none is nearer
    rings = np.round(np.hypot(*centres.T) / 100.0, 6)
    assert (rings[:7] <= 1).all()
    if n in (7, 19, 37):  # full rings are symmetric around the first cell
        np.testing.assert_allclose(centres.mean(axis=0), 0, atol=1e-9)


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_devices_are_in_exactly_the_wanted_cells(seed):
    centres = placement.cell_grid("triangle", 3, 1000.0)
    wanted, _ = placement.three_cells()
    points = placement.in_region(centres, 830.0, wanted, rng(seed))
    in_reach = cells.reach(points, centres, 830.0)
    assert [set(np.flatnonzero(column).tolist()) for column in in_reach.T] == [set(w) for w in wanted]


def test_an_empty_region_is_refused_with_the_way_out():
    centres = placement.cell_grid("triangle", 3, 1000.0)
    with pytest.raises(ValueError, match=r"exactly the cells \[0, 1, 2\].*region is empty.*r > d/sqrt\(3\)"):
        placement.in_region(centres, 570.0, [{0, 1, 2}], rng(), max_draws=20_000)
    with pytest.raises(ValueError, match=r"exactly the cells \[0, 1\].*d < 2r"):
        placement.in_region(centres, 499.0, [{0, 1}], rng())
    with pytest.raises(ValueError, match=r"exactly the cells \[1\]"):  # cell 1 is all inside cell 0
        placement.in_region([[0, 0], [1, 0]], [10.0, 2.0], [{1}], rng(), max_draws=20_000)


@pytest.mark.parametrize("bad", [set(), {3}, {-1}])
def test_a_wanted_cell_that_does_not_exist_is_named(bad):
    centres = placement.cell_grid("triangle", 3, 1000.0)
    with pytest.raises(ValueError, match=r"device 1 must want at least one of the cells 0\.\.2"):
        placement.in_region(centres, 830.0, [{0}, bad], rng())


def test_three_cells_has_the_published_counts():
    reach, home = placement.three_cells()
    n_cells = [len(cell_set) for cell_set in reach]
    assert len(reach) == 57
    assert [n_cells.count(n) for n in (1, 2, 3)] == [42, 12, 3]
    assert sum(n_cells) == 75
    for n in range(3):
        assert sum(n in cell_set for cell_set in reach) == 25
        assert (home == n).sum() == 19
        pair = {n, (n + 1) % 3}
        assert sum(cell_set == pair for cell_set in reach) == 4
        assert [home[i] for i, c in enumerate(reach) if c == pair].count(n) == 2
    assert all(home[i] in cell_set for i, cell_set in enumerate(reach))


def test_three_cells_has_the_canonical_numbering():
    reach, _ = placement.three_cells()
    for n in range(3):
        block = reach[19 * n : 19 * (n + 1)]
        assert block[:14] == [{n}] * 14
        assert block[14:16] == [{n, (n + 1) % 3}] * 2
        assert block[16:18] == [{n, (n - 1) % 3}] * 2
        assert block[18] == {0, 1, 2}


def test_the_modified_topology_has_81_memberships():
    reach, home = placement.three_cells(12, 6, 3)
    assert sum(map(len, reach)) == 81
    assert np.bincount(home).tolist() == [19, 19, 19]


SWEEP = range(0, 58, 3)


@pytest.mark.parametrize("overlap", SWEEP)
def test_relocation_reaches_every_overlap_and_leaves_homes_alone(overlap):
    reach, home = placement.three_cells(overlap=overlap)
    n_cells = [len(cell_set) for cell_set in reach]
    assert len(reach) == 57 and sum(n > 1 for n in n_cells) == overlap
    np.testing.assert_array_equal(home, np.arange(57) // 19)
    assert all(home[i] in cell_set for i, cell_set in enumerate(reach))
    for n in range(3):  # every cell sees the same: turn all by one cell
        turned = [frozenset((cell + n) % 3 for cell in cell_set) for cell_set in reach[:19]]
        assert reach[19 * n : 19 * (n + 1)] == turned


@pytest.mark.parametrize(
    ("overlap", "memberships", "second_eigenvalue"),
    [(0, 57, 1), (3, 63, 18 / 19), (15, 75, 15 / 19), (21, 81, 27 / 38), (57, 117, 9 / 38)],
)
def test_relocation_gives_the_published_table(overlap, memberships, second_eigenvalue):
    reach, _ = placement.three_cells(overlap=overlap)
    assert sum(map(len, reach)) == memberships
    start = np.array([[(n in cell_set) / len(cell_set) for n in range(3)] for cell_set in reach])  # (K, N)
    edge_round = start.T / start.sum(axis=0)[:, None] @ start  # (N, N): clients of equal size, one edge round
    assert np.sort(np.linalg.eigvals(edge_round).real)[-2] == pytest.approx(second_eigenvalue, rel=1e-12)


def test_relocation_shrinks_and_grows_in_the_published_order():
    base, _ = placement.three_cells()
    left = []
    for overlap in range(12, -1, -3):
        reach, _ = placement.three_cells(overlap=overlap)
        left.append([k for k in range(19) if base[k] != reach[k]])
        assert all(reach[k] == {0} for k in left[-1])
    order = [17, 15, 16, 14, 18]
    assert left == [sorted(order[:n]) for n in range(1, 6)]
    for n, overlap in enumerate(range(18, 58, 3), start=1):
        reach, _ = placement.three_cells(overlap=overlap)
        came = range(13, 13 - n, -1)
        assert [reach[k] for k in came] == ([{0, 1}, {0, 2}] * 7)[:n]
        assert all(reach[k] == base[k] for k in range(19) if k not in came)


def test_the_modified_topology_of_case_6():
    reach, _ = placement.three_cells(overlap=21)
    for n in range(3):
        following, previous = {n, (n + 1) % 3}, {n, (n - 1) % 3}
        block = reach[19 * n : 19 * (n + 1)]
        assert block[:12] == [{n}] * 12
        assert block[12:] == [previous, following] + [following] * 2 + [previous] * 2 + [{0, 1, 2}]
        assert reach.count(frozenset(following)) == 6
    regions = [placement.three_cells(12, 6, 3)[0], reach]  # the same counts in another order
    assert sorted(map(sorted, regions[0])) == sorted(map(sorted, regions[1]))


@given(st.integers(0, 9), st.integers(0, 4), st.integers(0, 4))
def test_relocation_moves_one_device_per_cell_at_a_time_whatever_the_counts(exclusive, half, third):
    base, homes = placement.three_cells(exclusive, 2 * half, 3 * third)
    size = exclusive + 2 * half + third
    steps = [placement.three_cells(exclusive, 2 * half, 3 * third, overlap) for overlap in range(0, 3 * size + 1, 3)]
    for m, (reach, home) in enumerate(steps):
        assert sum(len(cell_set) > 1 for cell_set in reach) == 3 * m
        np.testing.assert_array_equal(home, homes)
    for (less, _), (more, _) in pairwise(steps):
        changed = [i for i in range(3 * size) if less[i] != more[i]]
        assert [i // size for i in changed] == [0, 1, 2] and all(less[i] < more[i] for i in changed)
    assert steps[2 * half + third][0] == base
    assert all(reach[i] in (base[i], {homes[i]}) for reach, _ in steps[: 2 * half + third] for i in range(3 * size))


def test_the_default_radius_gives_the_published_shares():
    # devices spread uniformly over the union: 13.99 exclusive per cell, 3.98 per pair, 3.09 triple of 57
    centres = placement.cell_grid("triangle", 3, 1.0)
    points = rng(3).uniform((-0.83, -0.83), (1.83, 1.7), (200_000, 2))
    in_reach = cells.reach(points, centres, 0.83)
    n_cells = in_reach.sum(axis=0)
    share = 57 / (n_cells > 0).sum()
    assert (n_cells == 1).sum() * share / 3 == pytest.approx(13.99, abs=0.08)
    assert (n_cells == 2).sum() * share / 3 == pytest.approx(3.98, abs=0.08)
    assert (n_cells == 3).sum() * share == pytest.approx(3.09, abs=0.08)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: placement.disc(-1, 1, rng()), "n must be a whole number of at least 0, got -1"),
        (lambda: placement.disc(1, 0, rng()), "radius_m must be above 0, got 0"),
        (lambda: placement.disc(1, np.inf, rng()), "radius_m must be finite"),
        (lambda: placement.square(1, -2, rng()), "side_m must be above 0, got -2"),
        (lambda: placement.rectangles([(0, 1, 0, 1)], [1, 2], rng()), r"one number per region \(1\), got 2"),
        (lambda: placement.rectangles([(0, 1, 0, 1)], [-1], rng()), r"counts\[0\] must be a whole number"),
        (lambda: placement.rectangles([(1, 0, 0, 1)], [1], rng()), "region 0 must be .* with min <= max"),
        (lambda: placement.around_cells([[0, 0]], 1, [1, 2], rng()), r"one per cell \(1\), got 2"),
        (lambda: placement.around_cells([[0, 0]], 1, [-1], rng()), r"per_cell\[0\] must be a whole number"),
        (lambda: placement.cell_grid("cube", 3, 1), "shape must be one of triangle, hex, line; got 'cube'"),
        (
            lambda: placement.cell_grid("triangle", 4, 1),
            "triangle has n = 3 cells, got n = 4; use hex or line",
        ),
        (lambda: placement.cell_grid("line", 0, 1), "n must be a whole number of at least 1, got 0"),
        (lambda: placement.cell_grid("line", 2, 0), "spacing_m must be above 0, got 0"),
        (lambda: placement.three_cells(pair=3), "pair must be even .*, got 3"),
        (lambda: placement.three_cells(triple=4), "triple must be divisible by 3 .*, got 4"),
        (lambda: placement.three_cells(exclusive=-1), "exclusive must be a whole number of at least 0"),
        (lambda: placement.three_cells(overlap=-3), "overlap must be a whole number of at least 0, got -3"),
        (
            lambda: placement.three_cells(overlap=16),
            r"overlap must be a multiple of 3 .* in 0\.\.57, the number of devices; got 16: use 15, or other counts",
        ),
        (lambda: placement.three_cells(2, 2, 0, 15), r"in 0\.\.12, the number of devices; got 15: use 12"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
