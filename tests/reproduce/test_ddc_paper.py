"""The items of DDC on made-up runs, their settings, and one item on real, tiny runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.record.folder import record
from fedloom.record.runs import Run, read_run
from fedloom.reproduce import load
from fedloom.reproduce.ddc.measures import final, flat_joules, joules, lengths, over_all, seconds
from fedloom.reproduce.ddc.published import (
    ALPHAS,
    CLUSTERED,
    FASHION,
    FEDAVG,
    METHODS,
    PROPOSED,
    RANDOM,
    SELDOM,
    SIMILARITY,
    TABLE_1,
)
from fedloom.reproduce.ddc.scoring import SCORINGS
from fedloom.reproduce.ddc.setups import THEORY, same_as_alpha
from fedloom.reproduce.ddc.theory import bound_of, common_of
from fedloom.reproduce.verdicts import FAILS, HOLDS, OPEN, OTHER_SCALE, spread
from fedloom.simulator import Simulation

PAPER = load("ddc")
ITEMS = {item.key: item for item in PAPER.items}


def made_up(last, seed=0, *, n=50, radius_m=40.0, k=4, tv=0.1, clusters=True, n_devices=40, others=None, **notes):
    """Accuracy that goes to `last`; k heads in a row 1 km from the server, members on circles of radius_m around them. others:
    accuracy of heads' and devices' models."""
    step = np.arange(n + 1)
    metrics = {"cloud_round": step, "accuracy": last * (1 - 0.7**step) + 1e-5 * seed}
    for name, value in zip(("edge_accuracy", "device_accuracy"), others or ()):
        metrics[name] = np.full(n + 1, value + 1e-5 * seed)
    metrics |= {name: np.where(step > 0, value, np.nan) for name, value in notes.items()}
    head = np.arange(n_devices) % k
    angle = np.arange(n_devices) + seed
    away = np.where(np.arange(n_devices) < k, 0.0, radius_m)
    topology = {
        "cloud_round": np.ones(n_devices, dtype=int),
        "client": np.arange(n_devices),
        "kind": ["head" if clusters else "cloud"] * n_devices,
        "host": head if clusters else np.zeros(n_devices, dtype=int),
        "aggregator": head if clusters else np.zeros(n_devices, dtype=int),
        "x_m": away * np.cos(angle),
        "y_m": 10.0 * head + away * np.sin(angle),
    }
    return Run(
        path=Path(),
        method="",
        seed=seed,
        metrics=pl.DataFrame(metrics).fill_nan(None),
        topology=pl.DataFrame(topology),
        timeline=None,
        cells={"server_m": [1000.0, 0.0]},
        summary={"topologies": [{"label_distance": {"mean": tv + 1e-4 * seed}}]},
        scenario={},
        clients={"n_samples": [10] * n_devices},
        origin={},
    )


def seeds(last, **options):
    return [made_up(last, seed=s, **options) for s in range(3)]


def states(outcome):
    return {claim.text: claim.verdict.state for claim in outcome.claims}


def check_tables(outcome):
    assert outcome.claims
    assert all(len(row) == len(table.columns) for table in outcome.tables for row in table.rows)


def methods_runs(levels, data=FASHION):
    clusters = {
        PROPOSED: {"tv": 0.05, "cosine": 0.15},
        RANDOM: {"tv": 0.11, "cosine": 0.19},
        SIMILARITY: {"tv": 0.26, "cosine": 0.50},
    }
    return {
        (data, m): seeds(level, clusters=m in CLUSTERED, **clusters.get(m, {})) for m, level in zip(METHODS, levels)
    }


def test_table_1_as_published_and_not():
    levels = [TABLE_1[FASHION].get(m, 70.0) / 100 for m in METHODS]
    good = ITEMS["table1"].judge(methods_runs(levels))
    check_tables(good)
    assert set(states(good).values()) == {HOLDS}
    assert good.tables[0].rows[1] == ("Fashion-MNIST, mean of heads' models", *["–"] * 5)  # not in these runs
    assert good.tables[0].rows[2] == ("Fashion-MNIST, published", "83.4", "79.8", "76.7", "73.6", "–")
    flat = states(ITEMS["table1"].judge(methods_runs([0.757, 0.758, 0.758, 0.757, 0.755])))
    assert flat["Fashion-MNIST: accuracies within 2 points of the published ones (points from them)"] == FAILS
    assert flat["Fashion-MNIST: Proposed is more accurate than Similarity (points)"] == FAILS
    assert flat["Fashion-MNIST: c(C) is lower with Proposed than with Random (ratio)"] == HOLDS


def test_published_accuracies_are_not_tested_by_smaller_networks():
    runs = methods_runs([0.757, 0.758, 0.758, 0.757, 0.755])
    small, full = (states(ITEMS["table1"].outcome(runs, scale)) for scale in ("laptop", "paper"))
    text = "Fashion-MNIST: accuracies within 2 points of the published ones (points from them)"
    assert small[text] == OTHER_SCALE and full[text] == FAILS
    assert small["Fashion-MNIST: Proposed is more accurate than Similarity (points)"] == FAILS  # an order, at any scale


def test_the_published_rounds_of_a_longer_run_are_judged():
    long = [made_up(0.8, seed=s, n=200) for s in range(3)]
    cut = [made_up(0.8, seed=s, n=100) for s in range(3)]
    assert final(long) == final(cut) and final(long, rounds=400) != final(cut, rounds=20)
    assert over_all(long) == over_all(cut) and final(long, "device_accuracy") == [None] * 3


def test_readings_of_whose_accuracy_it_is_are_all_listed_and_none_is_counted():
    """Everybody's server model is at 80 %; heads of clustered methods and devices of FedAvg are where the paper has them."""
    known = TABLE_1[FASHION]
    runs = {
        (FASHION, m): [
            made_up(
                0.8,
                seed=s,
                n=200,
                clusters=m in CLUSTERED,
                cosine=0.1,
                others=(0.8 if m == FEDAVG else v / 100, v / 100),
            )
            for s in range(3)
        ]
        for m, v in known.items()
    }
    outcome = ITEMS["table1"].judge(runs)
    check_tables(outcome)
    assert len(outcome.tables[1].rows) == len(SCORINGS) + 1 == 13
    text = f"Fashion-MNIST: one of {len(SCORINGS)} readings gives all accuracies within 2 points"
    [claim] = [c for c in outcome.claims if c.text == text]
    assert claim.own and claim.verdict.state == HOLDS
    assert "heads' models, 200 rounds; FedAvg devices' models, 200 rounds" in claim.verdict.measured
    assert "the server's model" not in claim.verdict.measured
    flat = {
        label: [made_up(0.8, seed=r.seed, n=200, cosine=0.1, others=(0.8, 0.8)) for r in same]
        for label, same in runs.items()
    }
    [claim] = [c for c in ITEMS["table1"].judge(flat).claims if c.text == text]
    assert claim.verdict.state == FAILS and claim.verdict.measured == f"in none of {len(SCORINGS)}"


