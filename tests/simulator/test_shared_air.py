"""Air that is shared: whoever sends in a band meets there, and no band carries more than it can. Cases by hand and laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import fixed_topology, snapshot, world

from fedloom.fleet import AirSettings
from fedloom.grouping import Topology
from fedloom.methods import METHODS
from fedloom.methods.hierfedavg import method as hierfedavg
from fedloom.pacing import fixed_deadline, median_iqr
from fedloom.protocol import Async, Barrier, Rounds, TimeBox
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.air import Air
from fedloom.simulator.book import Model
from fedloom.simulator.driver import Driver
from fedloom.simulator.scene import Scene
from small import for_method


def with_air(place, **air):
    return replace(place, air=AirSettings.model_validate(air))


def run(method, place, n_rounds=1, **training):
    """The driver after so many cloud rounds, and the last state."""
    driver = Driver(method, world(place, **training), Model(None))
    return driver, list(driver.cloud_rounds(n_rounds))[-1]


def seconds_of(method, place, **training):
    return run(method, place, **training)[1].time_s


TIME, EQUAL = {"sharing": "time"}, {"sharing": "equal"}


@pytest.mark.parametrize(("sharing", "seconds"), [("own", 2), ("time", 4), ("equal", 4), ("blocks", 4)])
def test_clients_of_a_cell_share_its_air_by_hand(sharing, seconds):
    """1 s of computing, then three uploads of 1 s in cell 0 and one in cell 1."""
    place = with_air(snapshot(1.0, [[1, 1, 1, 0], [0, 0, 0, 1]], up_s=1.0), up={"sharing": sharing})
    assert seconds_of(hierfedavg(), place) == pytest.approx(seconds, abs=1e-9)


def test_cells_may_share_in_ways_of_their_own():
    """Cell 0: three uploads at once, 4 s; cell 1 is own: 2 s. Both have 2 s of backhaul, so edge 1 reports at 4, edge 0 at 6."""
    place = snapshot(1.0, [[1, 1, 1, 0], [0, 0, 0, 1]], up_s=1.0, backhaul_up_s=2.0)
    driver, _ = run(hierfedavg(), with_air(place, up=[EQUAL, {"sharing": "own"}]))
    assert driver.clock.now_s == pytest.approx(6)
    (first, second) = sorted(driver.timeline, key=lambda sent: sent.client[0])
    assert first.arrival_s == pytest.approx([4, 4, 4]) and second.arrival_s == pytest.approx([2])


def test_a_device_of_two_cells_uses_the_air_of_both_unless_one_transmission_serves_both():
    """Cell 0 hears clients 0 and 1, cell 1 hears 1, 2 and 3; 1 s of computing, 1 s an upload, client 1 is at home in cell 0.

    unicast         cell 0: 2 uploads, cell 1: 3           1 + 3 = 4
    once            cell 0: 2 uploads, cell 1: 2           1 + 2 = 3
    overhead 1.5    cell 0: 1 + 1.5, cell 1: 2             1 + 2.5 = 3.5
    """
    reach = [[1, 1, 0, 0], [0, 1, 1, 1]]
    place = with_air(snapshot(1.0, reach, up_s=1.0), up=TIME)
    assert seconds_of(make_method("hhfl"), place) == pytest.approx(4)
    once = replace(place, uplink_once=True)
    assert seconds_of(make_method("hhfl"), once) == pytest.approx(3)
    assert seconds_of(make_method("hhfl"), replace(once, uplink_overhead=1.5)) == pytest.approx(3.5)
    elsewhere = replace(once, home=np.array([0, 1, 1, 1]))  # then cell 1 has three of them
    assert seconds_of(make_method("hhfl"), elsewhere) == pytest.approx(4)


def test_an_overhead_costs_air_and_joules_of_those_that_several_hear():
    place = snapshot(1.0, [[1, 1, 0], [0, 1, 1]], up_s=2.0, power_w=3.0)
    booked = []
    for overhead in (1.0, 1.25):
        driver, _ = run(make_method("hhfl"), replace(place, uplink_once=True, uplink_overhead=overhead))
        (line,) = [r for r in driver.ledger.table() if (r["hop"], r["direction"]) == ("device_edge", "up")]
        booked.append((line["airtime_s"], line["energy_j"], line["bytes"]))
    assert booked[0][:2] == pytest.approx((6, 18))
    assert booked[1] == pytest.approx((2 + 2.5 + 2, 3 * 6.5, booked[0][2]))  # client 1 alone is heard by two


def test_models_that_come_down_share_the_air_or_are_broadcast():
    """Three clients, 0.5, 0.25 and 1 s down, 1 s of computing, 1 s up over links of their own.

    one by one     there at 0.5, 0.75 and 1.75; the last is back at 1.75 + 1 + 1 = 3.75
    equal parts    0.25 each at 0.75; 0.5 each at 1.25; 1.75
    broadcast      all at 1, the slowest
    """
    place = snapshot(1.0, [[1, 1, 1]], down_s=[[0.5, 0.25, 1.0]], up_s=1.0)
    for down, fetched in ((TIME, [0.5, 0.75, 1.75]), (EQUAL, [1.25, 0.75, 1.75])):
        driver, _ = run(hierfedavg(), with_air(place, down=down))
        (sent,) = driver.timeline
        assert sent.arrival_s == pytest.approx(np.array(fetched) + 2)
    driver, _ = run(hierfedavg(), with_air(place, down={"sharing": "time", "broadcast": True}))
    (sent,) = driver.timeline
    assert sent.arrival_s == pytest.approx([3, 3, 3])
    (line,) = [r for r in driver.ledger.table() if (r["hop"], r["direction"]) == ("device_edge", "down")]
    assert (line["airtime_s"], line["bytes"], line["links"]) == pytest.approx((1.0, 10, 3))  # a model is 80 bits


def test_cells_that_share_a_client_broadcast_one_by_one_each_in_its_own_air():
    """Client 1 hears both cells, whose models take 1 s: no longer than either."""
    place = snapshot(1.0, [[1, 1, 0], [0, 1, 1]], down_s=1.0)
    driver, state = run(make_method("hhfl"), with_air(place, down={"sharing": "time", "broadcast": True}))
    assert state.time_s == pytest.approx(2)
    (line,) = [r for r in driver.ledger.table() if (r["hop"], r["direction"]) == ("device_edge", "down")]
    assert (line["airtime_s"], line["bytes"], line["links"]) == pytest.approx((2.0, 20, 4))


def heads(d2d_s=0.5, step_s=0.1, **links):
    """Two clusters of a head (0, 3) and two members."""
    place = snapshot(step_s, [[1] * 6], d2d_s=np.where(np.eye(6), 0.0, d2d_s), **links)
    topology = Topology.of_heads([np.arange(3), np.arange(3, 6)], np.array([0, 3]), 6)
    return place, make_method("random_clusters").with_(group=lambda view, rng: topology, edge=Rounds())


@pytest.mark.parametrize(
    ("d2d", "cloud", "seconds"),
    [
        ({}, {}, 1.1 + 1),  # 0.5 down, 0.1, 0.5 up, and 1 s to the cloud
        (TIME, {}, 2 + 1),  # down 0.5 and 1; up is ready at 0.6 and 1.1: 1 to 1.5 and 1.5 to 2
        # all in one band: down 0.5, 1, 1.5, 2; up is ready at 0.6 to 2.1: 2.5 and 3 of the first head, 3.5 and 4
        ({**TIME, "band": "all"}, {}, 4 + 1),
        ({**TIME, "broadcast": True}, {}, 1.6 + 1),  # down 0.5; up 0.6 to 1.1 and 1.6
        (TIME, {"up": TIME}, 2 + 2),  # both heads are ready at 2
        (TIME, {"up": EQUAL}, 2 + 2),
    ],
)
def test_members_share_the_band_of_their_head_and_heads_that_of_the_server(d2d, cloud, seconds):
    place, method = heads(cloud_s=1.0)
    assert seconds_of(method, with_air(place, d2d=d2d, cloud=cloud)) == pytest.approx(seconds)


def test_heads_meet_in_the_air_of_their_cell_whoever_they_report_to():
    """Both clusters are done at 1.1; over the edge server of the one cell 1 s up each, in turn, and 0.25 s of backhaul."""
    place, method = heads(up_s=1.0, backhaul_up_s=0.25)
    assert seconds_of(method, with_air(place, up=TIME)) == pytest.approx(1.1 + 2 + 0.25)
    assert seconds_of(method, with_air(place, backhaul={"up": TIME})) == pytest.approx(1.1 + 1 + 0.25 + 0.25)


def test_models_from_the_server_share_its_band():
    """Down to the heads 0.5 s each, one after the other: the second begins at 1 and takes 1.1 s and 1 s up."""
    place, method = heads(cloud_s=1.0)
    slow = replace(place, cloud_down=replace(place.cloud_down, fixed_s=np.full(6, 0.5)))
    assert seconds_of(method, slow) == pytest.approx(0.5 + 1.1 + 1)
    assert seconds_of(method, with_air(slow, cloud={"down": TIME})) == pytest.approx(1.0 + 1.1 + 1)


def test_clients_of_the_cloud_are_relayed_by_their_cells_through_a_backhaul_that_is_shared():
    """Two cells of two clients: 1 s of computing, uploads of 2 s in turn: 3, 3, 5, 5; then 0.5 s each: 3.5, 4, 5.5, 6."""
    place = snapshot(1.0, [[1, 1, 0, 0], [0, 0, 1, 1]], up_s=2.0, backhaul_up_s=0.5)
    assert seconds_of(make_method("fedavg"), with_air(place, up=TIME)) == pytest.approx(5.5)
    both = with_air(place, up=TIME, backhaul={"up": TIME})
    driver, state = run(make_method("fedavg"), both)
    assert state.time_s == pytest.approx(6)
    assert sorted(next(iter(driver.timeline)).arrival_s) == pytest.approx([3.5, 4, 5.5, 6])


def asynchronous(edge=None):
    return hierfedavg().with_(edge=edge or Async())


def arrivals(driver):
    return sorted(float(t) for sent in driver.timeline for t in sent.arrival_s)


def test_without_rounds_messages_meet_in_the_air_whenever_they_are_sent():
    """Two clients of one cell compute 1 and 1.5 s, uploads take 1 s of the band; an edge round is two merges.

    time     0: 1 to 2, 1: 2 to 3 | 0 is sent again at 2: 3 to 4, 1 again at 3: 4.5 to 5.5
    equal    0 alone from 1 to 1.5, halves: 0 is over at 2.5, 1 alone has 0.5 left: 3; then 0 is ready at 3.5, alone until 4.5,
             and 1 is ready at 4.5: 5.5
    """
    place = snapshot([1.0, 1.5], [[1, 1]], up_s=1.0)
    for up, expected in ((TIME, [2, 3, 4, 5.5]), (EQUAL, [2.5, 3, 4.5, 5.5])):
        driver, _ = run(asynchronous(), with_air(place, up=up), edge_rounds=2)
        assert arrivals(driver)[:4] == pytest.approx(expected)


def test_who_is_late_still_takes_air_in_the_next_round():
    """Clients compute 1 and 3 s, uploads of 2 s, deadline 4 s. Round 1: client 0 is back at 3; client 1 sends from 3 to 5, late.
    Round 2 opens at 4 with client 0: ready at 5, back at 7; client 1's update is merged then."""
    place = with_air(snapshot([1.0, 3.0], [[1, 1]], up_s=2.0), up=TIME)
    method = hierfedavg().with_(edge=Rounds(pace=fixed_deadline(4.0)))
    driver, state = run(method, place, edge_rounds=2)
    assert arrivals(driver) == pytest.approx([3, 5, 7])
    assert (state.n_late, state.n_updates, state.time_s) == (1, 3, pytest.approx(7))
    late = [bool(x) for sent in driver.timeline for x in sent.late]
    assert late == [False, True, False]


