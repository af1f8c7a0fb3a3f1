"""What a server may know when it groups clients: a snapshot of the fleet, and what a method says it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.fleet import Link, Snapshot
from fedloom.grouping.link_reports import LinkCheck, check_link_reports


class Need(StrEnum):
    """What clients must reveal for a method to work: its price in privacy."""

    SIZES = "sizes"  # number of samples of each client
    LABELS = "label counts"  # number of samples of each class
    POSITIONS = "positions"
    SPEEDS = "speeds"
    LINKS = "link rates"  # between devices
    UPDATES = "model updates"
    GRADIENTS = "gradients"
    PREDICTIONS = "mean outputs"
    SIGNATURES = "data signatures"  # directions that a client's inputs span


FEATURES = {
    "update": Need.UPDATES,
    "gradient": Need.GRADIENTS,
    "prediction": Need.PREDICTIONS,
    "labels": Need.LABELS,
    "signature": Need.SIGNATURES,
    "class-signature": Need.SIGNATURES,
}
Collect = Callable[[str, tuple[str, ...] | int | None], NDArray[np.floating]]


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """One cloud round as the server sees it. Which cells reach whom, and the settings of training (edge rounds in a cloud
    round, learning rate, bits of a model, and of what goes up and down of one) are always known; the rest only if declared."""

    needs: frozenset[Need]
    _snapshot: Snapshot
    cloud_round: int
    all_n_samples: NDArray[np.int64]
    all_label_counts: NDArray[np.int64]
    all_step_s: NDArray[np.float64]
    all_work_s: NDArray[np.float64]
    model_bits: float
    up_bits: float
    down_bits: float
    collect: Collect
    edge_rounds: int = 1
    lr: float = 0.1
    found_before: frozenset[int] = frozenset()
    """Clients that were suspected of false reports in earlier cloud rounds, if the method remembers them."""

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
    def server_m(self) -> NDArray[np.float64]:
        """(D,) coordinates of the cloud's server."""
        self._require(Need.POSITIONS)
        return self._snapshot.server_m

    @property
    def step_s(self) -> NDArray[np.float64]:
        """(K,) seconds of one local step."""
        self._require(Need.SPEEDS)
        return self.all_step_s

    @property
    def work_s(self) -> NDArray[np.float64]:
        """(K,) seconds of a client's local work in one edge round."""
        self._require(Need.SPEEDS)
        return self.all_work_s

    @property
    def link_s(self) -> NDArray[np.float64]:
        """(K, K) seconds to send a model from device to device, as a member does to its head, by the lower of what its two ends
        report; infinite where a link is down, 0 on the diagonal."""
        return self._link_s(self.up_bits)

    def _link_s(self, bits: float) -> NDArray[np.float64]:
        believed = self.link_check.believed
        return np.asarray(self._snapshot.d2d.fixed_s + radio.airtime_s(bits, believed))

    @property
    def exchange_s(self) -> NDArray[np.float64]:
        """(K, K) seconds that member i (row) of a cluster spends on the link to its head j (column) in an edge round: the head's
        model comes, unless broadcasts are free (fleet.head_broadcast), and the member's goes back. Infinite where the link is
        down, 0 on the diagonal. With `work_s` this is all that a round takes: what is planned with it is what runs."""
        up_s = self.link_s
        if self._snapshot.head_broadcast_free:
            return up_s
        down_s = up_s if self.down_bits == self.up_bits else self._link_s(self.down_bits)
        return down_s.T + up_s

    @property
    def link_j(self) -> NDArray[np.float64]:
        """(K, K) joules to send a model from device to device, 0 on the diagonal."""
        return np.asarray(radio.energy_j(self._snapshot.d2d.power_w, self.link_s))

    @property
    def cloud_j(self) -> NDArray[np.float64]:
        """(K,) joules to send a model from a device to the cloud, over its own link or by way of its home cell."""
        self._require(Need.LINKS)
        now = self._snapshot
        if not now.cloud_via_edge:
            return now.cloud_up.energy_j(self.up_bits)
        near = now.edge_up.energy_j(self.up_bits)[now.home, np.arange(now.n_devices)]
        return np.asarray(near + now.backhaul_up.energy_j(self.up_bits)[now.home])

    @property
    def uplink(self) -> Link:
        """(K,) the radio links of devices to the cloud; refused if they are none, or have no link of their own."""
        self._require(Need.LINKS)
        if self._snapshot.cloud_via_edge or self._snapshot.cloud_up.snr_per_w is None:
            raise ValueError(
                "this method chooses the powers with which devices send to the cloud, and here they have no radio link to it; "
                "set fleet.device_cloud: {via: direct, up: {kind: radio}}"
            )
        return self._snapshot.cloud_up

    @property
    def compute_power_w(self) -> float:
        """Watt of a device while it trains."""
        self._require(Need.SPEEDS)
        return self._snapshot.compute_power_w

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """(K,): active, and not suspected of false reports about links, now or before."""
        trusted = self.active.copy()
        trusted[self.link_check.suspects] = False
        trusted[sorted(self.found_before)] = False
        return trusted if trusted.any() else self.active

    @property
    def link_check(self) -> LinkCheck:
        """What comparing both ends' reports about links between devices gave."""
        self._require(Need.LINKS)
        return check_link_reports(self._snapshot.d2d_reports)

    def features(self, kind: str, layers: Sequence[str] | int | None = None) -> NDArray[np.floating]:
        """(K, d) what clients are asked to compute and send now: "update", "gradient", "prediction", "labels", or
        "signature" and "class-signature" (directions of all the client's inputs, or of those of each of its classes).

        layers: names of the tensors that an update or gradient is cut down to, or a number: so many of the smallest
        convolutions; for signatures so many directions, a column each: (K, d, columns), zero where there are fewer. It
        costs time, energy and traffic, which the ledger books; what was asked for already in this cloud round is not
        collected again. In a dry run nothing is trained and all features are zero.
        """
        if kind not in FEATURES:
            raise ValueError(f"features must be one of {', '.join(FEATURES)}; got {kind!r}")
        self._require(FEATURES[kind])
        return self.collect(kind, layers if layers is None or isinstance(layers, int) else tuple(layers))

    def _require(self, need: Need) -> None:
        if need not in self.needs:
            raise ValueError(
                f"this method asked for {need.value} without declaring it; add Need.{need.name} to its needs"
            )
