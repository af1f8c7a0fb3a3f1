"""Letters over one stream of gRPC: each is numbered, and its answer has its number, so that many may be under way at a time.

A call of its own for every letter costs three times as much as a letter on a stream.
"""

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

Piece = bytes | memoryview
_NUMBER = struct.Struct("<Q")


class Ended(Exception):
    """The stream has ended, with a code of gRPC and why."""

    def __init__(self, code: grpc.StatusCode, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class Asking:
    """This side asks; call: of gRPC, with a stream both ways. Whoever opens it closes it."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._numbers, self._writing = itertools.count(), asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    @property
    def ended(self) -> bool:
        return self._reading.done() or self._call.done()

    async def ask(self, letter: Sequence[Piece]) -> memoryview:
        """The answer to a letter; Ended if there will be none."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._write(b"".join([_NUMBER.pack(number), *letter]))
            return memoryview(await answer)[_NUMBER.size :]
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # it is known why the stream has ended, by what writing raised

    async def close(self) -> None:
        self._call.cancel()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            try:
                await self._call.write(data)
            except grpc.aio.AioRpcError as error:
                raise _ended(error) from None
            except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:  # the other side died meanwhile
                raise Ended(grpc.StatusCode.UNAVAILABLE, str(error)) from None
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                raise Ended(grpc.StatusCode.CANCELLED, "the stream was given up") from None

    async def _read(self) -> None:
        ended = Ended(grpc.StatusCode.UNAVAILABLE, "the other side has ended the stream")
        try:
            while (data := await self._call.read()) is not grpc.aio.EOF:
                answer = self._waiting.get(_NUMBER.unpack_from(data)[0])
                if answer is not None and not answer.done():
                    answer.set_result(data)
        except grpc.aio.AioRpcError as error:
            ended = _ended(error)
        except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.UsageError, struct.error) as error:
            ended = Ended(grpc.StatusCode.CANCELLED, str(error) or "the stream was given up")
        self._call.cancel()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ended)


async def answering(
    context: Any,
    take: Callable[[], bytes | None],
    answer: Callable[[memoryview], Awaitable[bytes]],
    leave: Callable[[], None],
) -> None:
    """The other side: until the stream ends. answer: what is said to a letter. take: called before, gives what is said in its
    place, as to who asks too much at a time; the next letter is not read before that is sent. leave: called after each that was
    taken."""
    writing, tasks = asyncio.Lock(), set[asyncio.Task[None]]()

    async def write(number: bytes, said: bytes) -> None:
        async with writing:
            await context.write(number + said)

    async def later(number: bytes, letter: memoryview) -> None:
        said = await answer(letter)
        with contextlib.suppress(Exception):  # the stream has ended meanwhile, which shows where it is read
            await write(number, said)

    def left(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        leave()

    try:
        while (data := await context.read()) is not grpc.aio.EOF:
            number, said = data[: _NUMBER.size], take()
            if said is None:
                task = asyncio.create_task(later(number, memoryview(data)[_NUMBER.size :]))
                tasks.add(task)
                task.add_done_callback(left)
            else:
                await write(number, said)
    finally:
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def called(call: Any, letter: Sequence[Piece]) -> bytes:
    """The answer to a letter that goes alone; Ended if there will be none."""
    try:
        answer: bytes = await call(b"".join(letter))
        return answer
    except grpc.aio.AioRpcError as error:
        raise _ended(error) from None
    except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:  # the other side, or this one, died meanwhile
        raise Ended(grpc.StatusCode.UNAVAILABLE, str(error)) from None


def n_bytes(letter: Sequence[Piece]) -> int:
    return sum(piece.nbytes if isinstance(piece, memoryview) else len(piece) for piece in letter)


def _ended(error: grpc.aio.AioRpcError) -> Ended:
    return Ended(error.code(), str(error.details()))


def _is_cancelled() -> bool:
    """This task is to end, and not only the stream that it writes to."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
