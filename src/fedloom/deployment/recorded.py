"""A simulation fed with the times of a deployed run: what it computes must be what was deployed, to the bit."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment.journal import Journal, Noted, Spent
from fedloom.deployment.sight import Sight
from fedloom.fleet import Snapshot
from fedloom.methods import Method
from fedloom.protocol.messages import OnTheWay, Part, Send
from fedloom.simulator.book import Model, settle
from fedloom.simulator.carrying import Collects, Computes, unforeseen
from fedloom.simulator.clock import Delivered, Happening, Left
from fedloom.simulator.computing import Computing
from fedloom.simulator.features import Features
from fedloom.simulator.scene import Scene
from fedloom.training.engine import Engine


class RecordedClock:
    """What happened when, from a journal."""

    def __init__(self, happened: Sequence[tuple[float, Noted]], noticed: Callable[[Noted], None]) -> None:
        self.now_s, self._noticed = 0.0, noticed
        self._happened = deque(happened)

    def foresee(self, at_s: float, happening: Happening) -> None:
        pass

    def spend(self, seconds: float) -> None:
        pass

    def next(self) -> Happening:
        if not self._happened:
            raise ValueError("the journal ends before the run does: it is of a run that was not finished")
        self.now_s, happening = self._happened.popleft()
        if isinstance(happening, Spent):
            raise ValueError("the journal does not fit this scenario and method")
        self._noticed(happening)
        return happening

    def since_s(self) -> float:
        at_s, spent = self._happened.popleft()
        if not isinstance(spent, Spent):
            raise ValueError("the journal does not fit this scenario and method")
        return at_s - self.now_s


class Recorded:
    """A carrier (fedloom.simulator.carrying) that lets happen what is recorded in a journal, and trains here."""

    foreseen = witnessed = False
    secret = 0

    def __init__(self, method: Method, journal: Path, identity: str, *, up_bits: float, down_bits: float) -> None:
        self._journal = Journal(journal, identity)
        self._journal.close()
        self.clock = RecordedClock(self._journal.happened, self._noticed)
        self._sight = Sight(measures=not in_lockstep(method), up_bits=up_bits, down_bits=down_bits)
        self._boxed = method.edge.box_s is not None
        self._at_once = not in_lockstep(method)
        self._engine: Engine | None = None

    def sent(self, action: Send, scene: Scene, event: OnTheWay) -> OnTheWay:
        steps = dict(zip(action.client.tolist(), action.steps.tolist()))
        for part in action.parts:
            for job in zip(part.client.tolist(), part.ticket.tolist()):
                self._sight.sent(job, scene, steps[job[0]])
        return unforeseen(action, event)

    def merged(self, part: Part, scene: Scene, model: Model) -> None:
        if self._at_once:  # stations merge when the updates are there, and so all of them together
            settle(model, self._engine)

    def reported(self, group: int, hosts: Sequence[int], models: Sequence[Model], kind: str, at_s: float) -> bool:
        return True

    def takes_s(self, group: int, predicted_s: float) -> float:
        return self.clock.since_s() if self._boxed else 0.0

    def true_row(self, model: Model) -> NDArray[np.float32] | None:
        return model.row

    def seen(self, now: Snapshot, step_s: NDArray[np.float64]) -> tuple[Snapshot, NDArray[np.float64]]:
        return self._sight.seen(now, step_s)

    def _noticed(self, what: Noted) -> None:
        match what:
            case Left(client):
                for one in client:
                    self._sight.left(one)
            case Delivered(client, ticket):
                for job in zip(client, ticket):
                    self._sight.delivered(job, self._journal.took.get(job))

    def known(self, model: Model) -> None:
        settle(model, None)

    def features(self, local: Features) -> Collects:
        return local

    def computing(self, engine: Engine | None, live: Callable[[], list[Model]]) -> Computes:
        self._engine = engine
        return Computing(engine, live)


def in_lockstep(method: Method) -> bool:
    """Time does not decide: every round waits for all its clients, and the cloud for all aggregators."""
    return method.edge.waits_for_all and method.cloud.waits and method.edge.box_s is None
