"""The items of CSAHFL on made-up runs, their settings, and one item on real, tiny runs."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.record.folder import record
from fedloom.record.runs import Run, read_run
from fedloom.reproduce import load
from fedloom.reproduce.csahfl.measures import METRICS, best_of, seconds_to, until_hierfedavg_ends
from fedloom.reproduce.csahfl.published import (
    ABLATIONS,
    EDGE_SHARE,
    EIID,
    FEDAT,
    FEDAVG,
    FLAT,
    FULL,
    HALF,
    HIER,
    METHODS,
    MOBILE,
    NO_C,
    NO_D,
    NO_SA,
    STATIC,
    SVHN,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    THIRD,
)
from fedloom.reproduce.csahfl.setups import ALL, ALPHAS, BETAS, CLOCKS, SAMPLES, STALE
from fedloom.reproduce.verdicts import BUILT, FAILS, HOLDS, OPEN, OTHER_SCALE, Beyond
from fedloom.simulator import Simulation

PAPER = load("csahfl")
ITEMS = {item.key: item for item in PAPER.items}
N = 20


def made_up(last, seed=0, *, round_s=300.0, n=N, late=0, clusters=6.0, **by_metric):
    """Accuracy in % that reaches `last` exactly after n cloud rounds, the same by all measures but those given."""
    k = np.arange(n + 1)
    curve = (1 - 0.7**k) / (1 - 0.7**n)
    metrics = {
        "cloud_round": k,
        "local_steps": 10 * k,
        "time_s": (round_s + 0.1 * seed) * k,
        "updates": 150 * k,
        "late": late * k,
        "clusters": np.where(k > 0, clusters, np.nan),
    }
    metrics |= {column: (by_metric.get(name, last) + 0.001 * seed) / 100 * curve for name, column in METRICS.items()}
    rest = {"scenario": {}, "clients": {}, "cells": {}, "origin": {}, "summary": {}, "topology": None, "timeline": None}
    return Run(path=Path(), method="", seed=seed, metrics=pl.DataFrame(metrics).fill_nan(None), **rest)


def seeds(last, **options):
    return [made_up(last, seed=s, **options) for s in range(3)]


def states(outcome):
    return {claim.text: claim.verdict.state for claim in outcome.claims}


def state_of(outcome, start):
    """The state of the only claim whose text starts like this."""
    (found,) = [claim.verdict for claim in outcome.claims if claim.text.startswith(start)]
    return found.state


def check_tables(outcome):
    assert outcome.claims
    assert all(len(row) == len(table.columns) for table in outcome.tables for row in table.rows)
    assert all(len(s.x) == len(s.y) for plot in outcome.plots for s in plot.series)


def labels(places=(STATIC, MOBILE), settings=tuple(EDGE_SHARE), methods=tuple(METHODS)):
    return [(p, s, m) for p in places for s in settings for m in methods if not (p == MOBILE and m in FLAT)]


def as_published(round_s=300.0, **options):
    """Runs that end with the published accuracies; CSAHFL has shorter rounds."""
    order = list(EDGE_SHARE)
    return {
        (p, s, m): seeds(
            TABLE_1["fashion-mnist"][p][m][order.index(s)], round_s=100.0 if m == FULL else round_s, **options
        )
        for p, s, m in labels()
    }


def test_published_tables_are_complete():
    for data, places in TABLE_1.items():
        assert set(places[STATIC]) == set(METHODS)
        assert all(len(three) == 3 for methods in places.values() for three in methods.values()), data
    for table in (TABLE_1["fashion-mnist"], TABLE_2):
        assert set(table[STATIC]) - set(FLAT) == set(table[MOBILE])
    assert all(set(TABLE_3[place]) == set(ABLATIONS) for place in (STATIC, MOBILE))


def test_table_1_as_published():
    outcome = ITEMS["table1"].judge(as_published())
    check_tables(outcome)
    found = states(outcome)
    assert {text for text, state in found.items() if state != HOLDS} == set()
    assert len(outcome.claims) == 4 * (2 * 3 + 2 + 1) + 1
    assert outcome.tables[0].columns == ("", "EIID", "published", "ENIID50%", "published", "ENIID30%", "published")
    row = next(row for row in outcome.tables[3].rows if row[0] == "static, HiFlash_r")
    assert row[1::2] == ("89.1 ± 0.0", "85.2 ± 0.0", "81.5 ± 0.0") and row[2::2] == ("89.12", "85.24", "81.48")
    assert all("_r: our reconstructions" in table.title for table in outcome.tables)
    assert {cell for row in outcome.tables[-1].rows for cell in row[1:]} == {"0.0"}


def test_each_measure_has_its_own_verdict():
    """CSAHFL ahead with the models of edges and behind with the global one, as its clusters specialise."""
    runs = as_published() | {
        (p, s, FULL): seeds(70.0, L_edge=93.0 - 3 * i, round_s=100.0)
        for p in (STATIC, MOBILE)
        for i, s in enumerate(EDGE_SHARE)
    }
    outcome = ITEMS["table1"].judge(runs)
    for metric, expected in {"G": FAILS, "L_glob": FAILS, "L_cluster": FAILS, "L_edge": HOLDS}.items():
        for place in (STATIC, MOBILE):
            assert state_of(outcome, f"{metric}, {place}: CSAHFL is the most accurate") == expected
    assert state_of(outcome, "L_edge, static: CSAHFL's accuracy falls with skew") == HOLDS
    assert state_of(outcome, "G, static: CSAHFL's accuracy falls with skew") == FAILS  # the same everywhere
    (ahead,) = [c.verdict.measured for c in outcome.claims if c.text.startswith("G, static: CSAHFL is the most")]
    assert ahead.startswith("EIID ✘ -19.12 [-19.12, -19.12] (HiFlash_r); ENIID50% ✘")
    one_case = runs | {(STATIC, THIRD, FULL): seeds(85.0, L_edge=60.0)}
    assert state_of(ITEMS["table1"].judge(one_case), "L_edge, static: CSAHFL is the most accurate") == FAILS


def test_methods_without_edges_compete_with_mobile_ones_too():
    runs = as_published() | {(STATIC, EIID, FEDAVG): seeds(99.0)}
    (mobile,) = [
        c.verdict for c in ITEMS["table1"].judge(runs).claims if c.text.startswith("G, mobile: CSAHFL is the most")
    ]
    assert mobile.state == FAILS and mobile.measured.startswith("EIID ✘ -6.18 [-6.18, -6.18] (FedAvg); ENIID50% ✔")


def test_mobility_that_matters_is_seen():
    runs = as_published() | {(MOBILE, HALF, FULL): seeds(85.0), (MOBILE, THIRD, HIER): seeds(70.0)}
    outcome = ITEMS["table1"].judge(runs)
    assert state_of(outcome, "G: mobility changes CSAHFL's accuracy") == FAILS
    assert state_of(outcome, "G: and that of every other method") == FAILS
    alone = ITEMS["table1"].judge({label: same[:1] for label, same in as_published().items()})
    assert set(states(alone).values()) == {OPEN}  # one seed decides nothing


def test_one_cluster_is_no_clustering():
    runs = {label: same for label, same in as_published().items() if label[:2] == (STATIC, HALF)}
    assert state_of(ITEMS["svhn"].judge(runs), "CSAHFL finds more than one cluster") == HOLDS
    runs |= {(STATIC, HALF, FULL): seeds(91.0, clusters=1.0)}
    assert state_of(ITEMS["svhn"].judge(runs), "CSAHFL finds more than one cluster") == FAILS


def test_times_to_targets():
    run = made_up(80.0)
    assert seconds_to([run], "G", [79.0]) == [300.0 * 13]  # 1 - 0.7^13 = 0.990
    assert seconds_to([run, run], "G", [80.1, None]) == [Beyond(300.0 * N), None]  # not in this run
    assert best_of([[1.0, Beyond(9.0)], [2.0, 3.0]]) == [1.0, 3.0]
    assert best_of([[Beyond(9.0)], [Beyond(8.0)]]) == [Beyond(8.0)]
    assert best_of([[1.0, Beyond(9.0)], [2.0, 3.0]], max) == [2.0, Beyond(9.0)]


def test_table_2_who_comes_first():
    outcome = ITEMS["table2"].judge(as_published())
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS} and len(outcome.claims) == 4 * 2 * 2
    row = next(row for row in outcome.tables[0].rows if row[0] == "static, ENIID30%, FedAT")
    assert row[2] == "705" and row[3] == row[4] == "–"  # ends with 77 %, the target is 80
    late = as_published() | {(STATIC, HALF, "HiFlash_r"): seeds(85.24, round_s=10.0)}
    found = ITEMS["table2"].judge(late)
    assert state_of(found, "G, static: CSAHFL is the first to reach") == FAILS
    assert state_of(found, "G, mobile: CSAHFL is the first to reach") == HOLDS
    nobody = {label: seeds(50.0) for label in labels()}
    assert state_of(ITEMS["table2"].judge(nobody), "G, static: CSAHFL is the first to reach") == OPEN
    assert state_of(ITEMS["table2"].judge(nobody), "G, static: and HierFedAVG's last") == FAILS  # all together


def test_fedat_is_cut_where_hierfedavg_ends():
    runs = {(STATIC, HALF, HIER): seeds(80.0), (STATIC, HALF, FEDAT): seeds(80.0, n=50, round_s=200.0)}
    cut = until_hierfedavg_ends(runs)
    assert [run.metrics["time_s"][-1] for run in cut[STATIC, HALF, FEDAT]] == pytest.approx([6000.0, 5802.9, 5805.8])
    assert cut[STATIC, HALF, HIER] is runs[STATIC, HALF, HIER]


def part_runs(accuracy, round_s):
    return {
        (p, s, m): seeds(accuracy[m], round_s=round_s[m])
        for p in (STATIC, MOBILE)
        for s in EDGE_SHARE
        for m in (FULL, *ABLATIONS)
    }


def test_table_3_parts():
    accuracy, round_s = (
        {FULL: 91.0, NO_C: 86.0, NO_SA: 90.0, NO_D: 89.5},
        {FULL: 250, NO_C: 250, NO_SA: 9000, NO_D: 250},
    )
    good = ITEMS["table3"].judge(part_runs(accuracy, round_s))
    check_tables(good)
    assert state_of(good, "G: w/o SA is the last to reach") == OPEN  # w/o C does not get there in its time
    assert {state for text, state in states(good).items() if "is the last" not in text} == {HOLDS}
    near = accuracy | {NO_C: 89.4, NO_D: 90.0}
    assert set(states(ITEMS["table3"].judge(part_runs(near, round_s))).values()) == {HOLDS}
    idle = dict.fromkeys(round_s, 250)
    found = ITEMS["table3"].judge(part_runs(dict.fromkeys(accuracy, 90.0), idle))
    assert set(states(found).values()) == {FAILS}  # nothing helps
    assert good.tables[0].rows[1][2] == "90.12" and good.tables[0].rows[2][4] == "5,210"


def sweep(epochs=(2, 5, 10), fast=None, rounds=(270, 310, 360, 384, 384)):
    runs = {}
    for e in epochs:
        for alpha, round_s in zip(ALPHAS, rounds):
            runs[alpha, e] = seeds(85.0, round_s=20.0 if (alpha, e) == fast else round_s)
        runs[ALL, e] = seeds(85.0, round_s=384)
    return runs


def test_figure_4a_deadlines():
    outcome = ITEMS["fig4a"].judge(sweep(fast=(1.5, 5), rounds=(270, 310, 350, 380, 384)))
    check_tables(outcome)
    assert state_of(outcome, "G: alpha 1.5 with 5 epochs is the first to reach 82 %") == HOLDS
    assert state_of(outcome, "with alpha 0.25 a cloud round is 10 % shorter") == HOLDS
    assert state_of(outcome, "with alpha 2 a cloud round is 10 % shorter") == FAILS
    other = ITEMS["fig4a"].judge(sweep(epochs=(5, 10, 20, 30), fast=(0.25, 5)))
    assert state_of(other, "L_edge: alpha 1.5 with 10 epochs is the first to reach its last") == FAILS
    assert state_of(other, "a cloud round takes longer the larger alpha is") == HOLDS
    shrinking = ITEMS["fig4a"].judge(sweep(rounds=(384, 370, 350, 330, 300)))
    assert state_of(shrinking, "a cloud round takes longer the larger alpha is") == FAILS
    assert len(other.plots[0].series) == 4 and other.plots[0].series[0].x == ALPHAS


def test_figure_4b_clusters():
    levels, counts = (60, 66, 80, 82, 83, 84, 83, 82), (45, 40, 11, 8, 7, 6, 2, 1)
    runs = {("beta", b): seeds(v, clusters=c) for b, v, c in zip(BETAS["laptop"], levels, counts)}
    outcome = ITEMS["fig4b"].judge(runs)
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS}
    assert outcome.tables[0].rows[5][:2] == ("20", "6.00 ± 0.00")
    falling = (88, 87, 86, 85, 84, 80, 70, 60)
    upside_down = {("beta", b): seeds(v, clusters=c) for b, v, c in zip(BETAS["laptop"], falling, reversed(counts))}
    assert set(states(ITEMS["fig4b"].judge(upside_down)).values()) == {FAILS}


def test_stale_updates():
    last = {"delta": 85.0, "renorm": 84.0, "literal": 40.0}
    exact, jitter = CLOCKS
    runs = {(exact, m): seeds(85.0) for m in STALE} | {(jitter, m): seeds(last[m], late=9) for m in STALE}
    outcome = ITEMS["stale"].judge(runs)
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS}
    assert outcome.tables[0].rows[-1][-2] == "6.00 ± 0.00"
    never = {label: seeds(85.0) for label in runs}
    found = states(ITEMS["stale"].judge(never))
    assert found["jitter: 1 % of the updates are late, or more (%)"] == FAILS
    assert found["G, jitter: delta is more accurate than the others (points)"] == FAILS


def test_published_figures_are_not_tested_by_smaller_runs():
    runs = as_published()
    for key, start in (
        ("table1", "G: CSAHFL is within 2 points"),
        ("table2", "G, static: CSAHFL is the first to reach 85"),
    ):
        assert state_of(ITEMS[key].outcome(runs, "laptop"), start) == OTHER_SCALE
        assert state_of(ITEMS[key].outcome(runs, "paper"), start) == HOLDS
    sweeps = ITEMS["fig4a"].outcome(sweep(fast=(1.5, 5)), "laptop")
    assert state_of(sweeps, "G: alpha 1.5 with 5 epochs is the first to reach 82 %") == OTHER_SCALE
    assert state_of(sweeps, "G: alpha 1.5 with 5 epochs is the first to reach its last") == HOLDS


def test_what_deadlines_and_thresholds_do_by_definition_is_not_counted():
    sweeps = ITEMS["fig4a"].outcome(sweep(), "paper")
    assert state_of(sweeps, "a cloud round takes longer the larger alpha is") == BUILT
    betas = ITEMS["fig4b"].outcome({("beta", b): seeds(80.0, clusters=90 - b) for b in BETAS["laptop"]}, "paper")
    assert state_of(betas, "the number of clusters falls as beta grows") == BUILT


def test_figure_3_compares_whole_curves():
    outcome = ITEMS["fig3"].judge(as_published())
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS} and len(outcome.plots) == 6
    slow = as_published() | {
        (p, s, FULL): seeds(93.0, round_s=3000.0)
        for p in (STATIC, MOBILE)
        for s in EDGE_SHARE  # ends best, comes late
    }
    assert set(states(ITEMS["fig3"].judge(slow)).values()) == {FAILS}


def test_angles_that_make_clusters_differ_with_the_data():
    by_data = {key: ITEMS[key].setups("laptop")[STATIC, HALF, FULL].method for key in ("table1", "cifar10", "svhn")}
    assert by_data == {"table1": "csahfl", "cifar10": "csahfl:beta=4", "svhn": "csahfl:beta=2"}
    assert ITEMS["cifar10"].setups("laptop")[STATIC, HALF, HIER].method == "hierfedavg"


@pytest.mark.parametrize(("key", "scale"), [(key, scale) for key, item in ITEMS.items() for scale in item.scales])
def test_settings_are_valid_scenarios(key, scale):
    setups = ITEMS[key].setups(scale)
    for s in setups.values():
        chosen = fl.scenario(s.scenario)
        fl.make_method(s.method)
        small = scale == "laptop"
        assert chosen.fleet.n_devices == (50 if small else 200) and chosen.fleet.cells.n_cells == 5
        assert chosen.fleet.compute.session_epochs == (5 if small else 10)
        assert chosen.training.edge_rounds == 3 and chosen.training.lr == (0.05 if small else 0.01)
    assert len({s.key() for s in setups.values()}) == len(setups)


def test_the_sheet_of_runs():
    assert len(ITEMS["table1"].setups("laptop")) == 42 and len(ITEMS["table3"].setups("paper")) == 8
    assert len(ITEMS["fig4a"].setups("laptop")) == 18 and len(ITEMS["fig4a"].setups("paper")) == 10
    assert len(ITEMS["table1"].setups("paper")) == len(ITEMS["table1-40"].setups("paper")) == 15
    svhn = ITEMS["svhn"].setups("paper")
    assert {s.scenario["task"]["partition"]["samples_per_class"] for s in svhn.values()} == {SAMPLES[SVHN]} == {85}
    of_all = ITEMS["methods50"].setups("paper")
    horizon = {m: s.scenario["training"]["cloud_rounds"] for (_, _, m), s in of_all.items()}
    assert horizon.pop(FEDAT) == 125 and set(horizon.values()) == {50}


def test_items_share_the_runs_they_have_in_common():
    of = {key: item.setups("laptop") for key, item in ITEMS.items() if "laptop" in item.scales}
    alike = [
        *(of[key][STATIC, HALF, FULL] for key in ("table1", "table2", "table3", "fig3")),
        *(of["fig4a"][1.5, 5], of["fig4b"]["beta", 20], of["stale"]["literal clock", "delta"]),
    ]
    assert len({s.key() for s in alike}) == 1
    assert of["table3"][STATIC, HALF, NO_SA].key() == of["fig4a"][ALL, 5].key()
    large = {key: ITEMS[key].setups("paper") for key in ("table1", "table1-40", "methods50", "readings", "fig4b")}
    assert large["table1"][STATIC, HALF, FULL].key() == large["readings"]["as kept", HALF].key()
    assert large["table1"][STATIC, HALF, FULL].key() == large["methods50"][STATIC, HALF, FULL].key()
    assert large["table1-40"][STATIC, HALF, FULL].key() == large["readings"]["all 40 clients of an edge", HALF].key()


def test_readings_are_listed_by_their_distance_from_the_published_accuracies():
    asked = ITEMS["readings"].setups("paper")
    known = dict(zip(("EIID", "ENIID50%", "ENIID30%"), TABLE_1["fashion-mnist"][STATIC][FULL]))
    runs = {(name, s): seeds(known[s] if name == "average linkage" else 60.0) for name, s in asked}
    outcome = ITEMS["readings"].judge(runs)
    check_tables(outcome)
    assert len(outcome.tables[0].rows) == 8 * 4 + 1 and outcome.tables[0].rows[1][0].startswith("average linkage")
    [claim] = outcome.claims
    assert claim.own and claim.verdict.state == HOLDS and "average linkage, G" in claim.verdict.measured
    alone = ITEMS["readings"].judge({label: same[:1] for label, same in runs.items()})
    assert alone.claims[0].verdict.state == OPEN  # one seed


@pytest.mark.slow
def test_real_runs_of_a_tiny_stand_in(tmp_path):
    """Every method on generated data, recorded and read back, goes through the judges of Tables 1 and 2."""
    tiny = {
        "dataset": "gaussian",
        "gaussian": {"n_train": 1200, "n_test": 100, "n_features": 30},
        "partition": {"kind": "dual-layer", "edge_share": 0.5, "classes_per_client": 2, "samples_per_class": 20},
        "model": {"kind": "softmax"},
    }
    changes = ["training.cloud_rounds=2", "training.local_epochs=2", "fleet.n_devices=20"]
    runs = {}
    for label, setup in ITEMS["table1"].setups("laptop").items():
        place, setting, name = label
        if setting != HALF:
            continue
        scenario = fl.scenario(setup.scenario | {"task": tiny}, changes)
        folder = tmp_path / f"{place}-{name}"
        record(Simulation(scenario, fl.make_method(setup.method), 1, n_workers=1), setup.method, folder)
        runs[label] = [read_run(folder)]
        assert runs[label][0].metrics["handovers"][-1] == 0 or place == MOBILE
    for item in ("table1", "table2"):
        outcome = ITEMS[item].judge(runs)
        check_tables(outcome)
        assert set(states(outcome).values()) == {OPEN}  # one seed decides nothing
    for name in (FEDAVG, FEDAT):  # no edges: one model for all
        last = runs[STATIC, HALF, name][0].metrics[-1]
        assert last["local_by_edge"][0] == last["local_by_cluster"][0] == last["local_by_global"][0]
    hier, ours = (runs[STATIC, HALF, m][0].metrics[-1] for m in (HIER, FULL))
    assert ours["time_s"][0] <= hier["time_s"][0] + 1.0  # signatures take less than a second, deadlines none
    assert ours["clusters"][0] >= 1
