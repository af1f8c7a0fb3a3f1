"""Runs with devices that fail: what is lost, late and done again is counted, costs add up, and every run ends."""

import random

import numpy as np
import pytest

from fedloom.fleet import fleet as fleet_module
from fedloom.methods import METHODS
from fedloom.simulator import Scenario, Simulation, make_method, scenario
from fedloom.simulator.timeline import table
from small import for_method

CHARGING = {"power_w": 2.0, "when": {"kind": "on-off", "on_s": 10, "off_s": 10}}
HARD = {
    "availability": {"kind": "on-off", "on_s": 6, "off_s": 3},
    "dropout": {"per_round": 0.1, "off_s": 1.0},
    "loss": {"packet": 0.05, "packet_bytes": 100, "tries": 3},
    "battery": {"capacity_j": 5, "level": 0.6, "idle_w": 0.1, "receive_w": 0.5, "charging": CHARGING},
}
NEVER = {  # settings by which nobody ever fails
    "availability": {"kind": "trace", "first_on": [True] * 6, "changes_s": [[]] * 6},
    "dropout": {"per_round": 0.0},
    "loss": {"packet": 0.0},
    "battery": {"capacity_j": 1e15, "idle_w": 1.0},
}


def simulation(name, failures, seed=0, patience_s=2.0, *, cloud_rounds=3, dry_run=True, **changes):
    content, text = for_method(name, cloud_rounds=cloud_rounds)
    content["fleet"] |= failures
    for part, values in changes.items():
        content[part] |= values
    patience = "none" if patience_s is None else patience_s
    method = make_method(f"{text}:patience_s={patience}")
    return Simulation(Scenario.model_validate(content), method, seed, dry_run=dry_run, timeline=True, n_workers=1)


def run(*args, **options):
    made = simulation(*args, **options)
    for _ in made.rounds():
        pass
    return made


def lines(made):
    return table(made.federation.timeline)


def keep_laws(made):
    """Time goes forward; every job that was begun was merged, is lost, or is under way; nothing lost is merged; the seconds of
    the timeline are those of the ledger."""
    driver, last = made.federation, made.measures[-1]
    times = [measures["time_s"] for measures in made.measures]
    assert times == sorted(times) and np.isfinite(times).all()
    jobs, flights = lines(made), driver.machines.flights()
    lost, merged = np.isposinf(jobs["arrival_s"]), np.isfinite(jobs["merged_s"])
    assert not (lost & merged).any()
    assert (jobs["arrival_s"][merged] <= jobs["merged_s"][merged] + 1e-6).all()
    failing = sum(int(np.isposinf(flight.load.sent.arrival_s[flight.at]).sum()) for flight in flights)
    if not driver.method.edge.lost_on_move and not getattr(driver.method.cloud, "drop_late", False):
        assert lost.sum() == last.get("lost", 0) + failing
        assert len(lost) == merged.sum() + lost.sum() + sum(map(len, flights)) - failing
    if driver.errands.outages is not None:
        assert last["lost"] == sum(last[name] for name in last if name.startswith("lost_"))
    computed = jobs["compute_s"].sum()
    if not driver.ledger.feature_j:
        assert driver.ledger.compute_s == pytest.approx(computed)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_runs_with_devices_that_fail(name):
    made = run(name, HARD)
    keep_laws(made)
    last = made.measures[-1]
    assert made.cloud_rounds_done == 3 or made.federation.deserted
    assert last["lost"] + last["retried"] + last["packets_again"] > 0


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl", "csahfl", "ltc", "camu", "hiflash_r", "feduc_r"])
def test_failures_that_never_happen_change_nothing(name):
    """The limit in which nobody fails is the run without failures, to the bit."""
    plain, never = run(name, {}), run(name, NEVER)
    same = [{key: measures[key] for key in plain.measures[0] if key in measures} for measures in never.measures]
    assert same == [{key: m[key] for key in plain.measures[0] if key in m} for m in plain.measures]
    assert never.federation.ledger.table() == plain.federation.ledger.table()
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(lines(plain).values(), lines(never).values()))
    assert {never.measures[-1][key] for key in ("lost", "retried", "packets_again", "devices_down")} == {0}


