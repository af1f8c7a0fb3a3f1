"""How much is asked of clients: local work and edge rounds of a cloud round, and how long the run goes on."""

from dataclasses import replace

from fedloom.methods import Method
from fedloom.pacing import Periods, Progress
from fedloom.pacing.periods import periods_at
from fedloom.simulator.held import Held
from fedloom.simulator.world import World


class Agenda:
    """now: the periods of the cloud round that runs. With total_steps, the local steps of a client in all, rounds go on until
    these are done, and the last ones are shorter if they must be."""

    def __init__(self, method: Method, world: World, held: Held) -> None:
        _check_total_steps(method, world)
        self._rounds, self._world, self._held = method.edge.rounds, world, held
        self._steps_asked = 0  # of a client, in the cloud rounds that are over
        self.now = world.periods

    def periods(self) -> Periods:
        """Of a cloud round that begins now: the scenario's, or what the method makes of the progress; no more edge rounds than
        total_steps leaves."""
        world, step = self._world, self._held.model.steps
        progress = Progress(step=step, lr=world.lr(step), first_lr=world.lr(0))
        periods = periods_at(self._rounds, world.periods, progress)
        if world.total_steps is None:
            return periods
        left = max(1, world.total_steps - self._steps_asked)
        return replace(periods, edge_rounds=min(periods.edge_rounds, -(-left // periods.local_steps)))

    def begin(self) -> Periods:
        """A group begins."""
        self.now = self.periods()
        return self.now

    @property
    def steps_left(self) -> int | None:
        """Local steps of a client until the run is over, if it has a number of them."""
        total = self._world.total_steps
        return None if total is None else total - self._steps_asked

    def is_over(self, cloud_round: int, n_rounds: int) -> bool:
        """A cloud round is over: whether it was the last."""
        self._steps_asked += self.now.local_steps * self.now.edge_rounds
        total = self._world.total_steps
        return cloud_round == n_rounds if total is None else self._steps_asked >= total


def _check_total_steps(method: Method, world: World) -> None:
    """Local steps in all are counted for clients that all do the same."""
    if world.total_steps is None:
        return
    if world.local_epochs is not None or not method.cloud.waits or not method.edge.in_step or method.allots_rounds:
        raise ValueError(
            f"total_steps counts the local steps of clients that all do the same: it needs local_steps, and a method with "
            f"rounds of the scenario's length; {method.name} decides by itself how much is done: use cloud_rounds"
        )
