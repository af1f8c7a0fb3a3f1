"""Exact solvers: instances solved by hand, agreement with each other and with a loop over all assignments."""

import builtins
import itertools
import re

import numpy as np
import pytest
from naive_heads import GRADIENTS, POSITION, SERVER, check_valid, disc, instance_a, naive_cosines, naive_objective
from test_head_selection import SOLVED

from fedloom.grouping.exact import _sizes, exact_association, exact_heads
from fedloom.grouping.head_problem import head_problem

SOLVERS = ("brute", "milp", "cp_sat")


def rng(seed=0):
    return np.random.default_rng(seed)


def naive_optimum(problem, cosine, heads):
    """The smallest Psi of all assignments to these heads."""
    heads = [int(n) for n in heads]
    room = dict(zip(problem.candidates.tolist(), problem.capacity.tolist()))
    best = np.inf
    for assign in itertools.product(heads, repeat=problem.n_devices):
        sizes = [assign.count(n) for n in heads]
        at_home = all(assign[n] == n for n in heads) or not problem.own_cluster
        if at_home and all(sizes) and all(size <= room[n] for size, n in zip(sizes, heads)):
            best = min(best, naive_objective(problem, cosine, np.array(assign)))
    return best


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize("row", SOLVED, ids=lambda row: str(row[0]))
def test_g2(row, method):
    heads, objective, member_m, cosine, assign = row
    found = exact_association(instance_a(), heads, method=method)
    assert found.scores.objective == pytest.approx(objective, abs=1e-9)
    assert found.scores.member_m == pytest.approx(member_m, abs=1e-6)
    assert found.scores.cosine == pytest.approx(cosine, abs=1e-9)
    assert found.assign.tolist() == assign and found.heads.tolist() == heads
    assert found.proven and found.bound == found.scores.objective


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize(
    ("options", "objective"),
    [
        ({"capacity": 3}, 0.338170619),
        ({"normalise": "literal"}, 1060.636116),
        ({"alpha": 1.0}, 0.28),
        ({"own_cluster": False}, 0.279371863),
    ],
    ids=str,
)
def test_g2_variants(options, objective, method):
    found = exact_association(instance_a(**options), [0, 3], method=method)
    assert found.scores.objective == pytest.approx(objective, rel=1e-8)