def test_a_lockstep_round_by_hand():
    """Device 2 goes down for good 0.2 s after the start, at work. Nobody waits for it after another 5 s; the others were back
    long before, and the second round goes without it."""
    trace = {"kind": "trace", "first_on": [True] * 6, "changes_s": [[], [], [0.2], [], [], []]}
    plain = run("fedavg", {}, cloud_rounds=1)
    made = run("fedavg", {"availability": trace}, cloud_rounds=1, patience_s=5.0)
    jobs, before = lines(made), lines(plain)
    first = jobs["edge_round"] == 1
    assert jobs["client"][~first].tolist() == [0, 1, 3, 4, 5]
    (gone,) = np.flatnonzero(np.isposinf(jobs["arrival_s"]))
    assert jobs["client"][gone] == 2 and jobs["merged_at"][gone] == -1
    assert jobs["start_s"][~first].tolist() == pytest.approx([5.2] * 5)
    spent = sum(jobs[name][gone] for name in ("fetch_s", "compute_s", "upload_s"))
    assert spent == pytest.approx(0.2)
    assert (
        np.delete(jobs["arrival_s"][first], gone).tolist()
        == np.delete(before["arrival_s"][: sum(first)], gone).tolist()
    )
    assert (made.measures[-1]["updates"], made.measures[-1]["lost"], made.measures[-1]["lost_away"]) == (10, 1, 1)
    saved_s = before["compute_s"][gone] - jobs["compute_s"][gone] + before["compute_s"][before["client"] == 2][1]
    assert made.federation.ledger.compute_s == pytest.approx(plain.federation.ledger.compute_s - saved_s)


def test_bytes_of_packets_that_are_sent_again_are_booked_to_the_byte():
    made = run("fedavg", {"loss": {"packet": 0.3, "packet_bytes": 1, "tries": 1000}}, cloud_rounds=1)
    plain = run("fedavg", {}, cloud_rounds=1)
    radio = [row["bytes"] for row in made.federation.ledger.table() if row["hop"] == "device_cloud"]
    before = [row["bytes"] for row in plain.federation.ledger.table() if row["hop"] == "device_cloud"]
    assert sum(radio) - sum(before) == made.measures[-1]["packets_again"]  # a packet is a byte
    assert sum(radio) / sum(before) == pytest.approx(1 / 0.7, rel=0.02)


def test_who_is_back_in_time_does_its_work_again():
    trace = {"kind": "trace", "first_on": [True] * 6, "changes_s": [[], [], [0.2, 1.2], [], [], []]}
    made = run("fedavg", {"availability": trace}, cloud_rounds=1)
    plain = run("fedavg", {}, cloud_rounds=1)
    last, jobs, before = made.measures[-1], lines(made), lines(plain)
    assert (last["updates"], last["lost"], last["retried"]) == (12, 0, 1)
    mine = (jobs["client"] == 2) & (jobs["edge_round"] == 1)
    takes_s = before["arrival_s"][(before["client"] == 2) & (before["edge_round"] == 1)]
    assert jobs["arrival_s"][mine] == pytest.approx(1.2 + takes_s)


def test_with_nobody_there_time_passes_until_somebody_is():
    """Everybody is away from 0.1 to 50 s, and before 30 s on the first day."""
    away = {"kind": "trace", "first_on": [False] * 6, "changes_s": [[30.0, 30.1, 50.0]] * 6}
    for name in ("fedavg", "hierfedavg", "hiflash_r", "ltc", "feduc_r"):
        made = run(name, {"availability": away}, cloud_rounds=2)
        jobs = lines(made)
        assert jobs["start_s"].min() >= 30.0 and not made.federation.deserted, name
        assert (jobs["start_s"][jobs["start_s"] > 30.1] >= 50.0).all()
        keep_laws(made)


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hiflash_r", "camu", "csahfl"])
def test_a_run_that_everybody_has_left_for_good_ends_with_a_word(name):
    gone = {"kind": "trace", "first_on": [True] * 6, "changes_s": [[3.0]] * 6}
    made = run(name, {"availability": gone}, cloud_rounds=50)
    assert made.federation.deserted and made.cloud_rounds_done < 50
    assert any("nobody is left" in sentence and "of 50" in sentence for sentence in made.warnings)
    keep_laws(made)