def test_what_arrives_with_the_deadline_is_in_time():
    """Three uploads of 0.1 s in turn after 0.3 s: the last is over at 0.6 but for rounding."""
    place = with_air(snapshot(0.3, [[1, 1, 1]], up_s=0.1), up=TIME)
    _, state = run(hierfedavg().with_(edge=Rounds(pace=fixed_deadline(0.6))), place, edge_rounds=3)
    assert state.n_late == 0 and state.n_updates == 9


def test_a_dropped_client_is_busy_until_it_is_back():
    """Client 1 computes 10 s; the cloud drops its update at 2 and at 4, and it is sent again only when it is back, at 10."""
    place = with_air(snapshot([1.0, 10.0], [[1, 1]]), up=TIME)
    edge = Rounds(pace=fixed_deadline(2.0, early_close=False))
    method = hierfedavg().with_(edge=edge, cloud=Barrier(drop_late=True))
    driver, _ = run(method, place, n_rounds=7)
    sent = [(s.start_s, k) for s in driver.timeline for k in s.client.tolist() if k == 1]
    assert sent == [(0.0, 1), (pytest.approx(10.0), 1)]


def test_a_pace_sees_what_its_own_clients_make_of_the_air():
    """Uploads of 1, 2 and 3 s in turn after 1 s: what links take is 1, 3 and 6 s, and the median + 0 IQR is 1 + 3."""
    seen = []

    def pace(offer):
        seen.append(offer.link_s.tolist())
        return median_iqr(alpha=0.0)(offer)

    place = with_air(snapshot(1.0, [[1, 1, 1]], up_s=[[1.0, 2.0, 3.0]]), up=TIME)
    _, state = run(hierfedavg().with_(edge=Rounds(pace=pace)), place)
    assert seen[0] == pytest.approx([1, 3, 6]) and state.time_s == pytest.approx(4) and state.n_late == 1


