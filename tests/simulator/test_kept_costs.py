"""Bills and trips of clients that are sent together are kept, not too many of them, and are what they would be if made anew."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from worlds import snapshot, world

from fedloom.grouping import Topology
from fedloom.pacing import time_sharing
from fedloom.protocol import Async, Rounds
from fedloom.simulator import errands, exchange, make_method
from fedloom.simulator.book import Model
from fedloom.simulator.driver import Driver
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.timeline import table

REACH = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
UP_S = np.arange(1.0, 13.0).reshape(2, 6) / 7
PAIRS = [np.array(pair) for pair in combinations(range(6), 2)]


def place():
    return snapshot(np.linspace(0.5, 1.5, 6), REACH, up_s=UP_S, down_s=0.25, power_w=3.0, compute_power_w=2.0)


def way():
    """How six clients of two cells send, of which two report to both."""
    return exchange.exchange(place(), Topology(cover=REACH > 0, kind="edge", host=np.arange(2)), 80.0).client_up


def booked(senders, a_model=True):
    """A ledger after the messages of each, on one way; and that way."""
    ledger, one = Ledger(), way()
    for who in senders:
        one.book(ledger, who, 10, a_model)
    return ledger, one


def same(a, b):
    """Totals, and of every aggregator, hop and direction, to the last bit."""
    columns, others = a.by_aggregator(), b.by_aggregator()
    return a.table() == b.table() and all(list(columns[c]) == list(others[c]) for c in columns)


@pytest.mark.parametrize("a_model", [True, False])
def test_kept_bills_are_those_made_anew(monkeypatch, a_model):
    kept, one = booked(PAIRS + PAIRS, a_model)
    assert len(one._kept) == len(PAIRS)
    monkeypatch.setattr(exchange, "KEPT_SENDERS", 1)
    anew, other = booked(PAIRS + PAIRS, a_model)
    assert same(kept, anew) and not other._kept


def test_bills_are_kept_by_who_sends_how_much_and_what():
    one = way()
    bills = [
        one._bills(np.array(who), n, model)[0] for who in ([0, 2], [2]) for n in (10, 20) for model in (True, False)
    ]
    assert [(b.n_bytes, b.n_links) for b in bills] == [
        *((30, 3), (30, 0), (60, 3), (60, 0)),  # client 0 has a link to one cell, client 2 to both
        *((20, 2), (20, 0), (40, 2), (40, 0)),
    ]


def test_full_bills_are_forgotten(monkeypatch):
    roomy, _ = booked(PAIRS)
    monkeypatch.setattr(exchange, "KEPT_BILLS", 4)
    sizes, ledger, one = [], Ledger(), way()
    for who in PAIRS:
        one.book(ledger, who, 10)
        sizes.append(len(one._kept))
    assert sizes[:6] == [1, 2, 3, 4, 1, 2] and same(roomy, ledger)


METHODS = {
    "rounds": make_method("hhfl"),
    "shared air": make_method("hhfl").with_(edge=Rounds(uplink=time_sharing)),
    "at once": make_method("hierfedavg").with_(edge=Async()),
}


def played(method):
    """Clock, ledger and timeline of a run in which two of four clients of a cell are sampled; and the most trips of a scene."""
    federation, trips = Driver(method, world(place(), participation=0.5, edge_rounds=4), Model(None)), []
    times = []
    for state in federation.cloud_rounds(8):
        times.append(state.time_s)
        trips.append(len(federation.scenes.now.trips))
    return (times, federation.ledger, table(federation.timeline)), max(trips)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_the_same_with_trips_kept_forgotten_or_made_anew(monkeypatch, name):
    (times, ledger, lines), most = played(METHODS[name])
    assert most > 3
    for limit, value in (("KEPT_TRIPS", 2), ("KEPT_SENDERS", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(errands, limit, value)
            (other_times, other_ledger, other_lines), others = played(METHODS[name])
        assert others == (2 if limit == "KEPT_TRIPS" else 0)
        assert times == other_times and same(ledger, other_ledger)
        np.testing.assert_equal(lines, other_lines)


def test_chance_is_not_kept():
    jittery = snapshot(1.0, REACH, up_s=UP_S, jitter_sigma=0.5)
    federation = Driver(METHODS["rounds"], world(jittery, edge_rounds=4), Model(None))
    times = [state.time_s for state in federation.cloud_rounds(3)]
    assert len({round(b - a, 9) for a, b in pairwise(times)}) == 2 and not federation.scenes.now.trips