def test_if_nobody_is_ever_there_it_is_said_at_once():
    never = {"kind": "trace", "first_on": [False] * 6, "changes_s": [[]] * 6}
    with pytest.raises(ValueError, match="no device is ever there"):
        run("fedavg", {"availability": never})


def test_batteries_run_empty_and_are_charged():
    """Without charging less and less is done; with it the fleet comes back."""
    battery = {"capacity_j": 2.0, "idle_w": 0.05}
    dies = run("hierfedavg", {"battery": battery}, cloud_rounds=40)
    lives = run("hierfedavg", {"battery": battery | {"charging": CHARGING}}, cloud_rounds=40)
    assert dies.federation.deserted and dies.measures[-1]["battery_mean"] == 0
    assert not lives.federation.deserted and lives.measures[-1]["updates"] > dies.measures[-1]["updates"]
    batteries = dies.federation.errands.outages.batteries
    idle_j = 0.05 * batteries.at_s  # what is left of it is what the ledger has
    spent_j = sum(row["energy_j"] for row in dies.federation.ledger.table() if row["direction"] != "down")
    assert (idle_j.sum() >= 12 - spent_j - 1e-9) and batteries.drained_j.sum() == pytest.approx(12)


def test_a_head_that_goes_down_takes_the_work_of_its_cluster_with_it_and_comes_back():
    content = {"availability": {"kind": "on-off", "on_s": 8, "off_s": 2}}
    made = run("random_clusters", content, cloud_rounds=5)
    last = made.measures[-1]
    assert last["lost_head"] > 0 and made.cloud_rounds_done == 5
    keep_laws(made)


@pytest.mark.parametrize("name", ["hierfedavg", "csahfl", "ltc", "hiflash_r"])
def test_a_run_with_failures_goes_on_to_the_bit(name):
    whole = run(name, HARD, dry_run=False)
    half = simulation(name, HARD, dry_run=False)
    rounds = half.rounds()
    for _ in range(3):
        next(rounds)
    saved = half.checkpoint()
    rounds.close()
    again = simulation(name, HARD, dry_run=False)
    for _ in again.rounds(saved):
        pass
    assert again.measures == whole.measures
    assert np.array_equal(again.result().row, whole.result().row)
    assert again.federation.ledger.table() == whole.federation.ledger.table()
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(lines(again).values(), lines(whole).values()))


def test_two_methods_see_the_same_world():
    """A device that both send in the same edge round, at the same time, meets the same."""
    one, other = run("fedavg", HARD, cloud_rounds=1), run("fedavgm", HARD, cloud_rounds=1)
    assert lines(one)["arrival_s"].tolist() == lines(other)["arrival_s"].tolist()


def test_air_that_is_shared_goes_with_failures():
    for name in ("hierfedavg", "csahfl", "hiflash_r"):
        made = run(name, HARD | {"air": {"up": {"sharing": "time"}, "down": {"sharing": "time"}}})
        keep_laws(made)
        assert made.measures[-1]["lost"] + made.measures[-1]["retried"] > 0


def any_turns(lots):
    return lots.choice(
        [
            {"kind": "on-off", "on_s": lots.choice([2, 20]), "off_s": lots.choice([1, 40]), "law": "fixed"},
            {"kind": "on-off", "on_s": lots.choice([2, 20]), "off_s": lots.choice([1, 40])},
            {
                "kind": "daily",
                "from_h": lots.choice([0, 0.001, 23.9]),
                "to_h": lots.choice([0.01, 5]),
                "spread_h": 0.002,
            },
            {
                "kind": "trace",
                "first_on": [lots.random() < 0.7 for _ in range(6)],
                "changes_s": [sorted({lots.uniform(0, 20) for _ in range(lots.randrange(5))}) for _ in range(6)],
            },
        ]
    )


def any_failures(lots):
    """Some of all that a fleet can have, of every kind."""
    found = {"availability": any_turns(lots)} if lots.random() < 0.6 else {}
    if lots.random() < 0.5:
        found["battery"] = {"capacity_j": lots.choice([0.5, 5]), "idle_w": lots.choice([0, 0.2]), "receive_w": 0.5}
        if lots.random() < 0.7:
            found["battery"]["charging"] = {"power_w": lots.choice([0.5, 5]), "when": any_turns(lots)}
    if lots.random() < 0.4:
        found["dropout"] = {"per_round": lots.choice([0.1, 0.5]), "off_s": lots.choice([0, 2])}
    if lots.random() < 0.4:
        found["loss"] = {"packet": lots.choice([0.01, 0.5]), "packet_bytes": 50, "tries": lots.choice([1, 8])}
    if lots.random() < 0.3:
        found["mobility"] = {"p_stay": 0.5, "neighbours": "ring", "every": lots.choice(["cloud-round", "edge-round"])}
    return found


