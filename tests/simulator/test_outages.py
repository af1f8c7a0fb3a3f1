"""What becomes of clients at work when devices fail: attempts, what they spend, what is known when."""

import numpy as np
import pytest

from fedloom.fleet import FleetSettings
from fedloom.simulator.outages import AWAY, BROKEN_OFF, EMPTY, PACKETS, Job, outages_of


def fleet(n=1, **failures):
    return FleetSettings.model_validate({"n_devices": n, **failures})


def trace(*changes_s):
    return {"kind": "trace", "first_on": [True] * len(changes_s), "changes_s": [list(times) for times in changes_s]}


def job(n=1, at_s=1.0, **changes):
    """Fetch for 1 s, compute for 2 s, send for 1 s."""
    one = np.ones(n)
    options = {
        "client": np.arange(n),
        "at_s": at_s,
        "takes_s": 4 * one,
        "fetch_s": one,
        "compute_s": 2 * one,
        "upload_s": one,
        "air_down_s": one,
        "air_up_s": one,
        "upload_j": 3 * one,
        "compute_w": 5.0,
        "down_bytes": 1000,
        "up_bytes": 1000,
        "edge_round": 0,
        "times": np.zeros(n, dtype=np.int64),
    }
    return Job(**options | changes)


def outages(settings, patience_s=60.0, seed=1):
    found = outages_of(settings, seed, patience_s)
    assert found is not None
    return found


def test_a_fleet_that_does_not_fail_has_no_outages():
    assert outages_of(fleet(), 0, 60.0) is None


def test_who_leaves_at_work_for_longer_than_the_patience_is_lost():
    """Sent at 1, down from 3 to 5: the model is here at 2, one second of two is computed. Nobody waits after 3 + 1."""
    found = outages(fleet(availability=trace([3.0, 5.0])), patience_s=1.0)
    fate = found.fates(job())
    assert fate.takes_s[0] == np.inf and fate.known_s[0] == 4.0 and fate.cause[0] == AWAY
    assert (fate.fetch_s[0], fate.compute_s[0], fate.upload_s[0]) == (1.0, 1.0, 0.0)
    assert (fate.down.messages[0], fate.down.on_air[0]) == (1, 1.0)
    assert (fate.up.messages[0], fate.up.on_air[0]) == (0, 0.0)
    assert found.n_retried == 0 and not fate.plain[0]
    assert found.down(3.0)[0][0] and found.down(3.0)[1][0] == 5.0 and not found.down(5.0)[0][0]


def test_who_is_back_in_time_begins_again():
    """Back at 5, within a patience of 2: four seconds more, until 9, eight after it was sent."""
    found = outages(fleet(availability=trace([3.0, 5.0])), patience_s=2.0)
    fate = found.fates(job())
    assert fate.takes_s[0] == 8.0 and fate.known_s[0] == np.inf and fate.cause[0] == -1
    assert (fate.fetch_s[0], fate.compute_s[0], fate.upload_s[0]) == (2.0, 3.0, 1.0)
    assert (fate.down.messages[0], fate.up.messages[0], found.n_retried) == (2, 1, 1)


def test_a_message_that_is_broken_off_is_booked_by_its_part():
    """Down at 4.25: a quarter of the update is sent."""
    fate = outages(fleet(availability=trace([4.25])), patience_s=1.0).fates(job())
    assert (fate.upload_s[0], fate.up.messages[0], fate.up.on_air[0]) == (0.25, 1, 0.25)


def test_without_patience_it_is_waited_for_for_ever():
    fate = outages_of(fleet(availability=trace([3.0, 1000.0])), 1, None).fates(job())
    assert fate.takes_s[0] == 1003.0
    never = outages_of(fleet(availability=trace([3.0])), 1, None).fates(job())
    assert never.takes_s[0] == np.inf and never.known_s[0] == np.inf


def test_an_empty_battery_ends_the_work():
    """12 J: 2 W of receiving for 1 s and 5 W of computing for 2 s are 12: it is empty when it would send."""
    settings = fleet(battery={"capacity_j": 12.0, "receive_w": 2.0})
    found = outages(settings, patience_s=1.0)
    fate = found.fates(job())
    assert fate.cause[0] == EMPTY and fate.known_s[0] == 5.0
    assert (fate.compute_s[0], fate.upload_s[0]) == (2.0, 0.0)
    absent, back_s = found.down(6.0)
    assert absent[0] and back_s[0] == np.inf
    whole = outages(fleet(battery={"capacity_j": 15.5, "receive_w": 2.0}))
    assert whole.fates(job()).takes_s[0] == 4.0 and whole.batteries.level_j[0] == pytest.approx(0.5)


def test_who_is_charged_in_time_begins_again():
    """12 of 15 J are gone at 4. Plugged in from 6 on with 10 W: a fifth is there at 6.3, and more comes than goes."""
    charging = {"power_w": 10.0, "when": {"kind": "trace", "first_on": [False], "changes_s": [[6.0]]}}
    settings = fleet(battery={"capacity_j": 15.0, "level": 0.8, "receive_w": 2.0, "charging": charging})
    assert outages(settings, patience_s=3.0).fates(job()).takes_s[0] == pytest.approx(6.3 + 4 - 1)
    assert outages(settings, patience_s=2.0).fates(job()).takes_s[0] == np.inf


