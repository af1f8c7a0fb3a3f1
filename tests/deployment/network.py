"""A network in memory behind the same seam as gRPC: letters are bytes, some are lost, some come twice, nodes die."""

import asyncio
import random

from fedloom.deployment.letters import encode
from fedloom.deployment.naming import identity_of
from fedloom.deployment.transport import Unreachable, answer, opened

MOST = 1 << 24


class Network:
    """desks: by name, who answers. lose, double: shares of letters."""

    def __init__(self, seed=0, lose=0.0, double=0.0):
        self.desks, self.logs = {}, {}
        self.lose, self.double, self._random = lose, double, random.Random(seed)
        self.n_letters = 0
        self._open = {}  # by desk: answers that are being made

    def link(self, name):
        return MemoryLink(self, name)

    async def carry(self, sender, to, letter):
        self.n_letters += 1
        data = encode(letter)
        if to not in self.desks or self._random.random() < self.lose:
            await asyncio.sleep(0)
            raise Unreachable(to)
        if self._random.random() < self.double:
            await self._answer(sender, to, data)
        reply = await self._answer(sender, to, data)
        if self._random.random() < self.lose or sender not in self.desks:
            raise Unreachable(to)
        return opened(reply, MOST, to)

    def cut(self, name):
        """A node is dead: nobody answers, and those who wait for its answers learn it, as when a connection breaks."""
        self.desks.pop(name, None)
        for task in self._open.pop(name, set()):
            task.cancel()

    async def _answer(self, sender, to, data):
        if to not in self.desks:
            raise Unreachable(to)
        task = asyncio.ensure_future(answer(self.desks[to], identity_of(sender), data, MOST, self.logs[to]))
        made = self._open.setdefault(to, set())
        made.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():
                task.cancel()
                raise
            raise Unreachable(to) from None
        finally:
            made.discard(task)


class MemoryLink:
    def __init__(self, network, name):
        self._network, self._name = network, name

    async def call(self, to, letter, timeout_s):
        try:
            async with asyncio.timeout(timeout_s):
                return await self._network.carry(self._name, to, letter)
        except TimeoutError:
            raise Unreachable(to) from None

    async def close(self):
        pass
