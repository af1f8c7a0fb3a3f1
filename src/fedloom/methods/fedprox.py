"""FedProx: a proximal term keeps local models near the one they started from.

    F_k(w) + (mu / 2) ||w - w_start||^2,     i.e. the gradient gets mu (w - w_start)

T. Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020. By default on top of HierFedAVG, with
w_start the edge model that the client received; `flat` puts it on top of FedAvg, as in the original. Clients do all of
their work (no partial epochs). mu = 0 is HierFedAVG (or FedAvg) bit for bit.
"""

import math

from fedloom.methods import fedavg, hierfedavg
from fedloom.methods.parts import Local, Method


def method(mu: float = 0.01, flat: bool = False) -> Method:
    """mu: weight of the proximal term; flat: average at the cloud only."""
    if not (isinstance(mu, int | float) and 0 <= mu < math.inf):
        raise ValueError(f"mu must be a number of at least 0, got {mu!r}")
    base = fedavg.method() if flat else hierfedavg.method()
    summary = f"{'FedAvg' if flat else 'HierFedAVG'} with a proximal term in the local objective"
    return base.with_(name="fedprox", summary=summary, local=Local(proximal=mu))
