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

    def link(self, name):
        return MemoryLink(self, name)

    async def carry(self, sender, to, letter):
        self.n_letters += 1
        data = encode(letter)
        if to not in self.desks or self._random.random() < self.lose:
            await asyncio.sleep(0)
            raise Unreachable(to)
        if self._random.random() < self.double:
            await answer(self.desks[to], identity_of(sender), data, MOST, self.logs[to])
            if to not in self.desks:
                raise Unreachable(to)
        reply = await answer(self.desks[to], identity_of(sender), data, MOST, self.logs[to])
        if self._random.random() < self.lose or sender not in self.desks:
            raise Unreachable(to)
        return opened(reply, MOST, to)


class MemoryLink:
    def __init__(self, network, name):
        self._network, self._name = network, name

    async def call(self, to, letter, timeout_s):
        try:
            return await asyncio.wait_for(self._network.carry(self._name, to, letter), timeout_s)
        except TimeoutError:
            raise Unreachable(to) from None

    async def close(self):
        pass
