"""MS-FedAvg: FedMes with weights that conserve data shares, which is HHFL without a cloud.

    w_(n) = (1 / o_n) sum_{i in C_n} (p_i / |S_i|) v_i

HHFL describes it in a sentence, as FedMes with an improved aggregation: that the improvement
is the split over a client's edge servers is our reading. Evaluated: sum_i p_i w_i, as for FedMes.
"""

from fedloom.methods import fedmes
from fedloom.methods.parts import Linear, Method
from fedloom.mixing import by_split_size


def method() -> Method:
    """Needs the number of samples of each client, nothing else."""
    return fedmes.method().with_(
        name="msfedavg",
        summary="FedMes, but a client's data are split over the cells it reports to",
        merge_edge=Linear(by_split_size),
    )
