"""Letters are lost and doubled, and anybody dies at any moment: where the method waits for all, the bits are the same."""

import asyncio
import random

import numpy as np
import pytest

from deployment.federation import Together, recorded, simulated
from deployment.network import Network
from fedloom.deployment import naming
from small import for_method

LAST, EARLY = "device-5", 3  # who comes last, after so many kills


def with_faults(scenario, method, folder, seed, *, lose=0.0, double=0.0, kills=0, every_s=0.08, **options):
    """The deployed model, with so many kills of whoever is drawn, each started again from its folder. The last device comes after
    some of them, so that they do not all come too late."""

    async def go():
        if kills:
            options["absent"] = [LAST]
        together = Together(scenario, method, folder, network=Network(seed, lose, double), **options)
        draw, killed = random.Random(seed), []

        async def killer():
            while len(killed) < kills:
                await asyncio.sleep(draw.uniform(0, every_s))
                name = draw.choice([naming.CLOUD, naming.CLOUD, *together.names])
                if together.over.is_set():
                    return
                if name in together.tasks:
                    await together.restart(name)
                    killed.append(name)
                if len(killed) == EARLY and LAST not in together.tasks:
                    together.start(LAST)

        task = asyncio.create_task(killer())
        try:
            row = await together.run()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return row, killed

    return asyncio.run(go())


@pytest.mark.parametrize("method", ["hierfedavg", "hhfl"])
def test_lost_and_doubled_letters_change_nothing(method, tmp_path):
    scenario, text = for_method(method, cloud_rounds=2)
    row, _ = with_faults(scenario, text, tmp_path, 1, lose=0.1, double=0.2)
    assert np.array_equal(row, simulated(scenario, text))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["hhfl", "ddc", "fedavg"])
def test_kills_at_random_moments_change_nothing(method, seed, tmp_path):
    scenario, text = for_method(method, cloud_rounds=3)
    row, killed = with_faults(scenario, text, tmp_path, seed, kills=8)
    assert len(killed) >= EARLY
    assert np.array_equal(row, simulated(scenario, text))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("method", ["csahfl", "fedat", "feduc_r"])
def test_kills_where_time_decides_leave_what_the_journal_tells(method, seed, tmp_path):
    scenario, text = for_method(method, cloud_rounds=3)
    row, _ = with_faults(scenario, text, tmp_path, seed, kills=6, lose=0.02)
    assert np.array_equal(row, recorded(scenario, text, tmp_path))


def test_a_cloud_that_is_down_for_a_while_is_waited_for(tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=3)

    async def go():
        together = Together(scenario, text, tmp_path, absent=["device-5"])  # without whom no round ends
        running = asyncio.create_task(together.run())
        await asyncio.sleep(0.4)
        await together.kill("cloud")
        await asyncio.sleep(1.0)
        together.start("cloud")
        together.start("device-5")
        return await running

    assert np.array_equal(asyncio.run(go()), simulated(scenario, text))


@pytest.mark.parametrize("method", ["hierfedavg", "ddc", "fedavg", "fedadam"])
def test_a_cloud_that_dies_right_after_a_checkpoint_has_all_that_others_need(method, tmp_path):
    scenario, text = for_method(method, cloud_rounds=3)

    async def go():
        together = Together(scenario, text, tmp_path)
        together.die_after = [1, 2]
        running = asyncio.create_task(together.run())
        for _ in range(2):
            before = len(together.die_after)
            while len(together.die_after) == before:
                await asyncio.sleep(0.01)
            together.network.cut("cloud")
            await asyncio.wait([together.tasks["cloud"]])
            together.start("cloud")
        return await running

    assert np.array_equal(asyncio.run(go()), simulated(scenario, text))


def test_a_cloud_that_is_started_again_after_the_end_needs_nobody(tmp_path):
    """All is in its journal and its checkpoint: what was confirmed is not ordered again."""
    scenario, text = for_method("hierfedavg", cloud_rounds=2)
    asyncio.run(Together(scenario, text, tmp_path).run())

    async def again():
        together = Together(scenario, text, tmp_path)
        together.absent = set(together.names)
        return await together.run(), together.conductor.waiting()

    row, waiting = asyncio.run(again())
    assert np.array_equal(row, simulated(scenario, text))
    assert not [
        order["id"] for orders in waiting.values() for order in orders if order["do"] in ("merge", "hold", "train")
    ]


def test_a_silent_device_is_not_waited_for_after_a_while(tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=1, edge_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=0.5, absent=["device-2"])
        row = await together.run()
        return row, together.simulation

    row, simulation = asyncio.run(go())
    assert np.isfinite(row).all()
    assert simulation.measures[-1]["updates"] == 5
    assert np.array_equal(row, recorded(scenario, text, tmp_path))
    assert not np.array_equal(row, simulated(scenario, text))


def test_if_all_are_silent_they_are_waited_for(tmp_path):
    scenario, text = for_method("fedavg", cloud_rounds=1, edge_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=0.2, absent=[f"device-{k}" for k in range(6)])
        running = asyncio.create_task(together.run())
        await asyncio.sleep(2.5)
        assert not together.over.is_set()
        for k in range(6):
            together.start(f"device-{k}")
        return await running

    assert np.isfinite(asyncio.run(go())).all()
