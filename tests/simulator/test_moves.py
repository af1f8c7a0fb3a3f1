"""Clients that move between edge rounds: where updates are merged, what links cost, and that nothing is lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_stress import Watched
from worlds import adding, moving, quadratic

from fedloom.grouping import Topology, home_cells
from fedloom.methods import Grouping
from fedloom.methods.fedavg import method as fedavg
from fedloom.methods.feduc_r import method as feduc_r
from fedloom.methods.hierfedavg import method as hierfedavg
from fedloom.methods.macfl_r import method as macfl_r
from fedloom.mixing import CloudLinear, Linear, by_size, discounted, polynomial_cloud, polynomial_edge
from fedloom.pacing import StalenessBound, fixed_deadline, lockstep, median_iqr
from fedloom.protocol import Async, Barrier, Immediate, Rounds
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.book import Model, settle
from fedloom.simulator.driver import Driver


def start(method, world_):
    return Driver(method, world_, Model(np.zeros(1, np.float32)))


def play(method, world_, engine, n_rounds):
    federation = start(method, world_)
    seen = [(s.time_s, float(settle(s.model, engine)[0])) for s in federation.cloud_rounds(n_rounds)]
    return seen, federation


def test_members_are_those_at_home_when_the_round_opens():
    # three edge rounds; client 1 is at edge 0, 1, 0; edge 1 has nobody in the third
    homes = [[0, 0], [0, 0], [0, 1], [0, 0]]
    seen, federation = play(hierfedavg(), moving(homes, 2, [1.0, 5.0], edge_rounds=3), adding(1, 10), 1)
    sent = [(s.edge_round, s.aggregator.tolist(), s.client.tolist(), s.start_s) for s in federation.timeline]
    # edge 1 runs its first round, without anybody, in no time, and its second with client 1, if it is idle: it is not, until 5 s
    assert sent == [(1, [0, 0], [0, 1], 0.0), (2, [0], [0], 5.0), (3, [0, 0], [0, 1], 6.0)]
    assert seen[0][0] == 11.0
    assert federation.scenes.handovers == 2 and federation.errands.n_updates == 5


def test_a_late_update_is_merged_once_where_its_client_is():
    # client 1 works 25 s for edge 0 (deadline 10 s) and belongs to edge 1 from the second edge round on
    homes = [[0, 0, 1], [0, 0, 1], [0, 1, 1]]
    method = hierfedavg().with_(edge=Rounds(pace=fixed_deadline(10.0)), merge_edge=Linear(discounted("delta")))
    seen, federation = play(method, moving(homes, 2, [10.0, 25.0, 9.0], edge_rounds=4), adding(1, 8, 0), 1)
    late = next(s for s in federation.timeline if 1 in s.client)
    at = late.client.tolist().index(1)
    # edge 1 closes at 9, 18, 27: the update, there at 25, is merged at 27 in its third round
    assert (late.merged_s[at], late.merged_at[at], late.late[at], late.moved[at]) == (27.0, 1, True, True)
    assert federation.errands.n_updates == 4 + 4 + 1
    # edge 1: 0 + 8 * 100 / 3 / 200 at age 2; edge 0: 4; by data of those attached: 1 to 2
    assert seen[0][1] == pytest.approx((4 + 2 * 8 / 3 / 2) / 3)


def test_an_update_is_not_merged_in_a_round_before_it_was_sent():
    # edge 0 is quick: in its third round client 1 works for it, late; edge 1 is still in its second, in which client 1 was there
    homes = [[0, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]]
    ages = []

    def weigh(arrivals):
        ages.extend(arrivals.staleness.tolist())
        return by_size(arrivals)

    method = hierfedavg().with_(edge=Rounds(pace=fixed_deadline(6.0)), merge_edge=Linear(weigh))
    play(method, moving(homes, 2, [1.0, 7.0, 6.0], edge_rounds=6), adding(0, 0, 0), 2)
    assert min(ages) >= 0 and max(ages) > 0


def test_links_cost_what_they_cost_at_the_current_home():
    homes = [[0], [0], [1]]
    made = moving(homes, 2, [1.0], edge_rounds=2, links={"up_s": [[2.0], [7.0]]})
    seen, federation = play(hierfedavg(), made, adding(1), 1)
    # edge 0: 1 + 2 s, then nobody; edge 1: nobody, then busy until 3 s; the round ends without work at 3
    assert [s.arrival_s.tolist() for s in federation.timeline] == [[3.0]]
    made = moving(homes, 2, [1.0], edge_rounds=1, links={"up_s": [[2.0], [7.0]]})
    seen, federation = play(hierfedavg(), made, adding(1), 2)
    assert [t for t, _ in seen] == [3.0, 3.0 + 8.0]
    table = {(r["hop"], r["direction"]): r["airtime_s"] for r in federation.ledger.table()}
    assert table["device_edge", "up"] == 2.0 + 7.0


def test_flat_methods_are_relayed_by_the_current_home():
    made = moving([[0], [0], [1]], 2, [1.0], edge_rounds=2, links={"up_s": [[2.0], [7.0]]})
    seen, _ = play(fedavg(), made, adding(1), 1)
    assert seen == [(1 + 2 + 1 + 7.0, 2.0)]


def test_total_data_of_an_edge_is_that_of_the_clients_attached_when_the_cloud_merges():
    homes = [[0, 1, 1], [0, 1, 1], [0, 0, 1]]
    seen, _ = play(hierfedavg(), moving(homes, 2, [1.0] * 3, edge_rounds=2), adding(3, 0, 0), 1)
    # edge 0: 3, then mean(6, 3 + 0) with client 1, 200 samples; edge 1: 0, 100 samples
    assert seen[0][1] == pytest.approx(2 / 3 * 4.5)


def test_everybody_staying_is_the_static_run_bit_for_bit(small):
    small["training"]["clients_per_round"] = 2
    small["fleet"]["compute"]["jitter_sigma"] = 0.5
    runs = []
    for moves in (None, {"p_stay": 1.0, "neighbours": "path", "every": "edge-round"}):
        if moves:
            small["fleet"]["mobility"] = moves
        for name in ("hierfedavg", "csahfl:alpha=0", "feduc_r:n_groups=2", "macfl_r", "fedat:n_tiers=2"):
            simulation = Simulation(scenario(small), make_method(name), seed=3)
            for _ in simulation.rounds():
                pass
            runs.append((simulation.result().row, simulation.measures))
    for (row, measures), (other, others) in zip(runs[:5], runs[5:]):
        assert np.array_equal(row, other) and measures == others


SPANNING = Topology(
    cover=np.repeat(np.eye(6, dtype=bool), 2, axis=1)[:, :9],
    kind="edge",
    host=np.array([0, 0, 1, 1, 2, 2]),
    cluster=np.array([0, 1, 0, 1, 0, 1]),
    follow=True,
)


def clusters(view, rng):
    return SPANNING.at_home(view.home)


@st.composite
def travels(draw):
    """Homes of nine clients in three cells over 12 edge rounds, times, and a mixture of parts."""
    homes = draw(st.lists(st.lists(st.integers(0, 2), min_size=9, max_size=9), min_size=2, max_size=12))
    step_s = draw(st.lists(st.floats(0.1, 9.0), min_size=9, max_size=9))
    paces = [lockstep, median_iqr(0.0), median_iqr(0.5, early_close=False), fixed_deadline(2.0)]
    edge = draw(st.sampled_from([*(Rounds(pace=pace) for pace in paces), Async(), Async()]))
    weighings = [polynomial_edge()] if edge.at_once else [by_size, discounted("delta")]
    parts = {
        "edge": edge,
        "cloud": draw(st.sampled_from([Barrier(), Immediate(), Immediate(bound=StalenessBound(s_max=1))])),
        "group": Grouping(draw(st.sampled_from([home_cells, clusters])), when="once"),
        "merge_edge": Linear(draw(st.sampled_from(weighings))),
        "merge_cloud": CloudLinear(polynomial_cloud()),
    }
    settings_ = {
        "edge_rounds": draw(st.integers(1, 3)),
        "clients_per_round": draw(st.sampled_from([None, 1, 2])),
        "seed": draw(st.integers(0, 9)),
    }
    method = draw(st.sampled_from([hierfedavg().with_(**parts), hierfedavg().with_(**parts), feduc_r(n_groups=2)]))
    return method, moving(homes, 3, step_s, **settings_)


@settings(max_examples=60)
@given(travels())
def test_nothing_is_lost_or_counted_twice(travel):
    method, world_ = travel
    federation = Watched(method, world_, Model(np.zeros(1, np.float32)))
    times = [0.0]
    for state in federation.cloud_rounds(4):
        times.append(state.time_s)
        assert state.topology.cover.sum() == 9 and (state.topology.cover.sum(axis=0) == 1).all()  # nobody is lost
    assert times == sorted(times)
    federation.check_updates()
    merged = np.concatenate([s.merged_s for s in federation.timeline])
    arrival = np.concatenate([s.arrival_s for s in federation.timeline])
    assert np.isfinite(merged).sum() == len(federation.merged)
    assert (merged[np.isfinite(merged)] >= arrival[np.isfinite(merged)] - 2e-9).all()


def test_models_that_depend_on_rows_survive_moves():
    homes = [[0, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]]
    seen, _ = play(macfl_r(), moving(homes, 2, [1.0, 2.0, 3.0], edge_rounds=2), quadratic([1] * 3, [1, 2, 3]), 3)
    assert [t for t, _ in seen] == sorted(t for t, _ in seen) and 0 < seen[-1][1] < 3


@pytest.mark.parametrize("name", ["hhfl", "fedmes", "random_clusters", "fedavg", "fedprox"])
def test_methods_that_know_nothing_of_moves_run_with_them(small, name):
    small["fleet"]["mobility"] = {"p_stay": 0.3, "neighbours": "path", "every": "edge-round"}
    small["fleet"]["redraw"] = {"links": "edge-round", "compute": "edge-round"}
    simulation = Simulation(scenario(small, ["training.cloud_rounds=3"]), make_method(name), seed=2, dry_run=True)
    measures = list(simulation.rounds())
    assert measures[-1]["handovers"] > 0 and len(simulation.places) == 3
