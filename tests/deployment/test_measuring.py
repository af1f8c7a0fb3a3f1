"""What nodes measure: letters of it, the ledger, and what the server sees."""

import numpy as np
import pytest

from fedloom.deployment.booking import Booking
from fedloom.deployment.conductor import Conductor
from fedloom.deployment.journal import Journal
from fedloom.deployment.letters import Letter, decode, encode
from fedloom.deployment.sight import Sight
from fedloom.deployment.store import Store
from fedloom.deployment.took import NOTHING, Took, Traffic, took_of
from fedloom.deployment.transport import Refusal
from fedloom.simulator import Scenario, Simulation, make_method
from fedloom.simulator.ledger import DIRECTIONS, HOPS, Ledger
from small import for_method

TOOK = Took(0.5, 2.0, 0.25, None, 400, 800, {"edge-0": (800, 400, 900, 500)})


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal", "run")
    yield made
    made.close()


def started(name, **fleet):
    """A simulation that has begun its first cloud round."""
    scenario, method = for_method(name)
    scenario["fleet"] |= fleet
    simulation = Simulation(Scenario.model_validate(scenario), make_method(method), dry_run=True)
    next(simulation.federation.cloud_rounds(1))
    return simulation


def test_what_was_measured_is_what_is_told():
    assert took_of(decode(encode(Letter("done", TOOK.fields())), 10_000)) == TOOK
    assert took_of(Letter("done", {"order": "merge-m-3"})) == NOTHING


@pytest.mark.parametrize(
    "fields",
    [
        {"took": [1.0, 2.0, 3.0]},
        {"took": [-1.0, 2.0, 3.0, None, 1, 1]},
        {"took": ["1", 2.0, 3.0, None, 1, 1]},
        {"took": [True, 2.0, 3.0, None, 1, 1]},
        {"took": [1.0, 2.0, 1e300, None, 1, 1]},
        {"took": [1.0, 2.0, 3.0, None, 0.5, 1]},
        {"carried": {"edge-0": [1, 2, 3]}},
        {"carried": {"edge-0": [1, 2, 3, -4]}},
        {"carried": {"../x": [1, 2, 3, 4]}},
        {"carried": [1, 2]},
    ],
)
def test_nonsense_is_refused(fields):
    with pytest.raises(Refusal, match=r"took must be|carried must be"):
        took_of(Letter("done", fields))


def test_traffic_is_counted_once():
    traffic, row = Traffic(), np.zeros(10, np.float32)
    traffic.note("edge-0", Letter("put", {}, {"row": row}), 70, Letter("taken"), 20)
    traffic.note("edge-0", Letter("fetch"), 30, Letter("row", {}, {"row": row}), 60)
    assert traffic.take() == {"edge-0": (40, 40, 100, 80)}
    assert traffic.take() == {}


def test_a_journal_keeps_what_was_measured(tmp_path):
    journal = Journal(tmp_path / "journal", "run")
    journal.measured(3, 7, TOOK)
    journal.moves("edge-0", Took(fetch_s=0.1, fetched=400))
    journal.carries("device-3", TOOK.carried)
    journal.carries("device-3", TOOK.carried)
    journal.close()
    again = Journal(tmp_path / "journal", "run")
    again.close()
    assert again.took == {(3, 7): TOOK._replace(carried={})}
    assert again.moved == [("edge-0", Took(fetch_s=0.1, fetched=400))]
    assert again.carried == {("device-3", "edge-0"): [1600, 800, 1800, 1000]}


@pytest.mark.parametrize("do", ["report", "hold", "merge", "deliver"])
def test_an_order_that_is_said_to_be_done_twice_is_counted_once(do, journal, tmp_path):
    conductor = Conductor(make_method("hierfedavg"), journal, Store(tmp_path / "values", "run"), 5)
    conductor.outbox.add("edge-1", {"id": f"{do}-m-3", "do": do, "name": "m-3"})
    took = TOOK if do in ("report", "hold") else Took(carried=TOOK.carried)
    for _ in range(2):
        conductor.done("edge-1", f"{do}-m-3", None, took)
    assert journal.carried == {("edge-1", "edge-0"): [800, 400, 900, 500]}
    assert [node for node, _ in journal.moved] == (["edge-1"] if do in ("report", "hold") else [])


def test_the_ledger_books_what_was_measured_and_adds_up(journal):
    scene = started("hhfl").federation.scenes.now
    client = int(np.flatnonzero(scene.n_reached == 2)[0])  # in two cells: every cost belongs to two aggregators
    ledger = Ledger()
    who, compute_s = np.array([client]), 0.7
    ways = scene.exchange
    for way in (ways.client_down, ways.client_up):
        way.book(ledger, who, 1000)
    ledger.compute(compute_s, compute_s * 1.0)
    up = HOPS.index("device_edge"), DIRECTIONS.index("up")
    before_j = float(ledger.energy_j[up])
    journal.measured(client, 0, Took(0.5, 2.0, 3 * ways.client_up.seconds[client], None, 2 * 400, 2 * 401))
    booking = Booking(lambda: ledger, 1000, 1000, journal)
    booking.sent((client, 0), scene, compute_s)
    booking.delivered((client, 0))
    assert ledger.compute_s == pytest.approx(2.0)
    assert ledger.compute_j == pytest.approx(2.0)  # a watt, as the fleet says
    assert ledger.bytes[up] == 802 and ledger.bytes[up[0], DIRECTIONS.index("down")] == 800
    assert ledger.energy_j[up] == pytest.approx(3 * before_j)  # three times as long at the same power
    computing, *_ = [line for line in booking.table() if line["hop"] == "computing"]
    assert computing["predicted"]["airtime_s"] == pytest.approx(0.7)
    lines = {(line["hop"], line["direction"]): line for line in booking.table()}
    assert lines["device_edge", "up"]["predicted"]["bytes"] == 2000
    costs = ledger.by_aggregator()
    assert costs["bytes"].sum() == ledger.total_bytes
    assert sum(costs["energy_j"][np.array(costs["hop"]) != "computing"]) == pytest.approx(ledger.energy_j.sum())
    booking.delivered((client, 0))  # a copy
    assert ledger.bytes[up] == 802


