"""Cloud rounds that are written down from the one before (fedloom.simulator.steady) are those of the machines, to the bit."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from fedloom.methods import METHODS
from fedloom.mixing import CloudLinear, EdgeWeights, Linear
from fedloom.mixing.size import by_total
from fedloom.simulator import Simulation, make_method, scenario, steady
from fedloom.simulator.timeline import table
from small import SMALL, for_method

THREE_CELLS = {
    "n_devices": 12,
    "cells": {"kind": "grid", "shape": "triangle", "n": 3, "spacing_m": 100, "radius_m": 80},
}


def simulation(method, fleet=None, training=None, dry_run=False, **more):
    made, text = for_method(method) if isinstance(method, str) and ":" not in method else (copy.deepcopy(SMALL), method)
    made["fleet"] |= fleet or {}
    made["training"] |= {"cloud_rounds": 6} | (training or {})
    made |= more
    return Simulation(
        scenario(made), make_method(text) if isinstance(text, str) else text, 3, n_workers=1, dry_run=dry_run
    )


def everything(run):
    """All that a run leaves, and the state of its machines."""
    machines, held, driver = run.federation.machines, run.federation.held, run.federation
    result = run.result()
    sent = table(driver.timeline) if len(driver.timeline) else {}
    return {
        "measures": run.measures,
        "places": [
            (p.cloud_round, p.topology.cover, p.topology.host, p.home, p.position_m, p.up_s) for p in run.places
        ],
        "timeline": sent,
        "ledger": driver.ledger.table(),
        "counts": (driver.ledger.links, driver.ledger.parties),
        "costs": [(g, dict(columns)) for g, columns in run.costs],
        "row": result.row,
        "now": (driver.clock.now_s, driver.rounds_before, driver.errands.n_updates, driver.errands.n_late),
        "edges": [
            (e.n_rounds, e.begun_at, e.index, e.rounds_left, e.contributed, e.contributed_last, e.members, e.units)
            for e in machines.edges
        ],
        "cloud": {
            k: v for k, v in vars(machines.cloud).items() if k in {"version", "due", "n_orders", "out", "settled"}
        },
        "reports": (machines.cloud.fetched, machines.cloud.n_reports, driver.backhaul._answered),
        "devices": vars(machines.devices),
        "roster": (machines.roster._tickets, machines.roster.busy_until, [f.names for f in machines.roster.late]),
        "sick": None if held.sick is None else held.sick.table,
        "held": (held._n_sent, held._told, held._weights, held.cloud_round, sorted(held.clusters)),
        "models": [(m.steps, m.row) for m in driver.live_models()],
    }


def assert_same(one, other, where=""):
    if isinstance(one, dict):
        assert sorted(map(str, one)) == sorted(map(str, other)), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes(), where
    else:
        assert one == other or (one != one and other != other), where


def both(monkeypatch, make, resume_at=None, stop_at=None):
    """The same run with and without repeats: all that both leave; and how many cloud rounds were repeated."""
    found = []
    for may in (steady.may_repeat, lambda method, world: False):
        with monkeypatch.context() as patch:
            patch.setattr(steady, "may_repeat", may)
            run, saved = make(), None
            rounds = run.rounds()
            for _ in rounds:
                if run.cloud_rounds_done == resume_at:
                    saved = run.checkpoint()
                    break
                if run.cloud_rounds_done == stop_at:
                    break
            if saved is not None:
                run = make()
                for _ in run.rounds(saved):
                    pass
            found.append((everything(run), run.federation.steady.n_repeated))
    (fast, n_repeated), (slow, none) = found
    assert none == 0
    assert_same(fast, slow)
    return n_repeated


@pytest.mark.parametrize("edge_rounds", [1, 3])
@pytest.mark.parametrize("method", ["fedavg", "hierfedavg", "hhfl"])
def test_all_that_a_run_leaves_is_the_same(monkeypatch, method, edge_rounds):
    fleet = THREE_CELLS | {"device_edge": SMALL["fleet"]["device_edge"]}
    n = both(monkeypatch, lambda: simulation(method, fleet, {"edge_rounds": edge_rounds}))
    assert n == 4  # of six: the first groups clients, the second is noted


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_is_the_same(monkeypatch, method):
    both(monkeypatch, lambda: simulation(method))


@pytest.mark.parametrize("method", ["fedavg", "hierfedavg", "hhfl"])
@pytest.mark.parametrize("stop_at", [2, 3, 5])
def test_it_may_stop_anywhere(monkeypatch, method, stop_at):
    assert both(monkeypatch, lambda: simulation(method), stop_at=stop_at) == max(0, stop_at - 2)


@pytest.mark.parametrize("method", ["fedavg", "hierfedavg", "hhfl"])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_it_is_gone_on_with_from_a_checkpoint(monkeypatch, method, at):
    seldom = {"evaluation": {"every": 3}}
    assert both(monkeypatch, lambda: simulation(method, **seldom), resume_at=at) == 4


@pytest.mark.parametrize(
    "training",
    [
        {"lr_decay": {"kind": "inverse-time", "delay_steps": 7}},
        {"local_steps": None, "local_epochs": 1},
        {"momentum": 0.9},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fedavg", "hierfedavg", "hhfl"])
def test_it_goes_with_other_training(monkeypatch, method, training):
    assert both(monkeypatch, lambda: simulation(method, training=training)) == 4


def test_updates_that_are_sick_are_left_out_of_what_is_repeated(monkeypatch):
    def make():
        made = copy.deepcopy(SMALL) | {"evaluation": {"every": 6}}
        made["training"] |= {"cloud_rounds": 6}
        whole = Simulation(scenario(made), make_method("hierfedavg"), 3)
        data = whole.dataset
        x = data.x_train.copy()
        x[whole.parts[4]] *= 1e30  # the updates of client 4 are never finite
        return Simulation(
            scenario(made),
            make_method("hierfedavg"),
            3,
            n_workers=1,
            dataset=replace(data, x_train=x),
            parts=whole.parts,
        )

    found = make()
    for _ in found.rounds():
        pass
    assert {k for _, k, *_ in found.federation.held.sick.table} == {4}
    assert found.federation.steady.n_repeated == 4
    assert both(monkeypatch, make) == 4


def test_a_dry_run_repeats_too(monkeypatch):
    assert both(monkeypatch, lambda: simulation("hierfedavg", dry_run=True)) == 4


def test_grouping_after_a_warm_up_is_not_repeated(monkeypatch):
    base = make_method("hierfedavg")
    method = base.with_(cloud=replace(base.cloud, warmup=4))
    assert both(monkeypatch, lambda: simulation(method, training={"cloud_rounds": 8})) == 2 + 2  # 3 and 4, 7 and 8


CHANGES = {
    "links are drawn anew": {"fleet": {"redraw": {"links": "cloud-round"}}},
    "clients are drawn": {"training": {"participation": 0.5}},
    "so many clients are drawn": {"training": {"clients_per_round": 2}},
    "jitter": {"fleet": {"compute": SMALL["fleet"]["compute"] | {"jitter_sigma": 0.2}}},
    "mobility": {"fleet": {"mobility": {"kind": "markov", "p_stay": 0.5}}},
    "steps in all": {"training": {"total_steps": 19}},
    "looks between": {"evaluation": {"every": {"edge_rounds": 1}}},
    "models of devices": {"evaluation": {"models": "devices"}},
    "devices fail": {"fleet": {"dropout": {"per_round": 0.2}}},
    "shared air": {"fleet": {"air": {"up": {"sharing": "equal"}}}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_not_done_where_something_changes(monkeypatch, change):
    assert both(monkeypatch, lambda: simulation("hierfedavg", **CHANGES[change])) == 0


@pytest.mark.parametrize(
    "text",
    [
        "hierfedavg:up=qsgd",
        "csahfl",
        "fedat:n_tiers=3",
        "hierfedavg:merge_edge=coordinate_median",
        "scaffold",
        "fedadam",
    ],
)
def test_it_is_not_done_with_methods_in_which_rounds_differ(monkeypatch, text):
    assert both(monkeypatch, lambda: simulation(text)) == 0


def test_weights_that_are_drawn_are_drawn_every_time(monkeypatch):
    def drawn(arrivals):
        lots = np.random.default_rng(arrivals.occasion).uniform(1, 2, len(arrivals.client))
        return EdgeWeights(own=0.0, model=lots / lots.sum())

    def later(reports):
        return by_total(reports) if reports.n_reports.max() < 5 else replace(by_total(reports), own=0.5)

    base = make_method("hierfedavg")
    assert both(monkeypatch, lambda: simulation(base.with_(merge_edge=Linear(drawn)))) == 0
    assert both(monkeypatch, lambda: simulation(base.with_(merge_cloud=CloudLinear(later)))) == 0


def test_a_round_whose_events_would_change_places_goes_its_ordinary_way():
    run = simulation("hierfedavg", THREE_CELLS, {"cloud_rounds": 3})
    for _ in run.rounds():
        pass
    script = run.federation.steady._script
    assert script.times_s(10.0) is not None
    assert script.times_s(1e18) is None  # where seconds are lost in rounding, all happens at once
