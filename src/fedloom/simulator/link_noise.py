"""Noise that models have when they came over noisy links (fedloom.radio)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom._random import stream
from fedloom.protocol import Flight
from fedloom.simulator.book import Model, Row, derive
from fedloom.simulator.timeline import Sent
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def noisy(world: World, model: Model, std: Callable[[], Floats], device: Ints, when: Ints) -> Model:
    """The model with the noise that each of m devices adds to what is trained: of standard deviation std (m,), asked for and
    drawn by device (m,) and occasion `when` (m, 2) when the model is computed."""
    seed, trainable = world.seed, world.trainable

    def add(rows: list[Row]) -> NDArray[np.floating]:
        row: NDArray[np.floating] = rows[0]
        where = np.ones(len(row), dtype=np.bool_) if trainable is None else trainable
        for s, k, (number, times) in zip(std().tolist(), device.tolist(), when.tolist()):
            row = radio.noisy(row, s, where, stream(seed, "uplink noise", k, number, times))
        return row

    return derive([model], add, model.steps) if std().any() else model


def occasion(flight: Flight) -> Ints:
    """(m, 2) the edge round each was sent in, and how often it had been sent before in that round."""
    sent: Sent = flight.load.sent
    times = sent.times[flight.at]
    return np.column_stack([np.full(len(times), sent.edge_round), times])
