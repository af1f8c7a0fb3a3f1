"""FedNova: averages what clients changed in a step, so that who does more steps does not pull the model its way.

    w = sum_k p_k start_k + tau_eff sum_k p_k (w_k - start_k) / tau_k,     tau_eff = sum_k p_k tau_k

J. Wang, Q. Liu, H. Liang, G. Joshi, H. V. Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization", NeurIPS 2020; see fedloom.mixing.nova. Flat, as published, on top of FedAvg; `hierarchical` on top of HierFedAVG,
with the clients normalised at their edge servers. Any method has it as an option: "csahfl:by_steps=true". It differs where
clients do different numbers of steps: epochs (`local_epochs`) over data of different sizes, or deadlines that give slow clients
less. With equal steps it is FedAvg (or HierFedAVG) bit for bit.
"""

from fedloom.methods import fedavg, hierfedavg
from fedloom.methods.parts import Method


def method(hierarchical: bool = False) -> Method:
    """hierarchical: edge servers below the cloud."""
    base = hierfedavg.method() if hierarchical else fedavg.method()
    summary = f"{'HierFedAVG' if hierarchical else 'FedAvg'} of changes a step, whoever did how many"
    return base.with_(name="fednova", summary=summary, by_steps=True)
