"""Settings of the air: what has no effect is refused, and a fleet whose links have bands of their own is as it was."""

import pytest

from fedloom.fleet import AirSettings, DeviceEdge, Fleet, FleetSettings, Sharing

CELLS = {"kind": "grid", "shape": "line", "n": 2}


def test_by_default_every_link_has_its_own_band_and_nothing_is_said_of_it():
    fleet = FleetSettings(n_devices=3)
    assert not fleet.air.is_shared
    assert "air" not in fleet.model_dump() and "overhead" not in fleet.model_dump()["device_edge"]
    assert not Fleet.from_settings(fleet, 0).snapshot(0).air.is_shared


def test_what_was_written_down_is_read_again():
    made = FleetSettings.model_validate(
        {
            "n_devices": 3,
            "cells": CELLS,
            "air": {
                "up": [{"sharing": "time"}, {"sharing": "blocks", "blocks": 10, "scheduler": "proportional-fair"}],
                "down": {"sharing": "equal", "broadcast": True},
                "d2d": {"sharing": "time", "band": "all"},
                "cloud": {"up": {"sharing": "time"}},
            },
            "device_cloud": {"via": "direct"},
            "device_edge": {"uplink": "once", "overhead": 1.2},
        }
    )
    assert FleetSettings.model_validate(made.model_dump(mode="json")) == made
    assert made.air.is_shared and Fleet.from_settings(made, 0).snapshot(0).uplink_overhead == 1.2


def test_a_band_is_of_a_cell_and_direction_a_head_or_the_server():
    air = AirSettings.model_validate(
        {
            "up": [{"sharing": "time"}, {"sharing": "equal"}],
            "d2d": {"sharing": "time"},
            "cloud": {"up": {"sharing": "time"}},
        }
    )
    assert air.of("device_edge", "up", 1) == ("up", 1, Sharing(sharing="equal"))
    assert air.of("device_edge", "down", 1)[:2] == ("down", 1)
    assert air.of("device_head", "up", 7)[:2] == air.of("device_head", "down", 7)[:2] == ("d2d", 7)
    assert air.of("device_cloud", "up", 0)[2].sharing == "time" and air.of("edge_cloud", "up", 0)[2].sharing == "own"
    one = AirSettings.model_validate({"d2d": {"sharing": "time", "band": "all"}})
    assert one.of("device_head", "up", 7)[:2] == ("d2d", 0)


@pytest.mark.parametrize("part", ["up", "down", "d2d"])
def test_any_band_that_is_shared_counts(part):
    assert AirSettings.model_validate({part: {"sharing": "equal"}}).is_shared


@pytest.mark.parametrize("part", ["cloud", "backhaul"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_so_does_one_at_the_server(part, way):
    assert AirSettings.model_validate({part: {way: {"sharing": "equal"}}}).is_shared


@pytest.mark.parametrize(
    ("air", "message"),
    [
        ({"up": {"sharing": "time", "blocks": 10}}, "blocks has no effect with sharing time; set sharing: blocks"),
        ({"cloud": {"up": {"slot_s": 1.0}}}, "slot_s has no effect with sharing own"),
        ({"d2d": {"sharing": "blocks", "window": 5.0}}, "window has no effect with round-robin"),
        ({"d2d": {"broadcast": True}}, "broadcast needs a band for all who listen"),
        ({"d2d": {"band": "all"}}, "band has no effect with sharing own"),
        ({"up": [{"sharing": "time"}]}, "up must be one for all cells or one for each of 2, got 1 of them"),
        (
            {"down": [{"sharing": "time", "broadcast": True}, {"sharing": "time"}]},
            "cells broadcast models to their clients all or none",
        ),
        ({"d2d": {"sharing": "turns"}}, "'own', 'time', 'equal' or 'blocks'"),
        ({"cloud": {"up": {"sharing": "time"}}}, "cloud has no effect if device_cloud is via edge"),
        ({"sideways": {}}, "Extra inputs are not permitted"),
    ],
)
def test_bad_settings_are_refused(air, message):
    with pytest.raises(ValueError, match=message):
        FleetSettings.model_validate({"n_devices": 3, "cells": CELLS, "air": air})


def test_an_overhead_needs_one_transmission_for_all():
    with pytest.raises(ValueError, match="overhead has no effect with uplink unicast; set uplink: once"):
        DeviceEdge(overhead=1.5)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        DeviceEdge(uplink="once", overhead=0.5)
