"""What a device does with its own data: local training, and what the method wants to know of it. Data never leave it."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom import attacks
from fedloom.attacks.settings import Attack, FreeRider
from fedloom.simulator.altering import attack_stream
from fedloom.simulator.book import Model
from fedloom.simulator.features import Layers
from fedloom.simulator.setting import Setting
from fedloom.training.engine import Engine, Jobs, KeepsState, Mix, NotFinite

Row = NDArray[np.float32]


class Worker:
    """Trains as one client of a setting."""

    def __init__(self, client: int, setting: Setting, engine: Engine) -> None:
        self.client, self._setting, self._engine = client, setting, engine

    def train(
        self,
        start: Row,
        own: Row | None = None,
        *,
        n_steps: int,
        first_step: int,
        lr_step: int,
        altered: bool = False,
    ) -> tuple[Row, Row | None]:
        """The row after so many local steps, and the states that a client rule keeps, if there is one: a pure function of these
        numbers, the states `own` before (None: as they begin), and the device's data. altered: the device is hostile, and this is
        what it sends."""
        if altered and isinstance(self._attack, FreeRider) and self._setting.world.layout is None:
            return self._altered(start, start, first_step), None  # it does not compute
        row, kept = self._trained(start, own, n_steps, first_step, lr_step)
        return (self._altered(row, start, first_step) if altered else row), kept

    @property
    def _attack(self) -> Attack | None:
        hostility = self._setting.world.hostility
        clients = None if hostility is None else hostility.settings.clients
        return None if clients is None else clients.attack

    def _altered(self, row: Row, start: Row, first_step: int) -> Row:
        world, attack, update = self._setting.world, self._attack, ("client", self.client, first_step)
        assert attack is not None
        sent = attacks.altered(attack, row, start, world.trainable, lambda: attack_stream(world.seed, update))
        if not np.isfinite(sent).all():
            raise NotFinite([self.client], self._setting.rule.lr)
        return sent

    def _trained(
        self, start: Row, own: Row | None, n_steps: int, first_step: int, lr_step: int
    ) -> tuple[Row, Row | None]:

        def one(value: int) -> NDArray[np.int64]:
            return np.array([value], dtype=np.int64)

        jobs = Jobs(
            start=one(0),
            client=one(self.client),
            n_steps=one(n_steps),
            first_step=one(first_step),
            lr_step=one(lr_step),
        )
        layout = self._setting.world.layout
        if layout is None:
            return np.asarray(self._engine.train(start[None], jobs)[0]), None
        assert isinstance(self._engine, KeepsState)
        before = layout.first_own(start) if own is None else own
        itself = Mix(n_targets=1, target=one(0), job=one(0), weight=np.ones(1))
        rows = np.array([start]), np.array([before])  # copies: what is kept cannot be written, and torch minds
        found = self._engine.train_with_state(rows[0], jobs, itself, rows[1])
        return found.sums[0].astype(np.float32), found.own[0]

    def feature(self, kind: str, layers: Layers, start: Row | None, result: Row | None) -> NDArray[Any]:
        """This client's line of a feature (fedloom.simulator.features)."""
        k, features = self.client, self._setting.features(self._engine)
        if kind == "update" and start is not None and result is not None:
            columns = features.columns(layers)
            return np.asarray(result[columns] - start[columns])
        if kind == "gradient" and start is not None:
            return np.asarray(self._engine.gradient(start[None], [(0, k)])[0, features.columns(layers)])
        if kind == "prediction" and start is not None:
            return np.asarray(features.values(kind, layers, Model(start), {})[k])
        if kind in ("labels", "signature", "class-signature"):
            alone = replace(features, parts=[features.parts[k]], label_counts=features.label_counts[[k]])
            return np.asarray(alone.values(kind, layers, Model(None), {})[0])
        raise ValueError(
            f"a device cannot tell {kind!r}: it knows updates, gradients, predictions, labels and signatures"
        )
