"""Parts of any kind go with parts of any other kind, and do what their words say: small timelines worked out by hand."""

import numpy as np
import pytest
from test_stress import Watched
from worlds import adding, fixed_topology, snapshot, world

from fedloom.methods import Grouping, Method
from fedloom.methods.hierfedavg import method as hierfedavg
from fedloom.methods.method import Allotment, Allotting
from fedloom.mixing import CloudLinear, Linear, by_reported, polynomial_cloud, polynomial_edge
from fedloom.protocol import Async, Barrier, Immediate, NoCloud, TimeBox
from fedloom.simulator.book import Model, settle
from fedloom.simulator.timeline import table

NEWEST = CloudLinear(polynomial_cloud(1.0, 0.0))  # the cloud's model is the last report


def start(method, *places, **settings):
    return Watched(method, world(*places, **settings), Model(np.zeros(1, np.float32)))


def play(method, place, engine, n_rounds, **settings):
    """(time, model) after every cloud round, and the federation."""
    federation = start(method, place, **settings)
    return [(s.time_s, float(settle(s.model, engine)[0])) for s in federation.cloud_rounds(n_rounds)], federation


def uneven(cloud, **parts):
    """Clients 0 and 1 around 0 with three edge rounds, client 2 by itself with one."""
    group = fixed_topology([[1, 1, 0], [0, 0, 1]], "head", [0, 2])
    rounds = Allotment(edge_rounds=np.array([3, 1]))
    allot = Allotting(lambda view, topology, rng: rounds)
    return Method(name="m", summary="", group=Grouping(group), cloud=cloud, allot=allot, **parts)


def test_with_an_immediate_cloud_each_aggregator_reports_after_the_rounds_it_was_allotted():
    place = snapshot([1, 1, 2.5], np.ones((1, 3)), cloud_s=0.0)
    seen, federation = play(uneven(Immediate(), merge_cloud=NEWEST), place, adding(1, 3, 10), 3)
    # cluster 1 reports at 2.5 (10 from 0), 5 (20 from 10), 7.5 (30 from 20); cluster 0 at 3, 6, 9 (6 more each time)
    assert seen == [(3.0, 6.0), (6.0, 12.0), (9.0, 18.0)]
    assert federation.machines.cloud.n_reports.tolist() == [3, 3]
    assert [edge.n_rounds for edge in federation.machines.edges] == [9, 3]


def test_without_a_cloud_each_aggregator_does_the_rounds_it_was_allotted():
    place = snapshot([1, 1, 2.5], np.ones((1, 3)), cloud_s=50.0)
    federation = start(uneven(NoCloud()), place)
    engine, found = adding(1, 3, 10), []
    for state in federation.cloud_rounds(2):
        settle(state.model, engine)
        found.append((state.time_s, state.group_rounds.tolist(), [float(m.row[0]) for m, _ in state.edges]))
    # a cloud round is over when the slower one, cluster 0 with three rounds of 1 s, is; nothing is sent to the cloud
    assert found == [(3.0, [3, 1], [6.0, 10.0]), (6.0, [3, 1], [12.0, 20.0])]


def test_a_time_box_with_an_immediate_cloud_begins_when_each_aggregator_has_its_model():
    place = snapshot([1.0, 2.0], [[1, 0], [0, 1]], backhaul_up_s=[0.25, 1.0])
    method = hierfedavg().with_(edge=TimeBox(seconds=5.0), cloud=Immediate(), merge_cloud=NEWEST)
    seen, federation = play(method, place, adding(1, 10), 2)
    # five rounds of 1 s and two of 2 s; reports at 5.25 (5 from 0), 6 (20 from 0), then 10.5 (10 from 5)
    # and 12 (40 from 20), when cell 0 has had a round of its third box
    assert seen == [(6.0, 20.0), (12.0, 40.0)]
    assert [edge.n_rounds for edge in federation.machines.edges] == [2 * 5 + 1, 2 * 2]


def test_a_time_box_without_a_cloud_ends_for_everybody_at_once():
    place = snapshot([1.0, 2.0], [[1, 0], [0, 1]], backhaul_up_s=50.0)
    federation = start(hierfedavg().with_(edge=TimeBox(seconds=5.0), cloud=NoCloud()), place)
    engine, found = adding(1, 10), []
    for state in federation.cloud_rounds(2):
        settle(state.model, engine)
        found.append((state.time_s, [float(m.row[0]) for m, _ in state.edges]))
    assert found == [(5.0, [5.0, 20.0]), (10.0, [10.0, 40.0])]


