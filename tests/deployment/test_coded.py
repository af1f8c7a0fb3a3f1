"""Coded models between real nodes: the messages of the codecs travel, and the deployed model is the simulator's to the bit."""

import asyncio
import shutil

import numpy as np
import pytest

from deployment.federation import RUN, Together, journal_of, recorded, simulated
from deployment.network import Network
from deployment.test_bits import deployed
from deployment.test_faults import with_faults
from deployment.test_intruders import P, row, why_refused
from deployment.test_lost_stations import PATIENCE_S, without
from fedloom.coding import Coding, codec, difference, masked, restored, with_feedback
from fedloom.coding.packing import packed
from fedloom.deployment.coded import Wire
from fedloom.deployment.keeping import MOST_HELD
from fedloom.deployment.letters import Letter, decode, encode
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import identity_of
from fedloom.deployment.node import Node
from fedloom.deployment.store import Store
from fedloom.deployment.transport import REFUSED, Refusal, RefusedBy, answer
from fedloom.gate import Refused
from fedloom.simulator import make_method
from fedloom.simulator.clock import Left
from small import TEXTS, for_method

BOTH = ":up=topk:up.share=0.1:down=qsgd:down.bits=8"
UP = 11 * 4 + 11  # bytes of the 11 largest of 108 values, and of which they are: 7 bits each in planes of 4, 2 and 1
DOWN = 4 + 108  # a scale, and 8 bits a value
LOCKSTEP = [
    f"hierfedavg{BOTH}",
    f"hhfl{BOTH}",  # clients begin with the mean of what two edge servers send
    "hhfl:up=qsgd:up.bits=2:feedback=false",
    "hierfedavg:down=bfloat16",
    "fedavg:up=sign:down=float16",
    f"ddc{BOTH}",  # heads send nothing to themselves
    "macfl_r:up=randomk:up.k=20:down=bfloat16",  # merges look at rows; clients begin near what they trained last
    f"fedmes{BOTH}",  # no cloud
    f"fedadam:hierarchical=true{BOTH}",
]
TIMED = [f"{TEXTS.get(name, name)}{BOTH}" for name in ("csahfl", "fedat", "hiflash_r", "feduc_r")]


@pytest.mark.parametrize("text", LOCKSTEP)
def test_a_coded_lockstep_method_gives_the_simulators_bits(text, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=2)
    assert np.array_equal(deployed(scenario, text, tmp_path), simulated(scenario, text))


@pytest.mark.parametrize("text", [*TIMED, f"ltc:n_clusters=2:box_s=2{BOTH}"])
def test_where_time_decides_the_model_is_that_of_a_simulation_with_the_recorded_times(text, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=2)
    assert np.array_equal(deployed(scenario, text, tmp_path), recorded(scenario, text, tmp_path))


@pytest.mark.parametrize("text", [f"hierfedavg{BOTH}", f"csahfl{BOTH}"])
def test_clients_that_move_take_their_messages_along(text, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=3)
    scenario["fleet"]["mobility"] = {"p_stay": 0.3, "neighbours": "ring", "every": "edge-round"}
    assert np.array_equal(deployed(scenario, text, tmp_path), recorded(scenario, text, tmp_path))


def test_one_client_of_an_edge_server_is_its_merge(tmp_path):
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=2, clients_per_round=1)
    assert np.array_equal(deployed(scenario, text, tmp_path), simulated(scenario, text))


class Counting(Network):
    """Notes the values that were carried: who to whom, name, and bytes."""

    def __init__(self):
        super().__init__()
        self.up, self.down = [], []

    async def carry(self, sender, to, letter):
        reply = await super().carry(sender, to, letter)
        if letter.kind == "put" and sender != to:
            self.up += [(sender, to, array) for array in letter.arrays.values()]
        if letter.kind == "fetch" and sender != to:
            self.down += [(to, sender, array) for array in reply.arrays.values()]
        return reply


