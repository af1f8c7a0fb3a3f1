"""Air is shared by those who send in it: a cell's clients share that cell's, and a second link costs air in its own cell."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import snapshot, world

from fedloom import pacing
from fedloom.grouping import Topology
from fedloom.protocol import Rounds
from fedloom.simulator import make_method, scenario, simulate
from fedloom.simulator.book import Model
from fedloom.simulator.driver import Driver
from fedloom.simulator.exchange import exchange


def seconds_of(method, place, **settings):
    federation = Driver(method, world(place, **settings), Model(None))
    return next(state.time_s for state in federation.cloud_rounds(1))


def test_cells_that_share_a_client_do_not_share_their_air():
    # cell 0: clients 0, 1, 2; cell 1: clients 2, 3, 4; 1 s of computing, 1 s an upload, one after the other in a cell
    reach = [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]
    place = snapshot(1.0, reach, up_s=1.0)
    method = make_method("hhfl").with_(edge=Rounds(uplink=pacing.time_sharing))
    assert seconds_of(method, place) == pytest.approx(1 + 3, abs=1e-12)  # three uploads in each cell, not five


def test_a_second_link_takes_air_in_its_own_cell():
    # client 2 reports to both: cell 1 with clients 2 and 3 needs 2 s of air, and 1 s without client 2
    place = snapshot(1.0, [[1, 1, 1, 0], [0, 0, 1, 1]], up_s=1.0)
    alone = snapshot(1.0, [[1, 1, 1, 0], [0, 0, 0, 1]], up_s=1.0)
    share = pacing.time_sharing
    ways = [
        exchange(p, Topology(cover=p.in_reach, kind="edge", host=np.arange(2)), 80.0).client_up for p in (place, alone)
    ]
    ready = np.ones(4)
    both, one = (way.arrivals(np.arange(4), ready, share) for way in ways)
    assert one.tolist() == [2, 3, 4, 2]
    assert both.tolist() == [2, 3, 4, 3]  # client 3 waits for client 2 in cell 1


def test_one_transmission_for_several_cells_takes_air_in_each():
    place = replace(
        snapshot(1.0, [[1, 1, 0], [0, 1, 1]], up_s=np.array([[1.0, 1.0, 0.0], [0.0, 3.0, 1.0]])), uplink_once=True
    )
    way = exchange(place, Topology(cover=place.in_reach, kind="edge", host=np.arange(2)), 80.0).client_up
    # client 1 sends for 3 s so that cell 1 hears it, in the air of both; client 0 is first in cell 0, client 2 second in cell 1
    assert way.arrivals(np.arange(3), np.zeros(3), pacing.time_sharing).tolist() == [1, 4, 4]


def test_clients_of_the_cloud_share_the_air_of_their_home_cell_and_are_relayed_then():
    place = snapshot(1.0, [[1, 1, 0, 0], [0, 0, 1, 1]], up_s=2.0, backhaul_up_s=0.5)
    method = make_method("fedavg").with_(edge=Rounds(uplink=pacing.time_sharing))
    assert seconds_of(method, place) == pytest.approx(1 + 2 * 2 + 0.5, abs=1e-12)


@pytest.mark.parametrize(("share", "low", "high"), [(pacing.time_sharing, 6, 8), (pacing.equal_shares, 6, 10)])
def test_three_shared_clients_do_not_make_an_edge_round_three_times_as_long(share, low, high):
    place = "fleet.placement={kind: three-cells, exclusive: 18, pair: 0, triple: 3}"
    chosen = scenario("cells-overlap", ["training.edge_rounds=1", "training.cloud_rounds=1", place])
    took = simulate(chosen, make_method("hhfl").with_(edge=Rounds(uplink=share)), dry_run=True).measures[-1]["time_s"]
    assert low < took < high


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl", "fedmes", "random_clusters", "csahfl:beta=0"])
def test_sharing_with_no_contention_changes_nothing(small, name):
    """A part that gives everybody a link of its own is the same as none."""
    plain = make_method(name)
    own = plain.with_(edge=replace(plain.edge, uplink=lambda ready_s, up_s: ready_s + up_s))
    a, b = (simulate(scenario(small), m, seed=1, dry_run=True).measures[-1]["time_s"] for m in (name, own))
    assert a == pytest.approx(b, rel=1e-12)