def sleeper(**parts):
    """Cell 1 has nobody in the second and third of twelve cloud rounds. When it was handed a model, with so many rounds done."""
    both, one = (snapshot([1.0, 1.0], np.ones((2, 2)), home=home) for home in ([0, 1], [0, 0]))
    method = hierfedavg().with_(cloud=Immediate(), merge_cloud=NEWEST, **parts)
    federation, handed = start(method, both, one, one, both, edge_rounds=3), []
    hand_down = federation._hand_down

    def noted(edge):
        if edge.group == 1:
            handed.append((federation.clock.now_s, edge.n_rounds))
        hand_down(edge)

    federation._hand_down = noted
    times = [state.time_s for state in federation.cloud_rounds(12)]
    assert times == sorted(times)
    sent = table(federation.timeline)
    here = sent["aggregator"] == 1
    return federation, handed, list(zip(sent["start_s"][here].tolist(), (sent["edge_round"][here] - 1).tolist()))


@pytest.mark.parametrize("seconds", [4.5, 3.0, 1.5])
def test_a_cell_that_wakes_up_with_an_immediate_cloud_keeps_to_its_time_box(seconds):
    federation, handed, sent = sleeper(edge=TimeBox(seconds=seconds))
    assert federation.machines.cloud.n_reports.min() > 2
    for at_s, _ in sent:
        begun_s = max(t for t, _ in handed if t <= at_s)
        assert at_s + 1.0 <= begun_s + seconds  # its round fits


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_cell_that_wakes_up_with_an_immediate_cloud_does_the_rounds_it_was_allotted(rounds):
    allotted = Allotment(edge_rounds=np.array([3, rounds]))
    federation, handed, sent = sleeper(allot=Allotting(lambda view, topology, rng: allotted))
    assert federation.machines.cloud.n_reports.min() > 2
    assert all(n_rounds % rounds == 0 for _, n_rounds in handed)  # not while it has rounds that were not reported
    begun = [(at_s, n_rounds) for at_s, n_rounds in sent if n_rounds % rounds == 0]
    assert set(begun) <= set(handed)  # and with the model of then


def test_asynchronous_updates_that_wait_when_the_cloud_merges_are_dropped_if_so_asked():
    # a round is two merges: client 0 at 1 and 2 s; client 1 (3 s) comes while the report is on its way (until 12 s)
    place = snapshot([1.0, 3.0], [[1, 1]], backhaul_up_s=10.0)
    found = {}
    for drop in (False, True):
        parts = {"edge": Async(), "cloud": Barrier(drop_late=drop), "merge_cloud": CloudLinear(by_reported)}
        method = hierfedavg().with_(merge_edge=Linear(polynomial_edge(1.0, 0.0)), **parts)
        seen, federation = play(method, place, adding(1, 100), 3)
        sent = table(federation.timeline)
        first = (sent["client"] == 1) & (sent["start_s"] == 0.0)
        found[drop] = seen[0], sent["merged_s"][first].tolist()
        assert [t for t, _ in seen] == sorted(t for t, _ in seen)
        assert np.count_nonzero(sent["client"] == 1) == 3  # it is sent again in every cloud round
    assert found[False][0] == found[True][0] == (12.0, 2.0)
    assert found[False][1] == [12.0] and np.isnan(found[True][1]).all()


def test_warming_up_goes_with_asynchronous_edges():
    place = snapshot([1.0, 2.0], [[1, 0], [0, 1]], cloud_s=0.5)
    method = hierfedavg().with_(
        edge=Async(),
        cloud=Barrier(warmup=2),
        merge_edge=Linear(polynomial_edge(1.0, 0.0)),
        merge_cloud=CloudLinear(by_reported),
    )
    federation = start(method, place)
    kinds = [(s.topology.kind, s.topology.n_aggregators) for s in federation.cloud_rounds(4)]
    assert kinds == [("cloud", 1), ("cloud", 1), ("edge", 2), ("edge", 2)]
    hops = {row["hop"] for row in federation.ledger.table()}
    assert {"device_cloud", "device_edge", "edge_cloud"} <= hops
    sent = table(federation.timeline)
    before = sent["cloud_round"] <= 2
    assert set(sent["aggregator"][before].tolist()) == {0} and set(sent["aggregator"][~before].tolist()) == {0, 1}
