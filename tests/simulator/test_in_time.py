"""Clients that move in time: who is where when a round is opened, who is out of coverage, and the laws of every federation."""

import random

import numpy as np
import pytest
from test_moves import play
from test_stress import Watched, random_method, random_scenario
from worlds import adding, fixed_topology, timed

from fedloom.fleet import Fleet, FleetSettings
from fedloom.grouping import all_cells, one_cloud
from fedloom.methods import METHODS, Grouping
from fedloom.methods.fedavg import method as fedavg
from fedloom.methods.hierfedavg import method as hierfedavg
from fedloom.mixing import CloudLinear, Linear, by_size, polynomial_cloud
from fedloom.protocol import Async, Immediate
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

WALKS = {"kind": "waypoint", "speed_m_s": [5, 20], "pause_s": [0, 5]}


def sent(federation):
    return [(s.start_s, s.aggregator.tolist(), s.client.tolist()) for s in federation.timeline]


def test_a_round_has_the_clients_that_are_there_when_it_is_opened():
    # ticks of 2 s; client 1 is at edge 0 until 2 s, at edge 1 until 6 s, then at edge 0 again. Steps of 3 s and 4 s.
    homes = [[0, 0], [0, 1], [0, 1], [0, 0]]
    seen, federation = play(hierfedavg(), timed(homes, 2, [3.0, 4.0], tick_s=2.0, edge_rounds=3), adding(1, 10), 1)
    # edge 0 opens at 0 with both, who are back at 4 s; then client 1 is elsewhere; at 7 s it is there again.
    # edge 1 opens its three rounds at 0 s, where nobody is, in no time.
    assert sent(federation) == [(0.0, [0, 0], [0, 1]), (4.0, [0], [0]), (7.0, [0, 0], [0, 1])]
    assert seen[0][0] == 11.0
    assert federation.scenes.handovers == 2


def test_links_are_those_when_the_round_is_opened():
    homes = [[0], [1]]
    made = timed(homes, 2, [1.0], tick_s=5.0, edge_rounds=1, links={"up_s": [[6.0], [2.0]]})
    seen, federation = play(hierfedavg(), made, adding(1), 2)
    # sent at 0 s from edge 0, it is at home with edge 1 from 5 s on, and still takes 1 + 6 s; then 1 + 2 s
    assert [t for t, _ in seen] == [7.0, 10.0]
    assert [s.aggregator.tolist() for s in federation.timeline] == [[0], [1]]


def test_who_is_out_of_coverage_takes_no_part_until_it_is_back():
    homes = [[0, 0], [0, -1], [0, -1], [0, 0]]
    _, federation = play(hierfedavg(), timed(homes, 1, [1.0, 1.0], edge_rounds=4), adding(1, 10), 1)
    assert sent(federation) == [(0.0, [0, 0], [0, 1]), (1.0, [0], [0]), (2.0, [0], [0]), (3.0, [0, 0], [0, 1])]
    assert federation.scenes.handovers == 0
    # flat: the same, as it is relayed by the cell
    _, flat = play(fedavg(), timed(homes, 1, [1.0, 1.0], edge_rounds=4), adding(1, 10), 1)
    assert sent(flat) == sent(federation)


def test_a_cloud_round_begins_when_somebody_is_there():
    homes = [[0], [-1], [-1], [0]]
    seen, federation = play(hierfedavg(), timed(homes, 1, [1.0], edge_rounds=1), adding(1), 2)
    assert [t for t, _ in seen] == [1.0, 4.0]
    assert sent(federation) == [(0.0, [0], [0]), (3.0, [0], [0])]


def test_groups_that_all_sleep_wake_when_somebody_comes():
    homes = [[0], [-1], [-1], [1], [1]]
    method = hierfedavg().with_(cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud()))
    _, federation = play(method, timed(homes, 2, [1.0], edge_rounds=1), adding(1), 2)
    assert sent(federation)[:2] == [(0.0, [0], [0]), (3.0, [1], [0])]


def test_a_cluster_whose_head_is_away_pauses_for_a_cloud_round():
    clusters = fixed_topology([[1, 1, 0], [0, 0, 1]], kind="head", host=[0, 2])
    homes = [[0, 0, 0], [-1, 0, 0], [0, 0, 0]]
    method = hierfedavg().with_(group=Grouping(clusters, when="once"))
    _, federation = play(method, timed(homes, 1, [1.0] * 3, edge_rounds=1), adding(1, 1, 1), 3)
    assert sent(federation) == [
        (0.0, [0, 0], [0, 1]),
        (0.0, [1], [2]),
        (1.0, [1], [2]),
        (2.0, [0, 0], [0, 1]),
        (2.0, [1], [2]),
    ]


