"""Letters over gRPC with mutual TLS: who is let in, and that nothing is left behind."""

import asyncio
import contextlib
import socket
import threading

import numpy as np
import pytest

from fedloom.deployment.certificates import Authority, Credentials, fingerprint
from fedloom.deployment.letters import Letter
from fedloom.deployment.links import MOST_CALLS, GrpcLink, GrpcServer
from fedloom.deployment.logs import Log
from fedloom.deployment.transport import RefusedBy, Unreachable

RUN = "ab" * 16


class Echo:
    """Answers with who has called."""

    async def handle(self, who, letter):
        return Letter("echo", {"who": str(who), "kind": letter.kind}, letter.arrays)


@pytest.fixture(scope="module")
def authority():
    return Authority.new(RUN)


def calling(
    authority, caller, *, to="edge-0", server="edge-0", serves=True, revoked=(), most=1 << 20, letter=None, log=None
):
    """What a caller with these credentials gets from a server, and the server's log."""
    log = log or Log(server)

    async def go():
        credentials = authority.issue(server, serves=serves)
        at = GrpcServer(Echo(), credentials, "127.0.0.1:0", RUN, most, log, revoked=lambda: revoked)
        async with at as listening, GrpcLink(caller, {to: f"127.0.0.1:{listening.port}"}, 1 << 20) as link:
            return await link.call(to, letter or Letter("hi"), 3.0)

    return asyncio.run(go()), log


def test_a_node_with_a_certificate_is_known_by_it(authority):
    row = np.arange(5, dtype=np.float32)
    reply, _ = calling(authority, authority.issue("device-3", serves=False), letter=Letter("hi", {}, {"row": row}))
    assert reply.fields == {"who": "device device-3", "kind": "hi"}
    assert np.array_equal(reply.arrays["row"], row)


def test_no_certificate_is_not_let_in(authority):
    import grpc

    async def go():
        async with GrpcServer(
            Echo(), authority.issue("edge-0", serves=True), "127.0.0.1:0", RUN, 1 << 20, Log("edge-0")
        ) as server:
            only_ca = grpc.ssl_channel_credentials(authority.pem)
            options = [("grpc.ssl_target_name_override", "edge-0")]
            async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", only_ca, options=options) as channel:
                await channel.unary_unary("/fedloom/letter")(b"", timeout=3.0)

    with pytest.raises(grpc.aio.AioRpcError):
        asyncio.run(go())


def test_another_authority_is_not_let_in(authority):
    other = Authority.new(RUN).issue("device-3", serves=False)
    with pytest.raises(Unreachable):
        calling(authority, Credentials(other.certificate, other.key, authority.pem))


def test_a_server_of_another_authority_is_not_believed(authority):
    other = Authority.new(RUN)
    with pytest.raises(Unreachable):
        calling(other, authority.issue("device-3", serves=False))


def test_a_device_that_may_not_serve_cannot_pose_as_an_edge(authority):
    with pytest.raises(Unreachable):
        calling(authority, authority.issue("device-3", serves=False), server="device-7", to="edge-0", serves=True)
    with pytest.raises(Unreachable):
        calling(authority, authority.issue("device-3", serves=False), server="edge-0", to="edge-0", serves=False)


def test_an_edge_cannot_pose_as_the_cloud(authority):
    with pytest.raises(Unreachable):
        calling(authority, authority.issue("device-3", serves=False), server="edge-0", to="cloud")


def test_a_certificate_whose_role_is_not_its_names_is_refused_and_logged(authority):
    posing = authority.issue("device-3", serves=False, role="cloud")
    log = Log("edge-0")
    with pytest.raises(RefusedBy, match="made out for the role 'cloud'"):
        calling(authority, posing, log=log)
    assert log.kept[0]["event"] == "refused" and "made out for the role" in log.kept[0]["why"]


def test_a_certificate_of_another_run_is_refused(authority):
    other = Authority("cd" * 16, authority._certificate, authority._key)
    with pytest.raises(RefusedBy, match="of the run 'cdcd"):
        calling(authority, other.issue("device-3", serves=False))


def test_a_revoked_certificate_is_refused(authority):
    caller = authority.issue("device-3", serves=False)
    with pytest.raises(RefusedBy, match="device device-3 is revoked"):
        calling(authority, caller, revoked={fingerprint(caller.certificate)})


def test_a_letter_that_is_too_large_is_refused(authority):
    big = Letter("put", {}, {"row": np.zeros(100_000, dtype=np.float32)})
    with pytest.raises(RefusedBy, match="at most 1,000 can be needed"):
        calling(authority, authority.issue("device-3", serves=False), letter=big, most=1000)


def test_what_is_far_too_large_does_not_reach_the_program(authority):
    big = Letter("put", {}, {"row": np.zeros(1_000_000, dtype=np.float32)})
    with pytest.raises(RefusedBy, match="RESOURCE_EXHAUSTED"):
        calling(authority, authority.issue("device-3", serves=False), letter=big, most=1000)


