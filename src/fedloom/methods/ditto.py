"""Ditto: every client trains a personal model beside the shared one, and keeps it near.

    v_k <- v_k - lr (grad F_k(v_k) + pull (v_k - w)),     w: the shared model that the client was sent

T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021; see
fedloom.training.ditto. Flat, as published, on top of FedAvg; `hierarchical` on top of HierFedAVG. Any method has it as an option:
"hhfl:rule=ditto:rule.pull=0.5". The shared model is FedAvg's (or HierFedAVG's) bit for bit; computing takes twice as long, and
bytes are the same. `personal_accuracy` is the mean over clients on the whole test set, `local_by_personal` on the labels that
each has.
"""

from fedloom.methods import fedavg, hierfedavg
from fedloom.methods.parts import Method
from fedloom.training.ditto import Ditto


def method(pull: float = 0.1, hierarchical: bool = False) -> Method:
    """pull: how strongly personal models are drawn to the shared one (lambda); hierarchical: edge servers below the cloud."""
    base = hierfedavg.method() if hierarchical else fedavg.method()
    summary = (
        f"{'HierFedAVG' if hierarchical else 'FedAvg'} with a personal model of every client beside the shared one"
    )
    return base.with_(name="ditto", summary=summary, rule=Ditto(pull=pull))