def test_what_travels_are_the_bytes_of_the_codecs_on_every_hop(tmp_path):
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=2)
    network = Counting()
    deployed(scenario, text, tmp_path, network=network)
    assert {(array.dtype.str, len(array)) for *_, array in network.up} == {("|u1", UP)}
    assert {(array.dtype.str, len(array)) for *_, array in network.down} == {("|u1", DOWN)}
    hops = {(sender.split("-")[0], to.split("-")[0]) for sender, to, _ in (*network.up, *network.down)}
    assert hops == {("device", "edge"), ("edge", "cloud"), ("cloud", "edge"), ("edge", "device")}
    assert len(network.up) == 2 * (2 * 6 + 2) and len(network.down) == 2 * (2 * 6 + 2)


@pytest.mark.parametrize("text", [f"hierfedavg{BOTH}", f"hhfl{BOTH}", f"ddc{BOTH}"])
def test_lost_and_doubled_letters_change_nothing(text, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=2)
    found, _ = with_faults(scenario, text, tmp_path, 1, lose=0.1, double=0.2)
    assert np.array_equal(found, simulated(scenario, text))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", [f"hhfl{BOTH}", f"ddc{BOTH}", "fedavg:up=sign:down=float16"])
def test_what_is_left_over_survives_kills_at_random_moments(text, seed, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=3)
    found, killed = with_faults(scenario, text, tmp_path, seed, kills=8)
    assert len(killed) >= 3
    assert np.array_equal(found, simulated(scenario, text))


@pytest.mark.parametrize("text", [f"csahfl{BOTH}", f"fedat:n_tiers=3{BOTH}"])
def test_kills_where_time_decides_leave_what_the_journal_tells(text, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=3)
    found, _ = with_faults(scenario, text, tmp_path, 0, kills=6, lose=0.02)
    assert np.array_equal(found, recorded(scenario, text, tmp_path))


def test_a_silent_device_is_left_out_and_begins_anew(tmp_path):
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=4)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=0.5)
        running = asyncio.create_task(together.run())
        while len(together.rounds) < 2:
            await asyncio.sleep(0.01)
        await together.kill("device-2")
        while not any(isinstance(what, Left) for what in journal_of(tmp_path)):
            await asyncio.sleep(0.02)
        together.start("device-2")
        return await running

    found = asyncio.run(go())
    assert np.array_equal(found, recorded(scenario, text, tmp_path))
    assert not np.array_equal(found, simulated(scenario, text))


def test_a_device_that_has_lost_what_was_left_over_is_left_out_once_and_begins_anew(tmp_path):
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=6)

    async def go():
        together = Together(scenario, text, tmp_path)
        running = asyncio.create_task(together.run())
        while len(together.rounds) < 2:
            await asyncio.sleep(0.01)
        await together.kill("device-2")
        shutil.rmtree(tmp_path / "device-2")
        together.start("device-2")
        return await running, together

    found, together = asyncio.run(go())
    left = [what for what in journal_of(tmp_path) if isinstance(what, Left)]
    assert left == [Left((2,))]
    failed = [line["why"] for line in together.logs["cloud"].kept if line["event"] == "failed"]
    assert len(failed) == 1 and "device-2 has lost r-2-" in failed[0]
    assert np.array_equal(found, recorded(scenario, text, tmp_path))


@pytest.mark.parametrize(("text", "absent"), [("hierfedavg", "edge-0"), ("camu", "device-1"), ("hhfl", "edge-1")])
def test_a_station_that_is_lost_begins_anew(text, absent, tmp_path):
    """`without` holds the model against that of a simulation with the recorded times."""
    found, _ = without(f"{text}{BOTH}", absent, tmp_path, comes_after=1, cloud_rounds=8)
    assert np.isfinite(found).all()


def test_a_station_that_comes_back_with_an_empty_disk_begins_anew(tmp_path):
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=8)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=PATIENCE_S)
        running = asyncio.create_task(together.run())
        while len(together.rounds) <= 2:
            await asyncio.sleep(0.01)
        await together.kill("edge-0")
        while not any(type(what).__name__ == "Lost" for what in journal_of(tmp_path)):
            await asyncio.sleep(0.02)
        shutil.rmtree(tmp_path / "edge-0")
        together.start("edge-0")
        return await running

    assert np.array_equal(asyncio.run(go()), recorded(scenario, text, tmp_path))


