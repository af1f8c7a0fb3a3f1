"""Cloud rounds that are written down from the one before (fedloom.simulator.steady) are, to the bit, those that the machines make."""

import copy

import numpy as np
import pytest

from fedloom.methods import METHODS
from fedloom.mixing import CloudLinear, EdgeWeights, Linear
from fedloom.mixing.size import by_size, by_total
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
    flat = {
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
        "roster": (machines.roster._tickets, machines.roster.busy_until, machines.roster.late),
        "held": (held._n_sent, held._told, held._weights, held.cloud_round, sorted(held.clusters)),
        "models": [(m.steps, m.row) for m in driver.live_models()],
    }
    return flat


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
        {"lr": {"kind": "step", "lr": 0.1, "every": 5, "factor": 0.5}},
        {"local_epochs": 1},
        {"on_sick": "stop"},
        {"lr": 1e30},
    ],
    ids=str,
)
def test_it_goes_with_other_training(monkeypatch, training):
    try:
        simulation("hierfedavg", training=training)
    except ValueError as error:
        pytest.fail(str(error))
    try:
        assert both(monkeypatch, lambda: simulation("hierfedavg", training=training)) == 4
    except ArithmeticError:
        assert training["lr"] == 1e30


def test_a_dry_run_repeats_too(monkeypatch):
    assert both(monkeypatch, lambda: simulation("hierfedavg", dry_run=True)) == 4
