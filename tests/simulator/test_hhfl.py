"""HHFL and the multi-server methods: golden trajectories, invariants, links, growing periods, and what they cost."""

import numpy as np
import pytest
from worlds import adding, quadratic, snapshot, world

import fedloom as fl
from fedloom.methods import METHODS
from fedloom.simulator.book import Model, settle
from fedloom.simulator.driver import Driver

REACH = [[1, 1, 0], [0, 1, 1]]
GOLDEN = {"n_samples": [30, 20, 50], "local_steps": 2, "edge_rounds": 2}


def golden(method, n_rounds=1, **settings):
    """Models after every edge round (or cloud round) of the three-client quadratic example."""
    place = snapshot([1.0] * 3, REACH, home=[0, 0, 1])
    federation = Driver(method, world(place, **(GOLDEN | settings)), Model(np.array([1.0], np.float32)))
    engine = quadratic([1, 2, 0.5], [-1, 2, 4])
    return federation, [
        (float(settle(state.model, engine)[0]), [float(m.row[0]) for m, _ in state.edges])
        for state in federation.cloud_rounds(n_rounds)
    ]


@pytest.mark.parametrize(
    ("name", "edges", "mean"),
    [
        ("hhfl", [0.6952375, 1.5379953125], 1.2008921875),
        ("hierfedavg", [0.853672, 1.55648125], 1.205076625),
        ("msfedavg", [0.6952375, 1.5379953125], 1.2008921875),
    ],
)
def test_golden_trajectories(name, edges, mean):
    _, [(w, models)] = golden(METHODS[name]())
    assert models == pytest.approx(edges, rel=1e-6) and w == pytest.approx(mean, rel=1e-6)


def test_golden_trajectories_without_a_cloud_go_on_from_the_edges_own_models():
    _, seen = golden(METHODS["msfedavg"](), 2, edge_rounds=1)
    assert seen[0][1] == pytest.approx([0.805, 1.30375], rel=1e-6)
    assert seen[1][1] == pytest.approx([0.6952375, 1.5379953125], rel=1e-6)


def test_fedmes_counts_clients_in_overlaps_in_full_so_that_shares_are_not_conserved():
    _, [(w, models)] = golden(METHODS["fedmes"](), edge_rounds=1)
    assert models == pytest.approx([0.916, 1.3117857143], rel=1e-6)
    assert w == pytest.approx(1.1534714286, rel=1e-6)  # the virtual mean was 1.10425


def test_without_a_cloud_no_second_and_no_byte_is_spent_on_it():
    place = snapshot([1.0] * 3, REACH, backhaul_up_s=50, backhaul_down_s=50)
    for name, time_s in (("hhfl", 104.0), ("msfedavg", 4.0)):
        federation = Driver(METHODS[name](), world(place, **GOLDEN), Model(np.zeros(1, np.float32)))
        [state] = federation.cloud_rounds(1)
        assert state.time_s == time_s
        assert ("edge_cloud" in {row["hop"] for row in federation.ledger.table()}) == (name == "hhfl")


def test_without_a_cloud_edges_keep_their_models_when_clients_move():
    before = snapshot([1.0] * 2, [[1, 0], [0, 1]])
    after = snapshot([1.0] * 2, [[0, 1], [1, 0]])
    federation = Driver(METHODS["msfedavg"](), world(before, after), Model(np.zeros(1, np.float32)))
    engine = adding(1, 10)
    edges = []
    for state in federation.cloud_rounds(2):
        settle(state.model, engine)
        edges.append([float(m.row[0]) for m, _ in state.edges])
    assert edges == [[1.0, 10.0], [11.0, 11.0]]  # edge 0 had 1, then client 1 adds 10


def base(small, **changes):
    """The 57-client layout on generated data."""
    return fl.scenario(
        small
        | {
            "fleet": {
                "n_devices": 57,
                "cells": {"kind": "grid", "shape": "triangle"},
                "placement": {"kind": "three-cells", **changes.pop("placement", {})},
                "device_edge": {
                    "up": {"kind": "fixed", "seconds": 5},
                    "down": {"kind": "fixed", "seconds": 5},
                    **changes.pop("device_edge", {}),
                },
                "edge_cloud": {"up": {"kind": "fixed", "seconds": 0.5}, "down": {"kind": "fixed", "seconds": 0.5}},
                "compute": {"law": {"kind": "fixed", "value": 0.2}},
            },
            "task": {"dataset": "gaussian", "gaussian": {"n_train": 1140, "n_test": 200, "n_classes": 4}}
            | {"partition": {"kind": "classes"}, "model": {"kind": "softmax"}},
            "training": {"batch_size": 5, "local_steps": 5, "edge_rounds": 5, "cloud_rounds": 2, **changes},
        }
    )


def rows(scenario, method):
    return fl.simulate(scenario, method, n_workers=1).row


