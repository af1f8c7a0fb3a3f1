"""Plans: what is predicted is what the loop of the simulator counts, and heads keep to what a fleet allows."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import FixedFleet

from fedloom.fleet import Link
from fedloom.fleet.table import FleetTable
from fedloom.grouping import Need, Topology
from fedloom.planning import (
    Work,
    devices_of,
    heads_by_data_and_distance,
    heads_in_the_middle,
    make_plan,
    missing_columns,
    predict,
)
from fedloom.planning.costs import SERVER_W, Prices
from fedloom.planning.devices import label_gradients
from fedloom.planning.head_search import choose_candidates
from fedloom.planning.prediction import label_imbalance
from fedloom.planning.ways import exchange_of
from fedloom.protocol import Barrier
from fedloom.radio import airtime_s
from fedloom.simulator import make_method
from fedloom.simulator.book import Model
from fedloom.simulator.driver import Driver
from fedloom.simulator.world import World

WORK = Work(model_bytes=40_000, local_steps=3, edge_rounds=4)


def fleet(n=12, seed=0, *, server=(2500.0, 300.0), **columns):
    rng = np.random.default_rng(seed)
    table = FleetTable(ids=tuple(map(str, range(n))), position_m=rng.uniform(-400, 400, (n, 2)), **columns)
    return devices_of(table, np.array(server))


def random_topology(n, k, seed):
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(n) % k)
    clusters = [np.flatnonzero(label == c) for c in range(k)]
    return Topology.of_heads(clusters, np.array([rng.choice(c) for c in clusters]), n)


def simulated(devices, method, topology, work):
    """The same cloud round by the simulator's loop: needs the same power everywhere. The server's energy is not counted."""
    power = float(devices.power_w[0])
    ends = devices.to_server_m

    def to_cloud(sender_w, paid_w):
        rate = devices.rates(ends, np.full(devices.n, sender_w))
        return Link(fixed_s=np.zeros(devices.n), rate_bit_s=rate, power_w=paid_w)

    snapshot = replace(
        devices.snapshot(8.0 * work.up_bytes, 8.0 * work.up_bytes),
        cloud_via_edge=False,
        cloud_up=to_cloud(power, power),
        cloud_down=to_cloud(SERVER_W, 0.0),
        compute=devices.step_s,
    )
    world = World(
        fleet=FixedFleet(snapshot),
        n_samples=devices.n_samples,
        label_counts=devices.label_counts,
        batch_size=32,
        model_bits=8.0 * work.model_bytes,
        seed=0,
        local_steps=work.local_steps,
        edge_rounds=work.edge_rounds,
        coded_bits=(8.0 * work.up_bytes, 8.0 * work.down_bytes),
    )
    federation = Driver(method.with_(group=lambda view, rng: topology), world, Model())
    return next(federation.cloud_rounds(1)), federation.ledger


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "name",
    [
        "ddc",
        "fedavg",
        "random_clusters:box_s=40",
        "ddc:up=float16:down=bfloat16",
        "fedavg:up=topk:up.share=0.01:down=qsgd:down.bits=8",
    ],
)
def test_a_plan_predicts_what_the_simulator_counts(name, seed):
    devices = fleet(12, seed, steps_per_s=np.random.default_rng(seed).uniform(1, 20, 12))
    method = make_method(name)
    topology = random_topology(12, 1 + seed, seed)
    if method.name == "fedavg":
        topology = Topology(cover=np.ones((1, 12), bool), kind="cloud", host=np.zeros(1, np.int64))
    work = WORK.by(method)
    plan = predict(devices, method, topology, work)
    after, ledger = simulated(devices, method, topology, work)
    assert plan.time_s == pytest.approx(after.time_s, rel=1e-12)
    assert plan.edge_rounds.tolist() == after.group_rounds.tolist()
    for part in ("bytes", "links", "parties"):
        assert getattr(plan.ledger, part).tolist() == getattr(ledger, part).tolist()
    np.testing.assert_allclose(plan.ledger.energy_j, ledger.energy_j, rtol=1e-12)
    np.testing.assert_allclose(plan.ledger.airtime_s, ledger.airtime_s, rtol=1e-12)
    assert plan.ledger.compute_s == pytest.approx(ledger.compute_s)


@pytest.mark.parametrize("seed", range(3))
def test_devices_add_up_to_the_ledger(seed):
    rng = np.random.default_rng(seed)
    devices = fleet(15, seed, power_w=rng.choice([0.01, 0.05, 0.2], 15))
    plan = predict(devices, make_method("ddc"), random_topology(15, 3, seed), WORK)
    assert plan.joules.sum() == pytest.approx(plan.ledger.total_j)
    from_server = 3 * WORK.model_bytes  # the server sends to three heads, and gets as much
    assert plan.bytes_sent.sum() + from_server == plan.ledger.total_bytes
    assert plan.bytes_received.sum() + from_server == plan.ledger.total_bytes


def test_a_member_sends_at_its_own_power_and_its_head_at_the_heads_by_hand():
    position = np.array([[0.0, 0.0], [300.0, 0.0]])
    table = FleetTable(ids=("head", "member"), position_m=position, power_w=np.array([0.1, 0.01]))
    devices = devices_of(table, np.array([0.0, 1000.0]))
    topology = Topology.of_heads([np.array([0, 1])], np.array([0]), 2)
    plan = predict(devices, make_method("ddc"), topology, Work(model_bytes=1000, local_steps=1, edge_rounds=2))
    loss_db = 128.1 + 37.6 * np.log10(0.3)
    noise_w = 10 ** (-173 / 10) / 1000 * 1e6
    up, down = (airtime_s(8000, 1e6 * np.log2(1 + p * 10 ** (-loss_db / 10) / noise_w)) for p in (0.01, 0.1))
    to_server = airtime_s(8000, 1e6 * np.log2(1 + 0.1 * 10 ** (-128.1 / 10) / noise_w))
    assert plan.joules.tolist() == pytest.approx([2 * 0.1 * down + 0.1 * to_server, 2 * 0.01 * up])
    assert plan.seconds[1] == pytest.approx(2 * (down + 0.01 + up))
    assert plan.bytes_sent.tolist() == [3000, 2000] and plan.bytes_received.tolist() == [3000, 2000]


def test_a_plan_with_coded_models_by_hand():
    """1000 bytes are 250 values. Up go the 25 largest, 4 bytes each, and which in 8 bits: 125 bytes. Down go halves."""
    table = FleetTable(ids=("head", "member"), position_m=np.array([[0.0, 0.0], [300.0, 0.0]]))
    devices = devices_of(table, np.array([0.0, 1000.0]))
    topology = Topology.of_heads([np.array([0, 1])], np.array([0]), 2)
    method = make_method("geographic:up=topk:up.share=0.1:down=float16").with_(group=lambda view, rng: topology)
    work, rng = Work(model_bytes=1000, local_steps=1, edge_rounds=2), np.random.default_rng(0)
    plan = make_plan(devices, method, work, rng)
    assert plan.bytes_sent.tolist() == [2 * 500 + 125, 2 * 125]
    assert plan.bytes_received.tolist() == [2 * 125 + 500, 2 * 500]
    plain = make_plan(devices, method.with_(up="float32", down="float32"), work, rng)
    sent = work.by(method)
    same_way = make_plan(devices, method.with_(up="float32", down="float32"), sent, rng)
    assert (sent.up_bytes, sent.down_bytes) == (125, 500) and same_way.time_s == plan.time_s < plain.time_s
    np.testing.assert_allclose(plan.joules[1], plain.joules[1] / 8)
    assert plan.ledger.total_bytes == 3 * (125 + 500)


def test_a_method_that_asks_for_links_between_devices_is_planned_with_one_size_of_models():
    """10,000 values: their signs are 1250 bytes, and a scale 4."""
    devices, work, rng = fleet(12), Work(model_bytes=40_000), np.random.default_rng(0)
    both = "up=float16:down=bfloat16"
    assert make_plan(devices, make_method(f"ltc:n_clusters=3:{both}"), work, rng).ledger.total_bytes > 0
    with pytest.raises(ValueError, match=r"here 1,254 bytes go up and 40,000 down; code both ways alike, or plan with"):
        make_plan(devices, make_method("ltc:n_clusters=3:up=sign:up.bucket=10000"), work, rng)


@pytest.mark.parametrize("seed", range(4))
def test_methods_see_the_links_that_a_plan_is_charged(seed):
    """Unequal powers: seconds and joules of each link, by direction, are those of the ways of the plan; nobody is suspected."""
    rng = np.random.default_rng(seed)
    devices = fleet(14, seed, power_w=rng.choice([0.005, 0.02, 0.1, 0.3], 14))
    topology, seen = random_topology(14, 3, seed), {}

    def group(view, rng):
        seen.update(link_s=view.link_s, link_j=view.link_j, cloud_j=view.cloud_j, trusted=view.trusted)
        seen.update(cloud_s=view.uplink.seconds(view.model_bits))
        return topology

    make_plan(devices, make_method("ltc").with_(group=group, edge=make_method("ddc").edge), WORK, rng)
    head = topology.host[topology.cover.argmax(axis=0)]
    ways = exchange_of(Prices(devices=devices, work=WORK), topology, head, np.ones(14, bool))
    own = np.arange(14)
    np.testing.assert_allclose(seen["link_s"][own, head], ways.client_up.seconds, rtol=1e-12)
    np.testing.assert_allclose(seen["link_s"][head, own], ways.client_down.seconds, rtol=1e-12)
    np.testing.assert_allclose(seen["link_j"][own, head], ways.client_up.legs[0].joules, rtol=1e-12)
    np.testing.assert_allclose(seen["link_j"][head, own], ways.client_down.legs[0].joules, rtol=1e-12)
    np.testing.assert_allclose(seen["cloud_s"][topology.host], ways.cloud_up.seconds, rtol=1e-12)
    np.testing.assert_allclose(seen["cloud_j"][topology.host], ways.cloud_up.legs[0].joules, rtol=1e-12)
    assert seen["trusted"].all()
    assert (seen["link_s"] != seen["link_s"].T).any()  # the property says something


def test_who_sends_in_turn_is_told_from_who_sends_side_by_side():
    devices, topology = fleet(9, 1), random_topology(9, 3, 1)
    plain, in_turn = (
        predict(devices, make_method("ddc").with_(cloud=Barrier(uplink=uplink)), topology, WORK)
        for uplink in (None, lambda ready_s, upload_s: ready_s.max() + np.cumsum(upload_s))
    )
    assert plain.side_by_side_s == plain.time_s == in_turn.side_by_side_s < in_turn.time_s


def test_samples_per_second_need_the_samples_of_a_step():
    table = FleetTable(
        ids=("a", "b"),
        position_m=np.array([[0.0, 0.0], [5.0, 0.0]]),
        samples_per_s=np.array([10.0, 20.0]),
        n_samples=np.array([20, 64]),
    )
    assert devices_of(table, np.zeros(2)).step_s.tolist() == [2.0, 1.6]  # 20 / 10 and 32 / 20


@pytest.mark.parametrize("seed", range(3))
def test_heads_are_candidates_and_keep_to_their_capacities(seed):
    rng = np.random.default_rng(seed)
    candidate = np.arange(40) % 3 == 0
    capacity = rng.integers(4, 9, 40)
    devices = fleet(40, seed, candidate=candidate, capacity=capacity, label_counts=rng.integers(0, 30, (40, 4)))
    group = heads_by_data_and_distance(devices, alpha=None, n_candidates=None, exact=False)
    for chosen in (group, heads_in_the_middle(devices, 12)):
        plan = make_plan(devices, make_method("ddc").with_(group=chosen), WORK, np.random.default_rng(seed))
        assert candidate[plan.topology.host].all()
        assert (plan.size <= capacity[plan.topology.host]).all() and plan.size.sum() == 40


def test_the_search_finds_what_is_proven_best_for_a_handful():
    devices = fleet(9, 2, label_counts=np.random.default_rng(2).integers(0, 30, (9, 3)), capacity=np.full(9, 4))
    rng = np.random.default_rng
    found = {
        exact: make_plan(
            devices,
            make_method("ddc").with_(group=heads_by_data_and_distance(devices, alpha=0.5, n_candidates=5, exact=exact)),
            WORK,
            rng(1),
        ).topology.notes["objective"]
        for exact in (True, False)
    }
    assert found[True] <= found[False] + 1e-12 and found[False] == pytest.approx(found[True], rel=0.01)


def test_candidates_are_as_many_as_capacities_need():
    devices = fleet(60, capacity=np.full(60, 3))
    chosen = choose_candidates(devices, 5, np.random.default_rng(0))
    assert devices.capacity[chosen].sum() >= 60 and len(chosen) == 27  # 20 needed, and a third more
    few = replace(devices, candidate=np.arange(60) < 10)
    with pytest.raises(
        ValueError, match="the 10 devices that may be heads have room for 30 devices in all, and there are 60"
    ):
        choose_candidates(few, 5, np.random.default_rng(0))


def test_labels_stand_for_gradients():
    counts = np.array([[4, 0], [1, 3], [0, 0]])
    assert label_gradients(counts).tolist() == [[-0.5, 0.5], [0.25, -0.25], [0.0, 0.0]]


def test_imbalance_by_hand():
    cover = np.array([[True, True, False], [False, False, True]])
    counts = np.array([[4, 0], [0, 4], [0, 8]])  # all: 1/4, 3/4; first: 1/2, 1/2; second: 0, 1
    assert label_imbalance(cover, counts).tolist() == [0.25, 0.25]
    assert np.isnan(label_imbalance(cover, np.zeros((3, 0), np.int64))).all()


def test_columns_that_would_help_go_by_what_the_method_needs():
    table = FleetTable(ids=("a",), position_m=np.zeros((1, 2)))
    assert "now the data play no part" in missing_columns(table, frozenset({Need.GRADIENTS}), False)["label_<name>"]
    assert "how much the labels" in missing_columns(table, frozenset({Need.POSITIONS}), False)["label_<name>"]
    assert "clusters that know slow" in missing_columns(table, frozenset({Need.SPEEDS}), False)["steps_per_s"]
    full = replace(table, steps_per_s=np.ones(1), power_w=np.ones(1), capacity=np.ones(1), candidate=np.ones(1, bool),
                   n_samples=np.ones(1), battery_j=np.ones(1), label_counts=np.ones((1, 2)))  # fmt: skip
    assert missing_columns(full, frozenset({Need.GRADIENTS}), True) == {}
    assert set(missing_columns(full, frozenset({Need.GRADIENTS}), False)) == {"--gradients"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hhfl", "hhfl groups devices by the cells of edge servers"),
        ("dcliques", "dcliques groups by samples per class; add columns label_<name>"),
        ("ltc:feature=prediction", "ltc groups by mean outputs, which a table of devices does not have"),
    ],
)
def test_methods_that_cannot_plan_say_why(name, message):
    with pytest.raises(ValueError, match=message):
        make_plan(fleet(6), make_method(name), WORK, np.random.default_rng(0))


def test_what_ddc_cannot_do_is_said():
    rng = np.random.default_rng(0)
    for devices, options, message in (
        (fleet(6), {"alpha": 0.5, "exact": False}, "nothing is known of the data: give gradients"),
        (fleet(20), {"alpha": None, "exact": True}, "can be proven for at most 12 devices, got 20"),
    ):
        group = heads_by_data_and_distance(devices, n_candidates=None, **options)
        with pytest.raises(ValueError, match=message):
            make_plan(devices, make_method("ddc").with_(group=group), WORK, rng)
    one = fleet(1, server=(0.0, 0.0))
    one = replace(one, position_m=np.zeros((1, 2)))
    with pytest.raises(ValueError, match="all devices stand where the server is"):
        make_plan(
            one,
            make_method("ddc").with_(group=heads_by_data_and_distance(one, alpha=None, n_candidates=None, exact=False)),
            WORK,
            rng,
        )
