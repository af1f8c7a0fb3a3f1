"""An edge server or a head that stays silent is given up: the federation goes on with who is there, and takes it in again."""

import asyncio

import numpy as np
import pytest

from deployment.federation import Together, recorded, simulated
from fedloom.simulator.clock import Back, Lost
from small import for_method

PATIENCE_S = 0.6


def without(method, absent, folder, *, comes_after=None, restart_after=None, cloud_rounds=2, **options):
    """The deployed model, and the federation, with some who are not there at first; they come after so many cloud rounds."""
    scenario, text = for_method(method, cloud_rounds=cloud_rounds, **options)

    async def go():
        together = Together(scenario, text, folder, patience_s=PATIENCE_S, absent=absent)
        running = asyncio.create_task(together.run())
        if restart_after is not None:
            while not happened(folder, Lost) and not running.done():
                await asyncio.sleep(0.02)
            await asyncio.sleep(restart_after)
            await together.restart("cloud")
        if comes_after is not None:
            while len(together.rounds) < comes_after and not running.done():
                await asyncio.sleep(0.02)
            for name in absent:
                together.start(name)
        return await running, together

    row, together = asyncio.run(go())
    assert np.array_equal(row, recorded(scenario, text, folder))
    return row, together


def happened(folder, kind):
    path = folder / "cloud" / "journal"
    if not path.exists():
        return []
    from fedloom.deployment.journal import _checked, happening_of

    lines = [_checked(line) for line in path.read_bytes().split(b"\n")]
    found = [happening_of(line["what"]) for line in lines if line and "what" in line]
    return [what for what in found if isinstance(what, kind)]


def test_an_edge_that_never_comes_is_given_up_and_its_clients_are_absent(tmp_path):
    row, together = without("hierfedavg", ["edge-1"], tmp_path)
    scenario, text = for_method("hierfedavg", cloud_rounds=2)
    assert np.isfinite(row).all() and not np.array_equal(row, simulated(scenario, text))
    (lost,) = happened(tmp_path, Lost)
    assert (lost.kind, lost.host) == ("edge", 1)
    n_clients = [measures["updates"] for measures in together.simulation.measures]
    assert n_clients[-1] < 2 * 2 * 6
