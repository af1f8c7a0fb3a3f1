"""Plans in sentences: who wins, by the digits that are printed."""

import numpy as np
import pytest

from fedloom.planning import Plan
from fedloom.record.plan_words import other_work, verdicts


def total(seconds, joules, worst, imbalance, clusters):
    return {
        "seconds": seconds,
        "joules": joules,
        "most_joules_of_a_device": worst,
        "label_imbalance": imbalance,
        "clusters": clusters,
    }


PLAN = total(38.9, 24.1, 2.44, 0.305, 25)
FLAT = total(640.0, 289.0, 6.29, 0.0, 0)
K_MEANS = total(35.1, 24.9, 1.67, 0.317, 20)
FRUGAL = total(40.0, 23.7, 1.9, 0.34, 24)


def test_every_measure_is_held_against_the_best_simple_plan_of_it():
    totals = {"ddc": PLAN, "flat": FLAT, "k-means": K_MEANS, "k-means by J": FRUGAL}
    assert verdicts(totals, ["flat", "k-means", "k-means by J"]) == [
        "k-means with 20 clusters is faster: 35.1 s against 38.9 s",
        "k-means with 24 clusters takes less energy: 23.7 J against 24.1 J",
        "k-means with 20 clusters asks less of its worst device: 1.67 J against 2.44 J",
        "ddc has the lowest imbalance: 0.305 against 0.317 of k-means with 20 clusters",  # flat has no clusters
    ]


def test_a_plan_that_wins_is_said_to_and_one_that_looks_alike_is_alike():
    totals = {"ddc": PLAN, "flat": FLAT, "k-means": total(38.91, 30.0, 3.0, 0.2, 1)}
    assert verdicts(totals, ["flat", "k-means"]) == [
        "ddc and k-means with 1 cluster are alike in time: 38.9 s",
        "ddc takes the least energy: 24.1 J against 30 J of k-means with 1 cluster",
        "ddc asks the least of its worst device: 2.44 J against 3 J of k-means with 1 cluster",
        "k-means with 1 cluster has the lower imbalance: 0.200 against 0.305",
    ]


def test_only_simple_plans_count_and_what_is_not_known_is_not_compared():
    totals = {"ddc": PLAN | {"label_imbalance": None}, "flat": FLAT, "other": total(1.0, 1.0, 1.0, 0.0, 3)}
    assert [line.partition(":")[0] for line in verdicts(totals, ["flat"])] == [
        "ddc is the fastest",
        "ddc takes the least energy",
        "ddc asks the least of its worst device",
    ]
    assert verdicts({"ddc": PLAN}, []) == []
    assert (
        "everybody at the server is faster" in verdicts({"ddc": FLAT | {"seconds": 700.0}, "flat": FLAT}, ["flat"])[0]
    )


@pytest.mark.parametrize(("rounds", "said"), [([5, 5], None), ([10, 1], "clusters of camu run 1 to 10 edge rounds")])
def test_other_work_is_said(rounds, said):
    plan = object.__new__(Plan)
    object.__setattr__(plan, "name", "camu")
    object.__setattr__(plan, "edge_rounds", np.array(rounds))
    found = other_work(plan, 5)
    assert found is None if said is None else said in found and found.endswith("those of the simple plans 5")
