"""Hostile participants among real processes: what a device can do by itself, it does there as in the simulator.

It learns from poisoned data, says what the scenario lets it say, and alters its update before it is sent, by the same numbers.
What several would have to work out together, or stations to do, is simulated only.
"""

from fedloom.attacks.settings import Backdoor, FreeRider, LabelFlip, Noise, NotFinite, Scale, SignFlip
from fedloom.methods import Method
from fedloom.simulator.altering import Altered
from fedloom.simulator.book import Model
from fedloom.simulator.held import Errand
from fedloom.simulator.masking import check_masking
from fedloom.simulator.roots import wanted
from fedloom.simulator.scenarios import Scenario
from fedloom.training import engine as training

ALONE = (SignFlip, Scale, Noise, FreeRider, NotFinite, Backdoor, LabelFlip)


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
    if hostile is None:
        return
    if hostile.heads is not None or hostile.edges is not None:
        raise ValueError("hostile.heads and hostile.edges are simulated only; leave them out to deploy the scenario")
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


def true_of(model: Model) -> Model:
    """Of what arrives coded, what was coded."""
    return model.models[0][0] if model.models else model
