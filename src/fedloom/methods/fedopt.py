"""FedAvgM, FedAdam and FedYogi: the server does not take the clients' mean, but a step of an optimiser towards it.

    D = merged - old,   new = old + move(D)           see fedloom.mixing.server for the moves

T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
2019 (FedAvgM); S. J. Reddi et al., "Adaptive Federated Optimization", ICLR 2021 (FedAdam, FedYogi). Flat, as published, on top of
FedAvg, with a step at every average; `hierarchical` on top of HierFedAVG, with a step of the cloud. FedAvgM with beta = 0 and
lr = 1 is FedAvg (or HierFedAVG) bit for bit.
"""

from fedloom.methods import fedavg, hierfedavg
from fedloom.methods.parts import CloudLinear, Linear, Method
from fedloom.mixing.server import Adam, Momentum, ServerStep, Yogi


def fedavgm(lr: float = 1.0, beta: float = 0.9, hierarchical: bool = False) -> Method:
    """lr: of the server; beta: share of the moment before that is kept; hierarchical: at the cloud above edges."""
    return _with("fedavgm", "momentum", Momentum(lr=lr, beta=beta), hierarchical)


def fedadam(
    lr: float = 0.03, beta_1: float = 0.9, beta_2: float = 0.99, tau: float = 1e-3, hierarchical: bool = False
) -> Method:
    """lr: about how much a value moves in a step; beta_1, beta_2: kept of the moments before; tau: least scale of a step."""
    return _with("fedadam", "Adam", Adam(lr=lr, beta_1=beta_1, beta_2=beta_2, tau=tau), hierarchical)


def fedyogi(
    lr: float = 0.03, beta_1: float = 0.9, beta_2: float = 0.99, tau: float = 1e-3, hierarchical: bool = False
) -> Method:
    """As fedadam."""
    return _with("fedyogi", "Yogi", Yogi(lr=lr, beta_1=beta_1, beta_2=beta_2, tau=tau), hierarchical)


def _with(name: str, words: str, then: ServerStep, hierarchical: bool) -> Method:
    base = hierfedavg.method() if hierarchical else fedavg.method()
    summary = f"{'HierFedAVG' if hierarchical else 'FedAvg'} with {words} at the server"
    if hierarchical:
        return base.with_(name=name, summary=summary, merge_cloud=CloudLinear(then=then))
    return base.with_(name=name, summary=summary, merge_edge=Linear(then=then))
