"""What a server may know when it groups clients: a snapshot of the fleet, and what a method says it needs."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Snapshot


class Need(StrEnum):
    """What clients must reveal for a method to work: its price in privacy."""

    SIZES = "sizes"  # number of samples of each client
    LABELS = "label counts"  # number of samples of each class
    POSITIONS = "positions"
    SPEEDS = "speeds"


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """One cloud round as the server sees it. Which cells reach whom is always known; the rest only if declared."""

    needs: frozenset[Need]
    _snapshot: Snapshot
    cloud_round: int
    all_n_samples: NDArray[np.int64]
    all_label_counts: NDArray[np.int64]
    all_step_s: NDArray[np.float64]

    @property
    def in_reach(self) -> NDArray[np.bool_]:
        """(N, K): cell n reaches client k; false for clients that are not part of this round."""
        return self._snapshot.in_reach & self._snapshot.active

    @property
    def active(self) -> NDArray[np.bool_]:
        """(K,): the client is part of this round."""
        return self._snapshot.active

    @property
    def home(self) -> NDArray[np.int64]:
        """(K,): the cell a client belongs to."""
        return self._snapshot.home

    @property
    def n_samples(self) -> NDArray[np.int64]:
        """(K,) samples of each client."""
        self._require(Need.SIZES)
        return self.all_n_samples

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """(K, C) samples of each client and class."""
        self._require(Need.LABELS)
        return self.all_label_counts

    @property
    def position_m(self) -> NDArray[np.float64]:
        """(K, D) coordinates."""
        self._require(Need.POSITIONS)
        return self._snapshot.position_m

    @property
    def step_s(self) -> NDArray[np.float64]:
        """(K,) seconds of one local step."""
        self._require(Need.SPEEDS)
        return self.all_step_s

    def _require(self, need: Need) -> None:
        if need not in self.needs:
            raise ValueError(
                f"this method asked for {need.value} without declaring it; add Need.{need.name} to its needs"
            )