def test_an_update_that_is_merged_by_itself_waits_for_its_client_to_be_back():
    # client 1 works from 0 to 2 s and is nowhere then; it is back in the round that is opened at 3 s or later
    homes = [[0, 0], [0, -1], [0, -1], [0, 0]]
    method = hierfedavg().with_(edge=Async(), merge_edge=Linear(by_size))
    _, federation = play(method, timed(homes, 1, [1.0, 2.0], edge_rounds=3), adding(1, 10), 3)
    first = next(s for s in federation.timeline if 1 in s.client)
    at = first.client.tolist().index(1)
    assert first.arrival_s[at] == 2.0 and first.merged_s[at] == 3.0
    n_sent = sum(len(s.client) for s in federation.timeline)
    assert federation.errands.n_updates + sum(map(len, federation.machines.flights())) == n_sent


def test_everybody_staying_is_the_static_run(small):
    """Devices whose area is a millimetre around them do not leave their cells."""
    place = [[x, 0.0] for x in (0.0, 10.0, 15.0, 85.0, 90.0, 100.0)]
    small["fleet"] |= {"placement": {"kind": "coordinates", "positions_m": place}, "homes": "nearest"}
    small["fleet"]["device_edge"] = {"up": {"kind": "rate", "bit_s": 1e6}}
    runs = []
    for walks in (None, {"kind": "waypoint", "speed_m_s": [0.001, 0.001], "area_m": [0, 100, -0.001, 0.001]}):
        small["fleet"]["mobility"] = walks
        for name in ("hierfedavg", "fedavg", "hhfl", "csahfl:alpha=0", "macfl_r", "fedat:n_tiers=2"):
            simulation = Simulation(scenario(small), make_method(name), seed=3)
            for _ in simulation.rounds():
                pass
            runs.append((simulation.result().row, [m["time_s"] for m in simulation.measures]))
    for (row, times), (other, others) in zip(runs[:6], runs[6:]):
        assert np.array_equal(row, other) and times == others


def walking(rnd):
    """A random scenario in which devices walk, out of coverage too."""
    made = random_scenario(rnd)
    fleet = made["fleet"]
    fleet.pop("homes", None)
    if fleet["cells"]["kind"] == "single":
        fleet["cells"] = {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 120}
    beyond = rnd.choice([0, 100, 400])
    fleet["mobility"] = WALKS | {"area_m": [-80 - beyond, 380 + beyond, -80, 80]}
    fleet["tick_s"] = rnd.choice([0.5, 2.0])
    return made


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("block", [pytest.param(i, marks=pytest.mark.full if i > 0 else ()) for i in range(8)])
def test_laws_of_every_federation_that_moves_in_time(block, monkeypatch):
    monkeypatch.setattr("fedloom.simulator.simulation.Driver", Watched)
    nowhere = 0
    for seed in range(40 * block, 40 * (block + 1)):
        rnd = random.Random(seed)
        made, method = walking(rnd), random_method(rnd, True)
        dry = Simulation(scenario(made), method, seed, dry_run=True)
        for _ in dry.rounds():
            nowhere += int((dry.places[-1].home < 0).sum()) if dry.places else 0
        dry.federation.check(dry)
        if seed % 20 == 0:
            real = Simulation(scenario(made), method, seed, n_workers=1)
            for _ in real.rounds():
                pass
            assert [{k: m[k] for k in d} for m, d in zip(real.measures, dry.measures)] == dry.measures
    assert nowhere > 50


