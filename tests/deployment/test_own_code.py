"""Own code that raises on a device: it is said, and the federation goes on with the others."""

import asyncio
import json
import re
import sys

import numpy as np
import pytest
import yaml

from deployment.federation import Together, journal_of
from deployment.processes import bundles
from deployment.test_commands import said
from fedloom.deployment import node
from fedloom.deployment.roles import run_role
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
    "error",
    [RuntimeError("mat1 and mat2"), ZeroDivisionError("division"), FileNotFoundError(2, "No such file", "x.npy")],
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


def test_if_no_device_can_train_the_federation_ends_with_the_reason(tmp_path, monkeypatch):
    breaks(monkeypatch, "train", RuntimeError("no such layer"), range(6))
    scenario, text = for_method("hierfedavg", cloud_rounds=100, edge_rounds=1)

    async def go():
        await Together(scenario, text, tmp_path).run()

    with pytest.raises(AssertionError, match="cloud has ended") as found:
        asyncio.run(go())
    why = r"no device can train; the last one, device-[0-5], says: Failed: RuntimeError: no such layer"
    assert isinstance(found.value.__cause__, RuntimeError) and re.fullmatch(why, str(found.value.__cause__))


def test_a_device_that_cannot_compute_its_feature_does_not_hold_up_a_grouping(tmp_path, monkeypatch):
    breaks(monkeypatch, "feature", RuntimeError("no gradient"), {3})
    scenario, text = for_method("ddc", cloud_rounds=2)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=60.0)
        return await together.run(), together

    row, together = asyncio.run(go())
    assert np.isfinite(row).all()
    told = [line for line in together.logs["cloud"].kept if line["event"] == "failed"]
    assert len(told) >= 3 and {line["who"] for line in told} == {"device device-3"}
    assert "no gradient" in told[0]["why"]


def own_task(folder, monkeypatch, body):
    (folder / "my_own.py").write_text(f"def task(node):\n    {body}\n    return {{}}\n")
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "my_own", raising=False)


def test_why_a_role_has_ended_stands_in_its_log(tmp_path, monkeypatch):
    own_task(tmp_path, monkeypatch, "open(f'samples-of-{node}.npz')")
    bundles(tmp_path / "all", *for_method("fedavg"), task="my_own:task")
    with pytest.raises(FileNotFoundError):
        run_role(tmp_path / "all" / "device-3")
    line = json.loads((tmp_path / "all" / "device-3" / "log.jsonl").read_text().splitlines()[-1])
    assert line["event"] == "ended" and "No such file or directory: 'samples-of-device-3.npz'" in line["why"]
    assert "my_own.py" in line["trace"]


@pytest.mark.slow
def test_local_ends_with_the_reason_if_no_device_can_start(tmp_path, monkeypatch, capfd):
    own_task(tmp_path, monkeypatch, "assert node == 'cloud' or node.startswith('edge'), f'no data on {node}'")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(for_method("hierfedavg", cloud_rounds=1)[0]))
    words = ("deploy", "local", tmp_path / "small.yaml", "--quiet", "--task", "my_own:task", "--out", tmp_path / "all")
    with pytest.raises(RuntimeError, match=r"all devices have ended; .* device-5: AssertionError: no data on device-5"):
        said(*words)
    said_aloud = capfd.readouterr().err
    assert "device-2 has ended: no data on device-2" in said_aloud and "Traceback" not in said_aloud