D2D = [
    {"sharing": "time"},
    {"sharing": "equal"},
    {"sharing": "blocks", "blocks": 4, "slot_s": 0.01},
    {"sharing": "time", "broadcast": True},
]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(D2D), st.floats(3.0, 40.0))
def test_a_time_box_holds_the_rounds_that_were_planned_for_it(seed, d2d, box_s):
    """Without chance a round in the air of a head takes what was predicted: nobody is late, and so many rounds fit."""
    rng = np.random.default_rng(seed)
    step_s, link_s = rng.uniform(0.1, 1.0, 7), rng.uniform(0.05, 0.8, (7, 7))
    place = with_air(snapshot(step_s, [[1] * 7], d2d_s=np.where(np.eye(7), 0.0, link_s), cloud_s=1.0), d2d=d2d)
    clusters, hosts = [np.array([0, 1, 2, 3]), np.array([4, 5, 6])], np.array([1, 6])
    topology = Topology.of_heads(clusters, hosts, 7)
    method = make_method("random_clusters").with_(group=lambda view, rng: topology, edge=TimeBox(seconds=box_s))
    driver, state = run(method, place)
    scene = driver.scenes.now
    planned = [float((step_s[m] + scene.links_s(m, np.ones(len(m), dtype=np.int64))).max()) for m in clusters]
    assert state.group_rounds.tolist() == [math.floor(box_s / s + 1e-9) for s in planned]
    assert state.n_late == 0
    for sent in driver.timeline:
        which = 0 if sent.client[0] < 4 else 1
        assert float(sent.arrival_s.max()) - sent.start_s == pytest.approx(planned[which], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["ltc", "fedmds", "random_clusters"])
