"""Letters over gRPC with mutual TLS: bytes in and bytes out, all that is said stands in letters. They go over a stream for every
pair of nodes (streams.py); only the first, by which versions of the protocol are agreed on, and questions from outside are calls
of their own.

Channels and servers are closed by whoever opened them (`async with`), also on the way out of an error: a channel that is left to
the garbage collector can hang the end of a process.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

os.environ.setdefault(
    "GRPC_VERBOSITY", "ERROR"
)  # read when gRPC is loaded; else it tells of every connection that ends

import grpc
import grpc.aio

from fedloom.deployment.certificates import Credentials, fingerprint, who_is
from fedloom.deployment.letters import BadLetter, Letter, encode, encoded
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import Identity
from fedloom.deployment.streams import Asking, Ended, Piece, answering, called, n_bytes
from fedloom.deployment.took import Traffic
from fedloom.deployment.transport import LATER, Desk, RefusedBy, Unreachable, answer, opened

CALL, STREAM = "/fedloom/letter", "/fedloom/letters"
ALONE = ("hello", "status")
SLACK = 1 << 20  # bytes that gRPC lets through beyond what a letter may have, so that our own refusal is logged
HANDSHAKE_MS = 5000
ALIVE_MS = 15_000
MOST_CALLS = 64  # of a node at a time, so that nobody can take all that a server answers at a time
LOST = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
)


class GrpcLink:
    """Calls nodes by name, at their addresses. most: bytes of an answer. traffic: counts what is carried."""

    def __init__(
        self, credentials: Credentials, addresses: Mapping[str, str], most: int, traffic: Traffic | None = None
    ) -> None:
        self._addresses, self._most, self._traffic = addresses, most, traffic or Traffic()
        self._credentials = grpc.ssl_channel_credentials(
            credentials.authority, credentials.key, credentials.certificate
        )
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._streams: dict[str, Asking] = {}
        self._left: set[asyncio.Task[None]] = set()  # channels that are being closed

    async def __aenter__(self) -> "GrpcLink":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            await stream.close()
        for channel in channels.values():
            await channel.close()
        for task in self._left:
            task.cancel()
        await asyncio.gather(*self._left, return_exceptions=True)

    async def call(self, to: str, letter: Letter, timeout_s: float) -> Letter:
        channel, pieces = self._channel(to), encoded(letter)
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._asked(to, channel, pieces, alone=letter.kind in ALONE)
        except TimeoutError:
            self._leave(to, channel, timeout_s)
            raise Unreachable(f"{to} at {self._addresses[to]}: no answer in {timeout_s:g} s") from None
        except Ended as error:
            if error.code in LOST or _is_busy(error):
                raise Unreachable(f"{to} at {self._addresses[to]}: {error.why}") from None
            raise RefusedBy(f"{to} refuses: {error.code.name}, {error.why}") from None
        try:
            came = opened(reply, self._most, to)
            self._traffic.note(to, letter, n_bytes(pieces), came, len(reply))
            return came
        except BadLetter as error:
            raise RefusedBy(f"{to} has answered with what is no letter: {error}") from None

    async def _asked(self, to: str, channel: Any, pieces: Sequence[Piece], *, alone: bool) -> Piece:
        """What comes back; Ended if nothing will."""
        if alone:
            return await called(channel.unary_unary(CALL), pieces)
        if to not in self._streams or self._streams[to].ended:
            self._streams[to] = Asking(channel.stream_stream(STREAM)())
        return await self._streams[to].ask(pieces)

    def _leave(self, to: str, channel: Any, grace_s: float) -> None:
        """Nothing has come for long: the connection may be half open, and the next call makes another. Other calls on it have
        their own time to end."""
        mine = self._channels.get(to) is channel
        if not mine:
            return
        del self._channels[to]
        self._streams.pop(to, None)
        task = asyncio.create_task(channel.close(grace_s))
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    def _channel(self, to: str) -> grpc.aio.Channel:
        if to not in self._channels:
            if to not in self._addresses:
                raise RefusedBy(f"no address of {to} is known; it is not in this bundle's roster")
            options = [
                ("grpc.ssl_target_name_override", to),
                ("grpc.max_receive_message_length", self._most + SLACK),
                ("grpc.max_send_message_length", -1),
                ("grpc.keepalive_time_ms", ALIVE_MS),
                ("grpc.keepalive_timeout_ms", ALIVE_MS // 3),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 2000),
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),  # a channel has a connection of its own
            ]
            self._channels[to] = grpc.aio.secure_channel(self._addresses[to], self._credentials, options=options)
        return self._channels[to]


class GrpcServer:
    """Answers letters at an address. run: whose certificates are let in; revoked: fingerprints that are not;
    n_nodes: so many may call."""

    def __init__(
        self,
        desk: Desk,
        credentials: Credentials,
        listen: str,
        run: str,
        most: int,
        log: Log,
        *,
        revoked: Callable[[], Collection[str]] = tuple,
        n_nodes: int = 100,
    ) -> None:
        self._desk, self._run, self._most, self._log, self._revoked = desk, run, most, log, revoked
        self._listen, self._credentials = listen, credentials
        self._prints: dict[bytes, str] = {}
        self._most_open = 2 * MOST_CALLS + 16 * n_nodes
        self._open: Counter[str] = Counter()  # calls of each node that are not answered yet
        self.port = 0

    async def __aenter__(self) -> "GrpcServer":
        options = [
            ("grpc.max_receive_message_length", self._most + SLACK),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ("grpc.max_concurrent_streams", MOST_CALLS),
            ("grpc.keepalive_time_ms", 2 * ALIVE_MS),
            ("grpc.keepalive_timeout_ms", ALIVE_MS),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", ALIVE_MS // 3),
        ]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=self._most_open)
        server.add_generic_rpc_handlers((_Calls(self._alone, self._stream),))
        pair = [(self._credentials.key, self._credentials.certificate)]
        secure = grpc.ssl_server_credentials(pair, self._credentials.authority, require_client_auth=True)
        with contextlib.suppress(RuntimeError):  # which says what the next line does, at length
            self.port = server.add_secure_port(self._listen, secure)
        if self.port == 0:
            raise OSError(
                f"cannot listen at {self._listen}: another process is there, or it is no address of this machine; end that "
                "process, or give others with --host and --port of `fedloom deploy init`"
            )
        await server.start()
        self._server = server
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)

    async def _alone(self, data: bytes, context: Any) -> bytes:
        """A call of its own."""
        who, _ = await self._let_in(context)
        if (full := self._take(who)) is not None:
            return full
        try:
            return await self._answer(who, data)
        finally:
            self._leave(who)

    async def _stream(self, _: object, context: Any) -> None:
        """Letter after letter of a node."""
        who, mark = await self._let_in(context)

        def take() -> bytes | None:
            self._check(who, mark)  # it may be revoked meanwhile
            return self._take(who)

        try:
            await answering(context, take, partial(self._answer, who), partial(self._leave, who))
        except ValueError as error:
            await self._put_out(context, error)

    async def _let_in(self, context: Any) -> tuple[Identity, str]:
        """Who calls, and the fingerprint of its certificate."""
        try:
            return self._who(context.auth_context())
        except ValueError as error:
            await self._put_out(context, error)

    async def _put_out(self, context: Any, error: ValueError) -> NoReturn:
        self._log("refused", who=context.peer(), why=str(error))
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error)[:300])
        raise AssertionError("an aborted call goes no further")

    def _take(self, who: Identity) -> bytes | None:
        """Count a call, until `_leave`; or what is said to somebody who has too many open, or if there are too many of all."""
        if self._open[who.name] >= MOST_CALLS:
            why = f"{who.name} has {MOST_CALLS} calls open, and may not have more"
            self._log("refused", who=str(who), why=why)
            return encode(Letter(LATER, {"why": why}))
        if self._open.total() >= self._most_open:
            return encode(Letter(LATER, {"why": f"{self._most_open} calls are open, and more are not taken at a time"}))
        self._open[who.name] += 1
        return None

    def _leave(self, who: Identity) -> None:
        self._open[who.name] -= 1

    async def _answer(self, who: Identity, data: Piece) -> bytes:
        return await answer(self._desk, who, data, self._most, self._log)

    def _who(self, said: Mapping[str, Any]) -> tuple[Identity, str]:
        """Who calls, by its certificate, and the fingerprint of that."""
        names = [n.decode(errors="replace") for n in said.get("x509_subject_alternative_name", [])]
        uris = [n for n in names if "://" in n]
        (pem,) = said.get("x509_pem_cert", [None])
        if len(uris) != 1 or pem is None:
            raise ValueError("the certificate has not one URI with role and name")
        who = who_is(uris[0], self._run)
        if len(self._prints) > 10_000:
            self._prints.clear()
        if pem not in self._prints:
            self._prints[pem] = fingerprint(pem)
        self._check(who, self._prints[pem])
        return who, self._prints[pem]

    def _check(self, who: Identity, mark: str) -> None:
        if mark in self._revoked():
            raise ValueError(f"the certificate of {who} is revoked")


def _is_busy(error: Ended) -> bool:
    """The other side has more calls than it takes at a time."""
    return error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and "oncurrent" in error.why


class _Calls(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, alone: Callable[[bytes, Any], Any], stream: Callable[[object, Any], Any]) -> None:
        self._handlers = {
            CALL: grpc.unary_unary_rpc_method_handler(alone),
            STREAM: grpc.stream_stream_rpc_method_handler(stream),
        }

    def service(self, details: Any) -> Any:
        return self._handlers.get(details.method)
