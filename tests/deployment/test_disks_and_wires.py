"""Full disks, connections that are half open, devices that are slow, nodes of other versions, a cloud that was cut off."""

import asyncio
import contextlib
import errno
import os
import time

import numpy as np
import pytest

from deployment.federation import RUN, Together, journal_of, simulated
from deployment.network import Network
from fedloom.deployment import node, silence
from fedloom.deployment.certificates import Authority
from fedloom.deployment.journal import Journal
from fedloom.deployment.letters import Letter
from fedloom.deployment.links import GrpcLink, GrpcServer
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import identity_of
from fedloom.deployment.node import Node
from fedloom.deployment.silence import Silence
from fedloom.deployment.store import Store
from fedloom.deployment.took import Took
from fedloom.deployment.transport import RefusedBy, until_reached
from fedloom.deployment.worker import Worker
from fedloom.methods import Waiting
from fedloom.simulator import make_method
from fedloom.simulator.clock import Left, Lost, Opening
from small import for_method

TOOK = Took(send_s=0.5, sent=432, carried={"cloud": (432, 0, 500, 60)})


class FullDisk:
    """Stands in for os.fsync: now and then there is no room."""

    def __init__(self, full_at):
        self.n, self.full_at, self.full, self._fsync = 0, set(full_at), 0, os.fsync

    def __call__(self, descriptor):
        self.n += 1
        if self.n in self.full_at:
            self.full += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self._fsync(descriptor)


@pytest.mark.parametrize("method", ["hierfedavg", "fedavg"])
def test_a_disk_that_is_full_now_and_then_loses_nothing(method, tmp_path, monkeypatch):
    """The cloud's journal, its values and checkpoints, and those of edges and devices."""
    monkeypatch.setattr(node, "AGAIN_S", 0.05)
    disk = FullDisk([*range(10, 13), *range(30, 200, 7)])
    monkeypatch.setattr(os, "fsync", disk)
    scenario, text = for_method(method, cloud_rounds=2)
    row = asyncio.run(Together(scenario, text, tmp_path).run())
    assert disk.full >= 8
    assert np.array_equal(row, simulated(scenario, text))


@pytest.mark.parametrize("method", ["hierfedavg", "fedavg"])
def test_orders_wait_until_the_journal_is_on_disk_also_those_of_the_cloud_itself(method, tmp_path, monkeypatch):
    flush, tried = Journal.flush, []

    def full_every_other_time(self):
        tried.append(self)
        if len(tried) % 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(self)

    monkeypatch.setattr(Journal, "flush", full_every_other_time)
    scenario, text = for_method(method, cloud_rounds=1, edge_rounds=1)
    row = asyncio.run(Together(scenario, text, tmp_path).run())
    assert len(tried) >= 4
    assert np.array_equal(row, simulated(scenario, text))


class Narrow:
    """Stands in for the file of a journal: of what is written next only the beginning has room."""

    def __init__(self, file):
        self._file, self.room = file, None

    def write(self, data):
        room, self.room = self.room, None
        return self._file.write(data[:room])

    def __getattr__(self, name):
        return getattr(self._file, name)


def read_again(path):
    again = Journal(path, "run")
    again.close()
    return again


