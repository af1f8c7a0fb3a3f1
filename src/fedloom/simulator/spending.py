"""What clients have given away so far, where noise protects them: counted with every upload and every merge.

It follows from who was merged with which weights, which the clock knows without any model: a run that is gone on with counts it
again.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.mixing import Arrivals, ByRows, EdgeWeights
from fedloom.mixing.private_mean import PrivateMean
from fedloom.privacy.accounting import by_noisy_clients, by_noisy_merge, by_upload, epsilon

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Spending:
    """K clients. to_edge (K,): cost of what each has shown to its aggregators, infinite if they see it as it is; to_others (K,):
    to the cloud and to other clients, who see what is merged. None: nobody adds noise."""

    def __init__(self, method: Method, n_clients: int) -> None:
        mechanism, rule = method.coding.private, method.merge_edge
        self._at_client = 0.0 if mechanism is None else mechanism.noise
        merge = rule.rule if isinstance(rule, ByRows) else None
        self._merge = merge if isinstance(merge, PrivateMean) and merge.noise else None
        self._audited = method.audit is not None  # what clients sent is shown to the cloud, in part or as it is
        counts = bool(self._at_client) or self._merge is not None
        self.to_edge = np.zeros(n_clients) if self._at_client else None
        self.to_others = np.zeros(n_clients) if counts else None

    def sent(self, clients: Ints) -> None:
        """Clients (m,) send what they trained."""
        if self.to_edge is not None:
            self.to_edge[clients] += by_upload(self._at_client)

    def merged(self, arrivals: Arrivals, weights: EdgeWeights | None) -> None:
        """Updates are in a model that others will see; weights: None if they are not known beforehand."""
        if self.to_others is None:
            return
        if self._merge is not None:
            cost = by_noisy_merge(self._merge.weigh(arrivals).model, self._merge.noise)
        elif weights is not None and weights.model.any() and not self._audited:
            cost = by_noisy_clients(weights.model, self._at_client)
        else:
            cost = np.full(len(arrivals.client), by_upload(self._at_client))
        np.add.at(self.to_others, arrivals.client, cost)

    def epsilons(self, delta: float) -> dict[str, Floats]:
        """(K,) to whom: `edge` where clients add noise themselves, and `others`; nothing where nobody adds any."""
        if self.to_others is None:
            return {}
        if self.to_edge is None:
            return {"others": epsilon(self.to_others, delta)}
        return {
            "edge": epsilon(self.to_edge, delta),
            "others": epsilon(np.minimum(self.to_others, self.to_edge), delta),  # merges tell no more than uploads
        }