def test_heads_spend_for_others():
    found = outages(fleet(n=2, battery={"capacity_j": 10.0, "idle_w": 1.0}))
    found.take(np.array([0, 0]), np.array([3.0, 5.0]), now_s=1.0)
    assert found.batteries.level_j.tolist() == [1.0, 10.0]
    assert found.next_change_s(0, 1.0) == 2.0
    assert found.down(2.0)[0].tolist() == [True, False]


def test_dropouts_are_as_many_as_they_should_be_and_somewhere_in_the_work():
    n = 4000
    found = outages(fleet(n=n, dropout={"per_round": 0.25, "off_s": 3.0}), patience_s=10.0)
    fate = found.fates(job(n))
    broken = fate.cause == BROKEN_OFF
    assert abs(broken.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / n)
    assert found.n_retried == 0 and np.isinf(fate.takes_s[broken]).all()
    when = fate.known_s[broken] - 10.0 - 1.0
    assert when.min() > 0 and when.max() < 4 and abs(when.mean() - 2) < 0.2
    spent = fate.fetch_s + fate.compute_s + fate.upload_s
    assert spent[broken] == pytest.approx(when)
    assert found.down(20.0)[0].sum() == 0 and found.down(1.0 + when.min() + 1e-6)[0].sum() == 1


def test_lost_packets_make_messages_longer_and_dearer():
    """1000 bytes in packets of 100: ten, of which half are lost each time."""
    found = outages(fleet(n=500, loss={"packet": 0.5, "packet_bytes": 100, "tries": 1000}))
    fate = found.fates(job(500))
    packets = 10 * (fate.down.on_air + fate.up.on_air)
    assert packets == pytest.approx(np.rint(packets), abs=1e-9) and packets.min() >= 20
    assert abs(packets.mean() - 40) < 4 * np.sqrt(20 * 0.5 / 0.25 / 500)
    assert fate.takes_s == pytest.approx(2 + packets / 10) and found.n_packets == round(packets.sum()) - 20 * 500
    assert fate.down.relayed.tolist() == [1.0] * 500  # what goes on by wire is whole


def test_a_message_is_lost_after_so_many_tries():
    found = outages(fleet(n=300, loss={"packet": 0.5, "packet_bytes": 1000, "tries": 1}), patience_s=2.0)
    fate = found.fates(job(300))
    lost = fate.cause == PACKETS
    assert abs(lost.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 300)
    down = lost & (fate.compute_s == 0)
    assert (fate.known_s[down] == 1 + 1 + 2).all()  # the model never came
    assert (fate.known_s[lost & ~down] == 1 + 4 + 2).all() and (fate.up.messages[lost & ~down] == 1).all()


def test_a_link_that_takes_no_time_loses_nothing():
    settings = fleet(loss={"packet": 0.9, "packet_bytes": 1, "tries": 1})
    nothing = np.zeros(1)
    fate = outages(settings).fates(
        job(takes_s=2 + nothing, fetch_s=nothing, upload_s=nothing, air_down_s=nothing, air_up_s=nothing)
    )
    assert fate.plain.all() and fate.takes_s[0] == 2.0


def test_fates_are_those_of_a_client_and_an_occasion_whoever_else_is_sent():
    settings = fleet(n=50, dropout={"per_round": 0.3}, loss={"packet": 0.1, "packet_bytes": 50})
    together = outages(settings).fates(job(50))
    alone = [outages(settings).fates(job(client=np.array([k]))).takes_s[0] for k in range(50)]
    assert together.takes_s.tolist() == alone
    again = outages(settings).fates(job(50, times=np.ones(50, dtype=np.int64)))
    assert (again.cause != together.cause).any()


def test_a_day_of_coming_and_going_agrees_with_a_plain_loop():
    """The same rule, second by second."""
    law = {"kind": "on-off", "on_s": 5.0, "off_s": 2.0}
    settings, patience_s = fleet(n=40, availability=law), 3.0
    found, reference = outages(settings, patience_s), outages(settings, patience_s)
    for at_s in (0.0, 20.0, 40.0, 60.0):
        up = np.flatnonzero(~found.down(at_s)[0])
        fate = found.fates(job(len(up), at_s=at_s, client=up))
        for j, k in enumerate(up.tolist()):
            assert fate.takes_s[j] == pytest.approx(by_steps(reference._turns, k, at_s, patience_s), abs=0.01)


def by_steps(turns, k, at_s, patience_s, dt=0.005):
    done, down_for = 0.0, 0.0
    for i in range(100_000):
        if turns.of(np.array([k]), np.array([at_s + i * dt]))[0][0]:
            done, down_for = done + dt, 0.0
        else:
            done, down_for = 0.0, down_for + dt
        if down_for > patience_s:
            return np.inf
        if done >= 4.0:
            return (i + 1) * dt
    raise AssertionError
