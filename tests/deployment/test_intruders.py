"""Nobody gets in: what a node with a good certificate may not do is refused and logged, and the service goes on.

Those without a certificate, or with a wrong one, are in test_links.py."""

import asyncio
import functools

import numpy as np
import pytest

from deployment.federation import RUN, Together, simulated
from deployment.network import Network
from fedloom.deployment.keeping import MOST_HELD
from fedloom.deployment.letters import BadLetter, Letter, decode, encode
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import identity_of, owner
from fedloom.deployment.node import Node
from fedloom.deployment.store import Store
from fedloom.deployment.transport import REFUSED, answer
from fedloom.simulator import make_method
from small import for_method

P = 108  # values of the small scenario's model
LAST = "device-5"


def row(n=P, dtype=np.float32):
    return np.zeros(n, dtype=dtype)


async def attacked(folder, attacks, text="hierfedavg"):
    """Run a federation; in the middle of it strangers write (who, to, letter). Their answers, the logs, and the federation."""
    scenario, method = for_method(text, cloud_rounds=2)
    together = Together(scenario, method, folder, absent=[LAST])  # without whom no round ends
    running = asyncio.create_task(together.run())
    while not together.nodes.get("edge-0") or not together.nodes["edge-0"].store.names:  # it has an update
        await asyncio.sleep(0.01)
    answers = []
    for who, to, letter in attacks:
        data = letter if isinstance(letter, bytes) else encode(letter)
        desk = together.network.desks[to]
        answers.append(decode(await answer(desk, identity_of(who), data, 1 << 20, together.logs[to]), 1 << 20))
    together.start(LAST)
    await running
    return answers, together


def why_refused(folder, who, to, letter, text="hierfedavg"):
    """The reason, which must stand in the log with who it was; and the federation ends as without the attack."""
    (reply,), together = asyncio.run(attacked(folder, [(who, to, letter)], text))
    assert reply.kind == REFUSED
    refused = [line for line in together.logs[to].kept if line["event"] == "refused"]
    assert any(line["why"] == reply.fields["why"] and line["who"] == str(identity_of(who)) for line in refused)
    assert np.array_equal(together.row, _undisturbed(text))
    return reply.fields["why"]


@functools.cache
def _undisturbed(text="hierfedavg"):
    return simulated(*for_method(text, cloud_rounds=2))


