"""Label skew between edges and between clients: the three settings of CSAHFL, section 4.1, and what holds for any."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedloom.data import (
    DualLayerPartition,
    GaussianSettings,
    PartitionSettings,
    dual_layer_sets,
    label_counts,
    load,
    local_tests,
    make_partition,
    missing_classes,
)
from fedloom.data.dual_layer import edge_classes, even_sets
from fedloom.data.partition import by_label_sets

HOME = np.repeat(np.arange(5), 40)
SETTINGS = {"EIID": 10, "ENIID50%": 5, "ENIID30%": 3}
LABELS = np.repeat(np.arange(10), 6000)  # as in Fashion-MNIST


def rng(seed=0):
    return np.random.default_rng(seed)


def classes_of(sets, home, edge):
    return sorted({c for k in np.flatnonzero(home == edge) for c in sets[k]})


def holders(sets, n_classes=10):
    return np.bincount([c for classes in sets for c in classes], minlength=n_classes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("per_edge", "coverage"), [(10, {5: 10}), (5, {3: 5, 2: 5}), (3, {2: 5, 1: 5})])
def test_classes_of_the_edges_are_dealt_evenly(per_edge, coverage, seed):
    hands = edge_classes(5, 10, per_edge, rng(seed))
    assert [len(set(hand)) for hand in hands] == [per_edge] * 5
    assert Counter(Counter(c for hand in hands for c in hand).values()) == coverage


@pytest.mark.parametrize("seed", range(5))
def test_pairs_in_an_edge_are_used_evenly(seed):
    half = even_sets([0, 2, 4, 6, 8], 40, 2, rng(seed))
    assert set(Counter(map(tuple, half)).values()) == {4} and len(set(map(tuple, half))) == 10
    assert set(Counter(c for pair in half for c in pair).values()) == {16}
    three = even_sets([1, 3, 5], 40, 2, rng(seed))
    assert sorted(Counter(map(tuple, three)).values()) == [13, 13, 14]
    assert set(Counter(c for pair in three for c in pair).values()) == {26, 27}
    all_ten = even_sets(list(range(10)), 40, 2, rng(seed))
    assert len(set(map(tuple, all_ten))) == 40
    assert set(Counter(c for pair in all_ten for c in pair).values()) <= {7, 8, 9}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("setting", "least", "most"), [("EIID", 36, 44), ("ENIID50%", 32, 48), ("ENIID30%", 26, 54)])
def test_holders_of_a_class_in_all(setting, least, most, seed):
    sets = dual_layer_sets(HOME, 10, SETTINGS[setting], rng=rng(seed))
    assert least <= holders(sets).min() and holders(sets).max() <= most


@pytest.mark.parametrize(("setting", "most"), [("EIID", 136), ("ENIID50%", 125), ("ENIID30%", 111)])
def test_how_many_samples_are_possible(setting, most):
    # floor(6000 / D), D at most 44, 48 and 54; the default of 110 fits in all three
    sets = dual_layer_sets(HOME, 10, SETTINGS[setting], rng=rng())
    parts = by_label_sets(LABELS, sets, rng())
    assert len(parts[0]) // 2 == 6000 // holders(sets).max() >= most
    assert {len(part) for part in by_label_sets(LABELS, sets, rng(), samples_per_class=110)} == {220}


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(list(SETTINGS)), st.integers(2, 6), st.integers(1, 12))
def test_invariant_11(seed, setting, n_edges, per_edge_clients):
    home = rng(seed).permutation(np.repeat(np.arange(n_edges), per_edge_clients))
    per_edge = SETTINGS[setting]
    sets = dual_layer_sets(home, 10, per_edge, rng=rng(seed))
    labels = np.repeat(np.arange(10), 100)
    parts = by_label_sets(labels, sets, rng(seed))
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)  # disjoint
    assert len({len(part) for part in parts}) == 1
    counts = label_counts(labels, parts, 10)
    for k, classes in enumerate(sets):
        assert classes == sorted(set(classes)) and len(classes) == 2
        assert np.flatnonzero(counts[k]).tolist() == classes
    for edge in range(n_edges):
        assert len(classes_of(sets, home, edge)) <= per_edge
    if n_edges * per_edge >= 10 and per_edge_clients >= per_edge:  # then each edge's classes are all held
        assert missing_classes(sets, 10) == []
        assert all(len(classes_of(sets, home, edge)) == per_edge for edge in range(n_edges))


def test_even_sets_match_the_rule_written_out():
    source, reference = rng(7), rng(7)
    found = even_sets([0, 1, 2, 3], 9, 2, source)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    used, held = Counter(), Counter()
    for pair in found:
        lot = reference.random(len(pairs))
        best = min(
            range(len(pairs)),
            key=lambda i: (
                used[pairs[i]],
                max(held[c] for c in pairs[i]),
                sum(held[c] for c in pairs[i]),
                lot[i],
            ),
        )
        assert tuple(pair) == pairs[best]
        used[pairs[best]] += 1
        held.update(pairs[best])


def test_random_dealing_may_leave_a_class_out_and_says_which():
    lost = 0
    for seed in range(30):
        sets = dual_layer_sets(HOME, 10, 3, rng=rng(seed), dealing="random")
        gone = missing_classes(sets, 10)
        assert gone == [c for c in range(10) if holders(sets)[c] == 0]
        lost += bool(gone)
    assert lost > 15  # of five edges with three classes each, some class is nowhere in 9 of 10 cases


def test_clients_without_an_edge_choose_from_all_classes():
    home = np.array([-1] * 45 + [0] * 3)
    sets = dual_layer_sets(home, 10, 3, rng=rng())
    assert len({tuple(classes) for classes in sets[:45]}) == 45
    assert len(classes_of(sets, home, 0)) == 3


def test_local_test_sets_depend_on_the_held_labels_only():
    sets = dual_layer_sets(HOME, 10, 5, rng=rng())
    counts = label_counts(LABELS, by_label_sets(LABELS, sets, rng(), samples_per_class=10), 10)
    y_test = np.tile(np.arange(10), 1000)
    tests = local_tests(y_test, counts, rng())
    for classes, test in zip(sets, tests):
        assert len(test) == 2000
        np.testing.assert_array_equal(test, np.flatnonzero(np.isin(y_test, classes)))


def partition(**fields):
    return TypeAdapter(PartitionSettings).validate_python({"kind": "dual-layer", **fields})


@pytest.fixture(scope="module")
def data():
    return load("gaussian", gaussian=GaussianSettings(n_train=3000))


@pytest.mark.parametrize(("share", "n"), [(1.0, 10), (0.5, 5), (0.3, 3)])
def test_a_scenario_can_ask_for_it(data, share, n):
    home = np.repeat(np.arange(5), 4)
    parts = make_partition(partition(edge_share=share, samples_per_class=5), data, 20, rng(), home)
    counts = label_counts(data.labels, parts, 10)
    assert (counts.sum(axis=1) == 10).all() and ((counts > 0).sum(axis=1) == 2).all()
    for edge in range(5):
        assert (counts[home == edge].sum(axis=0) > 0).sum() <= n
    everything = make_partition(partition(edge_share=share, volume="all"), data, 20, rng(), home)
    held = np.unique(np.concatenate([data.labels[part] for part in everything]))
    assert sum(map(len, everything)) == np.isin(data.labels, held).sum()  # every sample of a class that is held


def test_defaults_and_bad_settings(data):
    assert partition() == DualLayerPartition(edge_share=0.5, classes_per_client=2, volume="equal", dealing="deck")
    for fields in ({"edge_share": 0}, {"edge_share": 1.1}, {"dealing": "fair"}, {"classes_per_client": 0}):
        with pytest.raises(ValidationError):
            partition(**fields)
    with pytest.raises(ValueError, match="goes by the cells clients belong to: expected home"):
        make_partition(partition(), data, 4, rng())
    with pytest.raises(ValueError, match=re.escape("home must have one cell per client, shape (4,), got (3,)")):
        make_partition(partition(), data, 4, rng(), [0, 0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dual_layer_sets(HOME, 10, 1, rng=rng()),
            "classes_per_client must be at most classes_per_edge, 1, got 2",
        ),
        (lambda: dual_layer_sets(HOME, 10, 11, rng=rng()), "at most the number of classes, 10, got 11"),
        (lambda: dual_layer_sets(HOME, 10, 5, rng=rng(), dealing="fair"), "dealing must be one of deck, random"),
        (lambda: dual_layer_sets([0, -2], 10, 5, rng=rng()), "or -1 for none; got -2 for client 1"),
        (lambda: dual_layer_sets(HOME, 100, 50, 20, rng=rng()), "ways to choose 20 of 50 classes, more than 20,000"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
