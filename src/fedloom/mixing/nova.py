"""FedNova: clients that did more local steps do not count more for it.

    d_k     = (w_k - start_k) / tau_k                                 what a client changed in a step
    tau_eff = sum_k p_k tau_k                                         steps that the average takes
    w       = sum_k p_k start_k + tau_eff sum_k p_k d_k
            = sum_k p_k (1 - f_k) start_k + p_k f_k w_k,              f_k = tau_eff / tau_k

J. Wang, Q. Liu, H. Liang, G. Joshi, H. V. Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization", NeurIPS 2020, with tau_k the local steps of a client, as for plain SGD. p_k are the weights that a merge gives the
updates, made to add up to 1; what it gives the aggregator's old model stays. A rule that looks at models is given
start_k + f_k (w_k - start_k) in place of w_k, p_k by samples. With equal steps f_k = 1, and nothing is changed: bit for bit.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing.merges import EdgeRule, Linear, MergeEdge, Rows, WeighEdge
from fedloom.mixing.weights import Arrivals, EdgeWeights, Floats


def by_steps(merge: MergeEdge) -> MergeEdge:
    """A merge of updates that are normalised by their local steps first."""
    if isinstance(merge, Linear):
        return Linear(normalised(merge.weigh), merge.then)
    return replace(merge, rule=normalised_rows(merge.rule))


def normalised(weigh: WeighEdge) -> WeighEdge:
    """Weights of a merge, with what each update changed divided by its steps."""

    def normalised_weights(arrivals: Arrivals) -> EdgeWeights:
        found = weigh(arrivals)
        factor = factors(arrivals, found.model)
        if factor is None:
            return found
        rest = found.model * (1 - factor)
        return EdgeWeights(
            own=found.own, model=found.model * factor, start=rest if found.start is None else found.start + rest
        )

    return normalised_weights


def normalised_rows(rule: EdgeRule) -> EdgeRule:
    """A rule of models that is given normalised ones."""

    def of_normalised(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows) -> NDArray[np.floating]:
        factor = factors(arrivals, arrivals.n_samples.astype(np.float64))
        if factor is not None:
            rows = (starts + factor[:, None] * (rows.astype(np.float64) - starts)).astype(np.float32)
        return rule(arrivals, old, rows, starts)

    return of_normalised


def factors(arrivals: Arrivals, weights: Floats) -> Floats | None:
    """f_k (m,) of updates that count by weights (m,); None if all are 1.

    >>> one = np.ones(2, dtype=np.int64)
    >>> known = Arrivals(client=one, n_samples=one, n_reached=one, staleness=one, steps=np.array([1, 3]))
    >>> factors(known, np.array([0.5, 0.5])).tolist()  # tau_eff = 2
    [2.0, 0.6666666666666666]
    """
    steps = arrivals.steps
    if steps is None or len(steps) != len(weights) or (steps < 1).any():
        raise ValueError(f"FedNova needs the local steps, at least 1, of each of {len(weights)} updates, got {steps}")
    total = float(weights.sum())
    if total == 0 or (steps == steps[0]).all():
        return None
    return np.asarray(float(weights @ steps) / total / steps)