def test_without_overlaps_hhfl_is_hierfedavg_bit_for_bit(small):
    apart = base(small, placement={"overlap": 0})
    np.testing.assert_array_equal(rows(apart, "hhfl"), rows(apart, "hierfedavg"))
    overlapping = base(small)
    np.testing.assert_array_equal(rows(overlapping, "hhfl:max_links=1"), rows(overlapping, "hierfedavg"))
    assert (rows(overlapping, "hhfl") != rows(overlapping, "hierfedavg")).any()


def test_hierfedavg_does_not_notice_the_overlap_sweep(small):
    same = [rows(base(small, placement={"overlap": m}), "hierfedavg") for m in (0, 15, 21, 57)]
    for other in same[1:]:
        np.testing.assert_array_equal(same[0], other)


def test_in_reach_of_all_edges_or_with_one_edge_round_hhfl_is_fedavg(small):
    all_reach = small | {"fleet": {"n_devices": 6, "cells": {"kind": "grid", "shape": "triangle", "radius_m": 1e5}}}
    np.testing.assert_allclose(
        rows(fl.scenario(all_reach), "hhfl"), rows(fl.scenario(all_reach), "fedavg"), rtol=1e-5, atol=1e-7
    )
    once = base(small, edge_rounds=1)
    np.testing.assert_allclose(rows(once, "hhfl"), rows(once, "fedavg"), rtol=1e-5, atol=1e-7)


def test_with_a_single_step_and_full_batches_it_is_gradient_descent():
    # E = G = 1 and exact gradients: w <- w - lr sum_i p_i a_i (w - c_i)
    _, seen = golden(METHODS["hhfl"](), 3, local_steps=1, edge_rounds=1)
    w = 1.0
    for mean, _ in seen:
        w -= 0.1 * sum(p * a * (w - c) for p, a, c in zip((0.3, 0.2, 0.5), (1, 2, 0.5), (-1, 2, 4)))
        assert mean == pytest.approx(w, rel=1e-6)


def test_time_and_models_sent_of_the_base_topology(small):
    hfl, hhfl = (fl.simulate(base(small), m, dry_run=True).measures[-1] for m in ("hierfedavg", "hhfl"))
    assert hfl["time_s"] == hhfl["time_s"] == pytest.approx(2 * 56)  # 25 steps cost 56
    assert (hfl["models_unicast"], hhfl["models_unicast"], hhfl["models_once"]) == (10 * 114, 10 * 150, 10 * 132)


def test_one_uplink_for_all_edges_costs_one_transmission(small):
    each, once = (
        fl.simulate(base(small, device_edge={"uplink": way}), "hhfl", dry_run=True) for way in ("unicast", "once")
    )
    up = [
        {(r["hop"], r["direction"]): r for r in result.ledger.table()}[("device_edge", "up")] for result in (each, once)
    ]
    assert [r["links"] for r in up] == [750, 750]
    assert up[0]["bytes"] * 57 == up[1]["bytes"] * 75
    assert [r["airtime_s"] for r in up] == [750 * 5.0, 570 * 5.0]
    assert each.measures[-1]["time_s"] == once.measures[-1]["time_s"]
    assert once.measures[-1]["models_once"] == each.measures[-1]["models_once"]


def test_periods_that_grow_change_at_cloud_merges(small):
    scenario = base(small, cloud_rounds=5)
    result = fl.simulate(scenario, "hhfl:stages=[[0, 1, 2], [5, 3, 2]]", dry_run=True)
    assert [m["local_steps"] for m in result.measures] == [0, 2, 4, 6, 12, 18]
    assert result.measures[-1]["edge_round"] == 10
    # 18 steps of 0.2 s, 10 exchanges of 10 s, 5 of 1 s with the cloud
    assert result.measures[-1]["time_s"] == pytest.approx(18 * 0.2 + 100 + 5)


def test_periods_may_follow_the_learning_rate(small):
    scenario = base(small, cloud_rounds=30, lr=0.1, lr_decay={"kind": "inverse-time", "delay_steps": 10})
    steps = [m["local_steps"] for m in fl.simulate(scenario, "hhfl:grow=true", dry_run=True).measures]
    lengths = np.diff(steps).tolist()
    assert lengths[0] == 4 and lengths == sorted(lengths) and lengths[-1] > 10


def test_options_are_checked(small):
    with pytest.raises(ValueError, match="stages, or grow"):
        fl.make_method("hhfl:stages=[[0, 1, 1]]:grow=true")
    with pytest.raises(ValueError, match="first stage must start at step 0"):
        fl.make_method("hhfl:stages=[[3, 1, 1]]")
    with pytest.raises(ValueError, match="link home of client 3"):
        rows(base(small), "hhfl:disable_links=[[3, 0]]")
    with pytest.raises(ValueError, match="at least 57"):
        rows(base(small), "hhfl:link_budget=40")


def test_drift_of_the_edges_is_measured_before_they_are_averaged(small):
    drift = [fl.simulate(base(small), m, n_workers=1).measures for m in ("hierfedavg", "hhfl", "fedavg")]
    assert drift[0][0]["edge_drift"] == 0.0 and drift[2][-1]["edge_drift"] == 0.0
    assert drift[0][-1]["edge_drift"] > drift[1][-1]["edge_drift"] > 0.0