def test_methods_with_a_time_box_keep_it_in_air_that_is_shared(name):
    made, text = for_method(name, cloud_rounds=2)
    made["fleet"]["air"] = {"d2d": {"sharing": "time"}}
    simulation = Simulation(scenario(made), make_method(text), 0, dry_run=True, timeline=True)
    for state in simulation.federation.cloud_rounds(2):
        scene, units = simulation.federation.scenes.now, simulation.world.local_steps
        for edge, rounds in zip(simulation.federation.machines.edges, state.group_rounds):
            steps = np.full(len(edge.members), units)
            full_s = steps * scene.step_s[edge.members] + scene.links_s(edge.members, steps)
            assert rounds == math.floor(6 / full_s.max() + 1e-9)
    assert state.n_late == 0 and not any(sent.late.any() for sent in simulation.federation.timeline)


def test_features_are_collected_in_the_air_that_is_shared():
    """Six devices send what they trained over one band at the server, one after the other; then heads alone do."""
    made, text = for_method("ltc", cloud_rounds=1)
    own = Simulation(scenario(made), make_method(text), 0, dry_run=True)
    made["fleet"]["air"] = {"cloud": {"up": {"sharing": "time"}, "down": {"sharing": "time"}}}
    shared = Simulation(scenario(made), make_method(text), 0, dry_run=True)
    taken = []
    for simulation in (own, shared):
        for _ in simulation.rounds():
            pass
        taken.append(simulation.measures[-1]["time_s"])
    assert own.federation.ledger.table() == shared.federation.ledger.table()
    bits = own.world.model_bits
    now = own.federation.scenes.now.snapshot
    up_s, down_s = now.cloud_up.seconds(bits), now.cloud_down.seconds(bits)
    assert taken[0] < taken[1] < taken[0] + 2 * (up_s.sum() + down_s.sum())


