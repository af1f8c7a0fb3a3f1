"""Devices: how many steps each has done, and how often it was sent in a round; what a device owes."""

from machines import ids

from fedloom.protocol import Device, Devices


def test_steps_go_on_from_where_a_device_stopped():
    devices = Devices(3)
    assert devices.leave(ids(0, 2), ids(5, 7), 0).first_step.tolist() == [0, 0]
    assert devices.leave(ids(2), ids(1), 1).first_step.tolist() == [7]
    assert devices.steps.tolist() == [5, 0, 8]


def test_a_device_that_is_sent_again_in_a_round_is_counted():
    devices = Devices(2)
    assert devices.leave(ids(0, 1), ids(1, 1), 4).times.tolist() == [0, 0]
    assert devices.leave(ids(1), ids(1), 4).times.tolist() == [1]
    assert devices.leave(ids(1), ids(1), 4).times.tolist() == [2]
    assert devices.leave(ids(0, 1), ids(1, 1), 5).times.tolist() == [0, 0]


def test_steps_of_a_cloud_round_are_counted_from_zero_and_without_features():
    devices = Devices(1)
    assert devices.practise(ids(0), ids(3)).tolist() == [0]
    devices.leave(ids(0), ids(2), 0)
    assert devices.in_cloud_round.tolist() == [2] and devices.steps.tolist() == [5]
    devices.begin_cloud_round()
    assert devices.in_cloud_round.tolist() == [0] and devices.steps.tolist() == [5]


def test_a_device_begins_an_order_once_and_owes_its_update_until_somebody_has_it():
    device = Device()
    assert device.ordered(3) and not device.ordered(3) and not device.owes
    device.finished(3)
    assert device.owes
    device.accepted(2)
    assert device.owes  # that was another one
    device.accepted(3)
    assert not device.owes


def test_a_newer_order_overtakes_and_an_older_one_does_not():
    device = Device()
    device.ordered(3)
    assert device.ordered(4) and not device.ordered(3)
    device.finished(3)
    assert not device.owes


def test_a_device_that_has_lost_its_state_begins_the_same_order_again():
    device = Device()
    device.ordered(3)
    assert Device().ordered(3)
