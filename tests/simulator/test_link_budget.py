"""Weak links: by how many decibels, and whose."""

import numpy as np
import pytest

from fedloom.fleet.table import FleetTable
from fedloom.grouping import Topology
from fedloom.planning import Work, devices_of, lonely_devices, predict, weak_links
from fedloom.planning.link_budget import DAY_S, SLOW_S, missing_db
from fedloom.radio import shannon_rate, snr
from fedloom.simulator import make_method

BITS = 8e6


def fleet(*places, server=(0.0, 0.0), **columns):
    table = FleetTable(ids=tuple(map(str, range(len(places)))), position_m=np.array(places, dtype=float), **columns)
    return devices_of(table, np.array(server))


@pytest.mark.parametrize("weak_db", [-60.0, -10.0, 5.0])
def test_so_many_decibels_more_carry_it_in_time(weak_db):
    band, noise = 1e6, 1e-14
    seconds = BITS / shannon_rate(band, snr(1.0, noise * 10 ** (weak_db / 10), noise))
    more = missing_db(BITS, band, seconds, 1.0)
    assert BITS / shannon_rate(band, snr(10 ** (more / 10), noise * 10 ** (weak_db / 10), noise)) == pytest.approx(1.0)


def test_a_lonely_device_is_far_from_heads_and_from_the_server():
    devices = fleet((0, 0), (100, 0), (0, 100), (9e6, 0), server=(0.0, 50.0))
    [link] = lonely_devices(devices, BITS, DAY_S)
    assert (link.device, link.other) in ((3, -1), (3, 1)) and link.distance_m == pytest.approx(9e6, rel=1e-4)
    assert link.seconds > 1e9 * DAY_S and link.missing_db > 90


def test_one_that_only_the_server_or_only_a_head_reaches_is_not_lonely():
    assert lonely_devices(fleet((0, 0), (9e6, 0), server=(9e6, 50.0)), BITS, DAY_S)[0].device == 0
    by_head = fleet((0, 0), (100, 0), server=(9e6, 0.0), candidate=np.array([True, False]))
    assert [link.device for link in lonely_devices(by_head, BITS, DAY_S)] == [0]  # the only candidate has no other head
    assert lonely_devices(fleet((0, 0), server=(0.0, 80.0)), BITS, DAY_S) == []


def test_links_of_a_plan_are_those_of_members_to_heads_and_of_heads_to_the_server():
    devices = fleet((0, 0), (3500, 0), (50, 0), (6000, 0), server=(0.0, 100.0))
    topology = Topology.of_heads([np.array([0, 1, 2]), np.array([3])], np.array([0, 3]), 4)
    plan = predict(devices, make_method("ddc"), topology, Work(model_bytes=int(BITS / 8)))
    member, head = sorted(weak_links(devices, plan, BITS, SLOW_S), key=lambda link: link.device)
    assert (member.device, member.other, member.distance_m) == (1, 0, 3500)
    assert (head.device, head.other, head.distance_m) == (3, -1, pytest.approx(np.hypot(6000, 100)))
    assert [link.device for link in weak_links(devices, plan, BITS, SLOW_S)] == [3, 1]  # the slowest first
    assert member.seconds == pytest.approx(devices.link_s(np.array([1]), np.array([3500.0]), BITS)[0])
    assert weak_links(devices, plan, BITS, DAY_S) == []