def test_joules_of_a_meter_stand_in_place_of_the_models(journal):
    scene = started("hierfedavg").federation.scenes.now
    ledger = Ledger()
    journal.measured(1, 0, Took(0.5, 2.0, 0.5, 31.0, 4, 4))
    booking = Booking(lambda: ledger, 4, 4, journal)
    ledger.compute(0.7, 0.7)
    booking.sent((1, 0), scene, 0.7)
    booking.delivered((1, 0))
    assert ledger.compute_j == pytest.approx(31.0)


def test_what_was_not_measured_stays_as_predicted(journal):
    scene = started("hierfedavg").federation.scenes.now
    ledger = Ledger()
    journal.measured(1, 0, NOTHING)
    booking = Booking(lambda: ledger, 4, 4, journal)
    booking.sent((1, 0), scene, 0.7)
    booking.delivered((1, 0))
    booking.delivered((2, 0))
    assert ledger.compute_s == 0.0 and ledger.total_bytes == 0


def test_what_goes_to_the_cloud_is_booked_as_measured_too(journal):
    scene = started("hierfedavg").federation.scenes.now
    ledger = Ledger()
    booking = Booking(lambda: ledger, 1000, 1000, journal)
    booking.sent((1, 0), scene, 0.7)
    scene.exchange.cloud_up.book(ledger, np.array([1]), 1000)
    journal.moves("edge-1", Took(send_s=2.0, sent=1016))
    journal.moves("edge-99", Took(send_s=2.0, sent=1016))  # nobody's
    booking.reported()
    booking.reported()
    at = HOPS.index("edge_cloud"), DIRECTIONS.index("up")
    assert ledger.bytes[at] == 1016 and ledger.airtime_s[at] == pytest.approx(2.0)


def seen_by(sight, simulation):
    now = simulation.federation.scenes.now.snapshot
    return now, *sight.seen(now, np.full(6, 0.2))


def test_the_server_sees_the_median_of_the_last_jobs():
    simulation = started("hierfedavg")
    scene, sight = simulation.federation.scenes.now, Sight(measures=True, up_bits=1e6, down_bits=1e6)
    for ticket, (train_s, send_s) in enumerate(
        [(9.0, 9.0), (1.0, 0.5), (3.0, 0.1), (1.2, 0.5), (1.0, 0.5), (1.4, 0.6)]
    ):
        sight.sent((2, ticket), scene, 2)
        sight.delivered((2, ticket), Took(0.25, train_s, send_s, None, 10, 10))
    now, seen, step_s = seen_by(sight, simulation)
    assert step_s.tolist() == [0.2, 0.2, pytest.approx(0.6), 0.2, 0.2, 0.2]  # 1.0 1.0 1.2 1.4 3.0, two steps
    home = now.home[2]
    assert seen.edge_up.seconds(1e6)[home, 2] == pytest.approx(0.5)
    assert seen.edge_down.seconds(1e6)[home, 2] == pytest.approx(0.25)
    others = np.arange(6) != 2
    assert np.array_equal(seen.edge_up.rate_bit_s[:, others], now.edge_up.rate_bit_s[:, others])


def test_links_between_devices_are_seen_from_both_ends():
    simulation = started("ddc")
    scene, sight = simulation.federation.scenes.now, Sight(measures=True, up_bits=1e6, down_bits=1e6)
    head = int(scene.topology.host[0])
    member = next(k for k in np.flatnonzero(scene.topology.cover[0]).tolist() if k != head)
    sight.sent((member, 0), scene, 2)
    sight.delivered((member, 0), Took(0.25, 1.0, 0.5, None, 10, 10))
    _, seen, _ = seen_by(sight, simulation)
    assert seen.d2d.rate_bit_s[head, member] == seen.d2d.rate_bit_s[member, head] == pytest.approx(2e6)


def test_who_was_given_up_is_left_out_of_one_grouping():
    simulation, sight = started("hierfedavg"), Sight(measures=True, up_bits=1e6, down_bits=1e6)
    sight.left(4)
    assert seen_by(sight, simulation)[1].active.tolist() == [True, True, True, True, False, True]
    assert seen_by(sight, simulation)[1].active.all()
    for client in range(6):
        sight.left(client)
    assert seen_by(sight, simulation)[1].active.all()  # somebody must work


def test_where_every_round_waits_for_all_the_server_goes_by_the_fleet():
    simulation, sight = started("hierfedavg"), Sight(measures=False, up_bits=1e6, down_bits=1e6)
    sight.left(4)
    now, seen, step_s = seen_by(sight, simulation)
    assert seen is now and (step_s == 0.2).all()
