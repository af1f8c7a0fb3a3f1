"""Letters over one stream: answers find their questions, and nobody suffers from what happens to another's letter."""

import asyncio
import contextlib

import grpc
import pytest

from fedloom.deployment.certificates import Authority, fingerprint
from fedloom.deployment.letters import Letter
from fedloom.deployment.links import STREAM, GrpcLink, GrpcServer
from fedloom.deployment.logs import Log
from fedloom.deployment.transport import RefusedBy, Unreachable, until_reached

RUN = "ab" * 16


class Waits:
    """Answers with what it is told, after so many seconds."""

    def __init__(self):
        self.n = 0

    async def handle(self, who, letter):
        self.n += 1
        await asyncio.sleep(letter.fields.get("s", 0.0))
        if letter.fields.get("raises"):
            raise KeyError("a mistake of ours")
        return Letter("echo", {"n": letter.fields.get("n"), "who": who.name})


@pytest.fixture(scope="module")
def authority():
    return Authority.new(RUN)


@contextlib.asynccontextmanager
async def linked(authority, desk, log=None, revoked=frozenset):
    """A link of device-3 to a server."""
    serving, calling = authority.issue("edge-0", serves=True), authority.issue("device-3", serves=False)
    async with (
        GrpcServer(desk, serving, "127.0.0.1:0", RUN, 1 << 20, log or Log("edge-0"), revoked=revoked) as server,
        GrpcLink(calling, {"edge-0": f"127.0.0.1:{server.port}"}, 1 << 20) as link,
    ):
        yield link, server, calling


def test_answers_find_their_questions_in_any_order(authority):
    async def go():
        async with linked(authority, Waits()) as (link, _, _):
            letters = [Letter("hi", {"n": n, "s": 0.05 * (n % 3)}) for n in range(30)]
            return await asyncio.gather(*(link.call("edge-0", letter, 10.0) for letter in letters))

    assert [reply.fields["n"] for reply in asyncio.run(go())] == list(range(30))


def test_who_gives_up_its_letter_does_not_disturb_others(authority):
    async def go():
        async with linked(authority, Waits()) as (link, _, _):
            slow = asyncio.create_task(link.call("edge-0", Letter("hi", {"n": 1, "s": 0.3}), 10.0))
            given_up = asyncio.create_task(link.call("edge-0", Letter("hi", {"n": 2, "s": 0.2}), 10.0))
            await asyncio.sleep(0.1)
            given_up.cancel()
            assert (await link.call("edge-0", Letter("hi", {"n": 3}), 10.0)).fields["n"] == 3
            return (await slow).fields["n"], link._streams["edge-0"].ended

    assert asyncio.run(go()) == (1, False)


def test_a_mistake_of_the_desk_is_answered_and_logged_and_the_stream_goes_on(authority):
    log = Log("edge-0")

    async def go():
        async with linked(authority, Waits(), log) as (link, _, _):
            with pytest.raises(Unreachable, match="cannot now: KeyError"):
                await link.call("edge-0", Letter("hi", {"raises": True}), 10.0)
            return (await link.call("edge-0", Letter("hi", {"n": 1}), 10.0)).fields["n"]

    assert asyncio.run(go()) == 1
    assert [(line["event"], line["who"]) for line in log.kept] == [("failed", "device device-3")]


def test_a_server_that_is_gone_ends_all_that_waits_and_is_found_again(authority):
    async def go():
        desk = Waits()
        serving = authority.issue("edge-0", serves=True)
        async with contextlib.AsyncExitStack() as stack:
            link, server, _ = await stack.enter_async_context(linked(authority, desk))
            waiting = [asyncio.create_task(link.call("edge-0", Letter("hi", {"s": 60.0}), 90.0)) for _ in range(3)]
            while desk.n < 3:
                await asyncio.sleep(0.01)
            await server.__aexit__()
            found = await asyncio.gather(*waiting, return_exceptions=True)
            again = GrpcServer(Waits(), serving, f"127.0.0.1:{server.port}", RUN, 1 << 20, Log("edge-0"))
            await stack.enter_async_context(again)
            reply = await until_reached(link, "edge-0", Letter("hi", {"n": 7}), 10.0)
            return {type(one) for one in found}, reply.fields["n"]

    assert asyncio.run(go()) == ({Unreachable}, 7)


def test_a_node_that_is_put_out_meanwhile_is_refused_on_its_open_stream(authority):
    revoked, log = set(), Log("edge-0")

    async def go():
        async with linked(authority, Waits(), log, revoked=lambda: revoked) as (link, _, calling):
            assert (await link.call("edge-0", Letter("hi", {"n": 1}), 10.0)).fields["who"] == "device-3"
            revoked.add(fingerprint(calling.certificate))
            with pytest.raises(RefusedBy, match="device device-3 is revoked"):
                await link.call("edge-0", Letter("hi", {"n": 2}), 10.0)

    asyncio.run(go())
    assert [line["event"] for line in log.kept] == ["refused"] and "is revoked" in log.kept[0]["why"]


def test_garbage_on_a_stream_is_refused_and_logged_and_the_stream_goes_on(authority):
    log = Log("edge-0")

    async def go():
        async with linked(authority, Waits(), log) as (_, server, calling):
            secure = grpc.ssl_channel_credentials(calling.authority, calling.key, calling.certificate)
            options = [("grpc.ssl_target_name_override", "edge-0")]
            async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", secure, options=options) as channel:
                call = channel.stream_stream(STREAM)()
                for garbage in (b"", b"1", bytes(8), bytes(8) + b"\x80\x04pickle", bytes(8) + b"FLM1\xff\xff\xff\xff"):
                    await call.write(garbage)
                    assert b'"refused"' in await call.read()
                call.cancel()

    asyncio.run(go())
    assert log.counts == {"refused": 5} and {line["who"] for line in log.kept} == {"device device-3"}