def test_garbage_and_crowds_and_slow_ones_do_not_stop_the_service(authority):
    """Bytes that are no TLS, a thousand connections that say nothing, one that begins to say hello and never ends."""

    async def go():
        log = Log("edge-0")
        async with GrpcServer(
            Echo(), authority.issue("edge-0", serves=True), "127.0.0.1:0", RUN, 1 << 20, log
        ) as server:
            crowd = []
            try:
                crowd += [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1000)]
                crowd[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
                crowd[1].sendall(b"\x00" * 4096)
                crowd[2].sendall(b"\x16")
                caller = authority.issue("device-3", serves=False)
                async with GrpcLink(caller, {"edge-0": f"127.0.0.1:{server.port}"}, 1 << 20) as link:
                    return await link.call("edge-0", Letter("hi"), 10.0)
            finally:
                for made in crowd:
                    made.close()

    assert asyncio.run(go()).fields["who"] == "device device-3"


class Waits:
    """Answers `hi` at once, and `wait` only when it is told to."""

    def __init__(self):
        self.go_on = asyncio.Event()

    async def handle(self, who, letter):
        if letter.kind == "wait":
            await self.go_on.wait()
        return Letter("echo", {"who": str(who)})


async def crowded(authority, devices, n_each, log):
    """What a device gets that says hi while others have so many calls open each, and what these got."""
    desk = Waits()
    serving = authority.issue("edge-0", serves=True)
    async with contextlib.AsyncExitStack() as stack:
        at = GrpcServer(desk, serving, "127.0.0.1:0", RUN, 1 << 20, log, n_nodes=1)
        where = {"edge-0": f"127.0.0.1:{(await stack.enter_async_context(at)).port}"}
        calls = []
        for name in devices:
            for _ in range(2):  # over two connections
                link = await stack.enter_async_context(GrpcLink(authority.issue(name, serves=False), where, 1 << 20))
                calls += [asyncio.create_task(link.call("edge-0", Letter("wait"), 60.0)) for _ in range(n_each // 2)]
        taken = min(len(devices) * MOST_CALLS, 2 * MOST_CALLS + 16)
        while sum(call.done() for call in calls) < len(calls) - taken:
            await asyncio.sleep(0.02)
        caller = authority.issue("device-3", serves=False)
        link = await stack.enter_async_context(GrpcLink(caller, where, 1 << 20))
        if len(devices) == 1:
            assert (await link.call("edge-0", Letter("hi"), 30.0)).fields["who"] == "device device-3"
        desk.go_on.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert (await link.call("edge-0", Letter("hi"), 30.0)).fields["who"] == "device device-3"
        return found


def test_a_device_with_too_many_calls_open_does_not_shut_others_out(authority):
    log = Log("edge-0")
    found = asyncio.run(crowded(authority, ["device-1"], 2 * MOST_CALLS, log))
    late = [one for one in found if isinstance(one, Unreachable)]
    assert len(late) == MOST_CALLS and "device-1 has 64 calls open, and may not have more" in str(late[0])
    assert {line["who"] for line in log.kept} == {"device device-1"}


def test_a_server_that_has_no_room_for_a_call_is_called_again_and_nobody_gives_up(authority):
    """Beyond what it takes at a time all are told to come again, not that they are refused."""
    found = asyncio.run(crowded(authority, ["device-1", "device-2", "device-4"], MOST_CALLS, Log("edge-0")))
    late = [one for one in found if isinstance(one, Exception)]
    assert len(late) == 3 * MOST_CALLS - (2 * MOST_CALLS + 16) and {type(one) for one in late} == {Unreachable}


def test_bytes_that_are_no_letter_are_refused_and_logged(authority):
    import grpc

    log = Log("edge-0")

    async def go():
        caller = authority.issue("device-3", serves=False)
        async with GrpcServer(
            Echo(), authority.issue("edge-0", serves=True), "127.0.0.1:0", RUN, 1 << 20, log
        ) as server:
            secure = grpc.ssl_channel_credentials(caller.authority, caller.key, caller.certificate)
            options = [("grpc.ssl_target_name_override", "edge-0")]
            async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", secure, options=options) as channel:
                for garbage in (b"", b"\x80\x04pickle", b"FLM1\xff\xff\xff\xff", bytes(range(256)) * 4):
                    await channel.unary_unary("/fedloom/letter")(garbage, timeout=3.0)

    asyncio.run(go())
    assert log.counts == {"refused": 4}
    assert {line["who"] for line in log.kept} == {"device device-3"}


def test_nobody_at_the_address_is_unreachable(authority):
    async def go():
        async with GrpcLink(authority.issue("device-3", serves=False), {"edge-0": "127.0.0.1:1"}, 1000) as link:
            await link.call("edge-0", Letter("hi"), 2.0)

    with pytest.raises(Unreachable, match=r"edge-0 at 127\.0\.0\.1:1"):
        asyncio.run(go())


def test_a_port_that_is_taken_is_named(authority):
    async def go(address):
        async with GrpcServer(Echo(), authority.issue("edge-0", serves=True), address, RUN, 1000, Log("edge-0")):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen at {address}: another process is there"):
            asyncio.run(go(address))


def test_no_thread_is_left_after_servers_and_channels_are_closed(authority):
    def of_ours():
        return {t for t in threading.enumerate() if "grpc" not in t.name.lower() and "pytest" not in t.name}

    calling(authority, authority.issue("device-3", serves=False))
    before = of_ours()
    for _ in range(3):
        calling(authority, authority.issue("device-3", serves=False))
    assert of_ours() == before