QUICK = ("hierfedavg", "hhfl", "csahfl", "feduc_r", "fedat", "hiflash_r", "fedmes")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in sorted(METHODS)]
)
def test_every_method_walks_and_goes_on_from_a_checkpoint_to_the_bit(name):
    made, text = for_method(name)
    made["fleet"] |= {"mobility": WALKS | {"area_m": [-150, 250, -80, 80]}, "tick_s": 0.5}

    def simulation():
        return Simulation(scenario(made), make_method(text), 1, n_workers=1)

    run = simulation()
    saved = [run.checkpoint() for _ in run.rounds() if run.cloud_rounds_done]
    again = simulation()
    for _ in again.rounds(saved[len(saved) // 2 - 1]):
        pass
    assert run.result().row.tobytes() == again.result().row.tobytes()
    assert run.measures == again.measures
    assert run.federation.ledger.table() == again.federation.ledger.table()


def test_clients_out_of_coverage_are_counted(small):
    small["fleet"] |= {"mobility": WALKS | {"area_m": [-300, 400, -80, 80]}, "tick_s": 0.5}
    simulation = Simulation(scenario(small), make_method("hierfedavg"), 2, dry_run=True)
    for _ in simulation.rounds():
        pass
    homes = [place.home for place in simulation.places]
    assert [m.get("uncovered") for m in simulation.measures][1:] == [int((home < 0).sum()) for home in homes]
    assert "uncovered" not in simulation.measures[0] and max(m["uncovered"] for m in simulation.measures[1:]) > 0


def test_rates_that_go_to_zero_keep_a_client_out_while_they_are():
    made, text = for_method("hierfedavg")
    lines = {"times_s": [[0], [0], [0, 1, 3]] + [[0]] * 9, "bit_s": [[1e6], [1e6], [1e6, 0, 1e6]] + [[1e6]] * 9}
    lines["bit_s"][3] = [0]  # device 1 reaches cell 0 only, and that not from 1 s to 3 s
    made["fleet"] |= {"device_edge": {"up": {"kind": "trace", **lines}}, "tick_s": 0.25}
    made["training"] |= {"cloud_rounds": 6, "edge_rounds": 2}
    simulation = Simulation(scenario(made), make_method(text), 1, n_workers=1)
    for _ in simulation.rounds():
        pass
    begun = {s.start_s for s in simulation.federation.timeline if 1 in s.client}
    others = {s.start_s for s in simulation.federation.timeline if 1 not in s.client}
    assert not any(1 <= t < 3 for t in begun) and any(1 <= t < 3 for t in others) and any(t >= 3 for t in begun)


def test_links_and_speeds_are_drawn_by_ticks_too(small):
    small["fleet"] |= {"redraw": {"links": "tick", "compute": "tick"}, "tick_s": 0.5}
    small["fleet"]["device_edge"] = {"up": {"kind": "rate", "bit_s": 1e6, "sigma": 1.0}}
    simulation = Simulation(scenario(small), make_method("hierfedavg"), 2, dry_run=True)
    one, same, other = (simulation.world.fleet.snapshot(0, 1, t) for t in (1.0, 1.4, 1.5))
    assert one is same and (other.home == one.home).all()
    assert (other.compute != one.compute).all()
    assert ((other.edge_up.rate_bit_s != one.edge_up.rate_bit_s) == one.in_reach).all()
    for _ in simulation.rounds():
        pass
    assert simulation.measures[-1]["updates"] == 6 * 2 * 4 and simulation.measures[-1]["handovers"] == 0


def test_moves_between_cells_by_chance_go_by_ticks_too(small):
    small["fleet"] |= {"mobility": {"p_stay": 0.3, "neighbours": "path", "every": "tick"}, "tick_s": 0.5}
    simulation = Simulation(scenario(small), make_method("hierfedavg"), 2, dry_run=True)
    fleet = simulation.world.fleet
    assert fleet.snapshot(0, 1, 1.0) is fleet.snapshot(3, 9, 1.4)
    np.testing.assert_array_equal(fleet.snapshot(0, 1, 1.5).home, fleet.homes_at(3))
    assert (fleet.homes_at(3) != fleet.homes_at(2)).any()
    for _ in simulation.rounds():
        pass
    assert simulation.measures[-1]["handovers"] > 0 and simulation.measures[-1]["uncovered"] == 0


@pytest.mark.parametrize("name", ["ltc", "fedmds", "fedmds_plus", "dcliques", "random_clusters"])
def test_with_fewer_clients_there_than_clusters_there_are_as_many_as_clients(name):
    made, text = for_method(name)  # two clusters; all but one device walk away
    times = [[0.0]] + [[0.0, 1.0, 7.0, 8.0]] * 5
    x_m = [[0.0]] + [[10.0 * k, 1e4, 1e4, 10.0 * k] for k in range(1, 6)]
    made["fleet"]["mobility"] = {"kind": "trace", "times_s": times, "x_m": x_m, "y_m": [[0.0] * len(t) for t in times]}
    simulation = Simulation(scenario(made), make_method(text), 1, dry_run=True)
    for _ in simulation.rounds():
        pass
    assert {place.topology.n_aggregators for place in simulation.places} == {1, 2}


def test_cells_that_are_shared_need_a_cloud_that_waits():
    rnd = random.Random(0)
    made = walking(rnd)
    made["fleet"] |= {
        "n_devices": 12,
        "cells": {"kind": "grid", "shape": "line", "n": 4, "spacing_m": 100, "radius_m": 80},
    }
    made["training"]["cloud_rounds"] = 40
    method = make_method("hierfedavg").with_(
        group=Grouping(all_cells), cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud())
    )
    with pytest.raises(ValueError, match="the same aggregators must work together all the time"):
        for _ in Simulation(scenario(made), method, 0, dry_run=True).rounds():
            pass


def test_everybody_at_the_cloud_joins_when_it_comes_though_the_cloud_does_not_wait():
    homes = [[0, -1], [0, -1], [0, 0]]
    method = hierfedavg().with_(
        group=Grouping(one_cloud), cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud())
    )
    _, federation = play(method, timed(homes, 1, [1.0, 1.0], edge_rounds=1), adding(1, 1), 4)
    assert [s.client.tolist() for s in federation.timeline][:4] == [[0], [0], [0, 1], [0, 1]]


