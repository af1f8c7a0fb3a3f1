"""The items of LTC on made-up runs, and their settings."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.record.runs import Run
from fedloom.reproduce import load
from fedloom.reproduce.ltc import METHODS, SMALL
from fedloom.reproduce.verdicts import FAILS, HOLDS

PAPER = load("ltc")
ITEMS = {item.key: item for item in PAPER.items}


def made_up(last, seed=0, n=16, **columns):
    """Accuracy (or errors) that goes to `last` in n cloud rounds, and constant other measures."""
    k = np.arange(n + 1)
    curve = last * (1 - 0.7**k) + 1e-4 * seed
    metrics = {
        "cloud_round": k,
        "local_steps": 10 * k,
        "time_s": 200.0 * k,
        "accuracy": curve,
        "position_mm": 100 * (1 - curve),
        "angle_deg": 90 * (1 - curve),
        "rounds_mean": np.full(n + 1, 5.0),
        "round_s": np.full(n + 1, 20.0),
        "train_loss": 2.3 - curve,
        "step_mass": np.full(n + 1, 700.0),
    }
    metrics |= {name: np.full(n + 1, value) for name, value in columns.items()}
    rest = {"scenario": {}, "clients": {}, "cells": {}, "origin": {}, "summary": {}, "topology": None, "timeline": None}
    return Run(path=Path(), method="", seed=seed, metrics=pl.DataFrame(metrics), **rest)


def seeds(last, **columns):
    return [made_up(last, seed=s, **columns) for s in range(3)]


def states(outcome):
    return {claim.text: claim.verdict.state for claim in outcome.claims}


def test_accuracies_beside_the_published_ones():
    runs = {("750, 4", m): seeds(p / 100 / (1 - 0.7**16)) for m, p in zip(METHODS, (42.0, 43.7, 45.0, 45.0))}
    outcome = ITEMS["table7"].judge(runs)
    assert set(states(outcome).values()) == {HOLDS}
    assert outcome.tables[0].rows[2] == ("750, 4, published", "42.0", "43.7", "45.0", "45.0")
    low = {("750, 4", m): seeds(a) for m, a in zip(METHODS, (0.3, 0.29, 0.28, 0.31))}
    found = states(ITEMS["table7"].judge(low))
    assert found["750, 4: accuracies within 2 points of the published ones"] == FAILS
    assert found["750, 4: A+ is more accurate than A (points)"] == FAILS
    assert found["750, 4: 1.2 is more accurate than A+ (points)"] == HOLDS


def test_with_equal_links_a_tie_is_expected():
    runs = {(SMALL, m): seeds(a) for m, a in zip(METHODS, (0.40, 0.45, 0.452, 0.49))}
    found = states(ITEMS["table6"].judge(runs))
    assert found[f"{SMALL}: A+ ties with 1.1 (within one point)"] == HOLDS
    assert found[f"{SMALL}: A+ ties with 1.2 (within one point)"] == FAILS


def test_theory_tables():
    mismatch = {"A": (7.63, 8.34), "A+": (4.25, 11.78), "1.1": (3.92, 12.18), "1.2": (4.02, 12.07)}
    runs = {(SMALL, m): seeds(0.45, mismatch_cluster=a, mismatch_client=b) for m, (a, b) in mismatch.items()}
    assert set(states(ITEMS["table9"].judge(runs)).values()) == {HOLDS}
    gap = ITEMS["table8"].judge(runs)
    # the loss falls by 0.45 (1 - 0.7^16) in 16 rounds of 700 steps
    assert gap.tables[0].rows[0][1].startswith(f"{1e4 * 2 / 700 * 0.45 * (1 - 0.7**16) / 16:.2f}")


def test_features_are_compared_at_the_accuracy_of_the_whole_update():
    level = {"1.1": 0.5, "crop": 0.49, "skew": 0.48, "pred": 0.47, "B": 0.46}
    runs = {(SMALL, m): seeds(a, n=24) for m, a in level.items()}
    rounds = ITEMS["table11"].judge(runs)
    assert set(states(rounds).values()) == {HOLDS}
    assert rounds.tables[0].rows[0][1:] == ("never", "never", "never", "never")
    runs[SMALL, "crop"] = seeds(0.51, n=24)
    rounds, times = ITEMS["table11"].judge(runs), ITEMS["table12"].judge(runs)
    assert float(rounds.tables[0].rows[0][1]) < 16
    assert float(times.tables[0].rows[0][1].split(",")[0]) > 50


def test_magnet_errors_fall():
    runs = {("magnet", "1.1"): seeds(0.95, n=12), ("magnet", "A"): seeds(0.9, n=12)}
    outcome = ITEMS["fig7"].judge(runs)
    assert set(states(outcome).values()) == {HOLDS}
    runs = {("magnet", "1.1"): seeds(0.9, n=12), ("magnet", "A"): seeds(0.95, n=12)}
    assert set(states(ITEMS["fig7"].judge(runs)).values()) == {FAILS}


def test_criteria_are_ordered_in_every_box():
    level = {"1.1": 0.5, "3": 0.49, "2": 0.47}
    runs = {(SMALL, m, t): seeds(a) for m, a in level.items() for t in (90, 120, 150, 180)}
    assert set(states(ITEMS["table10"].judge(runs)).values()) == {HOLDS}


@pytest.mark.parametrize("scale", PAPER.scales)
@pytest.mark.parametrize("key", list(ITEMS))
def test_settings_are_valid_scenarios(key, scale):
    for s in ITEMS[key].setups(scale).values():
        fl.scenario(s.scenario)
        fl.make_method(s.method)


def test_the_papers_clock():
    [setup] = [s for (d, m), s in ITEMS["table7"].setups("paper").items() if m == "1.1"]
    changed = setup.scenario | {"task": setup.scenario["task"] | {"dataset": "gaussian", "model": {"kind": "softmax"}}}
    result = fl.simulate(fl.scenario(changed), setup.method, dry_run=True)
    assert [m["time_s"] for m in result.measures] == pytest.approx([200.0 * k for k in range(13)])
