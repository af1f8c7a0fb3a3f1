"""Two stages of affinity propagation: cases by hand, exact optima by enumeration, and what is always true."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedloom.grouping import affinity as module
from fedloom.grouping import affinity_propagation, dual_segment, label_information
from fedloom.grouping.affinity import Exemplars, label_similarity, radio_similarity
from fedloom.radio import channel_gains, ratio_to_db, snr_matrix

X = np.array([0, 1, 3, 10, 11.5, 12])
LINE = -(np.subtract.outer(X, X) ** 2)
COUNTS = np.array([[30, 10, 0], [0, 20, 20], [10, 10, 20]])
STATION = [-50.0, 0.0, 10.0]


def rng(seed=0):
    return np.random.default_rng(seed)


def net_similarity(s, leaders, preference):
    """What exemplars are worth, with a loop."""
    value = len(leaders) * preference
    for i in range(len(s)):
        if i not in leaders:
            value += max(s[i, e] for e in leaders)
    return value


def exact(s, preference):
    """The best set of exemplars, by enumeration of all 2^n - 1."""
    n = len(s)
    sets = itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(1, n + 1))
    return max(sets, key=lambda leaders: net_similarity(s, leaders, preference))


def two_regions(seed, n=30):
    """Devices in two regions 10 m apart, the base station 50 m away: positions and SNRs at 0.5 W."""
    random, half = rng(seed), n // 2
    x = np.append(random.uniform(-10, 0, half), random.uniform(10, 20, n - half))
    position = np.column_stack([x, random.uniform(-5, 5, n), np.zeros(n)])
    return position, snr_matrix(0.5, channel_gains(position, STATION), 1e-14)


def two_labels(seed, n=30, n_labels=10):
    """Every device has two labels, half and half."""
    random, counts = rng(seed), np.zeros((n, n_labels), dtype=np.int64)
    for row in counts:
        row[random.choice(n_labels, 2, replace=False)] = 1000
    return counts


def check_partition(found, n):
    assert sorted(k for c in found.clusters for k in c.tolist()) == list(range(n))
    assert all(h in c for h, c in zip(found.heads, found.clusters))
    assert [c[0] for c in found.clusters] == sorted(c[0] for c in found.clusters)
    topology = found.topology()
    assert topology.kind == "head" and topology.n_aggregators == len(found.clusters)


# affinity propagation


@pytest.mark.parametrize(("preference", "net"), [(-72.25, -152.0), (-144.0, -295.5)])
def test_g7_six_points_on_a_line(preference, net):
    pairs = LINE[~np.eye(6, dtype=bool)]
    assert preference in (np.median(pairs), pairs.min())
    found = affinity_propagation(LINE, preference)
    assert found.converged and found.leaders.tolist() == [1, 4]
    assert found.leader_of.tolist() == [1, 1, 1, 4, 4, 4]
    assert net_similarity(LINE, [1, 4], preference) == net
    assert exact(LINE, preference) == (1, 4)


def test_g7_the_printed_self_availability_leaves_points_without_leader():
    printed = {"availability": "literal", "conv_iter": 15}
    assert affinity_propagation(LINE, -72.25, **printed).leader_of.tolist() == [1, 1, 1, -1, -1, -1]
    nobody = affinity_propagation(LINE, -144.0, **printed)
    assert nobody.leader_of.tolist() == [-1] * 6 and not nobody.converged and not len(nobody.leaders)


def test_messages_never_beat_the_optimum_by_enumeration_and_mostly_reach_it():
    reached = 0
    for seed in range(20):
        points = rng(seed).uniform(0, 10, (8, 2))
        s = -((points[:, None] - points) ** 2).sum(axis=2)
        preference = float(np.median(s[~np.eye(8, dtype=bool)]))
        found = affinity_propagation(s, preference)
        assert found.converged
        best = net_similarity(s, exact(s, preference), preference)
        value = net_similarity(s, found.leaders, preference)
        assert value <= best + 1e-9
        reached += value >= best - 1e-9
        to_leaders = s[:, found.leaders].max(axis=1)
        follows = found.leader_of != np.arange(8)
        np.testing.assert_array_equal(s[np.arange(8), found.leader_of][follows], to_leaders[follows])
    assert reached >= 15


def test_a_short_wait_stops_at_the_first_exemplar():
    s = radio_similarity(two_regions(1)[1])
    preference = float(s[~np.eye(30, dtype=bool)].min())
    short, usual = (affinity_propagation(s, preference, conv_iter=n) for n in (15, 50))
    assert short.converged and len(short.leaders) == 1
    assert usual.converged and len(usual.leaders) == 2
    assert net_similarity(s, usual.leaders, preference) > net_similarity(s, short.leaders, preference)


def test_a_single_point_leads_itself_and_equal_points_follow_one_or_none():
    assert affinity_propagation([[0.0]], -1.0).leader_of.tolist() == [0]
    assert affinity_propagation(np.zeros((4, 4)), 0.0).leader_of.tolist() == [0, 0, 0, 0]
    assert affinity_propagation(np.zeros((4, 4)), 1.0).leader_of.tolist() == [0, 1, 2, 3]
    assert affinity_propagation([[0.0, -3.0], [-3.0, 0.0]], -3.0).leader_of.tolist() == [0, 0]


def test_messages_that_do_not_converge_leave_everybody_over_without_a_warning():
    found = affinity_propagation(LINE, -72.25, max_iter=3)
    assert not found.converged and found.leader_of.tolist() == [-1] * 6


def test_inputs_stay_as_they_are():
    s = LINE.copy()
    affinity_propagation(s, -72.25)
    np.testing.assert_array_equal(s, LINE)


# similarities


def test_g1_label_information():
    log = np.log
    expected = [
        [log(2.25) / 4, log(0.75) / 12, 0],
        [0, log(1.5) / 6, log(1.5) / 6],
        [log(0.75) / 12, log(0.75) / 12, log(1.5) / 6],
    ]
    digits = [
        [0.2027325541, -0.0239735060, 0],
        [0, 0.0675775180, 0.0675775180],
        [-0.0239735060, -0.0239735060, 0.0675775180],
    ]
    information = label_information(COUNTS)
    np.testing.assert_allclose(information, expected, rtol=1e-12)
    np.testing.assert_allclose(information, digits, rtol=0, atol=1e-10)
    np.testing.assert_allclose(information.sum(axis=1), [0.1787590480, 0.1351550360, 0.0196305059], atol=1e-10)
    assert information.sum() == pytest.approx(0.3335445900, abs=1e-10)
    pairs = ([0, 0, 1], [1, 2, 2])
    square = [0.0540487994, 0.0559623586, 0.0089563190]
    np.testing.assert_allclose(-label_similarity(information)[pairs], square, rtol=1e-8)
    literal = label_similarity(information, reading="literal")[pairs]
    np.testing.assert_allclose(literal, [2.9212727e-3, 3.1317856e-3, 8.0215650e-5], rtol=1e-7)
    np.testing.assert_array_equal(label_similarity(information, reading="neg_sq_sq")[pairs], -literal)


@given(arrays(np.int64, (5, 4), elements=st.integers(0, 30)).filter(lambda c: c.sum(axis=1).all()))
def test_label_information_adds_up_to_mutual_information(counts):
    information = label_information(counts)
    assert (information.sum(axis=1) >= -1e-12).all()
    joint = counts / counts.sum()

    def entropy(p):
        return -sum(x * np.log(x) for x in np.ravel(p) if x > 0)

    mutual = entropy(joint.sum(axis=0)) + entropy(joint.sum(axis=1)) - entropy(joint)
    assert information.sum() == pytest.approx(mutual, abs=1e-10)


def test_devices_of_the_same_labels_have_no_information_and_unknown_labels_do_not_matter():
    np.testing.assert_allclose(label_information([[2, 4, 6], [1, 2, 3]]), 0, atol=1e-15)
    with_empty = np.insert(COUNTS, 1, 0, axis=1)
    np.testing.assert_array_equal(np.delete(label_information(with_empty), 1, axis=1), label_information(COUNTS))


def test_radio_similarities_by_hand():
    snr = np.array([[50.0, 100.0, 10.0], [100.0, 40.0, 1.0], [10.0, 1.0, 20.0]])  # dB: 20, 10, 0 between them
    off = ~np.eye(3, dtype=bool)

    def values(reading, **how):
        return radio_similarity(snr, reading=reading, **how)[off].tolist()

    assert values("db_gap") == pytest.approx([0, -100, 0, -400, -100, -400])
    assert values("snr_db") == pytest.approx([20, 10, 20, 0, 10, 0], abs=1e-12)
    assert values("literal") == pytest.approx([-1e4, -100, -1e4, -1, -100, -1])
    assert values("pos_snr_sq") == pytest.approx([1e4, 100, 1e4, 1, 100, 1])
    position = [[0, 0], [3, 4], [0, 1]]
    assert values("neg_dist_sq", position_m=position) == pytest.approx([-25, -1, -25, -18, -1, -18])
    station = radio_similarity(snr, reading="neg_bs_snr_diff_sq")
    assert station[0, 2] == pytest.approx(-((ratio_to_db(50.0) - ratio_to_db(20.0)) ** 2))


def test_links_of_two_strengths_count_by_their_mean_in_db():
    snr = np.array([[1.0, 1000.0], [10.0, 1.0]])  # 30 dB and 10 dB
    assert radio_similarity(snr, reading="snr_db")[0, 1] == pytest.approx(20)
    assert radio_similarity(snr, reading="snr_db")[1, 0] == pytest.approx(20)


def test_power_and_noise_do_not_matter_if_all_send_alike():
    gains = channel_gains(two_regions(0)[0], STATION)
    one, two = (radio_similarity(snr_matrix(p, gains, n)) for p, n in ((0.5, 1e-14), (0.1, 3e-12)))
    off = ~np.eye(30, dtype=bool)
    np.testing.assert_allclose(one[off], two[off], rtol=1e-9, atol=1e-9)


# both stages


@pytest.mark.parametrize("seed", range(8))
def test_groups_hear_each_other_and_clusters_stay_inside_them(seed):
    position, snr = two_regions(seed)
    found = dual_segment(snr, two_labels(seed), position)
    check_partition(found, 30)
    assert all(found.converged) and not found.leftover.any()
    groups = np.unique(found.radio_group)
    assert 2 <= len(groups) <= 4
    for g in groups:  # never both regions
        assert len({bool(k >= 15) for k in np.flatnonzero(found.radio_group == g)}) == 1
    for c in found.clusters:
        assert len(np.unique(found.radio_group[c])) == 1


def test_clusters_hold_like_labels_and_as_printed_they_do_not():
    family = np.repeat([0, 1, 2], 4)
    counts = np.zeros((12, 6), dtype=np.int64)
    for k, f in enumerate(family):
        counts[k, 2 * f : 2 * f + 2] = [60 + k, 60 - k]
    position = rng(0).uniform(0, 3, (12, 2))
    snr = np.full((12, 12), 1000.0)

    def purity(labels):
        found = dual_segment(snr, counts, position, labels=labels)
        check_partition(found, 12)
        same = [family[i] == family[j] for c in found.clusters for i, j in itertools.combinations(c, 2)]
        return np.mean(same), len(same)

    assert purity("neg_sq")[0] == 1.0 and purity("neg_sq")[1] > 0
    assert purity("literal")[0] < 0.5


def test_the_printed_radio_similarity_sends_members_to_far_leaders():
    position, snr = two_regions(1)
    off = ~np.eye(30, dtype=bool)
    far = []
    for reading in ("db_gap", "literal"):
        s = radio_similarity(snr, reading=reading)
        found = affinity_propagation(s, float(s[off].min()))
        apart = np.linalg.norm(position[:, None] - position, axis=2)
        follows = (found.leader_of >= 0) & (found.leader_of != np.arange(30))
        assert follows.any()
        far.append(apart[follows, found.leader_of[follows]].mean())
    assert far[1] > 2 * far[0]  # metres


def test_the_leader_may_be_whom_the_base_station_hears_best():
    position, snr = two_regions(3)
    counts = two_labels(3)
    exemplars, best = (dual_segment(snr, counts, position, leader=how) for how in ("exemplar", "best_bs_snr"))
    assert [c.tolist() for c in exemplars.clusters] == [c.tolist() for c in best.clusters]
    for c, head in zip(best.clusters, best.heads):
        assert snr[head, head] == snr[c, c].max()
    assert (best.heads != exemplars.heads).any()


def scripted(monkeypatch, answers):
    """Affinity propagation that says these leaders, stage by stage."""
    left = iter(answers)

    def pretend(similarity, preference, **how):
        leader_of = np.array(next(left))
        assert len(leader_of) == len(similarity)
        return Exemplars(leader_of=leader_of, converged=bool((leader_of >= 0).all()))

    monkeypatch.setattr(module, "affinity_propagation", pretend)


LINE_M = np.column_stack([[0.0, 1, 2, 10, 11, 12], np.zeros(6)])
FLAT = np.full((6, 6), 100.0)
SOME = np.array([[9, 1], [8, 2], [7, 3], [3, 7], [2, 8], [1, 9]])


def test_leftovers_join_the_nearest_leader_of_their_own_group(monkeypatch):
    # device 2 is left over in the first stage, joins the group of 0; device 1 in the second, between leaders 0 and 2
    scripted(monkeypatch, [[0, 0, -1, 4, 4, 4], [0, -1, 2], [1, 1, 1]])
    found = dual_segment(FLAT, SOME, LINE_M)
    assert found.radio_group.tolist() == [0, 0, 0, 4, 4, 4]
    assert [c.tolist() for c in found.clusters] == [[0, 1], [2], [3, 4, 5]]
    assert found.heads.tolist() == [0, 2, 4]
    assert np.flatnonzero(found.leftover).tolist() == [1, 2]
    assert found.converged == [False, False, True]


def test_a_group_without_leaders_joins_the_nearest_of_all(monkeypatch):
    scripted(monkeypatch, [[0, 0, 0, 4, 4, 4], [-1, -1, -1], [0, 0, 2]])
    found = dual_segment(FLAT, SOME, LINE_M)
    assert [c.tolist() for c in found.clusters] == [[0, 1, 2, 3, 4], [5]]
    assert found.heads.tolist() == [3, 5]


def test_if_nobody_leads_each_group_is_a_cluster_around_its_middle(monkeypatch):
    scripted(monkeypatch, [[0, 0, 0, 4, 4, 4], [-1, -1, -1], [-1, -1, -1]])
    found = dual_segment(FLAT, SOME, LINE_M)
    assert [c.tolist() for c in found.clusters] == [[0, 1, 2], [3, 4, 5]]
    assert found.heads.tolist() == [1, 4]
    assert found.leftover.all()


def test_if_the_first_stage_elects_nobody_all_are_one_group(monkeypatch):
    scripted(monkeypatch, [[-1] * 6, [1, 1, 1, 4, 4, 4]])
    found = dual_segment(FLAT, SOME, LINE_M)
    assert (found.radio_group == -1).all() and found.leftover.all()
    assert [c.tolist() for c in found.clusters] == [[0, 1, 2], [3, 4, 5]]


def test_one_device_is_a_cluster():
    found = dual_segment([[5.0]], [[1, 2]], [[0.0, 0.0]])
    check_partition(found, 1)
    assert found.heads.tolist() == [0]


@settings(max_examples=25)
@given(
    st.integers(2, 9),
    st.integers(0, 2**32),
    st.sampled_from(module.RADIO),
    st.sampled_from(module.LABELS),
    st.booleans(),
)
def test_any_reading_gives_a_partition_around_members(n, seed, radio, labels, best):
    random = rng(seed)
    position = random.uniform(0, 30, (n, 2))
    snr = snr_matrix(random.uniform(0.1, 1, n), channel_gains(position, [60.0, 0.0]), 1e-14)
    counts = random.integers(0, 20, (n, 4)) + np.eye(n, 4, dtype=np.int64)
    counts[:, 0] += 1
    leader = "best_bs_snr" if best else "exemplar"
    found = dual_segment(snr, counts, position, radio=radio, labels=labels, leader=leader, max_iter=200)
    check_partition(found, n)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: affinity_propagation(np.zeros((2, 3)), 0.0), "similarity must have shape (2, 2), got (2, 3)"),
        (lambda: affinity_propagation(np.zeros((0, 0)), 0.0), "there are no points to group"),
        (lambda: affinity_propagation(LINE, -1.0, damping=0.4), "damping must be in [0.5, 1), got 0.4"),
        (lambda: affinity_propagation(LINE, -1.0, availability="max"), "availability must be one of sum, literal"),
        (lambda: label_information([[1, 2], [0, 0]]), "devices [1] have no samples, so no labels; leave them out"),
        (lambda: label_similarity(COUNTS, reading="x"), "reading must be one of neg_sq, neg_sq_sq, literal; got 'x'"),
        (lambda: radio_similarity([[1.0, 0.0], [1.0, 1.0]]), "snr must be above 0, got 0"),
        (lambda: radio_similarity(FLAT, reading="neg_dist_sq"), 'the radio reading "neg_dist_sq" needs position_m'),
        (lambda: dual_segment(FLAT, SOME, LINE_M, leader="x"), "leader must be one of exemplar, best_bs_snr; got 'x'"),
        (lambda: dual_segment(FLAT, SOME[:3], LINE_M), "label_counts must have shape (6, any), got (3, 2)"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
