"""Hostile participants among real processes: what a device can do by itself, it does there as in the simulator.

It learns from poisoned data, says what the scenario lets it say, and alters its update before it is sent, by the same numbers.
So do stations with their averages: a model that is altered is one that its station makes, and hands out in the place of the one
that it has. What several would have to work out together is simulated only.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fedloom import attacks
from fedloom.attacks.settings import (
    Attack,
    Backdoor,
    FreeRider,
    LabelFlip,
    Noise,
    NotFinite,
    OfAggregators,
    Replay,
    Scale,
    SignFlip,
    Withhold,
)
from fedloom.deployment import naming
from fedloom.methods import Method
from fedloom.simulator.altering import TO_MEMBERS, Altered, attack_stream
from fedloom.simulator.book import Model
from fedloom.simulator.held import Errand
from fedloom.simulator.masking import check_masking
from fedloom.simulator.roots import wanted
from fedloom.simulator.scenarios import Scenario
from fedloom.training import engine as training

ALONE = (SignFlip, Scale, Noise, FreeRider, NotFinite, Backdoor, LabelFlip)
OF_STATIONS = (SignFlip, Scale, Noise, Replay, Withhold)
Row = NDArray[np.float32]


def check_hostile(scenario: Scenario, method: Method) -> None:
    """Refuse what cannot be deployed."""
    hostile = scenario.hostile
    if scenario.secure_aggregation is not None:
        check_masking(method, deployed=True)
    if wanted(method):
        raise ValueError(
            f"{method.name} merges by a reference of trusted data, which stations do not train; simulate it, or take another "
            "robust merge"
        )
    if method.audit is not None and not method.coding.plain:
        raise ValueError(
            f"{method.name} is audited and its models are coded, which is simulated only; leave audit, or up and down, out"
        )
    if hostile is None:
        return
    for role, stations in (("heads", hostile.heads), ("edges", hostile.edges)):
        if stations is not None and not isinstance(stations.attack, OF_STATIONS):
            raise ValueError(
                f"hostile.{role}.attack {stations.attack.kind} is simulated only; stations can do sign-flip, scale, noise, "
                "replay and withhold"
            )
    attack = None if hostile.clients is None else hostile.clients.attack
    if attack is not None and not isinstance(attack, ALONE):
        raise ValueError(
            f"hostile.clients.attack {attack.kind} is simulated only; devices can do sign-flip, scale, noise, "
            "free-rider, not-finite, label-flip and backdoor"
        )
    if attack is not None and not isinstance(attack, LabelFlip) and method.start.share is not None:
        raise ValueError(
            f"{method.name} lets clients go on from their own last models, and a device that alters its update keeps no other; "
            "simulate it, or take label-flip"
        )


def not_finite(failed: str) -> bool:
    """Whether that is why a device could not bring its update: it found so itself, or the one that it sent was refused."""
    return training.NotFinite.__name__ in failed or "not finite" in failed


def is_altered(errand: Errand, position: int) -> bool:
    """Whether a client sends something else than it has trained."""
    model = errand.arriving.get(position)
    return model is not None and (isinstance(model.rule, Altered) or isinstance(true_of(model).rule, Altered))


def altered_at(model: Model) -> str | None:
    """The station that alters a model before it sends it; None if it is no such model."""
    if not isinstance(model.rule, Altered) or model.rule.update[0] == "client":
        return None
    kind, host, _ = model.rule.update
    return naming.station(kind.removesuffix(TO_MEMBERS), host)


def alteration(rule: Altered) -> dict[str, Any]:
    """What a station has to know of an attack, as plain JSON; trained: where values are, if not everywhere."""
    trained = None if rule.trainable is None else np.flatnonzero(rule.trainable).tolist()
    return {"attack": rule.attack.model_dump(), "update": list(rule.update), "seed": rule.seed, "trained": trained}


def alter(order: Mapping[str, Any], row: Row, before: Row) -> Row:
    """What a station sends in the place of a model (P,) that it has, when it was handed the one before (P,)."""
    attack: Attack = TypeAdapter(OfAggregators).validate_python(order["attack"])
    kind, host, number = order["update"]
    trainable = None
    if order["trained"] is not None:
        trainable = np.zeros(len(row), dtype=np.bool_)
        trainable[order["trained"]] = True
    return attacks.altered(attack, row, before, trainable, lambda: attack_stream(order["seed"], (kind, host, number)))


def true_of(model: Model) -> Model:
    """Of what arrives coded, what was coded."""
    return model.models[0][0] if model.models else model
