"""Own code that raises on a device: it is said, and the federation goes on with the others."""

import asyncio
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from deployment.federation import Together, journal_of
from deployment.processes import WITHIN_S, bundles
from fedloom.deployment import node
from fedloom.deployment.cloud import CloudDesk
from fedloom.deployment.logs import Log
from fedloom.deployment.orders import Outbox
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


def test_one_that_fails_again_and_again_does_not_end_what_others_are_at_work_on():
    outbox, stopped = Outbox(), []
    conductor = SimpleNamespace(
        outbox=outbox, waiting=outbox.waiting, clock=SimpleNamespace(stop=lambda: stopped.append(True))
    )

    async def go():
        desk = CloudDesk(conductor, SimpleNamespace(log=Log("cloud")), ["edge-0", "device-0", "device-1"])
        for name in ("device-0", "device-1"):
            outbox.add(name, {"id": "train-u", "do": "train", "name": "u"})
        for _ in range(20):
            desk._count("device-0", "train-u", "no such layer")
            desk._count("device-0", "train-v", "was not asked for")
        assert desk.error is None and not stopped
        desk._count("device-1", "train-u", None)
        for _ in range(5):
            desk._count("device-1", "train-u", "no room")
        assert desk.error is None  # 5 of 6 failures, and device-0 is at work
        outbox.take("device-0", "train-u")
        desk._count("device-1", "train-u", "no room")
        assert str(desk.error) == "no device can train; the last one, device-1, says: no room" and stopped

    asyncio.run(go())


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
def test_local_ends_with_the_reason_if_no_device_can_start(tmp_path, monkeypatch):
    own_task(tmp_path, monkeypatch, "assert node == 'cloud' or node.startswith('edge'), f'no data on {node}'")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(for_method("hierfedavg", cloud_rounds=1)[0]))
    command = [
        sys.executable,
        "-m",
        "fedloom",
        "deploy",
        "local",
        "small.yaml",
        "--quiet",
        "--task",
        "my_own:task",
        "--out",
        "all",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 1
    assert "device-2 has ended: no data on device-2" in done.stderr
    last = " ".join(done.stderr.split())
    assert "all devices have ended; the last words of device-5: AssertionError: no data on device-5" in last
