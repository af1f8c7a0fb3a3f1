"""Heads and members: cases by hand, prices against recomputation, searches against exact solutions."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_heads import (
    GRADIENTS,
    POSITION,
    SERVER,
    check_valid,
    disc,
    instance_a,
    naive_cosines,
    naive_objective,
    naive_q,
    random_assignment,
)

from fedloom.grouping.association import (
    Effort,
    associate,
    association_of,
    default_effort,
    fill_by_regret,
    kick,
    move_changes,
    one_thread,
    swap_changes,
)
from fedloom.grouping.exact import exact_association, exact_heads
from fedloom.grouping.head_clusters import Clustering
from fedloom.grouping.head_problem import draw_candidates, head_problem
from fedloom.grouping.head_scores import cluster_sums, head_scores, split_assignment
from fedloom.grouping.head_selection import HeadChange, opening_heads, select_heads
from fedloom.grouping.head_trials import (
    add_estimates,
    after_add,
    after_exchange,
    after_remove,
    company,
    exchange_estimates,
    opening_change,
    remove_estimates,
)
from fedloom.grouping.unit_gradients import cosine_matrix, unit_rows
from fedloom.radio import airtime_s, db_to_ratio, energy_j, log_distance_loss_db, noise_w, shannon_rate, snr

G1_COSINES = {
    (0, 1): 0.6, (0, 2): 0, (0, 3): -0.8, (0, 4): 0, (0, 5): 0.8, (1, 2): 0.8, (1, 3): 0, (1, 4): -0.8, (1, 5): 0.96,
    (2, 3): 0.6, (2, 4): -1, (2, 5): 0.6, (3, 4): -0.6, (3, 5): -0.28, (4, 5): -0.6,
}  # fmt: skip
G1_ASSIGN = np.array([0, 0, 0, 3, 3, 3])
SOLVED = [
    # heads, Psi, member m, c(C), assign
    ([0, 2], 0.282815653, 280, 0.1725, [0, 2, 2, 0, 2, 2]),
    ([0, 3], 0.329281730, 275.440037, 0.28, [0, 0, 0, 3, 0, 3]),
    ([0, 4], 0.280702470, 335.440037, 0.1725, [0, 4, 4, 0, 4, 4]),
    ([2, 3], 0.275924703, 280, 0.1725, [3, 2, 2, 3, 2, 2]),
    ([2, 4], 0.300753964, 220, 0.2325, [2, 4, 2, 2, 4, 2]),
    ([3, 4], 0.273811520, 335.440037, 0.1725, [3, 4, 4, 3, 4, 4]),
    ([0, 2, 3], 0.465385671, 235.440037, 0.386666667, [0, 0, 2, 3, 2, 3]),
    ([0, 2, 4], 0.433941238, 180, 0.333333333, [0, 4, 2, 0, 4, 2]),
    ([0, 3, 4], 0.421714228, 195.440037, 0.32, [0, 4, 0, 3, 4, 3]),
    ([2, 3, 4], 0.421714228, 195.440037, 0.32, [2, 4, 2, 3, 4, 3]),
    ([0, 2, 3, 4], 0.650261255, 135.440037, 0.615, [0, 4, 2, 3, 4, 3]),
]


def rng(seed=0):
    return np.random.default_rng(seed)


def start_of(problem, assign):
    """The clusters of an assignment, as a search has them."""
    _, cluster, columns = split_assignment(problem, assign)
    return Clustering(problem, columns, cluster)


# Cases by hand


def test_g1_cosines():
    found = cosine_matrix(GRADIENTS)
    for (u, v), value in G1_COSINES.items():
        assert found[u, v] == found[v, u] == pytest.approx(value, abs=1e-12)
    assert found.mean() == pytest.approx(0.182222222, abs=1e-9)


def test_g1_scores():
    found = head_scores(instance_a(), G1_ASSIGN)
    assert found.heads.tolist() == [0, 3] and found.size.tolist() == [3, 3]
    assert found.q * 9 == pytest.approx([5.8, 0.04])
    assert found.q == pytest.approx([0.644444444, 0.004444444], abs=1e-9)
    assert found.cosine == pytest.approx(0.324444444, abs=1e-9)
    assert (found.member_m, found.server_m) == pytest.approx((255.440037, 1920.938899), abs=1e-6)
    assert found.total_m == pytest.approx(255.440037 + 1920.938899, abs=1e-6)
    assert found.association == pytest.approx(0.184235788, abs=1e-9)
    assert found.cosine - cosine_matrix(GRADIENTS).mean() == pytest.approx(0.142222222, abs=1e-9)


@pytest.mark.parametrize(
    ("normalise", "value"), [("fedavg", 0.349780373), ("literal", 1088.351691), ("literal_eq18", 2048.821140)]
)
def test_g1_objective(normalise, value):
    assert head_scores(instance_a(normalise=normalise), G1_ASSIGN).objective == pytest.approx(value, rel=1e-8)


def test_g1_two_clusters_can_undercut_the_mean_cosine_by_cluster_but_not_by_size():
    problem = instance_a(candidates=range(6), capacity=None, alpha=1.0)
    best = [np.inf, np.inf]
    for label in itertools.product([0, 1], repeat=6):
        if 0 < sum(label) < 6:
            clusters = [[u for u in range(6) if label[u] == c] for c in (0, 1)]
            found = head_scores(problem, [clusters[c][0] for c in label])
            best = [min(best[0], found.cosine), min(best[1], found.cosine_by_size)]
    assert best == pytest.approx([0.1725, 0.191111], abs=1e-6)


@pytest.mark.parametrize("row", SOLVED, ids=lambda row: str(row[0]))
def test_g2_association(row):
    heads, objective, member_m, cosine, assign = row
    found = associate(instance_a(), heads, rng=rng())
    assert found.scores.objective == pytest.approx(objective, abs=1e-9)
    assert found.scores.member_m == pytest.approx(member_m, abs=1e-6)
    assert found.scores.cosine == pytest.approx(cosine, abs=1e-9)
    assert found.assign.tolist() == assign and found.heads.tolist() == heads


@pytest.mark.parametrize(
    ("options", "objective", "assign"),
    [
        ({"capacity": 3}, 0.338170619, [0, 3, 0, 3, 0, 3]),
        ({"normalise": "literal"}, 1060.636116, [0, 3, 0, 3, 3, 0]),
        ({"alpha": 1.0}, 0.28, None),
        ({"own_cluster": False}, 0.279371863, [3, 0, 0, 3, 0, 0]),
    ],
    ids=str,
)
def test_g2_variants(options, objective, assign):
    found = associate(instance_a(**options), [0, 3], rng=rng())
    assert found.scores.objective == pytest.approx(objective, rel=1e-8)
    assert assign is None or found.assign.tolist() == assign


@pytest.mark.parametrize("search", ["full", "auto"])
def test_g2_search_takes_the_published_path(search):
    found = select_heads(instance_a(), start=[0, 2], search=search, rng=rng())
    path = [(c.kind, c.opened, c.closed) for c in found.history]
    assert path == [("start", None, None), ("exchange", 3, 0), ("exchange", 4, 2)]
    values = [c.objective for c in found.history]
    assert values == pytest.approx([0.282815653, 0.275924703, 0.273811520], abs=1e-9)
    assert found.heads.tolist() == [3, 4] and found.assign.tolist() == [3, 4, 4, 3, 4, 4]
    assert found.scores.objective == pytest.approx(values[-1], abs=1e-12)


def test_g2_the_fast_search_finds_the_same_heads():
    found = select_heads(instance_a(), start=[0, 2], search="fast", rng=rng())
    assert found.heads.tolist() == [3, 4] and found.scores.objective == pytest.approx(0.273811520, abs=1e-9)


def test_g3_moves_and_swaps():
    problem = instance_a()
    moves, swaps = move_changes(problem, G1_ASSIGN), swap_changes(problem, G1_ASSIGN)
    assert moves[1, 1] == pytest.approx(-0.015972222222, abs=1e-11)
    assert moves[2, 1] == pytest.approx(0.062001357685, abs=1e-11)
    assert moves[5, 0] == pytest.approx(0.063000011046, abs=1e-11)
    assert swaps[1, 4] == swaps[4, 1] == pytest.approx(-0.011609753426, abs=1e-11)
    assert swaps[2, 5] == pytest.approx(0.076945813176, abs=1e-11)
    assert swaps[1, 5] == pytest.approx(-0.000333322287, abs=1e-11)
    assert np.isinf(moves[0, 1]) and np.isinf(moves[3, 0])  # heads stay
    assert np.isinf(swaps[0, 4]) and swaps[0, 1] == 0


def test_g3_heads():
    problem = instance_a(candidates=range(6))
    now = start_of(problem, G1_ASSIGN)
    exchanges = exchange_estimates(now)
    assert exchanges[0, 1] == pytest.approx(-0.004347721595, abs=1e-11)  # 1 takes over from 0
    assert exchanges[0, 4] == pytest.approx(-0.066663296923, abs=1e-11)  # 4 and 0 change places as well
    assert np.isinf(exchanges[:, [0, 3]]).all()
    assert opening_change(now, 4, np.array([4])) == pytest.approx(0.246007929449, abs=1e-11)


def test_energy_mode_counts_uploads_in_joules():
    """Instance A under heads 3 and 4: 0.000761081897 J of members per upload, 0.008820644686 J of heads."""

    def joules(metres):
        gain = db_to_ratio(-log_distance_loss_db(metres))
        rate = shannon_rate(1e6, snr(0.01, gain, noise_w(-173, 1e6)))
        return energy_j(0.01, airtime_s(224_000, rate))

    problem = instance_a(normalise="energy", energy_j=joules, tau1=1, tau2=2)
    found = head_scores(problem, [3, 4, 4, 3, 4, 4])
    everybody = 0.124724392135 / 4  # FedAvg, per round
    assert found.member_cost == pytest.approx(0.5 * 0.000761081897 / everybody, rel=1e-8)
    assert found.server_cost == pytest.approx(0.5 * 0.008820644686 / 2 / everybody, rel=1e-8)
    assert found.objective == pytest.approx(found.member_cost + found.server_cost + 0.5 * 0.1725, rel=1e-12)
    twice = instance_a(normalise="energy", energy_j=joules, tau1=2, tau2=2)
    assert head_scores(twice, [3, 4, 4, 3, 4, 4]).member_cost == pytest.approx(found.member_cost / 2)


# Cosines


def test_cosines_match_a_loop_and_zero_gradients_are_alone():
    gradients = rng(1).normal(size=(7, 4))
    gradients[[2, 5]] = 0
    for wide in (gradients, np.hstack([gradients, np.zeros((7, 20))])):  # fewer and more columns than devices
        for scale in (1.0, 1e-180, 1e180):
            np.testing.assert_allclose(cosine_matrix(scale * wide), naive_cosines(gradients), atol=1e-12)
        rows, remainder = unit_rows(wide)
        assert rows.shape[1] <= 7 and remainder.tolist() == [0, 0, 1, 0, 0, 1, 0]
        np.testing.assert_allclose((rows**2).sum(axis=1) + remainder, 1, atol=1e-12)


def test_gradients_in_float32_and_as_whole_numbers_are_fine():
    gradients = rng(2).integers(-3, 4, (6, 9))
    np.testing.assert_allclose(cosine_matrix(gradients.astype(np.float32)), naive_cosines(gradients), atol=1e-7)
    np.testing.assert_allclose(cosine_matrix(gradients), naive_cosines(gradients), atol=1e-12)


def test_a_factor_of_low_rank_keeps_the_diagonal_and_most_of_the_cosines():
    random = rng(3)
    strong = random.normal(size=(60, 8)) @ random.normal(size=(8, 400))
    gradients = strong + 0.3 * random.normal(size=strong.shape)
    gradients[7] = 0
    exact = cosine_matrix(gradients)
    errors = []
    for rank in (2, 8, 30):
        rows, remainder = unit_rows(gradients, rank=rank, rng=random)
        assert rows.shape == (60, rank) and (remainder >= 0).all() and remainder[7] == 1
        np.testing.assert_allclose((rows**2).sum(axis=1) + remainder, 1, atol=1e-9)
        error = rows @ rows.T - exact
        np.fill_diagonal(error, 0)
        errors.append(np.abs(error).max())
    assert errors[0] > 0.2 and errors[1] < 0.03 and errors[2] < errors[1]
    rows, _ = unit_rows(gradients, rank=60)  # no less than there are: exact, and no generator is needed
    np.testing.assert_allclose(rows[:7] @ rows[:7].T, exact[:7, :7], atol=1e-12)


# Scores


@st.composite
def problems(draw, n_max=9):
    """A problem, its cosines, heads and a valid assignment: every mode, ties, zero and cut gradients, tight capacities."""
    random = rng(draw(st.integers(0, 2**32)))

    def one_of(*options):
        return options[random.integers(len(options))]

    n = int(random.integers(2, n_max + 1))
    k = int(random.integers(1, min(n, 4) + 1))
    position, server, gradients = disc(n, random)
    if one_of(True, False):
        position, gradients = random.integers(0, 4, (n, 2)).astype(float), random.integers(-2, 3, (n, 3)).astype(float)
    candidates = random.choice(n, int(random.integers(k, n + 1)), replace=False)
    tight = -(-n // k)
    capacity = one_of(None, tight, tight + 1, random.integers(tight, n + 1, n))
    problem = head_problem(
        position, server, gradients, alpha=one_of(0.0, 0.3, 0.5, 0.9, 1.0), candidates=candidates, capacity=capacity,
        normalise=one_of("fedavg", "fedavg", "literal", "literal_eq18"), weighting=one_of("cluster", "size"),
        own_cluster=one_of(True, True, False), rank=one_of(None, None, 2), rng=random,
    )  # fmt: skip
    cosine = problem.rows @ problem.rows.T
    np.fill_diagonal(cosine, 1.0)
    heads = np.sort(random.choice(problem.candidates, k, replace=False))
    return problem, cosine, heads, random_assignment(problem, heads, random)


@given(problems())
def test_scores_match_loops(instance):
    problem, cosine, heads, assign = instance
    found = head_scores(problem, assign)
    assert found.objective == pytest.approx(naive_objective(problem, cosine, assign), rel=1e-10, abs=1e-12)
    assert found.q == pytest.approx(naive_q(cosine, assign), abs=1e-12)
    assert found.cosine == pytest.approx(found.q.mean()) and found.heads.tolist() == heads.tolist()
    assert found.cosine_by_size == pytest.approx(found.size @ found.q / len(assign))
    assert found.association == pytest.approx(found.objective - found.server_cost, abs=1e-12)
    assert (found.q >= -1e-12).all() and (found.q <= 1 + 1e-12).all()
    assert found.q[found.size == 1] == pytest.approx(1.0)
    assert found.cosine_by_size >= cosine.mean() - 1e-12
    check_valid(problem, association_of(problem, assign))


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=30)
def test_clusters_of_equal_size_score_the_mean_cosine_and_the_spread_of_their_means(seed, k, size):
    random = rng(seed)
    position, server, gradients = disc(k * size, random)
    label = random.permutation(np.repeat(np.arange(k), size))
    heads = np.array([np.flatnonzero(label == c)[0] for c in range(k)])
    found = head_scores(head_problem(position, server, gradients), heads[label])
    unit = gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    means = np.stack([unit[label == c].mean(axis=0) for c in range(k)])
    spread = ((means - unit.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert found.cosine == pytest.approx((unit @ unit.T).mean() + spread, abs=1e-12)
    order = np.argsort(heads)
    assert found.q == pytest.approx((means[order] ** 2).sum(axis=1), abs=1e-12)


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_scores_do_not_depend_on_gradient_lengths_names_or_where_the_map_lies(seed):
    random = rng(seed)
    position, server, gradients = disc(8, random)
    problem = head_problem(position, server, gradients, candidates=[1, 4, 6])
    assign = random_assignment(problem, np.array([1, 4, 6]), random)
    before = head_scores(problem, assign)
    longer = gradients * random.uniform(0.1, 10, (8, 1))
    angle = random.uniform(0, 6)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    name = random.permutation(8)  # device u is called name[u] from now on
    old = np.argsort(name)
    again = head_problem((position @ turn.T + 77)[old], server @ turn.T + 77, longer[old], candidates=name[[1, 4, 6]])
    after = head_scores(again, name[assign][old])
    for field in ("objective", "association", "cosine", "cosine_by_size", "member_m", "server_m"):
        assert getattr(after, field) == pytest.approx(getattr(before, field), rel=1e-9)


# Prices of changes


@given(problems())
@settings(max_examples=60)
def test_prices_of_moves_and_swaps_equal_recomputation(instance):
    problem, cosine, heads, assign = instance
    before = naive_objective(problem, cosine, assign)
    scale = max(1.0, abs(before))
    moves, swaps = move_changes(problem, assign), swap_changes(problem, assign)
    fixed = set(heads.tolist()) if problem.own_cluster else set()
    size = Counter(assign.tolist())
    for u, (c, head) in itertools.product(range(len(assign)), enumerate(heads.tolist())):
        full = size[head] >= problem.capacity[problem.columns([head])[0]]
        if head == assign[u]:
            assert moves[u, c] == 0
        elif u in fixed or full or size[int(assign[u])] == 1:
            assert moves[u, c] == np.inf
        else:
            after = assign.copy()
            after[u] = head
            assert moves[u, c] == pytest.approx(naive_objective(problem, cosine, after) - before, abs=1e-9 * scale)
    for u, v in itertools.combinations(range(len(assign)), 2):
        if assign[u] == assign[v]:
            assert swaps[u, v] == swaps[v, u] == 0
        elif {u, v} & fixed:
            assert swaps[u, v] == swaps[v, u] == np.inf
        else:
            after = assign.copy()
            after[[u, v]] = after[[v, u]]
            change = naive_objective(problem, cosine, after) - before
            assert swaps[u, v] == pytest.approx(change, abs=1e-9 * scale)
            assert swaps[v, u] == pytest.approx(change, abs=1e-9 * scale)


@given(problems(n_max=40))
@settings(max_examples=50)
def test_every_round_changes_the_value_by_what_it_says_and_a_descent_ends_where_nothing_helps(instance):
    problem, cosine, heads, assign = instance
    now = start_of(problem, assign)
    server = problem.server_cost[now.columns].sum()
    everything = np.ones(len(heads), dtype=bool)
    scale = max(1.0, abs(now.value))
    for turn in (now.move_round, now.swap_round, now.move_round, now.swap_round):
        before, labels = now.value, now.cluster.copy()
        changed = turn(everything)
        assert now.value <= before
        assert now.value + server == pytest.approx(naive_objective(problem, cosine, now.assign), abs=1e-9 * scale)
        assert set(labels[labels != now.cluster]) | set(now.cluster[labels != now.cluster]) == set(
            np.flatnonzero(changed)
        )
        sums, square = cluster_sums(problem, now.cluster, len(heads))
        np.testing.assert_allclose(now.sums, sums, atol=1e-9)
        np.testing.assert_allclose(now.square, square, atol=1e-9)
        np.testing.assert_array_equal(now.size, np.bincount(now.cluster, minlength=len(heads)))
        assert (now.size <= now.room).all() and (now.size > 0).all()
    now.descend()
    assert move_changes(problem, now.assign).min() >= -1e-11 * scale
    assert swap_changes(problem, now.assign).min() >= -1e-11 * scale


@given(problems(n_max=25), st.integers(0, 2**32))
@settings(max_examples=60)
def test_kicks_never_end_worse(instance, seed):
    problem, _, _, assign = instance
    now = start_of(problem, assign)
    now.descend()
    before = now.value
    kick(now, Effort(n_starts=1, n_kicks=10), rng(seed))
    assert now.value <= before
    check_valid(problem, association_of(problem, now.assign))


@given(problems())
@settings(max_examples=50)
def test_estimates_of_trials_are_the_changes_of_the_clusters_they_describe(instance):
    problem, cosine, heads, assign = instance
    now = start_of(problem, assign)
    before = naive_objective(problem, cosine, assign)
    scale = max(1.0, abs(before))

    def change(after):
        return pytest.approx(naive_objective(problem, cosine, after) - before, abs=1e-9 * scale)

    exchanges = exchange_estimates(now)
    for (c, old), (n, new) in itertools.product(enumerate(heads.tolist()), enumerate(problem.candidates.tolist())):
        if new in heads:
            assert exchanges[c, n] == np.inf
            continue
        after = np.where(assign == old, new, assign)
        if problem.own_cluster:
            after[old], after[new] = after[new], new
        assert exchanges[c, n] == change(after)
    for n, new in enumerate(problem.candidates.tolist()):
        if new in heads:
            assert add_estimates(now)[n] == np.inf
            continue
        values = []
        for members in (np.array([new]), company(now, n)):
            after = assign.copy()
            after[members] = new
            if set(after.tolist()) == {*heads.tolist(), new}:  # nobody is left without devices
                assert opening_change(now, n, members) == change(after)
            values.append(opening_change(now, n, members))
        assert add_estimates(now)[n] == min(values)
    removes = remove_estimates(now)
    if len(heads) == 1:
        assert removes.tolist() == [np.inf]
    elif len(heads) == 2:  # the only other cluster takes them all, each priced as if it came alone
        for c, old in enumerate(heads.tolist()):
            rest = int(heads[1 - c])
            base = np.where(assign == rest)[0]
            weight = problem.weights(1)
            column = problem.columns([rest])[0]
            total = 0.0
            inner = cosine[np.ix_(base, base)].sum()
            for u in np.where(assign == old)[0]:
                joined = inner + 2 * cosine[u, base].sum() + 1
                total += problem.cost[u, column] + weight[len(base) + 1] * joined - weight[len(base)] * inner
            total += problem.cost[base, column].sum() + weight[len(base)] * inner + problem.server_cost[column]
            assert removes[c] == pytest.approx(total - before, abs=1e-9 * scale)


@given(problems())
@settings(max_examples=50)
def test_clusters_after_trials_are_valid(instance):
    problem, _, heads, assign = instance
    now = start_of(problem, assign)
    new = [n for n, u in enumerate(problem.candidates.tolist()) if u not in heads]
    trials = [after_add(now, n) for n in new]
    trials += [
        after_exchange(now, c, n)
        for c in range(len(heads))
        for n in new
        if problem.capacity[np.r_[np.delete(now.columns, c), n]].sum() >= len(assign)
    ]
    trials += [
        after_remove(now, c)
        for c in range(len(heads))
        if problem.capacity[np.delete(now.columns, c)].sum() >= len(assign)
    ]
    for columns, cluster in trials:
        found = association_of(problem, problem.candidates[columns][cluster])
        assert len(found.heads) == len(columns)
        check_valid(problem, found)


# Association


@pytest.mark.parametrize("seed", range(60))
def test_association_is_within_one_percent_of_the_optimum_and_never_worse_than_its_start(seed):
    random = rng(seed)
    n = int(random.integers(6, 13))
    k = int(random.integers(2, 4 if n > 9 else 5))
    own = bool(seed % 4) or n > 8
    heads = np.sort(random.choice(n, k, replace=False))
    tight = -(-n // k)
    problem = head_problem(
        *disc(n, random), alpha=[0.3, 0.5, 0.8, 1.0][seed % 4], candidates=heads,
        capacity=[None, tight, tight + 1, tight + 2][seed // 4 % 4], weighting=["cluster", "size"][seed // 16 % 2],
        own_cluster=own,
    )  # fmt: skip
    best = exact_association(problem, heads, method="brute")
    start = random_assignment(problem, heads, random)
    found = associate(problem, heads, start=start, rng=random)
    check_valid(problem, found)
    assert best.scores.association - 1e-12 <= found.scores.association <= 1.01 * best.scores.association + 1e-9
    alone = associate(problem, heads, start=start, effort=Effort(n_starts=1, n_kicks=0, n_swap_rounds=0), rng=random)
    assert alone.scores.association <= head_scores(problem, start).association + 1e-12


def test_without_gradients_everybody_takes_the_nearest_head():
    position, server, _ = disc(40, rng(1))
    problem = head_problem(position, server, alpha=0, candidates=[3, 9, 20, 33])
    found = associate(problem, [3, 9, 20], rng=rng())
    nearest = np.linalg.norm(position[:, None] - position[[3, 9, 20]], axis=2).argmin(axis=1)
    np.testing.assert_array_equal(found.assign, np.array([3, 9, 20])[nearest])
    assert found.scores.cosine is None and found.scores.q is None and found.scores.cosine_by_size is None
    assert found.scores.objective == pytest.approx(
        found.scores.total_m / np.linalg.norm(position - server, axis=1).sum()
    )
    check_valid(problem, select_heads(problem, rng=rng()))


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 60])
def test_at_alpha_0_gradients_do_not_matter_and_at_alpha_1_positions_do_not(n):
    position, server, gradients = disc(n, rng(2))
    candidates = np.arange(0, n, 3)

    def found(alpha, position, gradients, capacity):
        problem = head_problem(position, server, gradients, alpha=alpha, candidates=candidates, capacity=capacity)
        heads = select_heads(problem, max_cycles=1, rng=rng(1))
        return associate(problem, candidates[:3], rng=rng(3)).assign, heads.assign

    for capacity in (None, n // 3 + 1):
        there = found(1.0, position, gradients, capacity)
        elsewhere = found(1.0, rng(9).uniform(-500, 500, (n, 2)), gradients, capacity)
        np.testing.assert_array_equal(there, elsewhere)
        np.testing.assert_array_equal(
            found(0.0, position, gradients, capacity), found(0.0, position, rng(9).normal(size=(n, 4)), capacity)
        )
    free, _ = found(0.0, position, gradients, None)
    nearest = np.linalg.norm(position[:, None] - position[candidates[:3]], axis=2).argmin(axis=1)
    np.testing.assert_array_equal(free, candidates[:3][nearest])


def test_one_head_takes_everybody_and_all_heads_take_themselves():
    problem = instance_a(candidates=range(6), capacity=6)
    assert associate(problem, [2], rng=rng()).assign.tolist() == [2] * 6
    assert associate(problem, range(6), rng=rng()).assign.tolist() == list(range(6))


def test_zero_gradients_of_all_leave_sizes_as_the_only_difference():
    position, server, _ = disc(9, rng(3))
    problem = head_problem(position, server, np.zeros((9, 5)), alpha=1.0, candidates=[0, 1, 2])
    found = associate(problem, [0, 1, 2], rng=rng())
    assert found.scores.size.tolist() == [3, 3, 3] and found.scores.cosine == pytest.approx(1 / 3)


def test_the_same_seed_gives_the_same_clusters_and_inputs_stay_as_they_are():
    position, server, gradients = disc(40, rng(4))
    kept = position.copy(), gradients.copy()
    problem = head_problem(position, server, gradients, candidates=range(0, 40, 4), capacity=12)
    start = np.resize([0, 4, 8, 12], 40)
    start[[0, 4, 8, 12]] = [0, 4, 8, 12]
    given_start = start.copy()
    one = associate(problem, [0, 4, 8, 12], start=start, rng=rng(5))
    two = associate(problem, [12, 8, 4, 0], start=start, rng=rng(5))
    np.testing.assert_array_equal(one.assign, two.assign)
    np.testing.assert_array_equal(start, given_start)
    np.testing.assert_array_equal(
        select_heads(problem, max_cycles=1, rng=rng(6)).assign, select_heads(problem, max_cycles=1, rng=rng(6)).assign
    )
    np.testing.assert_array_equal(position, kept[0])
    np.testing.assert_array_equal(gradients, kept[1])


def test_the_effort_falls_with_the_number_of_devices():
    efforts = [default_effort(n) for n in (10, 100, 1000)]
    assert [e.n_starts for e in efforts] == [8, 1, 1] and [e.n_kicks for e in efforts] == [40, 60, 0]


def test_filling_by_regret_serves_those_first_who_would_lose_most():
    cost = np.array([[1.0, 2.0], [1.0, 9.0], [1.0, 5.0], [0.0, 0.0]])
    assert fill_by_regret(cost, np.array([-1, -1, -1, 0]), np.array([3, 3])).tolist() == [1, 0, 0, 0]
    assert fill_by_regret(cost, np.array([-1, -1, -1, 0]), np.array([4, 3])).tolist() == [0, 0, 0, 0]


def test_large_instances_use_one_thread_and_give_the_number_back():
    from threadpoolctl import threadpool_info

    def threads():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    position, server, _ = disc(300, rng(7))
    problem = head_problem(position, server, rng(8).normal(size=(300, 60)), candidates=range(10))
    before = threads()
    with one_thread(problem):
        assert set(threads()) == {1}
    assert threads() == before


# Head search


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("search", ["full", "fast"])
def test_the_objective_falls_with_every_change_of_heads_and_ends_near_the_optimum(seed, search):
    random = rng(seed)
    n = int(random.integers(7, 10))
    candidates = np.sort(random.choice(n, 5, replace=False))
    problem = head_problem(
        *disc(n, random), alpha=[0.2, 0.5, 0.8][seed % 3], candidates=candidates, capacity=[None, 4, 5][seed // 3 % 3],
        weighting=["cluster", "size"][seed % 2], own_cluster=seed % 5 != 4,
        normalise=["fedavg", "literal", "literal_eq18"][seed // 4 % 3],
    )  # fmt: skip
    found = select_heads(problem, search=search, rng=random)
    check_valid(problem, found)
    values = [c.objective for c in found.history]
    assert found.history[0].kind == "start" and (np.diff(values) < 0).all()
    assert found.scores.objective == pytest.approx(values[-1], rel=1e-12)
    best = exact_heads(problem).scores.objective
    assert best * (1 - 1e-12) <= found.scores.objective <= 1.05 * best


def test_changes_of_heads_add_up_to_the_heads_found():
    problem = head_problem(*disc(60, rng(3)), alpha=0.8, candidates=range(0, 60, 4), capacity=15)
    found = select_heads(problem, search="fast", rng=rng(1))
    heads = set(problem.candidates[opening_heads(problem)].tolist())
    for change in found.history[1:]:
        assert isinstance(change, HeadChange)
        assert (change.opened is None or change.opened not in heads) and (
            change.closed is None or change.closed in heads
        )
        heads = heads - {change.closed} | ({change.opened} - {None})
    assert heads == set(found.heads.tolist()) and len(found.history) > 2
    assert found.n_associations >= len([c for c in found.history if c.kind != "associate"])


@pytest.mark.slow
def test_the_fast_search_is_close_to_the_full_one():
    ratios = []
    for seed in range(3):
        problem = head_problem(*disc(40, rng(seed)), alpha=0.5, candidates=range(0, 40, 5), capacity=12)
        quick = Effort(n_starts=2, n_kicks=10)
        full = select_heads(problem, search="full", effort=quick, rng=rng(1)).scores.objective
        fast = select_heads(problem, search="fast", rng=rng(1))
        check_valid(problem, fast)
        ratios.append(fast.scores.objective / full)
    assert max(ratios) < 1.02 and np.mean(ratios) < 1.01


def test_the_start_opens_heads_by_distance_until_there_is_room():
    problem = instance_a()
    distance = np.linalg.norm(POSITION[:, None] - POSITION, axis=2)
    server = np.linalg.norm(POSITION - SERVER, axis=1)
    first = min((distance[:, j].sum() + server[j], j) for j in (0, 2, 3, 4))[1]
    second = min(
        (np.minimum(distance[:, first], distance[:, j]).sum() + server[first] + server[j], j)
        for j in (0, 2, 3, 4)
        if j != first
    )[1]
    assert problem.candidates[opening_heads(problem)].tolist() == sorted([first, second])
    assert len(opening_heads(instance_a(capacity=2))) == 3 and len(opening_heads(instance_a(capacity=6))) == 1


def test_no_cycle_is_only_the_start():
    found = select_heads(instance_a(), start=[0, 2], max_cycles=0, rng=rng())
    assert found.heads.tolist() == [0, 2] and [c.kind for c in found.history] == ["start"]
    assert found.n_associations == 1


@pytest.mark.slow
def test_more_weight_on_learning_lowers_the_cosines_and_lengthens_the_ways():
    world = disc(60, rng(11))
    found = [
        select_heads(head_problem(*world, alpha=alpha, candidates=range(0, 60, 6), capacity=15), rng=rng(1)).scores
        for alpha in (0.0, 0.5, 0.95)
    ]
    cosines, metres = [s.cosine for s in found], [s.total_m for s in found]
    assert cosines == sorted(cosines, reverse=True) and metres == sorted(metres)
    assert cosines[0] > 1.2 * cosines[2] and metres[2] > 1.02 * metres[0]


def test_capacities_of_each_device_are_kept():
    random = rng(12)
    capacity = random.integers(3, 14, 40)
    problem = head_problem(*disc(40, random), alpha=0.7, candidates=range(0, 40, 3), capacity=capacity)
    for search in ("fast", "full"):
        effort = Effort(n_starts=1, n_kicks=2)
        found = select_heads(problem, search=search, max_cycles=1, effort=effort, rng=random)
        check_valid(problem, found)
        assert (found.scores.size <= capacity[found.heads]).all()


def test_candidates_are_a_share_drawn_by_chance_or_by_score():
    drawn = draw_candidates(100, rng(1))
    assert len(drawn) == 30 and (np.diff(drawn) > 0).all()
    assert draw_candidates(10, rng(1), share=0.25).size == 3
    assert draw_candidates(5, rng(1), share=0.4, score=[1, 5, 5, 2, 5]).tolist() == [1, 2]


# Errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: instance_a(alpha=1.5), "alpha must be between 0 and 1, got 1.5"),
        (lambda: head_problem(POSITION, SERVER, alpha=0.5), "must be 0 without gradients, got 0.5"),
        (lambda: head_problem(POSITION, SERVER), "must be 0 without gradients, got 0.5"),
        (lambda: head_problem(POSITION, SERVER, GRADIENTS[:4]), "a row for each of the 6 devices, got 4"),
        (lambda: head_problem(POSITION, [1.0], GRADIENTS), "server_m must have shape (2), got (1,)"),
        (lambda: head_problem(np.zeros((0, 2)), SERVER, alpha=0), "at least one device, got none"),
        (lambda: head_problem(np.tile(SERVER, (3, 1)), SERVER, alpha=0), "what all reports to the server cost, which is 0"),
        (lambda: instance_a(normalise="metres"), "normalise must be one of fedavg, literal, literal_eq18, energy"),
        (lambda: instance_a(weighting="data"), "weighting must be one of cluster, size"),
        (lambda: instance_a(normalise="energy"), 'normalise "energy" needs energy_j'),
        (lambda: instance_a(energy_j=np.square), 'energy_j is for normalise "energy" and would be ignored by "fedavg"'),
        (lambda: instance_a(normalise="energy", energy_j=np.negative), "energy_j must be at least 0"),
        (lambda: instance_a(normalise="energy", energy_j=np.square, tau2=0), "tau2 must be a whole number of at least 1"),
        (lambda: instance_a(candidates=[0, 0]), "candidates must be a list of different devices"),
        (lambda: instance_a(candidates=[0, 6]), "candidates must be devices from 0 to 5, got [0, 6] among them"),
        (lambda: instance_a(candidates=[]), "candidates must be a list of different devices, at least one"),
        (lambda: instance_a(capacity=0), "capacity must be one whole number of at least 1 or one per device (6)"),
        (lambda: instance_a(capacity=[4, 4]), "capacity must be one whole number of at least 1 or one per device (6)"),
        (lambda: instance_a(capacity=2.5), "capacity must be one whole number of at least 1"),
        (lambda: instance_a(rank=1), "a factor of rank 1 is drawn by chance and needs rng"),
        (lambda: unit_rows(np.array([[1.0, np.nan], [1.0, 2.0]])), "but those of devices [0] are not"),
        (lambda: unit_rows(np.ones(3)), "gradients must have shape (U, p), got (3,)"),
        (lambda: unit_rows(GRADIENTS, rank=0), "rank must be a whole number of at least 1, got 0"),
        (lambda: associate(instance_a(), [0], rng=rng()), "heads [0] have room for 4 of 6 devices; take more heads"),
        (lambda: associate(instance_a(), [0, 1], rng=rng()), "among the candidates, but devices [1] are not"),
        (lambda: associate(instance_a(), [0, 0], rng=rng()), "heads must be a list of different devices"),
        (lambda: associate(instance_a(), [], rng=rng()), "heads must be a list of different devices, at least one"),
        (
            lambda: associate(instance_a(), [0, 2], start=[0, 3, 0, 3, 0, 3], rng=rng()),
            "start must use exactly the heads [0, 2], got [0, 3]",
        ),
        (
            lambda: associate(instance_a(capacity=3), [0, 3], start=[0, 0, 0, 3, 0, 3], rng=rng()),
            "start must keep to the capacities, but heads [0] have too many devices",
        ),
        (lambda: head_scores(instance_a(), [0, 0, 0, 3, 3]), "assign must be whole numbers of shape (6,), got int64 (5,)"),
        (lambda: head_scores(instance_a(), np.zeros(6)), "assign must be whole numbers of shape (6,), got float64 (6,)"),
        (lambda: head_scores(instance_a(), [3, 0, 0, 3, 3, 3]), "report to themselves, but devices [0] do not"),
        (lambda: select_heads(instance_a(capacity=1), rng=rng()), "have room for 4 of 6 devices"),
        (lambda: select_heads(instance_a(), start=[0], rng=rng()), "heads [0] have room for 4 of 6 devices"),
        (lambda: select_heads(instance_a(), search="slow", rng=rng()), "search must be one of auto, full, fast"),
        (lambda: select_heads(instance_a(), n_best=0, rng=rng()), "n_best must be a whole number of at least 1, got 0"),
        (lambda: select_heads(instance_a(), max_cycles=-1, rng=rng()), "max_cycles must be a whole number of at least 0"),
        (lambda: Effort(n_starts=0, n_kicks=0), "n_starts must be a whole number of at least 1, got 0"),
        (lambda: Effort(n_starts=1, n_kicks=-1), "n_kicks must be a whole number of at least 0, got -1"),
        (lambda: Effort(n_starts=1, n_kicks=0, n_swap_rounds=-1), "n_swap_rounds must be a whole number of at least 0"),
        (lambda: draw_candidates(5, rng(), share=0), "share must be above 0 and at most 1, got 0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
