"""Who is hostile in a run, and what hostile clients say of themselves."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom.attacks import HostileSettings, hostile_cells, hostile_devices, lies
from fedloom.attacks.settings import FreeRider, LieSettings
from fedloom.fleet import Snapshot
from fedloom.fleet.settings.links import FalseReports

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Hostility:
    """clients (K,), heads (K,), edges (N,): who is hostile, in which role."""

    settings: HostileSettings
    clients: Mask
    heads: Mask
    edges: Mask

    @property
    def _lies(self) -> LieSettings:
        clients = self.settings.clients
        return LieSettings() if clients is None or clients.lies is None else clients.lies

    def n_samples(self, true: Ints) -> Ints:
        """(K,) as they are told."""
        return true if self._lies.samples is None else lies.sizes(true, self.clients, self._lies.samples)

    def label_counts(self, true: Ints) -> Ints:
        """(K, C) as they are told."""
        return true if self._lies.labels is None else lies.labels(true, self.clients, self._lies.labels)

    def step_s(self, true: Floats) -> Floats:
        """(K,) as they are told."""
        return true if self._lies.speed is None else lies.seconds(true, self.clients, self._lies.speed)

    def snapshot(self, true: Snapshot, cloud_round: int = 0) -> Snapshot:
        """Positions and links between devices as they are told in a cloud round 0, 1, ..."""
        if self._lies.position is not None:
            true = replace(true, position_m=lies.positions(true.position_m, self.clients, self._lies.position))
        until = self._lies.links_until
        if self._lies.links is not None and (until is None or cloud_round < until):
            liars = tuple(np.flatnonzero(self.clients).tolist())
            true = replace(true, false_reports=FalseReports(devices=liars, factor=self._lies.links))
        return true

    def features(self, true: NDArray[np.floating], kind: str) -> NDArray[np.floating]:
        """(K, ...) as they are told; labels are a lie of their own."""
        if kind == "labels":
            return self.label_counts(true.astype(np.int64)).astype(np.float64)
        return true if self._lies.features is None else lies.features(true, self.clients, self._lies.features)

    def sketch(self, true: Floats, client: int) -> Floats:
        """(n,) what a client says that it has sent, to those who audit its aggregator."""
        return -true if self._lies.sketches is not None and self.clients[client] else true

    def idle(self, cloud_round: int) -> tuple[Mask, bool] | None:
        """(K,): who does not compute in a cloud round 0, 1, ..., and whether they pretend to; None if all do."""
        clients = self.settings.clients
        if clients is None or not isinstance(clients.attack, FreeRider) or cloud_round + 1 < clients.from_round:
            return None
        return self.clients, clients.attack.pretends


def hostility(settings: HostileSettings | None, start: Snapshot, seed: int) -> Hostility | None:
    """As a scenario says; start: the fleet at the beginning."""
    if settings is None:
        return None
    n_devices, n_cells = start.n_devices, start.n_cells
    clients, heads, edges = settings.clients, settings.heads, settings.edges
    if clients is not None and clients.lies is not None and clients.lies.links and start.false_reports is not None:
        raise ValueError("fleet.false_reports and hostile.clients.lies.links both say who lies about links; keep one")
    mine = np.zeros(0, dtype=np.int64)
    if clients is not None:
        mine = _numbers("clients.devices", clients.devices, n_devices)
        if clients.share is not None:
            mine = hostile_devices(clients.share, clients.where, start.in_reach, start.home, seed)
    leading = np.zeros(0, dtype=np.int64)
    if heads is not None:
        leading = _numbers("heads.devices", heads.devices, n_devices)
        if heads.share is not None:
            leading = hostile_devices(heads.share, "anywhere", start.in_reach, start.home, seed)
    serving = np.zeros(0, dtype=np.int64)
    if edges is not None:
        serving = _numbers("edges.cells", edges.cells, n_cells)
        if edges.share is not None:
            serving = hostile_cells(edges.share, n_cells, seed)
    return Hostility(
        settings=settings,
        clients=np.isin(np.arange(n_devices), mine),
        heads=np.isin(np.arange(n_devices), leading),
        edges=np.isin(np.arange(n_cells), serving),
    )


def _numbers(name: str, given: tuple[int, ...] | None, n: int) -> Ints:
    wrong = [k for k in given or () if k >= n]
    if wrong:
        raise ValueError(f"hostile.{name} must be in 0..{n - 1}, got {wrong[0]}")
    return np.array(given or (), dtype=np.int64)