def test_a_grouping_of_nobody_is_refused():
    nobody = fixed_topology(np.zeros((1, 2), dtype=bool))
    with pytest.raises(ValueError, match="cover connects no client to any aggregator; nobody could train"):
        play(hierfedavg().with_(group=Grouping(nobody)), timed([[0, 0]], 1, [1.0, 1.0]), adding(1, 1), 1)


def test_a_fleet_that_is_never_in_reach_again_says_so(monkeypatch):
    monkeypatch.setattr("fedloom.fleet.fleet.MOST_EMPTY_TICKS", 50)
    settings = {
        "n_devices": 1,
        "cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 1},
        "placement": {"kind": "coordinates", "positions_m": [[0, 0]]},
        "mobility": {"kind": "waypoint", "speed_m_s": [1, 1], "pause_s": [0, 0], "area_m": [1e4, 2e4, 1e4, 2e4]},
        "tick_s": 10,
    }
    fleet = Fleet.from_settings(FleetSettings.model_validate(settings), 0)
    assert fleet.somebody_s(3.0) == 3.0
    assert fleet.somebody_s(100.0) == np.inf


TRACED = {
    "n_devices": 2,
    "cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 10},
    "placement": {"kind": "coordinates", "positions_m": [[0, 0], [0, 0]]},
    "device_cloud": {"via": "edge"},
    "uncovered": "drop",
}


def traced(x_m):
    """A small scenario of two devices that are at x_m (2, n) metres every 100 s."""
    times = [100.0 * i for i in range(len(x_m[0]))]
    mobility = {"kind": "trace", "times_s": [times] * 2, "x_m": x_m, "y_m": [[0.0] * len(times)] * 2}
    return {
        "name": "traced",
        "fleet": {**TRACED, "mobility": mobility},
        "task": {
            "dataset": "gaussian",
            "gaussian": {"n_classes": 2, "n_features": 4, "n_train": 40, "n_test": 20},
            "model": {"kind": "softmax"},
        },
        "training": {"cloud_rounds": 40, "edge_rounds": 5, "local_steps": 100},
    }


def test_a_run_begins_when_the_first_comes_and_ends_when_all_have_left_for_good(monkeypatch):
    monkeypatch.setattr("fedloom.fleet.fleet.MOST_EMPTY_TICKS", 1000)  # nobody need look so far
    made = Simulation(scenario(traced([[900, 900, 0, 0, 900]] * 2)), make_method("hierfedavg"), 0, dry_run=True)
    rounds = [measures for measures in made.rounds() if measures]
    assert rounds[1]["time_s"] > 100 and 0 < rounds[-1]["cloud_round"] < 40
    assert any("nobody is left: no device that is waited for comes after" in warning for warning in made.warnings)
    assert made.federation.world.fleet.somebody_s(1e6) == np.inf
    with pytest.raises(ValueError, match="no device is in reach of a cell from 0 s on; enlarge radius_m, or let them"):
        list(Simulation(scenario(traced([[900, 800]] * 2)), make_method("hierfedavg"), 0, dry_run=True).rounds())
