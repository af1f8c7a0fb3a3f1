"""SCAFFOLD: control variates take the drift of clients with different data out of their steps.

    y <- y - lr (grad F_i(y) - c_i + c),     c_i' = c_i - c + (x - y) / (K lr),     c <- c + sum_{i in S} (n_i / n) (c_i' - c_i)

S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh, "SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning", ICML 2020, option II; see fedloom.training.scaffold. Flat, as published, on top of FedAvg; `hierarchical` on
top of HierFedAVG, with c merged at the edges and at the cloud as models are. Any method has it as an option:
"hhfl:rule=scaffold". Models take twice the bytes. correction = 0 trains FedAvg's models (or HierFedAVG's) bit for bit.
"""

from fedloom.methods import fedavg, hierfedavg
from fedloom.methods.parts import Method
from fedloom.training.scaffold import Scaffold


def method(correction: float = 1.0, hierarchical: bool = False) -> Method:
    """correction: how much of c - c_i is added to gradients; hierarchical: edge servers below the cloud."""
    base = hierfedavg.method() if hierarchical else fedavg.method()
    summary = f"{'HierFedAVG' if hierarchical else 'FedAvg'} with control variates against the drift of clients"
    return base.with_(name="scaffold", summary=summary, rule=Scaffold(correction=correction))