def test_a_line_for_which_there_was_no_room_leaves_no_trace_in_the_journal(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal", "run")
    narrow = Narrow(journal._file)
    monkeypatch.setattr(journal, "_file", narrow)
    journal.happens(0.0, Opening(0))
    lines = [
        lambda: journal.happens(1.0, Opening(1)),
        lambda: journal.confirms("merge-m-1"),
        lambda: journal.measured(3, 7, TOOK),
        lambda: journal.moves("edge-0", TOOK),
        lambda: journal.carries("edge-0", TOOK.carried),
    ]
    for line in lines:
        narrow.room = 12
        with pytest.raises(OSError, match="no room for a line"):
            line()
    journal.happens(2.0, Opening(2))
    journal.close()
    for one in (journal, read_again(tmp_path / "journal")):
        assert not one.confirmed and not one.took and not one.moved and not one.carried
    assert read_again(tmp_path / "journal").happened == [(0.0, Opening(0)), (2.0, Opening(2))]


def test_what_a_station_moved_is_counted_once_though_there_was_no_room_at_first(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal", "run")
    narrow = Narrow(journal._file)
    monkeypatch.setattr(journal, "_file", narrow)
    narrow.room = 60
    with pytest.raises(OSError, match="no room for a line"):
        journal.moves("edge-0", TOOK)
    journal.moves("edge-0", TOOK)
    journal.close()
    for one in (journal, read_again(tmp_path / "journal")):
        assert [node for node, _ in one.moved] == ["edge-0"]
        assert one.carried == {("edge-0", "cloud"): [432, 0, 500, 60]}


def test_lines_that_did_not_get_to_the_disk_are_written_again_before_they_are_flushed(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal", "run")
    journal.happens(0.0, Opening(0))
    monkeypatch.setattr(os, "fsync", FullDisk([1]))
    path, before = tmp_path / "journal", (tmp_path / "journal").read_bytes()
    written = []
    narrow = Narrow(journal._file)
    monkeypatch.setattr(narrow, "write", lambda data: written.append((narrow.tell(), bytes(data))))
    monkeypatch.setattr(journal, "_file", narrow)
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    assert written == [(0, before)]
    journal.flush()
    monkeypatch.undo()
    journal._file.seek(len(before))
    journal.happens(1.0, Opening(1))
    journal.close()
    assert path.read_bytes().startswith(before)
    assert read_again(path).happened == [(0.0, Opening(0)), (1.0, Opening(1))]


def test_a_device_that_is_slow_is_not_a_silent_one(tmp_path, monkeypatch):
    whole = Worker.train

    def slowly(self, *what, **how):
        if self.client == 2:
            time.sleep(1.5)
        return whole(self, *what, **how)

    monkeypatch.setattr(Worker, "train", slowly)
    scenario, text = for_method("hierfedavg", cloud_rounds=1, edge_rounds=1)
    row = asyncio.run(Together(scenario, text, tmp_path, patience_s=0.75).run())
    assert not [what for what in journal_of(tmp_path) if isinstance(what, Left | Lost)]
    assert np.array_equal(row, simulated(scenario, text))


def test_a_device_that_is_there_again_after_it_was_given_up_goes_on_in_the_next_round(tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=3, edge_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path, patience_s=0.75, absent=["device-2"])
        running = asyncio.create_task(together.run())
        while not any(isinstance(what, Left) for what in journal_of(tmp_path)):
            await asyncio.sleep(0.02)
        together.start("device-2")
        await running
        return [measures["updates"] for measures in together.simulation.measures]

    assert asyncio.run(go())[-1] >= 5 + 6  # it missed one round, perhaps two


class Clock:
    """Stands in for time.monotonic."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(silence.time, "monotonic", made)
    return made


def test_who_has_not_been_heard_for_longer_than_patience_is_silent(clock):
    heard = Silence(Waiting())
    for _ in range(40):
        clock.now_s += 2.0
        heard.hear("device-0")
    assert heard.is_silent("device-1") and not heard.is_silent("device-0")
    assert not heard.is_heard("device-1") and heard.is_heard("device-0")


def test_if_nobody_was_heard_the_cloud_was_cut_off_and_all_may_come_back_in_their_time(clock):
    heard = Silence(Waiting())
    heard.hear("device-0")
    heard.hear("device-1")
    clock.now_s += 300.0
    heard.hear("device-0")
    assert heard.silent_s("device-1") == 0.0
    for _ in range(31):
        clock.now_s += 2.0
        heard.hear("device-0")
    assert heard.is_silent("device-1")


def test_with_patience_without_end_nobody_is_silent(clock):
    heard = Silence(Waiting(patience_s=None))
    clock.now_s += 1e6
    assert not heard.is_silent("device-1")


class Echo:
    async def handle(self, who, letter):
        return Letter("echo", {"n": letter.fields["n"]})


class Proxy:
    """Forwards connections; `stall` leaves those that there are half open: nothing is forwarded, and nothing is closed."""

    def __init__(self, port):
        self._port, self._stalled, self._open, self._tasks = port, set(), set(), set()
        self.n_connections = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stall(self):
        self._stalled |= self._open

    async def _connected(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.n_connections += 1
        number = self.n_connections
        self._open.add(number)
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(number, reader, back))
                group.create_task(self._forward(number, there, writer))
        finally:
            for end in (writer, back):
                end.close()

    async def _forward(self, number, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                while number in self._stalled:
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
        writer.close()


def test_a_connection_that_is_half_open_is_noticed_and_another_is_made():
    authority = Authority.new(RUN)

    async def go():
        serving, calling = authority.issue("edge-0", serves=True), authority.issue("device-3", serves=False)
        async with (
            GrpcServer(Echo(), serving, "127.0.0.1:0", RUN, 1 << 20, Log("edge-0")) as server,
            Proxy(server.port) as proxy,
            GrpcLink(calling, {"edge-0": f"127.0.0.1:{proxy.port}"}, 1 << 20) as link,
        ):
            await link.call("edge-0", Letter("hi", {"n": 1}), 10.0)
            proxy.stall()
            reply = await until_reached(link, "edge-0", Letter("hi", {"n": 2}), 2.0)
            return reply.fields["n"], proxy.n_connections

    n, n_connections = asyncio.run(go())
    assert n == 2 and n_connections >= 2


@pytest.mark.parametrize(("newest", "oldest"), [(1, 1), (9, 7)])
def test_a_node_of_another_version_is_refused_over_the_wire_with_what_to_do(newest, oldest, tmp_path, monkeypatch):
    monkeypatch.setattr(node, "VERSION", newest)
    monkeypatch.setattr(node, "OLDEST", oldest)
    authority = Authority.new(RUN)
    scenario, text = for_method("hierfedavg", cloud_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path, absent=["device-3"])
        together.start("cloud")
        while "cloud" not in together.network.desks:
            await asyncio.sleep(0.01)
        serving, calling = authority.issue("cloud", serves=True), authority.issue("device-3", serves=False)
        desk = together.network.desks["cloud"]
        async with (
            GrpcServer(desk, serving, "127.0.0.1:0", RUN, 1 << 20, together.logs["cloud"]) as server,
            GrpcLink(calling, {"cloud": f"127.0.0.1:{server.port}"}, 1 << 20) as link,
        ):
            device = Node("device-3", make_method(text), Store(tmp_path / "d", RUN), link, Log("device-3"), 5)
            try:
                await device.run()
            finally:
                await together.kill("cloud")
                together.engine.close()

    with pytest.raises(
        RefusedBy, match=rf"speaks versions {oldest} to {newest} of the protocol, this cloud 2 to 2; install"
    ):
        asyncio.run(go())


def test_an_order_that_an_older_node_does_not_know_is_not_carried_out_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "AGAIN_S", 0.01)
    said = []

    class Cloud:
        async def handle(self, who, letter):
            said.extend(letter.fields.get("done", []))
            orders = [{"id": "shrink-m-1", "do": "shrink", "name": "m-1"}] if not said else []
            return Letter("orders", {"orders": orders, "over": bool(said), "version": 1})

    async def go():
        network = Network()
        network.desks["cloud"], network.logs["cloud"] = Cloud(), Log("cloud")
        edge = Node("edge-0", make_method("hierfedavg"), Store(tmp_path, RUN), network.link("edge-0"), Log("edge-0"), 5)
        network.desks["edge-0"] = edge
        await edge.run()

    asyncio.run(go())
    assert "edge-0 cannot 'shrink'; its version is too old for this cloud" in said[0]["failed"]


def test_who_cannot_be_reached_is_told_of_once_in_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "TOLD_S", 0.1)
    log = Log("device-3")
    network = Network()
    device = Node("device-3", make_method("fedavg"), Store(tmp_path, RUN), network.link("device-3"), log, 5)

    async def go():
        running = asyncio.create_task(device.run())
        await asyncio.sleep(1.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    assert [(line["event"], line["who"]) for line in log.kept] == [("unreachable", "cloud")]


def test_two_processes_with_the_bundle_of_one_node_are_noticed_and_one_after_the_other_are_not(tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path)
        together.start("cloud")
        while "cloud" not in together.network.desks:
            await asyncio.sleep(0.01)
        desk = together.network.desks["cloud"]

        async def asks(who, *lives):
            for life in lives:
                fields = {"known": [], "held": [], "does": [], "wait_s": 0, "life": life}
                await desk.handle(identity_of(who), Letter("poll", fields))

        try:
            await asks("device-1", "a", "b", "b", "c")
            await asks("device-2", "a", "b", "a", "b")
            nodes = (await desk.handle(identity_of("device-1"), Letter("status"))).fields["nodes"]
            return nodes, together.logs["cloud"].kept
        finally:
            await together.kill("cloud")
            together.engine.close()

    nodes, lines = asyncio.run(go())
    assert [name for name, facts in nodes.items() if facts["twice"]] == ["device-2"]
    (line,) = [line for line in lines if line["event"] == "twice"]
    assert line["who"] == "device-2" and "two processes have its bundle" in line["why"]


def test_who_asks_for_the_status_with_the_bundle_of_a_node_is_not_that_node(tmp_path):
    scenario, text = for_method("hierfedavg", cloud_rounds=1)

    async def go():
        together = Together(scenario, text, tmp_path)
        together.start("cloud")
        while "cloud" not in together.network.desks:
            await asyncio.sleep(0.01)
        desk, heard = together.network.desks["cloud"], together.conductor.silence.heard
        try:
            status = await desk.handle(identity_of("device-3"), Letter("status"))
            assert "device-3" not in heard
            await desk.handle(identity_of("device-3"), Letter("hello", {"newest": 2, "oldest": 2, "run": RUN}))
            assert "device-3" in heard
            return status.fields["nodes"]["device-3"]
        finally:
            await together.kill("cloud")
            together.engine.close()

    facts = asyncio.run(go())
    assert facts["does"] == [] and not facts["late"] and not facts["lost"]