def test_nodes_do_not_keep_what_nobody_needs(tmp_path):
    """Of every sender what is left over of its last message, and of the one before while that may be needed."""
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=6)

    async def go():
        together = Together(scenario, text, tmp_path)
        await together.run()
        return together

    together = asyncio.run(go())
    for name, node in together.nodes.items():
        kept = [value for value in node.store.names if value[0] == "r"]
        assert len(kept) <= 3 and len(node.store.names) <= 12, (name, node.store.names)
    assert not together.conductor.ordering._reports


def message(**changed):
    """Of the 11 largest values of a row, with some bytes changed."""
    made = np.frombuffer(codec("topk:share=0.1").encode(np.arange(P, dtype=np.float32), 0), np.uint8).copy()
    for at, byte in changed.items():
        made[int(at[1:])] = byte
    return made


def coded(array, name="c-1-999"):
    return Letter("put", {"name": name}, {"message": array})


NAN = {f"_{11 + i}": byte for i, byte in enumerate(np.float32(np.nan).tobytes())}
BEYOND = np.append(np.frombuffer(packed(np.append(np.arange(10), 108).astype(np.uint32), 7), np.uint8), message()[11:])
HUGE = {f"_{11 + i}": byte for i, byte in enumerate(np.float32(3e38).tobytes())}
CASES = {
    "a message that is too short": ("device-1", "edge-0", coded(message()[:-1]), "has 55 bytes, got 54"),
    "a message that is too long": ("device-1", "edge-0", coded(np.append(message(), np.uint8(0))), "has 55 bytes, got 56"),
    "no bytes": ("device-1", "edge-0", Letter("put", {"name": "c-1-999"}), "a message of 55 bytes, got nothing"),
    "a model as it is": ("device-1", "edge-0", coded(row()), "a message of 55 bytes, got float32 of shape (108,)"),
    "bytes in two dimensions": ("device-1", "edge-0", coded(message().reshape(5, 11)), "got uint8 of shape (5, 11)"),
    "an index out of range": ("device-1", "edge-0", coded(BEYOND), "must ascend"),
    "the same index twice": ("device-1", "edge-0", coded(np.where(np.arange(55) < 11, 0, message()).astype(np.uint8)), "ascend"),
    "bits behind the end": ("device-1", "edge-0", coded(message(_10=0xF8)), "must be 0"),
    "NaN": ("device-1", "edge-0", coded(message(**NAN)), "must be finite"),
    "a value beyond what can be added": ("device-1", "edge-0", coded(message(**HUGE)), "8.50706e+37"),
    "the message of another": ("device-1", "edge-0", coded(message(), "c-2-0"), "by device-2 and nobody else"),
    "a message larger than any can be": ("device-1", "edge-0", coded(np.zeros(1 << 21, np.uint8)), "can be needed here"),
    "a message to the cloud that was not asked for": ("edge-0", "cloud", coded(message(), "m-900"), "not asked for m-900"),
    "a key that is none": ("device-1", "edge-0", Letter("fetch", {"name": "m-0", "wait_s": 1, "key": -1}), "a number from 0"),
    "a key of another type": ("device-1", "edge-0", Letter("fetch", {"name": "m-0", "wait_s": 1, "key": "7"}), "a number from 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_message_is_refused(case, tmp_path):
    who, to, letter, why = CASES[case]
    assert why in why_refused(tmp_path, who, to, letter, f"hierfedavg{BOTH}")


class Damaging(Network):
    """A station sends every coded report damaged first."""

    def __init__(self):
        super().__init__()
        self.refused = []

    async def carry(self, sender, to, letter):
        if letter.kind == "put" and to == "cloud" and "message" in letter.arrays:
            for damaged in (message(**NAN), message()[:-1], row()):
                with pytest.raises(RefusedBy) as caught:
                    await super().carry(sender, to, Letter("put", letter.fields, {"message": damaged}))
                self.refused.append(str(caught.value))
        return await super().carry(sender, to, letter)


def test_a_damaged_report_is_refused_and_the_right_one_taken(tmp_path):
    scenario, text = for_method(f"hierfedavg{BOTH}", cloud_rounds=2)
    network = Damaging()
    found = deployed(scenario, text, tmp_path, network=network)
    assert np.array_equal(found, simulated(scenario, text))
    logged = [line["why"] for line in network.logs["cloud"].kept if line["event"] == "refused"]
    for reason in ("must be finite", "has 55 bytes, got 54", "got float32 of shape (108,)"):
        for said in (network.refused, logged):
            assert sum(reason in why for why in said) == 2 * 2  # edge servers, and cloud rounds


def test_a_device_cannot_fill_the_disk_of_a_station_with_messages(tmp_path):
    async def go():
        log, method = Log("edge-0"), make_method(f"hierfedavg{BOTH}")
        station = Node("edge-0", method, Store(tmp_path, RUN), Network().link("edge-0"), log, P)
        for i in range(MOST_HELD + 1):
            data = encode(coded(message(), f"c-1-{i}"))
            reply = decode(await answer(station, identity_of("device-1"), data, 1 << 20, log), 1 << 20)
        return reply

    reply = asyncio.run(go())
    assert reply.kind == REFUSED and "sends too many" in reply.fields["why"]


CODECS = ["float16", "bfloat16", "qsgd:bits=3:bucket=20", "sign", "sign:bucket=7", "topk:share=0.2", "randomk:k=9"]
MASK = np.arange(60) % 3 > 0


@pytest.mark.parametrize("text", CODECS)
@pytest.mark.parametrize("trainable", [None, MASK])
def test_a_wire_does_what_the_simulator_computes(text, trainable):
    rng = np.random.default_rng(1)
    trained, reference, kept = (rng.normal(0, s, 60).astype(np.float32) for s in (1, 1, 0.1))
    wire, whole = Wire(Coding(up=codec(text)), 60, trainable), masked(codec(text), trainable)
    sent, left = with_feedback(whole, difference(trained, reference, trainable), kept, 7)
    made, found = wire.sent_up(trained, reference, kept, 7)
    assert np.array_equal(found, left) and len(made) == wire.up_bytes == whole.n_bits(60) // 8
    assert np.array_equal(wire.got_up(made, reference, 7), restored(sent, reference, trainable))
    if text.startswith(("float16", "bfloat16", "qsgd")):
        down = Wire(Coding(down=codec(text)), 60, trainable)
        written = down.sent_down(trained, 9)
        assert len(written) == down.down_bytes
        assert np.array_equal(down.got_down(written, 9), whole.coded(trained, 9))
        assert np.array_equal(down.as_sent_down(trained, 9), whole.coded(trained, 9))


@pytest.mark.parametrize(
    ("text", "at", "number"), [("sign", 0, np.nan), ("sign", 0, -1.0), ("qsgd", 0, np.inf), ("randomk:k=9", 4, np.nan)]
)
def test_scales_and_values_that_cannot_be_are_refused(text, at, number):
    wire = Wire(Coding(up=codec(text)), 60)
    made = wire.sent_up(np.ones(60, np.float32), np.zeros(60, np.float32), None, 0)[0].copy()
    made[at : at + 4] = np.frombuffer(np.float32(number).tobytes(), np.uint8)
    with pytest.raises(Refusal, match="u-1-2 is no message of"):
        wire.taken_up("u-1-2", made)


def test_a_codec_of_ones_own_that_reads_too_few_values_is_refused():
    class Short:
        def encode(self, row, key):
            return row.tobytes()

        def decode(self, data, n_values, key):
            return np.frombuffer(data, np.float32)[:-1]

        def coded(self, row, key):
            return row

        def n_bits(self, n_values):
            return 32 * n_values

    with pytest.raises(Refused, match="must stand for 5 values, got 4"):
        Wire(Coding(up=Short()), 5).got_up(np.zeros(20, np.uint8), np.zeros(5, np.float32), 0)