def test_d_ref_times_a_factor_is_another_alpha():
    """Psi = a c + (1 - a) d / D, and with f D: a c + (1 - a) d / (f D), which is proportional to b c + (1 - b) d / D."""
    for alpha, factor in ((0.3, 10.0), (0.7, 0.3), (0.5, 3.0)):
        b = same_as_alpha(alpha, factor)
        assert b / (1 - b) == pytest.approx(factor * alpha / (1 - alpha))


def test_joules_are_listed_in_every_reading():
    runs = {
        label: seeds(0.5, n=1, radius_m=30 + 50 * label[2], cosine=0.1) for label in ITEMS["joules"].setups("paper")
    }
    outcome = ITEMS["joules"].judge(runs)
    check_tables(outcome)
    assert len(outcome.tables[0].rows) == 9 * 4 * 2 + 1
    same = runs[20, 1.0, 0.5]
    rows = {row[0]: row for row in outcome.tables[0].rows}
    for reading in ("literal: 1 MHz for every link", "shared: 1 MHz for all devices together"):
        shown = rows[f"{reading}; D_ref x 1; capacity 20"][3]
        assert shown == spread(joules(same, reading.partition(":")[0]))
    assert rows["a band fitted to 132 J at alpha 0.5; D_ref x 1; capacity 20"][3].startswith("132")
    [claim] = outcome.claims
    assert claim.own and claim.verdict.state == FAILS


def test_the_gap_of_the_faster_search_is_judged():
    runs = {
        label: seeds(0.5, n=1, cosine=0.1, objective=1.02 if label[0] == "fast" else 1.0)
        for label in ITEMS["search"].setups("paper")
    }
    outcome = ITEMS["search"].judge(runs)
    check_tables(outcome)
    assert set(states(outcome).values()) == {FAILS} and "+2.00 % (alpha 0.5)" in outcome.ours


def test_all_readings_of_the_joules_that_were_tried_are_listed():
    assert sum(r.of == "joules" for r in PAPER.readings) == 9 * 2


def test_seconds_on_the_air_are_those_of_the_slowest():
    """28 kB over 100 m and over 1 km: the slowest member in every round, the slowest head in every second."""
    from fedloom.bounds.ddc_energy import upload_j

    run = made_up(0.5, radius_m=100.0, k=1)
    expected = 200 * upload_j(100.0) / 0.01 + 100 * upload_j(1000.0) / 0.01
    assert seconds([run], "literal") == [pytest.approx(float(expected), rel=1e-9)]
    far = np.linalg.norm(run.topology.select("x_m", "y_m").to_numpy() - [1000.0, 0.0], axis=1).max()
    assert seconds([run], "literal", period=2) == [pytest.approx(100 * float(upload_j(far)) / 0.01, rel=1e-9)]


