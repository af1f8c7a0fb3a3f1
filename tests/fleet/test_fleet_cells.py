"""Reach and homes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import cells, placement
from fedloom.radio import distances

masks = st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32))


def covered_mask(n_cells, n_devices, seed):
    rng = np.random.default_rng(seed)
    mask = rng.uniform(size=(n_cells, n_devices)) < 0.4
    mask[rng.integers(n_cells, size=n_devices), np.arange(n_devices)] = True
    return mask


@pytest.mark.parametrize(
    ("point", "wanted"),
    [((-0.4, -0.3), {0}), ((0.5, -0.3), {0, 1}), ((0.5, 0.2887), {0, 1, 2}), ((2, 2), set())],
)
def test_the_check_points_of_hhfl(point, wanted):
    in_reach = cells.reach([point], placement.cell_grid("triangle", 3, 1.0), 0.83)
    assert set(np.flatnonzero(in_reach[:, 0]).tolist()) == wanted


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 12), st.integers(2, 3))
@settings(max_examples=40, deadline=None)
def test_reach_matches_a_loop(seed, n_cells, n_devices, dimension):
    rng = np.random.default_rng(seed)
    centres, points = rng.uniform(size=(n_cells, dimension)), rng.uniform(size=(n_devices, dimension))
    radius = rng.uniform(0.1, 1, n_cells)
    in_reach = cells.reach(points, centres, radius)
    assert in_reach.shape == (n_cells, n_devices)
    for n in range(n_cells):
        for k in range(n_devices):
            assert in_reach[n, k] == (sum((centres[n] - points[k]) ** 2) ** 0.5 <= radius[n])


def test_the_rim_is_in_reach_and_an_infinite_radius_reaches_everybody():
    assert cells.reach([[3, 4]], [[0, 0]], 5.0).all()
    assert cells.reach([[3e9, 4]], [[0, 0]], np.inf).all()


def deal_by_loop(mask, order):
    """The even rule (HHFL, section V-A), device by device, a region's devices in this order."""
    n_cells, n_devices = mask.shape
    home, load = {}, [0] * n_cells
    regions = {tuple(n for n in range(n_cells) if mask[n, k]) for k in range(n_devices)}
    for region in sorted(regions, key=lambda r: (len(r), r)):
        members = [k for k in order if tuple(n for n in range(n_cells) if mask[n, k]) == region]
        share = {n: len(members) // len(region) for n in region}
        rest = len(members) - sum(share.values())
        hungry = list(region)
        for _ in range(rest):
            chosen = min(hungry, key=lambda n: (load[n], n))
            hungry.remove(chosen)
            share[chosen] += 1
        for n in region:
            load[n] += share[n]
            for _ in range(share[n]):
                home[members.pop()] = n
    return [home[k] for k in range(n_devices)]


@given(masks)
@settings(max_examples=60, deadline=None)
def test_even_homes_deal_as_many_to_each_cell_as_a_loop(args):
    mask = covered_mask(*args)
    home = cells.deal_homes(mask, rng=np.random.default_rng(args[2]))
    reference = np.array(deal_by_loop(mask, range(mask.shape[1])))
    assert mask[home, np.arange(mask.shape[1])].all()
    for region in np.unique(mask.T, axis=0):
        members = (region == mask.T).all(axis=1)
        # which device of a region gets which cell is chance; how many each cell gets is not
        np.testing.assert_array_equal(
            np.bincount(home[members], minlength=len(mask)),
            np.bincount(reference[members], minlength=len(mask)),
        )


def test_a_remainder_goes_to_the_cells_with_fewest_devices():
    # three only in cell 0, one only in cell 1; five in both: two each, and the fifth to cell 1 (3 < 5)
    mask = np.array([[1, 1, 1, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1, 1]], dtype=bool)
    home = cells.deal_homes(mask, rng=np.random.default_rng(0))
    assert np.bincount(home).tolist() == [5, 4]
    tied = cells.deal_homes(np.ones((3, 4), dtype=bool), rng=np.random.default_rng(0))
    assert np.bincount(tied).tolist() == [2, 1, 1]  # all equal: the lowest index


def test_three_cells_get_nineteen_each_whatever_the_deal():
    wanted, _ = placement.three_cells()
    mask = np.array([[n in cell_set for cell_set in wanted] for n in range(3)])
    for seed in range(5):
        home = cells.deal_homes(mask, rng=np.random.default_rng(seed))
        assert np.bincount(home).tolist() == [19, 19, 19]


def test_even_deals_at_random_within_a_region():
    mask = np.ones((2, 20), dtype=bool)
    deals = {tuple(cells.deal_homes(mask, rng=np.random.default_rng(seed))) for seed in range(5)}
    assert len(deals) == 5


@given(masks)
@settings(max_examples=30, deadline=None)
def test_nearest_and_random_homes_are_in_reach(args):
    mask = covered_mask(*args)
    rng = np.random.default_rng(args[2])
    distance = rng.uniform(size=mask.shape)
    home = cells.deal_homes(mask, "nearest", distance_m=distance)
    for k in range(mask.shape[1]):
        assert home[k] == min(np.flatnonzero(mask[:, k]), key=lambda n: (distance[n, k], n))
    home = cells.deal_homes(mask, "random", rng=rng)
    assert mask[home, np.arange(mask.shape[1])].all()


def test_random_homes_are_uniform_over_the_cells_in_reach():
    mask = np.array([[True], [False], [True]]).repeat(4000, axis=1)
    counts = np.bincount(cells.deal_homes(mask, "random", rng=np.random.default_rng(0)), minlength=3)
    assert counts[1] == 0
    assert counts[0] == pytest.approx(2000, abs=150)


def test_inputs_are_not_changed():
    mask = covered_mask(3, 20, 0)
    before = mask.copy()
    cells.deal_homes(mask, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(mask, before)


def test_uncovered_devices_are_named_with_the_ways_out():
    mask = np.array([[True, False, True, False]])
    match = r"devices \[1, 3\] are in reach of none of the 1 cells; enlarge radius_m, .*uncovered: drop"
    with pytest.raises(ValueError, match=match):
        cells.check_covered(mask)
    with pytest.raises(ValueError, match=match):
        cells.deal_homes(mask, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"devices \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\] and 5 more are"):
        cells.check_covered(np.zeros((2, 15), dtype=bool))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cells.reach([[0, 0]], [[0, 0]], [1, 2]),
            r"one number or one per cell \(1\), got shape \(2,\)",
        ),
        (lambda: cells.reach([[0, 0]], [[0, 0]], 0), "radius_m must be above 0, got 0"),
        (
            lambda: cells.deal_homes(np.ones((1, 1), bool), "fair"),
            "rule must be one of even, nearest, random",
        ),
        (lambda: cells.deal_homes(np.ones((1, 1), bool), "nearest"), "nearest needs distance_m"),
        (lambda: cells.deal_homes(np.ones((1, 1), bool)), "rule even needs rng"),
        (lambda: cells.deal_homes(np.ones(3, bool)), r"shape \(cells, devices\), got \(3,\)"),
        (
            lambda: cells.deal_homes(np.ones((1, 1), bool), "nearest", distance_m=distances([[0]], [[0], [1]])),
            r"distance_m must have shape \(1, 1\), got \(1, 2\)",
        ),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
