"""What hostile participants send in place of what they have: models of the book, worked out when somebody looks.

Hostile clients alter updates before they are coded; hostile edge servers and heads what they send to the cloud, to their members,
or both, and hold what they merged. All draws come from (seed, "attack", sender, its step or message).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.attacks import altered, together
from fedloom.attacks.settings import (
    Alie,
    Attack,
    FreeRider,
    HostileEdges,
    HostileHeads,
    Ipm,
    LabelFlip,
    MinMax,
    Replay,
    Withhold,
)
from fedloom.simulator.book import Dispatch, Model, Row, derive
from fedloom.simulator.scene import Scene
from fedloom.simulator.sick import NOT_FINITE, Sick, Update
from fedloom.simulator.world import World

TO_MEMBERS = " to members"
Sender = tuple[str, int]


class Altering:
    """sick: where it is noted what is not finite; None: that ends the run."""

    def __init__(self, world: World, sick: Sick | None) -> None:
        self._world, self._hostility, self._sick = world, world.hostility, sick
        self._sent: dict[Sender, deque[Model]] = {}  # what may be sent again

    @property
    def kept(self) -> list[Model]:
        """What the rest of the run may refer to, in a fixed order."""
        return [model for sender in sorted(self._sent) for model in self._sent[sender]]

    @property
    def reports(self) -> bool:
        """Whether reports may be altered."""
        found = self._hostility
        return found is not None and (found.settings.heads is not None or found.settings.edges is not None)

    def updates(self, dispatch: Dispatch, scene: Scene, cloud_round: int) -> dict[int, Model]:
        """By job, what hostile clients send of what they were sent to do in a cloud round 0, 1, ..."""
        hostility = self._hostility
        clients = None if hostility is None else hostility.settings.clients
        if hostility is None or clients is None or clients.attack is None or cloud_round + 1 < clients.from_round:
            return {}
        mine = np.flatnonzero(hostility.clients[dispatch.client]).tolist()
        match clients.attack:
            case Alie() | Ipm() | MinMax():
                return self._crafted(clients.attack, dispatch, scene, mine)
            case LabelFlip():  # what they learn is what they send
                return {}
            case attack:
                return {j: self._alone(attack, dispatch, j) for j in mine}

    def _alone(self, attack: Attack, dispatch: Dispatch, j: int) -> Model:
        update = dispatch.update(j)
        start: Model = dispatch.starts[dispatch.start[j]]
        match attack:
            case FreeRider():
                return derive([start, start], self._rule(attack, update), start.steps)
            case Replay():
                return self._again(attack, ("client", int(dispatch.client[j])), dispatch.result(j))
            case _:
                result = dispatch.result(j)
                return derive([result, start], self._rule(attack, update), result.steps)

    def _crafted(
        self, attack: Alie | Ipm | MinMax, dispatch: Dispatch, scene: Scene, mine: Sequence[int]
    ) -> dict[int, Model]:
        """Those who report to the same aggregator (of several the first) conspire, and know what others send there."""
        cover, found = scene.topology.cover[:, dispatch.client], dict[int, Model]()
        first = cover.argmax(axis=0)
        for n in np.unique(first[mine]).tolist():
            ours = [j for j in mine if first[j] == n]
            there = np.flatnonzero(cover[n]).tolist()
            known = there if attack.knows == "all" else [j for j in there if j in set(mine)]
            results = [dispatch.result(j) for j in known]
            starts = [dispatch.starts[dispatch.start[j]] for j in known]
            crafted = derive([*results, *starts], Crafted(attack, len(there), len(ours)), steps=0)
            for j in ours:
                result, start = dispatch.result(j), dispatch.starts[dispatch.start[j]]
                parts = [crafted, start, result]
                found[j] = derive(parts, Planted(dispatch.update(j), self._world.trainable, self._sick), result.steps)
        return found

    def from_aggregator(self, to: str, update: Update, model: Model, before: Model, cloud_round: int) -> Model:
        """What an edge server or head, which had the model before, sends of the one that it has, to the cloud or to its members.
        update: its kind (what goes to members is named apart), number and how many it had sent there before."""
        who, host, _ = update
        found = self._attack_of(who.removesuffix(TO_MEMBERS), host, cloud_round)
        if found is None or found.to not in (to, "both"):
            return model
        match found.attack:
            case Withhold():
                return before
            case Replay():
                return self._again(found.attack, (who, host), model)
            case attack:
                return derive([model, before], self._rule(attack, update), model.steps)

    def _attack_of(self, kind: str, host: int, cloud_round: int) -> HostileHeads | HostileEdges | None:
        hostility = self._hostility
        if hostility is None or kind not in ("head", "edge"):
            return None
        who = hostility.heads if kind == "head" else hostility.edges
        settings = hostility.settings.heads if kind == "head" else hostility.settings.edges
        active = settings is not None and who[host] and cloud_round + 1 >= settings.from_round
        return settings if active else None

    def _again(self, attack: Replay, sender: Sender, model: Model) -> Model:
        """What was sent `lag` times ago."""
        past = self._sent.setdefault(sender, deque(maxlen=attack.lag + 1))
        past.append(model)
        return past[0]

    def _rule(self, attack: Attack, update: Update) -> "Altered":
        return Altered(attack, update, self._world.seed, self._world.trainable, self._sick)


@dataclass(frozen=True, eq=False)
class Altered:
    """The rule of what is sent in place of a model, of it and of what it began as."""

    attack: Attack
    update: Update
    seed: int
    trainable: NDArray[np.bool_] | None
    sick: Sick | None

    def __call__(self, rows: list[Row]) -> Row:
        row, start = rows
        found = altered(self.attack, row, start, self.trainable, lambda: attack_stream(self.seed, self.update))
        return _if_finite(found, start, self.update, self.sick)


def attack_stream(seed: int, update: Update) -> np.random.Generator:
    """For what an attack draws, the same wherever it is worked out."""
    who, number, when = update
    return stream(seed, f"attack of {who}", number, when)


@dataclass(frozen=True, eq=False)
class Crafted:
    """The rule of the change that m of n clients who conspire send, of the k models that they know and what these began as."""

    attack: Alie | Ipm | MinMax
    n: int
    m: int

    def __call__(self, rows: list[Row]) -> NDArray[np.float64]:
        k = len(rows) // 2
        changes = np.stack(rows[:k]).astype(np.float64) - np.stack(rows[k:])
        return together(self.attack, changes, self.n, self.m)


@dataclass(frozen=True, eq=False)
class Planted:
    """The rule of what each of them sends: the change added to what it began with."""

    update: Update
    trainable: NDArray[np.bool_] | None
    sick: Sick | None

    def __call__(self, rows: list[Row]) -> Row:
        change, start, result = rows
        sent = start + change
        found = sent if self.trainable is None else np.where(self.trainable, sent, result)
        return _if_finite(found, start, self.update, self.sick)


def _if_finite(row: Row, start: Row, update: Update, sick: Sick | None) -> Row:
    """The row; one that is not finite is noted, and what it began as stands for it, for those who look."""
    if np.isfinite(row).all():
        return row
    note_sick(update, sick)
    return start


def note_sick(update: Update, sick: Sick | None) -> None:
    """It is not finite, and left out; without a register that ends the run."""
    if sick is None:
        who, number, _ = update
        raise ValueError(
            f"{who} {number} has sent an update that is not finite, and on_sick: stop ends the run there; on_sick: drop leaves "
            "such updates out"
        )
    sick.add(update, NOT_FINITE)