@pytest.mark.parametrize("name", ["fedavg", "hhfl", "csahfl", "ltc", "camu", "hiflash_r", "feduc_r", "fedat"])
def test_whatever_fails_every_run_ends_and_keeps_the_laws(name):
    for seed in range(4):
        lots = random.Random(f"{name} {seed}")
        failures, patience_s = any_failures(lots), lots.choice([0.1, 2.0, 60.0, None])
        try:
            made = run(name, failures, seed, patience_s)
        except ValueError as error:
            assert "no device is ever there" in str(error) or "no update arrives any more" in str(error), failures
            continue
        keep_laws(made)


def test_a_run_in_which_every_message_is_lost_ends_with_a_word():
    """Half of the packets are lost, and none is sent again: no model of several packets ever arrives."""
    with pytest.raises(ValueError, match=r"no update arrives any more: the last .* were lost \(packets\)"):
        run("feduc_r", {"loss": {"packet": 0.5, "packet_bytes": 50, "tries": 1}}, 3, 2.0)


@pytest.mark.parametrize("method", ["hierfedavg", "fedavg", "hhfl", "csahfl"])
@pytest.mark.parametrize(
    ("comes_s", "ends"),
    [((4, 4), (30, None)), ((501, None), (30, 501)), ((None, None), (5, None))],
    ids=["before it is empty", "long after", "never"],
)
def test_who_comes_into_reach_goes_on_when_the_others_have_gone_for_good(tmp_path, monkeypatch, method, comes_s, ends):
    """The only device in a cell runs empty after about a minute; two with large batteries come later, or one, or nobody."""
    monkeypatch.setattr(fleet_module, "MOST_EMPTY_TICKS", 1000)
    rows = ["time_s,device,x_m,y_m", "0,0,10,0"]
    for k, at_s in enumerate(comes_s, start=1):
        rows += [f"0,{k},99999,0"] + ([] if at_s is None else [f"{at_s - 1},{k},99999,0", f"{at_s},{k},10,0"])
    (tmp_path / "positions.csv").write_text("\n".join(rows) + "\n")
    fleet = {
        "n_devices": 3,
        "cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 450},
        "tick_s": 10,
        "mobility": {"kind": "trace", "file": str(tmp_path / "positions.csv")},
        "devices": {"battery_j": [8, 1e6, 1e6]},
        "compute": {"power_w": 3},
        "battery": {"idle_w": 0.3},
    }
    training = {"local_steps": 20, "edge_rounds": 3, "cloud_rounds": 30}
    made = Simulation(scenario({"fleet": fleet, "training": training}), make_method(method), 0, dry_run=True)
    for _ in made.rounds():
        pass
    cloud_rounds, not_before_s = ends
    assert made.cloud_rounds_done == cloud_rounds
    assert any("nobody is left" in sentence for sentence in made.warnings) == (cloud_rounds < 30)
    if not_before_s is not None:
        assert made.measures[-1]["time_s"] > not_before_s


def test_links_that_are_down_at_first_are_waited_for_by_devices_that_may_fail(tmp_path):
    rows = [
        "time_s,device,cell,bit_s",
        *(f"{at_s},{k},0,{rate}" for k in (0, 1) for at_s, rate in ((0, 0), (100, 1e6))),
    ]
    (tmp_path / "rates.csv").write_text("\n".join(rows) + "\n")
    fleet = {
        "n_devices": 2,
        "cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 450},
        "mobility": {"kind": "waypoint"},
        "device_edge": {"up": {"kind": "trace", "file": str(tmp_path / "rates.csv")}},
        "dropout": {"per_round": 0.01},
    }
    made = Simulation(
        scenario({"fleet": fleet, "training": {"cloud_rounds": 2}}), make_method("hierfedavg"), 0, dry_run=True
    )
    for _ in made.rounds():
        pass
    assert made.cloud_rounds_done == 2 and made.measures[-1]["time_s"] > 100
