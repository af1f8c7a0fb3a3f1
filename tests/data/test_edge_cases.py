"""The six data cases of HHFL: their numbers of clients and classes, and what holds for any layout."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedloom.data import (
    EdgeCasePartition,
    GaussianSettings,
    PartitionSettings,
    by_label_sets,
    edge_case_sets,
    label_counts,
    load,
    make_partition,
    wheel,
)
from fedloom.fleet.placement import three_cells

HOME = np.repeat(np.arange(3), 19)
BASE, MODIFIED = three_cells()[0], three_cells(overlap=21)[0]
MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
CLASS_SIZES = {"mnist": MNIST, "fashion-mnist": [6000] * 10, "cifar10": [5000] * 10}
DISTINCT = {4: 3, 5: 4, 6: 4}  # classes that a cell misses
PLACEMENTS = [(case, data) for case in DISTINCT for data in ("home", "shared")]


def rng(seed=0):
    return np.random.default_rng(seed)


def topology(case):
    return MODIFIED if case == 6 else BASE


def membership(reach):
    """(3, 57): 1 where the client is in reach of the cell."""
    return np.array([[n in cells for cells in reach] for n in range(3)]).astype(int)


AT_HOME = np.arange(3)[:, None] == HOME


def holders(sets, weights):
    """(3, 10) weight of the clients of each cell that hold a class, exact; weights (3, 57)."""
    table = [[Fraction(0)] * 10 for _ in range(3)]
    for n in range(3):
        for k, classes in enumerate(sets):
            for c in classes:
                table[n][c] += Fraction(weights[n][k])
    return table


def split_weights(reach):
    """(3, 57) how much a client counts in each cell in reach: one over their number."""
    return [[Fraction(int(n in cells), len(cells)) for cells in reach] for n in range(3)]


def distances_to_global(table):
    """Half the L1 distance between the label distribution of each cell and that of all cells together."""
    total = [sum(column) for column in zip(*table)]
    return [
        sum(abs(x / sum(row) - y / sum(total)) for x, y in zip(row, total)) / 2 for row in table
    ]  # fmt: skip


def missing(sets, belongs):
    """The classes that no client of each of the three cells holds; belongs (3, 57)."""
    held = [{c for k, classes in enumerate(sets) if belongs[n][k] for c in classes} for n in range(3)]
    return [set(range(10)) - classes for classes in held]


def test_the_base_layout_is_that_of_the_three_cells_placement():
    np.testing.assert_array_equal(three_cells()[1], HOME)
    np.testing.assert_array_equal(three_cells(overlap=21)[1], HOME)


@pytest.mark.parametrize("case", range(1, 7))
@pytest.mark.parametrize("overlap_data", ["home", "shared"])
def test_every_client_has_a_sorted_set_of_as_many_classes_as_the_case_says(case, overlap_data):
    sets = edge_case_sets(case, HOME, 10, overlap_data)
    assert len(sets) == 57
    for classes in sets:
        assert classes == sorted(set(classes)) and set(classes) <= set(range(10))
        assert len(classes) == {1: 10, 2: 6}.get(case, 2)


@pytest.mark.parametrize(
    ("case", "home_holders", "coverage_holders"),
    [
        (1, [19] * 10, [25] * 10),
        (2, [12, 12, 12, 12, 11, 11, 11, 11, 11, 11], [16, 16, 16, 16, 14, 14, 14, 14, 15, 15]),
        (3, [4, 4, 4, 4, 4, 4, 4, 4, 3, 3], [5, 5, 5, 5, 5, 5, 6, 6, 4, 4]),
    ],
)
def test_cells_are_alike_in_cases_1_to_3(case, home_holders, coverage_holders):
    sets = edge_case_sets(case, HOME, 10)
    assert holders(sets, AT_HOME.astype(int).tolist()) == [home_holders] * 3
    assert holders(sets, membership(BASE).tolist()) == [coverage_holders] * 3
    # a client split over its cells gives each of them the histogram it has by homes
    assert holders(sets, split_weights(BASE)) == [home_holders] * 3
    assert distances_to_global(holders(sets, split_weights(BASE))) == [0, 0, 0]
    assert sets == edge_case_sets(case, HOME, 10, "shared") == 3 * wheel(19, {1: 10, 2: 6, 3: 2}[case], 10)


OWN = {4: [{1, 2, 4}, {0, 2, 5}, {0, 1, 3}], 5: [{2, 3, 4, 5}, {0, 1, 4, 5}, {0, 1, 2, 3}]}


@pytest.mark.parametrize(("case", "overlap_data"), PLACEMENTS)
def test_each_cell_misses_the_classes_of_the_others(case, overlap_data):
    sets = edge_case_sets(case, HOME, 10, overlap_data)
    wanted = OWN[min(case, 5)]
    assert {len(classes) for classes in wanted} == {DISTINCT[case]}
    assert missing(sets, AT_HOME) == wanted
    # with data of the home cell those who are in reach of two cells bring what is missing
    everywhere = [set(), set(), set()] if overlap_data == "home" else wanted
    assert missing(sets, membership(topology(case))) == everywhere


@pytest.mark.parametrize(
    ("case", "by_home", "home", "shared"),
    [
        (4, Fraction(32, 114), 0.2281, 0.2807),
        (5, Fraction(44, 114), 0.2982, 0.3860),
        (6, Fraction(44, 114), 0.2456, 0.3860),
    ],
)
def test_distance_of_a_cells_labels_from_those_of_all(case, by_home, home, shared):
    for overlap_data, split in (("home", home), ("shared", shared)):
        sets = edge_case_sets(case, HOME, 10, overlap_data)
        assert distances_to_global(holders(sets, AT_HOME.astype(int).tolist())) == [by_home] * 3
        weighted = distances_to_global(holders(sets, split_weights(topology(case))))
        assert [round(float(x), 4) for x in weighted] == [split] * 3
        if overlap_data == "shared":
            assert weighted == [by_home] * 3


@pytest.mark.parametrize("overlap_data", ["home", "shared"])
def test_label_sets_of_a_cell_and_holders_of_all_clients(overlap_data):
    four, five = (edge_case_sets(case, HOME, 10, overlap_data) for case in (4, 5))
    for n in range(3):
        of_cell = five[19 * n : 19 * (n + 1)]
        assert [of_cell.count(s) for s in ([2 * n, 2 * n + 1], [6, 7], [8, 9])] == [11, 4, 4]
        qn, qp = 3 + n, 3 + (n - 1) % 3
        of_cell = four[19 * n : 19 * (n + 1)]
        kinds = [n, qn], [n, qp], sorted([qn, qp]), [6, 7], [8, 9]
        assert [of_cell.count(s) for s in kinds] == [5, 5, 1, 4, 4]
    assert np.bincount(np.concatenate(four)).tolist() == [10] * 3 + [12] * 7
    assert np.bincount(np.concatenate(five)).tolist() == [11] * 6 + [12] * 4
    assert edge_case_sets(6, HOME, 10, overlap_data) == five


def test_positions_of_cell_1_by_hand():
    # cell 1 owns class 1 and shares 4 with the next cell, 3 with the previous one
    a, b, both, c, d = [1, 4], [1, 3], [3, 4], [6, 7], [8, 9]
    one = slice(19, 38)
    assert edge_case_sets(4, HOME, 10)[one] == [a, b, c, d, a, b, c, d, a, b, c, d, b, both, a, c, b, d, a]
    assert edge_case_sets(4, HOME, 10, "shared")[one] == 5 * [a] + 5 * [b] + [both, c, d, d, c, d, c, d, c]
    u = [2, 3]
    assert edge_case_sets(5, HOME, 10)[one] == [u, u, c, d, u, u, c, d, u, u, c, d, u, u, u, c, u, d, u]
    assert edge_case_sets(5, HOME, 10, "shared")[one] == 11 * [u] + 4 * [c, d]


def test_two_own_classes_dominate_a_cell_in_case_5():
    by_home = holders(edge_case_sets(5, HOME, 10), AT_HOME.astype(int).tolist())
    assert (by_home[0][0] + by_home[0][1]) / sum(by_home[0]) == Fraction(22, 38)
    labels = np.repeat(np.arange(10), 6000)
    parts = by_label_sets(labels, edge_case_sets(5, HOME, 10), rng(), volume="all")
    cell_0 = label_counts(labels, parts, 10)[:19].sum(axis=0)
    # own: 2 x 6000, of the four common classes a third each: 4 x 2000
    assert cell_0[:2].sum() / cell_0.sum() == pytest.approx(0.6, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "per_client"),
    [
        ("mnist", [950, 984, 902, 902, 974, 974]),
        ("fashion-mnist", [1050, 996, 1000, 1000, 1000, 1000]),
        ("cifar10", [870, 828, 832, 832, 832, 832]),
    ],
)
def test_samples_per_client_on_the_published_datasets(name, per_client):
    labels = np.repeat(np.arange(10), CLASS_SIZES[name])
    for case, wanted in zip(range(1, 7), per_client):
        parts = by_label_sets(labels, edge_case_sets(case, HOME, 10), rng())
        assert {len(part) for part in parts} == {wanted}
        assert len(np.unique(np.concatenate(parts))) == 57 * wanted  # no sample twice


@pytest.mark.parametrize("case", range(1, 7))
def test_all_volume_uses_every_sample_and_splits_each_class_evenly(case):
    labels = np.repeat(np.arange(10), MNIST)
    sets = edge_case_sets(case, HOME, 10)
    parts = by_label_sets(labels, sets, rng(), volume="all")
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(60_000))
    n_holders = np.bincount(np.concatenate(sets))
    for row, classes in zip(label_counts(labels, parts, 10), sets):
        assert np.flatnonzero(row).tolist() == classes
        assert (np.abs(row[classes] - np.array(MNIST)[classes] / n_holders[classes]) < 1).all()


def ranks(home):
    """Slowly: how many before have the same home."""
    return [list(home[:k]).count(n) for k, n in enumerate(home)]


@st.composite
def layouts(draw, case):
    n_missing = DISTINCT.get(case, 0)
    n_classes = draw(st.integers({1: 1, 2: 6, 3: 2}.get(case, n_missing + 2), 25))
    n_cells = draw(st.integers(1, n_classes if n_missing else 12))
    home = draw(st.lists(st.integers(-1, n_cells - 1), min_size=1, max_size=40))
    return np.array(home), n_classes


@given(st.sampled_from([1, 2, 3]), st.data())
def test_the_wheel_runs_over_the_clients_of_each_cell_in_any_layout(case, data):
    home, n_classes = data.draw(layouts(case))
    m = {1: n_classes, 2: 6, 3: 2}[case]
    rank = ranks(home.tolist())
    for k, (n, classes) in enumerate(zip(home, edge_case_sets(case, home, n_classes))):
        at = k if n == -1 else rank[k]
        assert classes == sorted((m * at + j) % n_classes for j in range(m))


@given(st.sampled_from([4, 5, 6]), st.data())
def test_cells_miss_their_classes_in_any_layout(case, data):
    home, n_classes = data.draw(layouts(case))
    n_cells, m = home.max() + 1, DISTINCT[case]
    rank = ranks(home.tolist())
    for k, (n, classes) in enumerate(zip(home.tolist(), edge_case_sets(case, home, n_classes))):
        lost = [] if n == -1 else [(n * (n_classes // n_cells) + j) % n_classes for j in range(m)]
        rest = [c for c in range(n_classes) if c not in lost]
        at = k if n == -1 else rank[k]
        assert len(rest) == n_classes - len(lost)
        assert classes == sorted([rest[2 * at % len(rest)], rest[(2 * at + 1) % len(rest)]])


@given(st.sampled_from([4, 5]), st.integers(2, 10))
def test_full_cells_miss_exactly_their_number_of_classes_and_no_two_the_same(case, n_cells):
    sets = edge_case_sets(case, np.repeat(np.arange(n_cells), 10), 10)
    held = [{c for classes in sets[10 * n : 10 * (n + 1)] for c in classes} for n in range(n_cells)]
    assert {10 - len(classes) for classes in held} == {DISTINCT[case]}
    assert len({frozenset(classes) for classes in held}) == n_cells


@pytest.mark.parametrize("case", [4, 5, 6])
def test_another_order_or_number_of_classes_is_another_layout(case):
    by_hand = edge_case_sets(case, HOME, 10)
    turned = edge_case_sets(case, HOME[::-1], 10)
    assert missing(by_hand, AT_HOME) != missing(turned, AT_HOME[:, ::-1])
    # cell 1 of three, ten classes: 1 * floor(10 / 3) = 3, 4, 5 and, in cases 5 and 6, 6
    assert missing(turned, AT_HOME[:, ::-1])[1] == set(range(3, 3 + DISTINCT[case]))
    assert max(map(max, edge_case_sets(case, HOME, 11))) == 10


def test_clients_without_a_home_have_classes_too():
    assert edge_case_sets(5, [-1, -1, -1], 10) == [[0, 1], [2, 3], [4, 5]]
    assert edge_case_sets(2, [0, -1], 10) == [[0, 1, 2, 3, 4, 5], [0, 1, 6, 7, 8, 9]]
    # client 1 by its index; client 2 is at position 1 of a cell that misses 0, 1, 2
    assert edge_case_sets(4, [0, -1, 0], 10) == [[3, 4], [2, 3], [5, 6]]


def test_homes_are_not_changed_and_sets_are_not_shared():
    home = HOME.copy()
    sets = edge_case_sets(5, home, 10)
    sets[0].append(99)
    np.testing.assert_array_equal(home, HOME)
    assert edge_case_sets(5, home, 10)[0] == [0, 1] and sets[1] == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: edge_case_sets(0, HOME, 10), r"case must be one of 1, 2, 3, 4, 5, 6 .*; got 0"),
        (lambda: edge_case_sets(7, HOME, 10), r"case must be one of 1, 2, 3, 4, 5, 6 .*; got 7"),
        (lambda: edge_case_sets(True, HOME, 10), "got True"),
        (lambda: edge_case_sets(1, HOME, 0), "n_classes must be a whole number of at least 1, got 0"),
        (lambda: edge_case_sets(5, HOME, 10, "own"), "overlap_data must be one of home, shared; got 'own'"),
        (
            lambda: edge_case_sets(5, HOME[1:], 10, "shared"),
            '"shared" is defined for three cells with 19 .* and 10 classes; got 56 clients, 3 cells and 10 classes: use',
        ),
        (lambda: edge_case_sets(4, HOME, 12, "shared"), "got 57 clients, 3 cells and 12 classes"),
        (lambda: edge_case_sets(4, HOME[::-1], 10, "shared"), "in canonical order"),
        (lambda: edge_case_sets(3, [0, 1], 10, "shared"), "got 2 clients, 2 cells"),
        (lambda: edge_case_sets(2, [0, 1], 5), "6 classes per client needs at least as many classes, got 5; use"),
        (
            lambda: edge_case_sets(4, [0, 1], 4),
            "miss 3 classes with 2 classes per client need at least 5 classes, got 4",
        ),
        (
            lambda: edge_case_sets(6, [0, 1], 5),
            "miss 4 classes .* need at least 6 classes, got 5; use one of the cases 1",
        ),
        (lambda: edge_case_sets(5, range(11), 10), r"at most as many cells as classes \(10\), got 11 cells; use fewer"),
        (lambda: edge_case_sets(1, [[0, 1]], 10), r"home must be whole numbers of shape \(K,\).* got int64 \(1, 2\)"),
        (lambda: edge_case_sets(1, [], 10), r"home must be whole numbers of shape \(K,\)"),
        (lambda: edge_case_sets(1, [0.5], 10), r"got float64 \(1,\)"),
        (lambda: edge_case_sets(1, [0, -2], 10), "a cell, from 0, or -1 for none; got -2 for client 1"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def partition(**fields):
    return TypeAdapter(PartitionSettings).validate_python({"kind": "edge-case", **fields})


@pytest.fixture(scope="module")
def gaussian():
    return load("gaussian", gaussian=GaussianSettings(n_train=3000))


@pytest.mark.parametrize("overlap_data", ["home", "shared"])
@pytest.mark.parametrize("volume", ["equal", "all"])
def test_settings_make_the_partition_they_name(gaussian, overlap_data, volume):
    chosen = partition(case=4, overlap_data=overlap_data, volume=volume)
    parts = make_partition(chosen, gaussian, 57, rng(), home=HOME)
    counts = label_counts(gaussian.y_train, parts, 10)
    sets = edge_case_sets(4, HOME, 10, overlap_data)
    assert [np.flatnonzero(row).tolist() for row in counts] == sets
    assert (len({len(part) for part in parts}) == 1) == (volume == "equal")
    assert (counts.sum() == 3000) == (volume == "all")
    again = make_partition(chosen, gaussian, 57, rng(), home=HOME)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again))


def test_settings_have_the_defaults_of_the_sheet():
    assert partition(case=5) == EdgeCasePartition(case=5, overlap_data="home", volume="equal")


@pytest.mark.parametrize("fields", [{}, {"case": 0}, {"case": 7}, {"case": 4.5}, {"case": 4, "overlap_data": "own"}])
def test_settings_refuse_what_is_no_case(fields):
    with pytest.raises(ValidationError):
        partition(**fields)


def test_a_partition_by_cells_needs_homes_and_classes(gaussian):
    chosen = partition(case=5)
    with pytest.raises(ValueError, match=r"expected home, one cell per client \(57\), got none; pass home="):
        make_partition(chosen, gaussian, 57, rng())
    with pytest.raises(ValueError, match=r"one cell per client, shape \(56,\), got \(57,\)"):
        make_partition(chosen, gaussian, 56, rng(), home=HOME)
    iid = TypeAdapter(PartitionSettings).validate_python({"kind": "iid"})
    with_home, without = (make_partition(iid, gaussian, 57, rng(), home=h) for h in (HOME, None))
    assert all(np.array_equal(a, b) for a, b in zip(with_home, without))  # the others do not look at homes
