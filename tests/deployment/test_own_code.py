"""Own code that raises on a device: it is said, and the federation goes on with the others."""

import asyncio

import numpy as np
import pytest

from deployment.federation import Together, journal_of
from fedloom.deployment import node
from fedloom.deployment.worker import Worker
from fedloom.simulator.clock import Left
from small import for_method


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(node, "AGAIN_S", 0.02)


def breaks(monkeypatch, what, error, clients):
    whole = getattr(Worker, what)

    def maybe(self, *given, **how):
        if self.client in clients:
            raise error
        return whole(self, *given, **how)

    monkeypatch.setattr(Worker, what, maybe)


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2"), ZeroDivisionError("division"), FileNotFoundError(2, "No such file", "x.npy")]
)
def test_a_model_that_raises_on_one_device_is_left_out_and_the_others_go_on(error, tmp_path, monkeypatch):
    breaks(monkeypatch, "train", error, {2})
    scenario, text = for_method("hierfedavg", cloud_rounds=2, edge_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path)
        return await together.run(), together

    row, together = asyncio.run(go())
    assert np.isfinite(row).all()
    assert together.simulation.measures[-1]["updates"] == 2 * 5
    assert [what for what in journal_of(tmp_path) if isinstance(what, Left)] == [Left((2,))] * 2
    told = [line for line in together.logs["cloud"].kept if line["event"] == "failed"]
    assert [line["who"] for line in told] == ["device device-2"] * 2
    assert all(type(error).__name__ in line["why"] and str(error) in line["why"] for line in told)