def test_curves_are_in_order_or_not():
    outcome = ITEMS["fig2"].judge(methods_runs([0.83, 0.80, 0.77, 0.74, 0.7]))
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS}
    assert outcome.plots[0].series[0].x[:3] == (0.0, 2.0, 4.0)  # local rounds
    reverse = ITEMS["fig3"].judge(methods_runs([0.74, 0.77, 0.8, 0.83, 0.83], "CIFAR-10"))
    assert set(states(reverse).values()) == {FAILS}


def alpha_runs(radii, cosines, levels=(0.704, 0.795, 0.834, 0.849, 0.851)):
    runs = {}
    for capacity in (20, 10):
        for alpha, radius_m, cosine, level in zip(ALPHAS, radii, cosines, levels):
            n = 50 if capacity == 20 else 1
            runs[capacity, "cluster", alpha] = seeds(
                level, n=n, radius_m=radius_m, cosine=cosine, cosine_by_size=cosine
            )
        runs[capacity, "size", 0.5] = seeds(0.8, n=1, radius_m=50.0, cosine=0.1, cosine_by_size=0.1)
    return runs


def test_alpha_trades_energy_for_balance():
    outcome = ITEMS["table2"].judge(alpha_runs((30, 35, 45, 60, 80), (0.19, 0.17, 0.16, 0.14, 0.13)))
    check_tables(outcome)
    found = states(outcome)
    for capacity in (20, 10):
        assert found[f"capacity {capacity}: c(C) falls as alpha grows (shown from alpha = 1 to 0)"] == HOLDS
        assert found[f"capacity {capacity}, shared: joules grow with alpha"] == HOLDS
        assert found[f"capacity {capacity}, literal: within 10 % of the published joules (ratio)"] == FAILS
    assert found["capacity 20: accuracy grows with alpha"] == HOLDS
    assert "capacity 10: accuracy grows with alpha" not in found  # priced, not trained
    backwards = states(ITEMS["table2"].judge(alpha_runs((80, 60, 45, 35, 30), (0.13, 0.14, 0.16, 0.17, 0.19))))
    assert backwards["capacity 20: c(C) falls as alpha grows (shown from alpha = 1 to 0)"] == FAILS
    assert backwards["capacity 20, literal: joules grow with alpha"] == FAILS


def test_figure_4_compares_on_the_same_layouts():
    radius = {PROPOSED: 30.0, RANDOM: 40.0, SIMILARITY: 90.0}
    runs = {(n, m): seeds(0.5, n=1, radius_m=radius[m], n_devices=n) for n in (60, 80, 100, 120) for m in CLUSTERED}
    outcome = ITEMS["fig4"].judge(runs)
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS} and len(outcome.claims) == 16
    runs |= {(60, PROPOSED): seeds(0.5, n=1, radius_m=60.0, n_devices=60)}
    found = states(ITEMS["fig4"].judge(runs))
    assert found["60 devices: Proposed takes less energy than Random in every reading (ratio)"] == FAILS
    assert found["60 devices: Proposed takes less energy than Similarity in every reading (ratio)"] == HOLDS


def test_the_hard_setting_is_judged_after_ten_rounds():
    levels = [x / (1 - 0.7) for x in (0.619, 0.535, 0.603, 0.630, 0.370)]  # after the first of four cloud rounds
    runs = {("hard", m): same for (_, m), same in methods_runs(levels).items()}
    outcome = ITEMS["hard"].judge(runs)
    check_tables(outcome)
    assert set(states(outcome).values()) == {HOLDS}
    assert outcome.plots[0].series[0].x[1] == 10.0
    alone = {label: same[:1] for label, same in runs.items()}
    assert set(states(ITEMS["hard"].judge(alone)).values()) == {OPEN}  # one seed decides nothing