def test_g2_heads():
    found = exact_heads(instance_a())
    assert found.heads.tolist() == [3, 4] and found.scores.objective == pytest.approx(0.273811520, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_brute_force_matches_a_loop(seed):
    random = rng(seed)
    n, k = int(random.integers(4, 7)), int(random.integers(1, 4))
    position, server, gradients = disc(n, random)
    gradients[0] = 0
    heads = np.sort(random.choice(n, k, replace=False))
    problem = head_problem(
        position, server, gradients, alpha=0.6, capacity=[None, -(-n // k)][seed % 2], own_cluster=seed % 3 > 0,
        weighting=["cluster", "size"][seed // 2 % 2], candidates=heads,
    )  # fmt: skip
    found = exact_association(problem, heads, method="brute")
    check_valid(problem, found)
    assert found.scores.objective == pytest.approx(naive_optimum(problem, naive_cosines(gradients), heads), rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_all_solvers_agree(seed):
    random = rng(seed)
    n, k = [(7, 2), (7, 3), (8, 3), (9, 3), (9, 2)][seed % 5]
    position, server, gradients = disc(n, random)
    if seed % 3 == 0:
        gradients[1] = 0
    heads = np.sort(random.choice(n, k, replace=False))
    problem = head_problem(
        position, server, gradients, alpha=[0.0, 0.4, 0.8, 1.0][seed % 4], candidates=heads,
        capacity=[None, -(-n // k)][seed % 2], weighting=["cluster", "size"][seed // 2 % 2], own_cluster=seed % 4 < 3,
    )  # fmt: skip
    values = [exact_association(problem, heads, method=method).scores.objective for method in SOLVERS]
    assert values == pytest.approx([values[0]] * 3, rel=1e-7)


def test_without_gradients_distances_alone_count():
    problem = head_problem(POSITION, SERVER, alpha=0, candidates=[0, 3], capacity=4)
    found = [exact_association(problem, [0, 3], method=method) for method in SOLVERS]
    for each in found:
        assert each.scores.member_m == pytest.approx(30 + 50 + 60 + 60)  # 5, 1, 2 to 0, 4 to 3


@pytest.mark.parametrize("seed", range(6))
def test_the_best_heads_are_the_best_of_all_sets(seed):
    random = rng(seed)
    position, server, gradients = disc(6, random)
    problem = head_problem(
        position, server, gradients, alpha=[0.2, 0.6, 1.0][seed % 3], candidates=[0, 2, 3, 5], capacity=[3, 4][seed % 2],
        weighting=["cluster", "size"][seed // 3],
    )  # fmt: skip
    best = min(
        naive_optimum(problem, naive_cosines(gradients), heads)
        for k in (1, 2, 3, 4)
        for heads in itertools.combinations([0, 2, 3, 5], k)
    )
    assert exact_heads(problem).scores.objective == pytest.approx(best, rel=1e-12)


def test_auto_takes_brute_force_for_few_assignments_and_cp_sat_for_many(monkeypatch):
    random = rng(1)
    problem = head_problem(*disc(16, random), alpha=0.5, candidates=[0, 1, 2], capacity=16)  # 3^13 assignments
    called = []
    monkeypatch.setattr(
        "fedloom.grouping.exact._cp_sat", lambda *arguments: called.append("cp_sat") or (np.arange(16) % 3, 0.25)
    )
    found = exact_association(problem, [0, 1, 2], time_limit_s=5)
    assert called == ["cp_sat"] and not found.proven and found.bound == pytest.approx(found.scores.objective - 0.25)
    exact_association(instance_a(), [0, 3])
    assert called == ["cp_sat"]


@pytest.mark.slow
def test_a_time_limit_gives_the_best_so_far_and_an_honest_bound():
    problem = head_problem(*disc(24, rng(2)), alpha=0.6, candidates=[0, 1, 2, 3], capacity=8)
    found = exact_association(problem, [0, 1, 2, 3], method="cp_sat", time_limit_s=3)
    check_valid(problem, found)
    assert not found.proven and 0 < found.bound < found.scores.objective


def test_without_any_time_there_is_still_a_valid_answer():
    problem = head_problem(*disc(24, rng(2)), alpha=0.6, candidates=[0, 1, 2, 3], capacity=8)
    found = exact_association(problem, [0, 1, 2, 3], method="cp_sat", time_limit_s=1e-6)
    check_valid(problem, found)
    assert not found.proven and 0 < found.bound < found.scores.objective


def test_sizes_are_all_that_fit():
    assert list(_sizes(5, [3, 3])) == [(2, 3), (3, 2)]
    assert list(_sizes(4, [4, 1, 2])) == [(1, 1, 2), (2, 1, 1)]
    assert list(_sizes(7, [3, 3])) == []


def test_a_missing_solver_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without_ortools(name, *arguments, **options):
        if name.startswith("ortools"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_ortools)
    with pytest.raises(ImportError, match=re.escape("needs OR-Tools: pip install ortools; or take method")):
        exact_association(instance_a(), [0, 3], method="cp_sat")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact_association(instance_a(), [0, 3], method="gurobi"), "method must be one of auto, brute, milp, cp_sat"),
        (lambda: exact_association(instance_a(), [0]), "heads [0] have room for 4 of 6 devices"),
        (lambda: exact_association(instance_a(), [0, 3], time_limit_s=0), "time_limit_s must be above 0, got 0"),
        (
            lambda: exact_association(instance_a(), [0, 3], method="brute", time_limit_s=1),
            'time_limit_s is for method "cp_sat" and would be ignored by "brute"',
        ),
        (
            lambda: exact_association(
                head_problem(*disc(20, rng()), candidates=[0, 1, 2]), [0, 1, 2], method="brute"
            ),
            "brute force tries up to 5,000,000 assignments, here there are 129,140,163",
        ),
        (
            lambda: exact_heads(head_problem(*disc(12, rng()))),
            "all sets of heads are tried for at most 10 candidates, got 12",
        ),
        (lambda: exact_heads(head_problem(POSITION, SERVER, GRADIENTS, capacity=1, candidates=[0])), "have room for 1 of 6"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
