"""FedAvg: all clients report to the cloud.

    w = sum_k n_k w_k / sum_k n_k          over the clients that took part in the round

H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.

A cloud round of a scenario stands for as many averages as the hierarchical methods make edge rounds in it, so that all
methods are evaluated after the same number of local steps. Every exchange crosses the whole way to the cloud: relayed
by the home cell's edge server, or over the device's own link, as the fleet says.
"""

from fedloom.grouping import one_cloud
from fedloom.methods.parts import Grouping, Method


def method() -> Method:
    """Needs the number of samples of each client, nothing else."""
    return Method(name="fedavg", summary="all clients average at the cloud", group=Grouping(one_cloud))