@pytest.mark.parametrize("name", METHODS)
def test_bands_of_ones_own_on_the_clock_of_the_air_change_nothing(name, monkeypatch):
    """What is foreseen when clients are sent, and what is told when they are back, is the same."""
    made, text = for_method(name, cloud_rounds=2)
    made["fleet"]["compute"]["jitter_sigma"] = 0.5
    method = make_method(text)
    if method.cloud.uplink is not None:  # a rule of the method, for links that have bands of their own
        method = method.with_(cloud=replace(method.cloud, uplink=None))
    plain = Simulation(scenario(made), method, 0, n_workers=1)
    rows = [row for row in plain.rounds() if row]
    monkeypatch.setattr(AirSettings, "is_shared", property(lambda air: True))
    monkeypatch.setattr(Air, "is_shared", lambda air, way: True)
    shared = Simulation(scenario(made), method, 0, n_workers=1)
    for row, same in zip(rows, shared.rounds(), strict=True):
        assert row == pytest.approx(same, rel=1e-9, nan_ok=True)
    assert not shared.federation.carrier.foreseen


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([TIME, EQUAL]), st.sampled_from([{}, TIME, {**EQUAL, "broadcast": True}]))
def test_who_meets_nobody_is_back_when_it_was_predicted(seed, up, down):
    """A cell that no other shares need not be followed message by message: the times are the same."""
    rng = np.random.default_rng(seed)
    reach = rng.uniform(size=(3, 8)) < 0.3
    reach[rng.integers(0, 3, 8), np.arange(8)] = True
    place = snapshot(rng.uniform(0.1, 2, 8), reach, up_s=rng.uniform(0, 1, (3, 8)), down_s=rng.uniform(0, 1, (3, 8)))
    for name in ("hhfl", "hierfedavg", "fedavg"):
        found = []
        for alone in (Scene.undisturbed, frozenset()):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Scene, "undisturbed", alone)
                driver, state = run(make_method(name), with_air(place, up=up, down=down), edge_rounds=3)
                assert alone == frozenset() or driver.scenes.now.undisturbed  # else this would show nothing
            found.append([state.time_s, *arrivals(driver)])
        assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_groups_that_meet_in_a_band_or_have_slots_are_followed():
    """Heads have bands of their own for their members, unless there is one for all; what is dealt in slots depends on when."""
    place, method = heads(cloud_s=1.0)
    for d2d, alone in ((TIME, {0, 1}), ({**TIME, "band": "all"}, set()), ({"sharing": "blocks"}, set())):
        driver, _ = run(method, with_air(place, d2d=d2d))
        assert driver.scenes.now.undisturbed == alone