def test_the_bound_is_that_of_what_was_measured():
    constants = {"smoothness": 2.0, "noise2": 0.5, "mismatch2_client": 3.0, "gradient_norm": 0.5}
    between = dict(zip(CLUSTERED, (0.1, 0.2, 0.3)))
    runs = {
        (setting, m): seeds(0.5, n=10, train_loss=2.0 + between[m], mismatch2_cluster=between[m], **constants)
        for setting in THEORY
        for m in CLUSTERED
    }
    for same in runs.values():
        same[:] = [
            replace(r, metrics=r.metrics.with_columns(train_loss=pl.col("train_loss").fill_null(2.5))) for r in same
        ]
    common = common_of([runs["as published", m][0] for m in CLUSTERED])
    assert common == pytest.approx((2.0, 0.5, 3.3))
    found = bound_of(runs["as published", PROPOSED][0], common, (1, 2), 20)
    assert found.b1 == pytest.approx(2 * 2.5 / (0.01 * 20)) and found.b2 == pytest.approx(
        36 * 0.02**2 * 4 * 3.3 * 0.1 / 3.1
    )
    assert found.b3 == pytest.approx(3 * 0.5 / 40) and found.b4 == pytest.approx(48 * 0.02**2 * 3.3 * 3.0 / 3.1)
    outcome = ITEMS["theory"].judge(runs)
    check_tables(outcome)
    below = "as published: the mean squared gradient is below the bound (bound over it, least of all clusterings)"
    assert states(outcome)[below] == HOLDS
    ranked = [c.verdict for c in outcome.claims if "as the training loss" in c.text]
    assert [v.state for v in ranked] == [HOLDS, HOLDS] and outcome.plots[0].log


@pytest.mark.parametrize(("key", "scale"), [(key, scale) for key, item in ITEMS.items() for scale in item.scales])
def test_settings_are_valid_scenarios(key, scale):
    setups = ITEMS[key].setups(scale)
    for s in setups.values():
        chosen = fl.scenario(s.scenario)
        fl.make_method(s.method)
        work = chosen.training.local_epochs or max(chosen.training.local_steps // 19, 1)
        rounds = work * chosen.training.edge_rounds * chosen.training.cloud_rounds
        assert rounds in (2, 40, 100, 200, 400)
    assert len({s.key() for s in setups.values()}) == len(setups)


def test_items_share_the_runs_they_have_in_common():
    table1, table2, fig2 = (ITEMS[k].setups("laptop") for k in ("table1", "table2", "fig2"))
    assert table1[FASHION, PROPOSED].key() == table2[20, "cluster", 0.5].key() == fig2[FASHION, PROPOSED].key()


def test_paper_scale_measures_all_models_for_400_rounds():
    table1, table2, fig3 = (ITEMS[k].setups("paper") for k in ("table1", "table2", "fig3"))
    assert table1[FASHION, PROPOSED].key() == table2[20, "cluster", 0.5].key()
    assert table1["CIFAR-10", FEDAVG].key() == fig3["CIFAR-10", FEDAVG].key()
    assert {s.scenario["evaluation"]["models"] for s in table1.values()} == {"devices"}
    assert {s.scenario["training"]["cloud_rounds"] for s in table1.values()} == {200}
    assert {name for _, name in table1} == {*CLUSTERED, FEDAVG}


def test_both_fedavg_do_the_same_work():
    setups = ITEMS["hard"].setups("laptop")
    often, seldom = (setups["hard", m].scenario["training"] for m in (FEDAVG, SELDOM))
    assert (often["local_steps"], often["edge_rounds"]) == (19, 10)
    assert (seldom["local_steps"], seldom["edge_rounds"]) == (190, 1)
    assert often["cloud_rounds"] == seldom["cloud_rounds"] == 4


@pytest.mark.slow
def test_joules_of_a_run_are_those_of_its_ledger(tmp_path):
    """Real runs of a tiny stand-in, recorded and read back: the formula in the page and the simulator's books agree."""
    tiny = {"dataset": "gaussian", "gaussian": {"n_train": 400, "n_test": 80}, "model": {"kind": "softmax"}}
    tiny["partition"] = {"kind": "dirichlet", "concentration": 0.5, "min_samples": 4}
    runs = {}
    for (n, name), setup in ITEMS["fig4"].setups("laptop").items():
        if n != 60:
            continue
        scenario = fl.scenario(setup.scenario | {"task": tiny}, ["training.cloud_rounds=100", "fleet.n_devices=20"])
        folder = tmp_path / name
        simulation = Simulation(scenario, fl.make_method(setup.method), 1, n_workers=1)
        record(simulation, setup.method, folder)
        run = runs[name] = read_run(folder)
        assert run.summary["setup_energy_j"] > 0
        spent = run.summary["final"]["energy_j"] - run.summary["setup_energy_j"]
        assert joules([run], "literal") == pytest.approx([spent], rel=1e-9)  # 200 rounds
        assert len(lengths(run)[0]) == 20 - len(lengths(run)[1])
    flat = fl.scenario(setup.scenario | {"task": tiny}, ["training.cloud_rounds=100", "fleet.n_devices=20"])
    ledger = fl.simulate(flat, "fedavg", 1, dry_run=True).ledger
    assert flat_joules([runs[PROPOSED]], "literal", 1) == pytest.approx([ledger.total_j], rel=1e-9)