CASES = {
    "a device sends the update of another": (
        "device-1", "edge-0", Letter("put", {"name": "u-2-0"}, {"row": row()}), "by device-2 and nobody else",
    ),
    "an edge sends an update": (
        "edge-1", "edge-0", Letter("put", {"name": "u-2-0"}, {"row": row()}), "by device-2 and nobody else",
    ),
    "the cloud sends an update": (
        "cloud", "edge-0", Letter("put", {"name": "u-2-0"}, {"row": row()}), "by device-2 and nobody else",
    ),
    "an update of another length": (
        "device-1", "edge-0", Letter("put", {"name": "u-1-999"}, {"row": row(P + 1)}), "108 numbers of float32",
    ),
    "an update of another shape": (
        "device-1", "edge-0", Letter("put", {"name": "u-1-999"}, {"row": row().reshape(2, -1)}), "108 numbers of float32",
    ),
    "an update of another type": (
        "device-1", "edge-0", Letter("put", {"name": "u-1-999"}, {"row": row(dtype=np.float64)}), "108 numbers of float32",
    ),
    "an update without numbers": ("device-1", "edge-0", Letter("put", {"name": "u-1-999"}), "got nothing"),
    "NaN": (
        "device-1", "edge-0", Letter("put", {"name": "u-1-999"}, {"row": np.full(P, np.nan, np.float32)}), "not finite",
    ),
    "infinity": (
        "device-1", "edge-0", Letter("put", {"name": "u-1-999"}, {"row": np.full(P, np.inf, np.float32)}), "not finite",
    ),
    "an update larger than any can be": (
        "device-1", "edge-0", Letter("put", {"name": "u-1-999"}, {"row": row(1 << 19)}), "can be needed here",
    ),
    "a model given to a station by a device": (
        "device-1", "edge-0", Letter("put", {"name": "m-0"}, {"row": row()}), "m-0 is none",
    ),
    "a device reports a model": (
        "device-1", "cloud", Letter("put", {"name": "m-900"}, {"row": row()}), "was not asked for m-900",
    ),
    "an edge reports what it was not asked for": (
        "edge-0", "cloud", Letter("put", {"name": "m-900"}, {"row": row()}), "was not asked for m-900",
    ),
    "a feature that nobody asked for": (
        "device-1", "cloud", Letter("put", {"name": "f-1-1"}, {"row": row(3)}), "was not asked for f-1-1",
    ),
    "the update of another is asked for": (
        "device-1", "edge-0", Letter("fetch", {"name": "u-2-0", "wait_s": 0}), "only models are handed out",
    ),
    "the cloud asks for an update": (
        "cloud", "edge-0", Letter("fetch", {"name": "u-2-0", "wait_s": 0}), "only models are handed out",
    ),
    "a name that leaves its folder": (
        "device-1", "edge-0", Letter("fetch", {"name": "../../key", "wait_s": 0}), "no name of a value",
    ),
    "a wait for ever": ("device-1", "edge-0", Letter("fetch", {"name": "m-0", "wait_s": 1e9}), "a number from 0 to 20"),
    "somebody who is not in the roster": ("device-77", "cloud", Letter("poll", {}), "not in the roster"),
    "an old version": (
        "device-1", "cloud", Letter("hello", {"newest": 1, "oldest": 1, "run": RUN}), "install the same version",
    ),
    "a bundle of another run": (
        "device-1", "cloud", Letter("hello", {"newest": 2, "oldest": 2, "run": "f" * 32}), "has a bundle of the run",
    ),
    "an unknown letter": ("device-1", "edge-0", Letter("exec", {"code": "import os"}), "does not know letters"),
    "a pickle": ("device-1", "edge-0", b"\x80\x04\x95\x0c\x00\x00\x00", "no letter"),
    "bytes that are no letter": ("device-1", "edge-0", bytes(range(256)), "begins with"),
    "a header that is longer than the letter": ("device-1", "cloud", b"FLM1\xff\xff\x00\x00{}", "cannot have a header"),
    "a message where models are not coded": (
        "device-1", "edge-0", Letter("put", {"name": "c-1-999"}, {"message": np.zeros(55, np.uint8)}), "go up as they are",
    ),
    "a model asked for coded where it is not": (
        "device-1", "edge-0", Letter("fetch", {"name": "m-0", "wait_s": 1, "key": 7}), "go down as they are here",
    ),
    "what is left over with a device is sent": (
        "device-1", "edge-0", Letter("put", {"name": "r-1-999"}, {"row": row()}), "takes updates, and r-1-999 is none",
    ),
    "a field of another type": ("device-1", "cloud", Letter("poll", {"known": "all", "wait_s": 0}), "a list of at most"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_intruder_is_refused(case, tmp_path):
    who, to, letter, why = CASES[case]
    if case in ("NaN", "infinity"):
        letter = encode(letter)
    assert why in why_refused(tmp_path, who, to, letter)


def test_a_replay_of_an_old_round_is_logged_and_not_kept(tmp_path):
    async def go():
        scenario, method = for_method("hierfedavg", cloud_rounds=2)
        together = Together(scenario, method, tmp_path)
        running = asyncio.create_task(together.run())
        name = None
        while name is None:  # until an update was merged and dropped
            await asyncio.sleep(0.01)
            node = together.nodes.get("edge-0")
            name = next((n for n in node.keeping.merged if n not in node.store), None) if node else None
        letter = encode(Letter("put", {"name": name}, {"row": row()}))
        data = await answer(node, identity_of(f"device-{owner(name)}"), letter, 1 << 20, together.logs["edge-0"])
        assert name not in node.store
        await running
        return decode(data, 1 << 20), together

    reply, together = asyncio.run(go())
    assert reply.fields == {"wanted": False}
    assert any("is of an old round" in str(line.get("why")) for line in together.logs["edge-0"].kept)
    assert np.array_equal(together.row, _undisturbed())


def test_a_device_that_says_that_it_fails_what_it_was_not_asked_for_does_not_end_the_federation(tmp_path):
    letter = Letter("done", {"order": "train-u-1-999", "failed": "everything"})
    replies, together = asyncio.run(attacked(tmp_path, [("device-1", "cloud", letter)] * 100))
    assert {reply.kind for reply in replies} == {"noted"}
    assert np.array_equal(together.row, _undisturbed())


def test_a_node_that_is_put_out_while_all_runs_is_told_to_everybody_by_the_cloud(tmp_path):
    mark = "ab" * 32

    async def go():
        scenario, method = for_method("hierfedavg", cloud_rounds=2)
        together = Together(scenario, method, tmp_path, absent=[LAST])
        running = asyncio.create_task(together.run())
        while len(together.nodes) < len(together.names) - 1:
            await asyncio.sleep(0.01)
        together.network.desks["cloud"].revoked = lambda: {mark}
        while not all(node.revoked == {mark} for node in together.nodes.values()):
            assert not running.done()
            await asyncio.sleep(0.02)
        together.start(LAST)
        await running

    asyncio.run(go())


def test_a_device_cannot_fill_the_disk_of_a_station(tmp_path):
    async def go():
        log = Log("edge-0")
        station = Node("edge-0", make_method("hierfedavg"), Store(tmp_path, RUN), Network().link("edge-0"), log, P)
        for i in range(70):
            letter = encode(Letter("put", {"name": f"u-1-{i}"}, {"row": row()}))
            reply = decode(await answer(station, identity_of("device-1"), letter, 1 << 20, log), 1 << 20)
        other = encode(Letter("put", {"name": "u-2-0"}, {"row": row()}))
        return reply, decode(await answer(station, identity_of("device-2"), other, 1 << 20, log), 1 << 20), station

    refused, taken, station = asyncio.run(go())
    assert refused.kind == REFUSED and "sends too many" in refused.fields["why"]
    assert taken.fields == {"wanted": True}
    assert len(station.store.names) == MOST_HELD + 1


@pytest.mark.parametrize("seed", range(200))
def test_damaged_letters_are_refused_and_never_crash(seed):
    rng = np.random.default_rng(seed)
    letter = Letter("put", {"name": "u-1-0", "n": [1, {"a": None}]}, {"row": row(), "ids": np.arange(3)})
    data = bytearray(encode(letter))
    for _ in range(rng.integers(1, 6)):
        data[rng.integers(len(data))] = rng.integers(256)
    cut = bytes(data[: rng.integers(len(data) + 1)]) if seed % 3 == 0 else bytes(data)
    try:
        found = decode(cut, 1 << 20)
    except BadLetter as error:
        assert str(error)
    else:
        assert all(np.isfinite(array).all() for array in found.arrays.values())
