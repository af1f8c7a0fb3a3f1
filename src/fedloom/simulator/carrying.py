"""Who carries out what the machines answer: nobody, as in a simulation, or processes elsewhere.

The driver decides and notes; a carrier lets things happen. `Imagined` foresees when clients are back and reports are there from
what the fleet predicts; where the air is shared that depends on who sends meanwhile, and is known when it is so. A deployment
hands the work to real devices and learns of arrivals when they happen: its clock is the wall's, and nothing is foreseen.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Snapshot
from fedloom.protocol.messages import OnTheWay, Part, Send
from fedloom.simulator.air import Air
from fedloom.simulator.book import Model, Row, settle
from fedloom.simulator.clock import Arrival, Clock, Timepiece
from fedloom.simulator.computing import Computing
from fedloom.simulator.features import Features, Layers
from fedloom.simulator.on_air import send_on_air
from fedloom.simulator.result import Checkpoint
from fedloom.simulator.scene import Scene
from fedloom.training.engine import Engine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Collects(Protocol):
    """How features are collected; see `Features`."""

    def size(self, kind: str, layers: Layers) -> float: ...
    def work(self, kind: str, local_steps: Ints, pass_steps: Ints) -> NDArray[np.floating]: ...
    def values(self, kind: str, layers: Layers, start: Model, results: Mapping[int, Model]) -> NDArray[np.floating]: ...
    def known(self, results: Mapping[int, Model]) -> None: ...


class Computes(Protocol):
    """How models that are looked at are computed; see `Computing`."""

    wall_s: float
    call_s: float
    batches: list[int]
    on_wave: Callable[[], None] | None
    on_look: Callable[[], None] | None
    resume: Checkpoint | None

    @property
    def up_to_date(self) -> bool: ...
    def wait(self, models: list[Model]) -> None: ...
    def flush(self) -> None: ...
    def compute(self, models: list[Model]) -> None: ...
    def mark(self, models: list[Model]) -> None: ...
    def restore(self) -> None: ...
    def state(self) -> dict[str, Any]: ...


class Carrier(Protocol):
    """foreseen: when clients are back is known when they are sent.

    sent: clients go to work; what the edge is told of it. merged: an aggregator has a new model in place of the one before, and
    that is its recipe. reported: a group sends the models of these aggregators to the cloud, not before at_s; whether the
    carrier itself tells when they are there. takes_s: how long a group's models from the cloud, which are predicted to take
    so long, hold up what follows. secret: mixed into keys that nobody may guess. witnessed: what members were shown is known from
    what they say. true_row: of a model that an aggregator should have, not from what it says of it; None if that cannot be known.
    seen: what the server knows of the fleet when it groups clients, links and seconds a step (K,), where the fleet predicts
    these. known: the run that is gone on with had looked at a model.
    """

    @property
    def foreseen(self) -> bool: ...
    @property
    def witnessed(self) -> bool: ...
    @property
    def secret(self) -> int: ...
    def true_row(self, model: Model) -> Row | None: ...
    @property
    def clock(self) -> Timepiece: ...
    def sent(self, action: Send, scene: Scene, event: OnTheWay) -> OnTheWay: ...
    def merged(self, part: Part, scene: Scene, model: Model) -> None: ...
    def reported(self, group: int, hosts: Sequence[int], models: Sequence[Model], kind: str, at_s: float) -> bool: ...
    def takes_s(self, group: int, predicted_s: float) -> float: ...
    def seen(self, now: Snapshot, step_s: Floats) -> tuple[Snapshot, Floats]: ...
    def known(self, model: Model) -> None: ...
    def features(self, local: Features) -> Collects: ...
    def computing(self, engine: Engine | None, live: Callable[[], list[Model]]) -> Computes: ...


class Imagined:
    """Nothing is carried out: all happens when the fleet predicts it. at_once: every arrival is an event of its own. air: if it
    is shared; gathers: see `send_on_air`."""

    witnessed, secret = False, 0

    def __init__(self, at_once: bool, air: Air | None = None, *, gathers: bool = False) -> None:
        self.clock: Timepiece = Clock() if air is None else air.clock
        self._at_once, self._air, self._gathers = at_once, air, gathers

    @property
    def foreseen(self) -> bool:
        return self._air is None

    def sent(self, action: Send, scene: Scene, event: OnTheWay) -> OnTheWay:
        if self._air is not None:
            send_on_air(self._air, action, scene, event, gathers=self._gathers)
            return unforeseen(action, event)
        if self._at_once:
            for part in action.parts:
                if np.isfinite(part.arrives_s).all():  # else it is told of who fails, and then of the others
                    self.clock.foresee(float(part.arrives_s.max()), Arrival(int(part.client[0])))
        return event

    def merged(self, part: Part, scene: Scene, model: Model) -> None:
        pass

    def reported(self, group: int, hosts: Sequence[int], models: Sequence[Model], kind: str, at_s: float) -> bool:
        return False

    def takes_s(self, group: int, predicted_s: float) -> float:
        return predicted_s

    def true_row(self, model: Model) -> Row | None:
        return model.row

    def seen(self, now: Snapshot, step_s: Floats) -> tuple[Snapshot, Floats]:
        return now, step_s

    def known(self, model: Model) -> None:
        settle(model, None)

    def features(self, local: Features) -> Collects:
        return local

    def computing(self, engine: Engine | None, live: Callable[[], list[Model]]) -> Computes:
        return Computing(engine, live)


def unforeseen(action: Send, event: OnTheWay) -> OnTheWay:
    """Clients are sent to work, and nobody knows when they will be back."""
    for part in action.parts:
        part.arrives_s = np.full(len(part), np.inf)
    return OnTheWay(
        event.at_s, event.flight, np.full(len(action.client), np.nan), np.zeros(len(action.client), dtype=np.bool_)
    )
