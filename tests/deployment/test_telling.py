"""What is carried out is told with the next question, or at once if the node waits for the answer to one."""

import asyncio
import threading
import time
from functools import partial

import numpy as np
import pytest

from deployment.federation import RUN, Together, simulated
from deployment.network import Network
from fedloom.deployment import node, short
from fedloom.deployment.letters import Letter, decode, encode
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import identity_of
from fedloom.deployment.node import Node
from fedloom.deployment.short import Short
from fedloom.deployment.store import Store
from fedloom.deployment.transport import REFUSED, answer
from fedloom.simulator import make_method
from small import for_method


class Cloud:
    """Gives one order after the other, and hears what is said."""

    def __init__(self, orders, hold_s=0.0):
        self.orders, self.hold_s, self.said, self.known = list(orders), hold_s, [], []

    async def handle(self, who, letter):
        if letter.kind == "done":
            self.said.append(("done", letter.fields["order"], letter.fields.get("failed")))
        if letter.kind != "poll":
            return Letter("noted")
        self.said += [("poll", told["order"], told.get("failed")) for told in letter.fields["done"]]
        self.known.append(letter.fields["known"])
        orders = self.orders.pop(0) if self.orders else []
        if not orders:
            await asyncio.sleep(self.hold_s)
        over = not self.orders and not orders and not letter.fields["known"]
        return Letter("orders", {"orders": orders, "over": over})


def told(cloud, tmp_path, work):
    """What an edge tells a cloud whose orders it carries out by `work`."""

    async def go():
        network = Network()
        network.desks["cloud"], network.logs["cloud"] = cloud, Log("cloud")
        edge = Node("edge-0", make_method("hierfedavg"), Store(tmp_path, RUN), network.link("edge-0"), Log("edge-0"), 5)
        network.desks["edge-0"] = edge
        edge.doing.do = work
        async with asyncio.timeout(20):
            await edge.run()

    asyncio.run(go())
    return cloud.said


def orders(*names):
    return [{"id": name, "do": "merge", "name": name} for name in names]


def test_short_work_is_told_with_the_next_question(tmp_path):
    async def work(order):
        await asyncio.sleep(0)

    cloud = Cloud([orders("a"), orders("b"), orders("c")])
    assert told(cloud, tmp_path, work) == [("poll", "a", None), ("poll", "b", None), ("poll", "c", None)]
    assert cloud.known == [[], [], [], []]


def test_long_work_is_asked_beside_and_told_at_once(tmp_path):
    async def work(order):
        await asyncio.sleep(0.2)

    cloud = Cloud([orders("a")], hold_s=0.5)
    assert told(cloud, tmp_path, work) == [("done", "a", None)]
    assert cloud.known[1] == ["a"], "it says that it knows the order while it works"


def test_of_several_orders_those_that_are_done_are_told_and_the_others_are_known(tmp_path):
    async def work(order):
        await asyncio.sleep(0.3 if order["id"] == "slow" else 0.0)

    cloud = Cloud([orders("slow", "a", "b")], hold_s=1.0)
    assert sorted(told(cloud, tmp_path, work)) == [("done", "slow", None), ("poll", "a", None), ("poll", "b", None)]
    assert cloud.known[1] == ["slow"]


def test_what_failed_is_given_again_in_the_very_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "AGAIN_S", 0.0)
    tries = []

    async def work(order):
        tries.append(order["id"])
        if len(tries) < 3:
            raise ValueError("not yet")

    said = told(Cloud([orders("a"), orders("a"), orders("a")]), tmp_path, work)
    assert said == [("poll", "a", "ValueError: not yet")] * 2 + [("poll", "a", None)] and tries == ["a"] * 3


@pytest.mark.parametrize(
    ("done", "why"),
    [
        ("all", "a list of mappings as 'done'"),
        (["merge-m-1"], "a list of mappings as 'done'"),
        ([{"order": 7}], "a short text as 'order'"),
        ([{"order": "merge-m-1", "took": [-1.0] * 6}], "took must be seconds"),
    ],
)
def test_nonsense_about_what_is_done_is_refused_and_changes_nothing(done, why, tmp_path):
    async def go():
        scenario, method = for_method("hierfedavg", cloud_rounds=1)
        together = Together(scenario, method, tmp_path)
        running = asyncio.create_task(together.run())
        while "cloud" not in together.network.desks:
            await asyncio.sleep(0.01)
        fields = {"known": [], "held": [], "does": [], "wait_s": 0, "life": "x", "done": done}
        desk, log = together.network.desks["cloud"], together.logs["cloud"]
        data = await answer(desk, identity_of("device-1"), encode(Letter("poll", fields)), 1 << 20, log)
        await running
        return decode(data, 1 << 20), together.row, simulated(scenario, method)

    reply, row, expected = asyncio.run(go())
    assert reply.kind == REFUSED and why in reply.fields["why"]
    assert np.array_equal(row, expected)


def test_work_is_done_in_a_thread_until_it_was_short_and_again_after_it_was_long(monkeypatch):
    monkeypatch.setattr(short, "IN_PLACE_S", 0.02)
    main, where = threading.get_ident(), []

    def work(lasts_s):
        where.append(threading.get_ident() == main)
        time.sleep(lasts_s)
        return lasts_s

    async def go():
        doing = Short()
        for lasts_s in (0.0, 0.0, 0.05, 0.0, 0.0):
            assert await doing.do("write", partial(work, lasts_s)) == lasts_s
        await doing.do("train", partial(work, 0.0))

    asyncio.run(go())
    assert where == [False, True, True, False, True, False]
