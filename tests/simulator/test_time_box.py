"""A time box holds what was planned for it, and ends when it ends."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import snapshot, world

from fedloom.grouping import Topology
from fedloom.protocol import TimeBox
from fedloom.simulator import Simulation, errands, make_method, scenario
from fedloom.simulator.book import Model
from fedloom.simulator.driver import Driver

BOXED = ["ltc", "fedmds", "fedmds_plus", "dcliques", "random_clusters"]


def mesh(n, seed, broadcast, box_s=120.0, jitter=0.0, rates="{kind: drawn, low: 1, high: 5, unit_bit_s: 2.0e+5}"):
    rng = np.random.default_rng(seed)
    return scenario(
        "d2d-mesh",
        [
            f"fleet.n_devices={n}",
            f"fleet.device_device={rates}",
            f"fleet.head_broadcast={broadcast}",
            f"fleet.placement.radius_m={rng.integers(50, 500)}",
            f"fleet.compute.jitter_sigma={jitter}",
            "fleet.redraw={compute: cloud-round, links: cloud-round}",
            "training.cloud_rounds=2",
            "task.model={kind: softmax}",
            "task.partition={kind: iid}",
            "task.data_limit=1200",
        ],
    )


@pytest.mark.parametrize("broadcast", ["link", "free"])
@pytest.mark.parametrize("name", BOXED)
def test_rounds_executed_are_those_that_fit_as_planned(name, broadcast):
    for seed in range(6):
        box_s = 20.0 + 7 * seed
        chosen = mesh(
            8 + 3 * seed, seed, broadcast, rates=f"{{kind: drawn, low: 0, high: 5, unit_bit_s: {2e5 + 1e5 * seed}}}"
        )
        simulation = Simulation(chosen, make_method(f"{name}:box_s={box_s}:n_clusters=3"), seed, dry_run=True)
        for state in simulation.federation.cloud_rounds(2):
            planned_s = np.asarray(state.topology.notes["round_s"])
            expected = np.floor(box_s / planned_s + 1e-9).astype(int)
            groups = [g.aggregators for g in simulation.federation.machines.edges]
            assert [int(a) for (a,) in groups] == list(range(len(planned_s)))
            assert state.group_rounds.tolist() == expected.tolist()


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_a_time_box_is_kept_under_jitter_and_who_does_not_fit_is_late(sigma):
    chosen = mesh(12, 1, "link", jitter=sigma)
    simulation = Simulation(
        chosen, make_method("random_clusters:box_s=60:n_clusters=3"), 1, dry_run=True, timeline=True
    )
    before_s = 0.0
    late = 0
    for state in simulation.federation.cloud_rounds(2):
        ways = state.up_s  # clusters report when the box is over; their reports take the time of the way to the cloud
        assert np.isfinite(ways).all()
        cloud = simulation.federation.scenes.now.exchange
        over = before_s + cloud.cloud_down.seconds.max() + 60 + cloud.cloud_up.seconds.max()
        assert state.time_s <= over + 1e-6
        before_s, late = state.time_s, state.n_late
    assert late > 0
    for sent in simulation.federation.timeline:
        on_time = sent.arrival_s[~sent.late]
        assert (sent.merged_s[~sent.late] >= on_time - 1e-6).all()


def test_a_box_by_hand(monkeypatch):
    # one head (client 0), members of 4 s and 6 s a round: 6 s as planned, three rounds in 20 s; then jitter makes them 9 s
    place = snapshot([1.0, 4.0, 6.0], [[1, 1, 1]], cloud_s=1.0)
    topology = Topology.of_heads([np.arange(3)], np.array([0]), 3)
    method = make_method("random_clusters").with_(group=lambda view, rng: topology, edge=TimeBox(seconds=20.0))
    federation = Driver(method, world(place), Model(None))
    (state,) = federation.cloud_rounds(1)
    assert state.group_rounds.tolist() == [3] and state.time_s == pytest.approx(20 + 1)
    shaky = replace(place, compute_settings=place.compute_settings.model_copy(update={"jitter_sigma": 1.0}))
    slow = Driver(method, world(shaky), Model(None))
    monkeypatch.setattr(errands, "jitter", lambda sigma, seed, clients, purpose, *when: np.full(len(clients), 1.5))
    (state,) = slow.cloud_rounds(1)
    # rounds end at 9 and 18 s; the third begins, and at 20 s only client 0 (1.5 s) is back: two are late
    assert state.group_rounds.tolist() == [3] and state.time_s == pytest.approx(20 + 1)
    assert state.n_late == 2 and state.n_updates == 7


@settings(max_examples=40)
@given(st.floats(0.01, 1e4), st.integers(1, 60))
def test_rounds_that_fill_a_box_to_the_last_second_fit(step_s, n):
    place = snapshot([step_s, step_s / 2], [[1, 1]], cloud_s=1.0)
    topology = Topology.of_heads([np.arange(2)], np.array([0]), 2)
    method = make_method("random_clusters").with_(group=lambda view, rng: topology, edge=TimeBox(seconds=n * step_s))
    (state,) = Driver(method, world(place), Model(None), keep_timeline=False).cloud_rounds(1)
    assert state.group_rounds.tolist() == [n] and state.n_late == 0


def test_dead_clusters_count_in_what_is_noted():
    chosen = mesh(9, 3, "link", rates="{kind: drawn, low: 0, high: 1, unit_bit_s: 1.0e+5}")
    simulation = Simulation(chosen, make_method("random_clusters:n_clusters=3"), 0, dry_run=True)
    for _ in simulation.rounds():
        pass
    last = simulation.measures[-1]
    assert last["round_s"] == np.inf and last["dead_clusters"] >= 1
