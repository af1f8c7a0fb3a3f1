"""The ledger of a deployed run: what was booked as predicted when clients were sent becomes what was measured when they are back.

Seconds are those that nodes have measured, bytes those of the values, or of the messages of codecs, that went over each link.
Joules are those of the fleet's model for these seconds (power times seconds), or of the device's own meter for computing. What
was not measured stays as predicted: jobs that were given up, and those whose update was there already. Corrections are entries
like any other: all still adds up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedloom.deployment import naming
from fedloom.deployment.journal import Journal
from fedloom.deployment.took import Took
from fedloom.simulator.exchange import Leg, Way
from fedloom.simulator.ledger import DIRECTIONS, HOPS, Bill, Ledger, Note, Shares
from fedloom.simulator.scene import Scene

AMOUNTS = ("bytes", "airtime_s", "energy_j")


@dataclass(frozen=True, eq=False)
class _Job:
    scene: Scene
    compute_s: float


class Booking:
    """ledger: of the run; up_bytes, down_bytes: of what goes up and down of a model as it is predicted. Journal: what nodes have
    measured."""

    def __init__(self, ledger: Callable[[], Ledger], up_bytes: int, down_bytes: int, journal: Journal) -> None:
        self._ledger, self._n_bytes, self._journal = ledger, {"up": up_bytes, "down": down_bytes}, journal
        self._jobs: dict[tuple[int, int], _Job] = {}
        self._scene: Scene | None = None
        self._n_moved = 0
        self._added: dict[tuple[str, str], dict[str, float]] = {}

    def sent(self, job: tuple[int, int], scene: Scene, compute_s: float) -> None:
        """A client goes to work; what is predicted is booked."""
        self._scene = scene
        self._jobs[job] = _Job(scene, compute_s)

    def delivered(self, job: tuple[int, int]) -> None:
        """It is back."""
        found, took = self._jobs.pop(job, None), self._journal.took.get(job)
        if found is None or took is None or took.train_s is None:
            return
        client, ways = job[0], found.scene.exchange
        self._computed(found, client, took)
        self._carried(ways.client_down, client, took.fetch_s, took.fetched)
        self._carried(ways.client_up, client, took.send_s, took.sent)

    def reported(self) -> None:
        """What went between stations and the cloud until now."""
        for station, took in self._journal.moved[self._n_moved :]:
            n = None if self._scene is None else _aggregator(self._scene, station)
            if n is not None and self._scene is not None:
                self._carried(self._scene.exchange.cloud_down, n, took.fetch_s, took.fetched)
                self._carried(self._scene.exchange.cloud_up, n, took.send_s, took.sent)
        self._n_moved = len(self._journal.moved)

    def table(self) -> list[dict[str, Any]]:
        """By hop and direction, and computing: predicted and measured bytes, seconds and joules."""
        lines = []
        for line in self._ledger().table():
            added = self._added.get((str(line["hop"]), str(line["direction"])), {})
            measured = {name: line[name] for name in AMOUNTS}
            predicted = {name: line[name] - added.get(name, 0) for name in AMOUNTS}  # type: ignore[operator]
            lines.append(
                {"hop": line["hop"], "direction": line["direction"], "predicted": predicted, "measured": measured}
            )
        return lines

    def _computed(self, job: _Job, client: int, took: Took) -> None:
        assert took.train_s is not None
        power_w = job.scene.snapshot.compute_power_w
        more_s = took.train_s - job.compute_s
        joules = took.train_s * power_w if took.joules is None else took.joules
        more_j = joules - job.compute_s * power_w
        who = np.flatnonzero(job.scene.topology.cover[:, client])
        self._ledger().compute(more_s, more_j)
        shares = Shares.of(who, airtime_s=more_s / len(who), energy_j=more_j / len(who))
        self._ledger().pay([Note(shares)])
        self._note("computing", "", {"airtime_s": more_s, "energy_j": more_j})

    def _carried(self, way: Way, who: int, seconds: float | None, n_bytes: int | None) -> None:
        """A model went this way in so many seconds, and so many bytes with it, over each of its legs."""
        legs = [leg for leg in way.legs if leg.links[who]]
        if seconds is None or n_bytes is None or not legs:
            return
        predicted_s = float(way.seconds[who])
        for leg in legs:
            before_s, before_j = float(leg.seconds[who]), float(leg.joules[who])
            factor = seconds / predicted_s if predicted_s else 1.0
            now_s = before_s * factor if predicted_s else seconds / len(legs)
            more = n_bytes - int(leg.sent[who]) * self._n_bytes[way.direction]
            self._pay(way.direction, leg, who, more, now_s - before_s, before_j * (factor - 1.0))

    def _pay(self, direction: str, leg: Leg, who: int, n_bytes: int, airtime_s: float, energy_j: float) -> None:
        assert leg.single is not None
        at, _ = leg.single.of(np.array([who]))
        n = len(at)
        whole = np.array([n_bytes * (i + 1) // n - n_bytes * i // n for i in range(n)])
        shares = Shares.of(leg.single.aggregator[at], n_bytes=whole, airtime_s=airtime_s / n, energy_j=energy_j / n)
        bill = Bill(
            hop=leg.hop,
            direction=direction,
            n_links=0,
            n_parties=0,
            n_bytes=n_bytes,
            airtime_s=airtime_s,
            energy_j=energy_j,
            shares=shares,
        )
        self._ledger().pay([bill])
        self._note(leg.hop, direction, {"bytes": n_bytes, "airtime_s": airtime_s, "energy_j": energy_j})

    def _note(self, hop: str, direction: str, amounts: Mapping[str, float]) -> None:
        assert hop in (*HOPS, "computing") and direction in (*DIRECTIONS, "")
        added = self._added.setdefault((hop, direction), {})
        for name, amount in amounts.items():
            added[name] = added.get(name, 0) + amount


def _aggregator(scene: Scene, station: str) -> int | None:
    """The first aggregator that lives at a station; its link to the cloud is that of all of them."""
    topology = scene.topology
    stations = [naming.station(topology.kind, host) for host in topology.host.tolist()]
    return stations.index(station) if station in stations else None
