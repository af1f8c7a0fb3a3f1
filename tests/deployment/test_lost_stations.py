"""An edge server or a head that stays silent is given up: the federation goes on with who is there, and takes it in again."""

import asyncio
import shutil

import numpy as np
import pytest

from deployment.federation import Together, journal_of, recorded, simulated
from fedloom.simulator.clock import Back, Delivered, Left, Lost
from small import for_method

PATIENCE_S = 1.0


def happened(folder, kind):
    return [what for what in journal_of(folder) if isinstance(what, kind)]


def without(method, absent, folder, *, comes_after=None, restart=False, **training):
    """The deployed model, and the federation, without a node, which comes after so many cloud rounds, if at all. restart: the
    cloud is killed when it has given the node up."""
    scenario, text = for_method(method, **{"cloud_rounds": 2, **training})

    async def go():
        together = Together(scenario, text, folder, patience_s=PATIENCE_S, absent=[absent])
        running = asyncio.create_task(together.run())
        while not happened(folder, Lost) and not running.done():
            await asyncio.sleep(0.02)
        if restart and not running.done():
            await together.restart("cloud")
        while comes_after and len(together.rounds) <= comes_after and not running.done():
            await asyncio.sleep(0.02)
        if comes_after:
            together.start(absent)
        return await running, together

    row, together = asyncio.run(go())
    assert (row == recorded(scenario, text, folder)).all()
    return row, together


def n_updates(together):
    """Merged in each cloud round."""
    return np.diff([measures["updates"] for measures in together.simulation.measures]).tolist()


@pytest.mark.parametrize(("method", "absent"), [("hierfedavg", "edge-0"), ("csahfl", "edge-1"), ("camu", "device-1")])
def test_a_station_that_never_comes_is_given_up_and_its_clients_are_absent(method, absent, tmp_path):
    row, together = without(method, absent, tmp_path)
    scenario, text = for_method(method, cloud_rounds=2)
    assert np.isfinite(row).all() and not np.array_equal(row, simulated(scenario, text))
    kind = "edge" if absent.startswith("edge") else "head"
    assert (kind, int(absent[-1])) in [(what.kind, what.host) for what in happened(tmp_path, Lost)]
    assert max(n_updates(together)) < 12


def test_clients_of_several_edges_go_on_with_those_that_are_left(tmp_path):
    """In the round in which it is lost their updates are withdrawn; in the next one they report to the other edge alone."""
    _, together = without("hhfl", "edge-1", tmp_path)
    first, second = n_updates(together)
    assert first < second < 12


@pytest.mark.parametrize(
    ("method", "absent"), [("hierfedavg", "edge-0"), ("macfl_r", "edge-0"), ("hiflash_r", "edge-1")]
)
def test_a_station_that_is_heard_again_is_taken_in_again(method, absent, tmp_path):
    _, together = without(method, absent, tmp_path, comes_after=1, cloud_rounds=12)
    story = journal_of(tmp_path)
    back = story.index(Back("edge", int(absent[-1])))
    (lost,) = [what for what in story[:back] if isinstance(what, Lost)][:1]
    assert {k for what in story[back:] if isinstance(what, Delivered) for k in what.client} >= set(lost.client)
    if method != "hiflash_r":  # where the cloud does not wait the others do more meanwhile
        assert n_updates(together)[0] < 12 and n_updates(together)[-1] == 12


def test_a_cloud_that_is_killed_after_it_has_given_a_station_up_has_not_forgotten_it(tmp_path):
    without("hierfedavg", "edge-1", tmp_path, restart=True)
    assert [(what.kind, what.host) for what in happened(tmp_path, Lost)].count(("edge", 1)) == 1


def test_a_station_that_comes_back_with_an_empty_disk_is_handed_what_it_needs(tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=8)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=PATIENCE_S)
        running = asyncio.create_task(together.run())
        while len(together.rounds) <= 1:
            await asyncio.sleep(0.01)
        await together.kill("edge-0")
        while not happened(tmp_path, Lost):
            await asyncio.sleep(0.02)
        shutil.rmtree(tmp_path / "edge-0")
        together.start("edge-0")
        return await running

    row = asyncio.run(go())
    assert np.array_equal(row, recorded(scenario, text, tmp_path))


@pytest.mark.parametrize(
    ("options", "absent"), [("", ["edge-0", "edge-1"]), (":cloud_quorum=0.6", ["edge-1"]), (":quorum=1", ["device-2"])]
)
def test_if_fewer_are_there_than_the_method_wants_they_are_waited_for(options, absent, tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=1)

    async def go():
        together = Together(scenario, text + options, tmp_path, patience_s=0.2, absent=absent)
        running = asyncio.create_task(together.run())
        await asyncio.sleep(2.0)
        assert not happened(tmp_path, Lost) and not happened(tmp_path, Left)
        for name in absent:
            together.start(name)
        return await running

    assert np.array_equal(asyncio.run(go()), simulated(scenario, text))


def test_a_silent_device_does_not_hold_up_a_grouping_on_features(tmp_path):
    """The feature of another is taken for it, and it takes no part until it is heard."""
    scenario, text = for_method("ddc", cloud_rounds=3)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=PATIENCE_S, absent=["device-3"])
        return await together.run()

    assert np.isfinite(asyncio.run(go())).all()
    assert Lost("head", 3, ()) in happened(tmp_path, Lost)
