"""FedMes: several edge servers and no cloud; clients in overlaps start from the mean of their cells' models.

    w_i   = (1 / |S_i|) sum_{n in S_i} w_(n)
    w_(n) = sum_{i in C_n} n_i v_i / sum_{i in C_n} n_i          a client counts in full at every edge server it reaches

D.-J. Han, M. Choi, J. Park, J. Moon, "FedMes: Speeding Up Federated Learning With Multiple Edge Servers", JSAC 2021, as
HHFL describes it in a sentence without a formula: the weights are our reading. Data shares
are not conserved: a client in two cells counts twice. What is evaluated is the mean of where clients start,
sum_i p_i w_i, a model that nobody holds.
"""

from fedloom.grouping import all_cells
from fedloom.methods.parts import Grouping, Method, NoCloud


def method() -> Method:
    """Needs the number of samples of each client, nothing else."""
    return Method(
        name="fedmes",
        summary="no cloud: clients in overlaps start from the mean of their cells, and count in full in each",
        group=Grouping(all_cells),
        cloud=NoCloud(),
    )