SHARED = {
    "up": {"sharing": "equal"},
    "down": {"sharing": "time", "broadcast": True},
    "d2d": {"sharing": "time", "broadcast": True},
    "cloud": {"up": {"sharing": "blocks"}, "down": {"sharing": "time"}},
    "backhaul": {"up": {"sharing": "time"}},
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_in_shared_air_adds_up_and_goes_on_to_the_same_bits(name):
    made, text = for_method(name, cloud_rounds=2)
    made["fleet"]["air"] = SHARED
    made["fleet"]["compute"]["jitter_sigma"] = 0.3
    run_ = Simulation(scenario(made), make_method(text), 1, n_workers=1)
    saved = [run_.checkpoint() for _ in run_.rounds() if run_.cloud_rounds_done]
    again = Simulation(scenario(made), make_method(text), 1, n_workers=1)
    for _ in again.rounds(saved[0]):
        pass
    assert again.measures == run_.measures and (again.result().row == run_.result().row).all()
    parts = {}
    for _, columns in run_.costs:
        for j, key in enumerate(zip(columns["hop"], columns["direction"])):
            line = np.array([columns[name][j] for name in ("links", "bytes", "airtime_s", "energy_j")])
            parts[key] = parts.get(key, np.zeros(4)) + line
    for line in run_.federation.ledger.table():
        links, n_bytes, airtime_s, energy_j = parts.get((line["hop"], line["direction"]), np.zeros(4))
        assert n_bytes == line["bytes"] and (line["hop"] == "computing" or links == line["links"])
        assert (airtime_s, energy_j) == pytest.approx((line["airtime_s"], line["energy_j"]), rel=1e-9, abs=1e-12)


SHARINGS = [
    {"sharing": "time"},
    {"sharing": "equal"},
    {"sharing": "blocks", "blocks": 5, "slot_s": 1e-3},
    {"sharing": "blocks", "blocks": 5, "slot_s": 1e-3, "scheduler": "proportional-fair"},
]
EDGES = ["hierfedavg", "hhfl", "csahfl", "feduc_r:n_groups=2", "fedat:n_tiers=2", "hiflash_r:adapt=false"]


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("sharing", SHARINGS, ids=lambda s: s.get("scheduler", s["sharing"]))
def test_no_cell_carries_more_bits_than_band_times_time_times_efficiency(name, sharing, small):
    """Of a whole run, in any time from when somebody was ready to send to when somebody is back, in the air of each cell."""
    band_hz = 300.0
    small["fleet"]["device_edge"]["up"] = {"kind": "radio", "bandwidth_hz": band_hz}
    small["fleet"]["air"] = {"up": sharing}
    small["fleet"]["compute"]["jitter_sigma"] = 0.5
    run_ = Simulation(scenario(small), make_method(name), 3, dry_run=True, timeline=True)
    for _ in run_.rounds():
        pass
    lines = [
        (s.start_s + s.fetch_s[j] + s.compute_s[j], s.arrival_s[j], k)
        for s in run_.federation.timeline
        for j, k in enumerate(s.client.tolist())
        if np.isfinite(s.arrival_s[j])  # some are under way when the run is over
    ]
    ready, back, client = (np.array(column) for column in zip(*lines))
    links, bits = run_.federation.scenes.now.exchange.client_up.legs[0].single, run_.world.up_bits
    efficiency = run_.federation.scenes.now.snapshot.edge_up.rate_bit_s / band_hz  # (N, K) bit/s/Hz
    busiest = 0.0
    for cell in np.unique(links.air).tolist():
        sends = np.isin(client, links.sender[links.air == cell])
        begin, end, eff = ready[sends], back[sends], efficiency[cell, client[sends]]
        for s in begin:
            for t in end:
                inside = (begin >= s) & (end <= t)
                assert (bits / eff[inside]).sum() <= band_hz * (max(t - s, 0) + 1e-9 * (1 + t))
        busiest = max(busiest, float((bits / eff).sum() / (band_hz * (end.max() - begin.min()))))
    assert busiest > 0.5  # and there was something to carry


def test_a_cover_that_is_given_shares_the_air_of_its_hosts():
    """Two aggregators on one host: their clients meet in its one band. 1 s of computing, four uploads of 1 s."""
    place = with_air(snapshot(1.0, [[1, 1, 1, 1]], up_s=1.0), up=TIME)
    rule = fixed_topology([[1, 1, 0, 0], [0, 0, 1, 1]], host=[0, 0])
    assert seconds_of(hierfedavg().with_(group=rule), place) == pytest.approx(5)
