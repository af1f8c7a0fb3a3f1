"""What the server sees of its clients in a run: seconds a step, link rates and availability as they were measured.

Groupings of later cloud rounds go by it (fedloom.grouping.View), where time decides what is computed: deadlines, time boxes,
aggregators that do not wait. Where every round waits for all, groupings go by the fleet's figures, so that the run computes what
the simulator does. It is made of what happened, in the order of the journal, so that a restart, or a simulation fed with the
journal, sees the same.
"""

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment.took import Took
from fedloom.fleet import Link, Snapshot
from fedloom.simulator.scene import Scene

Floats = NDArray[np.float64]
LAST = 5  # of so many jobs the median counts


@dataclass(frozen=True)
class _Job:
    steps: int
    kind: str
    hosts: tuple[int, ...]


class Sight:
    """measures: groupings go by what is measured. up_bits, down_bits: of what goes up and down of a model by the scenario, whose
    rates are meant."""

    def __init__(self, *, measures: bool, up_bits: float, down_bits: float) -> None:
        self._measures, self._bits = measures, {"up": up_bits, "down": down_bits}
        self._jobs: dict[tuple[int, int], _Job] = {}
        self._step_s: dict[int, deque[float]] = {}
        self._link_s: dict[tuple[str, str, int, int], deque[float]] = {}  # (kind, direction, host, client)
        self._away: set[int] = set()

    def sent(self, job: tuple[int, int], scene: Scene, steps: int) -> None:
        topology = scene.topology
        hosts = {int(host) for host in topology.host[topology.cover[:, job[0]]]}
        self._jobs[job] = _Job(steps, topology.kind, tuple(sorted(hosts)))

    def delivered(self, job: tuple[int, int], took: Took | None) -> None:
        """A client is back: what its work and its link took. Of a client with several aggregators links are not known apart."""
        found, client = self._jobs.pop(job, None), job[0]
        self._away.discard(client)
        if found is None or took is None or took.train_s is None or not found.steps:
            return
        self._add(self._step_s, client, took.train_s / found.steps)
        if len(found.hosts) == 1:
            for direction, seconds, n_bytes in (("down", took.fetch_s, took.fetched), ("up", took.send_s, took.sent)):
                if seconds and n_bytes:
                    self._add(self._link_s, (found.kind, direction, found.hosts[0], client), seconds)

    def left(self, client: int) -> None:
        """A client was given up: it is not grouped until it is back, or for one cloud round."""
        self._away.add(client)

    def seen(self, now: Snapshot, step_s: Floats) -> tuple[Snapshot, Floats]:
        """The snapshot and the seconds of a step (K,) as the server sees them now."""
        if not self._measures:
            return now, step_s
        step_s = step_s.copy()
        for client, seconds in self._step_s.items():
            step_s[client] = statistics.median(seconds)
        active = now.active.copy()
        active[sorted(self._away)] = False
        self._away = set()
        return replace(self._linked(now), active=active if active.any() else now.active), step_s

    def _linked(self, now: Snapshot) -> Snapshot:
        """With links that take as long as they did."""
        edge = {way: self._of("edge", way) for way in ("up", "down")}
        cloud = {way: {k: s for (_, k), s in self._of("cloud", way).items()} for way in ("up", "down")}
        peers = {(h, k): s for (h, k), s in self._of("head", "up").items()}
        both = peers | {(k, h): s for (h, k), s in peers.items()}
        changed = replace(
            now,
            edge_up=self._as_measured(now.edge_up, "up", edge["up"]),
            edge_down=self._as_measured(now.edge_down, "down", edge["down"]),
            make_d2d=(lambda: self._as_measured(now.d2d, "up", both)) if both else now.make_d2d,
        )
        if now.cloud_via_edge:
            return changed
        return replace(
            changed,
            cloud_up=self._as_measured(now.cloud_up, "up", cloud["up"]),
            cloud_down=self._as_measured(now.cloud_down, "down", cloud["down"]),
        )

    def _of(self, kind: str, direction: str) -> dict[tuple[int, int], float]:
        return {
            (host, client): statistics.median(seconds)
            for (of, way, host, client), seconds in self._link_s.items()
            if (of, way) == (kind, direction)
        }

    def _as_measured(self, link: Link, direction: str, seconds: Mapping[Any, float]) -> Link:
        """A link of which some, by index, take so many seconds for what goes in this direction of a model."""
        if not seconds:
            return link
        fixed_s, rate = link.fixed_s.copy(), link.rate_bit_s.copy()
        for at, s in seconds.items():
            fixed_s[at], rate[at] = 0.0, self._bits[direction] / s
        return replace(link, fixed_s=fixed_s, rate_bit_s=rate)

    @staticmethod
    def _add(where: dict[Any, deque[float]], key: Any, value: float) -> None:
        where.setdefault(key, deque(maxlen=LAST)).append(value)
