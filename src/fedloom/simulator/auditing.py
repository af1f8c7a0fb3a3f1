"""Checking aggregators (fedloom.mixing.audit): what it takes and costs, what is found, and what is done about it.

When the report of an aggregator is at the cloud, the key of the check is told to all who hold something of what it did: members
send sketches, and the report counts as there when these are. Whoever is suspected, or drawn, hands over the updates of a merge,
and members what they were shown, signed. Before the cloud merges, models are looked at; verdicts are kept, as the clock goes by
them. An aggregator that is found to lie is left out: this report, and it itself from the next cloud round on.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom._random import key_of, stream
from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.mixing.audit import SIGMAS, Recompute, Sketch, differs, fits, sketched
from fedloom.protocol import Federation
from fedloom.simulator.absent import Absent
from fedloom.simulator.book import Model, Row, derive
from fedloom.simulator.carrying import Carrier
from fedloom.simulator.edge_merge import weights_now
from fedloom.simulator.errands import spend_for_heads
from fedloom.simulator.exchange import Load, exchange
from fedloom.simulator.held import Held
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.outages import Outages
from fedloom.simulator.scene import Scene
from fedloom.simulator.sick import AUDIT
from fedloom.simulator.trails import Case, Claim, Merged, Trail, Verdict
from fedloom.simulator.world import World

Floats = NDArray[np.float64]

KEY_BYTES = 16  # of a key, or of a question
NUMBER_BYTES = 4  # of a number of a sketch
PROOF_BYTES = 96  # a digest of what was shown, and the signature of who showed it


class Auditing:
    """verdicts: by the number of cloud merges; what is given at the start is not looked at again. compute: models that are to be
    looked at. found: kind and host of those that were found to lie, in order."""

    def __init__(
        self,
        method: Method,
        world: World,
        machines: Federation,
        held: Held,
        ledger: Ledger,
        absent: Absent,
        carrier: Carrier,
        outages: Outages | None,
        compute: Callable[[list[Model]], None] | None,
        verdicts: Mapping[int, Sequence[Verdict]] | None,
    ) -> None:
        self._method, self._audit, self._world, self._machines = method, method.audit, world, machines
        self._held, self._ledger, self._absent, self._carrier = held, ledger, absent, carrier
        self._outages, self._compute = outages, compute
        self.verdicts: dict[int, Sequence[Verdict]] = dict(verdicts or {})
        self.found: list[tuple[str, int]] = []
        self._n_drawn: dict[tuple[str, int], int] = defaultdict(int)

    def waits_s(self, aggregators: Sequence[int], scene: Scene) -> float:
        """Reports of these aggregators are sent: book what is asked for at once, and tell how long it takes after them."""
        if self._audit is None or scene.topology.kind == "cloud":
            return 0.0
        takes_s = [0.0]
        for n in aggregators:
            trail = self._held.trails.of(n)
            if trail is None:
                continue
            if isinstance(self._audit, Sketch):
                each = self._audit.numbers * NUMBER_BYTES
                takes_s.append(self._asked({k: each * m for k, m in trail.held.items()}, scene))
                continue
            trail.drawn = self._draw(str(scene.topology.kind), int(scene.topology.host[n]), trail)
            if trail.drawn is not None:
                handed = trail.last_merge + sum(trail.claims[i][1] for i in trail.drawn)
                takes_s.append(self._opened(n, handed, trail, scene))
        return max(takes_s)

    def judge(self, version: int, scene: Scene) -> float:
        """Look at all reports that the cloud is about to merge, the version-th time; returns the seconds that it has to wait for
        what it asks for beside."""
        due, self._held.trails.due = sorted(self._held.trails.due, key=lambda case: case.aggregator), []
        if self._audit is None or not due:
            return 0.0
        key = key_of(self._world.seed, "audit", version) ^ self._carrier.secret
        sketches = self._sketches(due, key, version)
        looked_at = [*sketches.values(), *(model for case in due for model in self._looked_at(case.trail))]
        if version in self.verdicts:  # the run that is gone on with had looked at them at this moment
            for model in looked_at:
                self._carrier.known(model)
        else:
            assert self._compute is not None, "fedloom.Simulation gives a way to compute models"
            self._compute(looked_at)
            self.verdicts[version] = [self._verdict(case, key, sketches) for case in due]
        takes_s = [0.0]
        for case, verdict in zip(due, self.verdicts[version]):
            if verdict.opened and isinstance(self._audit, Sketch):
                takes_s.append(self._opened(case.aggregator, verdict.opened, case.trail, scene))
            if verdict.found:
                self._convict(case)
        return max(takes_s)

    def _convict(self, case: Case) -> None:
        """Its report is left out, and it is no aggregator from the next cloud round on."""
        kind, host, _ = case.report
        if (sick := self._held.sick) is None:
            raise ValueError(
                f"{kind} {host} was found to send what it has not merged, and on_sick: stop ends the run there"
            )
        sick.add(case.report, AUDIT)
        if (kind, host) not in self.found:
            self.found.append((kind, host))
        self._absent.ban(kind, host)

    # What is looked at

    def _draw(self, kind: str, host: int, trail: Trail) -> list[int] | None:
        """By lot: whether a report is checked, and which of the claims before it: one of a merge, and all that are of none."""
        assert isinstance(self._audit, Recompute)
        self._n_drawn[kind, host] += 1
        lot = stream(self._world.seed, f"audit of {kind}", host, self._n_drawn[kind, host])
        if lot.random() >= self._audit.share:
            return None
        merged = [i for i, (_, m) in enumerate(trail.claims) if m]
        one = [merged[int(lot.integers(len(merged)))]] if merged else []
        return [*(i for i, (_, m) in enumerate(trail.claims) if not m), *one]

    def _sketches(self, due: Sequence[Case], key: int, version: int) -> dict[Model, Model]:
        """By model, the sketch that members send of it."""
        found: dict[Model, Model] = {}
        for case in due:
            steps = case.trail.steps if isinstance(self._audit, Sketch) else [c for c, _ in _checked(case.trail)]
            for step in steps:
                for model, clients in _held_by_members(step):
                    if model not in found:
                        found[model] = derive([model], Sketched(version, key, self._numbers, clients), steps=0)
        return found

    @property
    def _numbers(self) -> int:
        return self._audit.numbers if isinstance(self._audit, Sketch) else Sketch().numbers

    def _looked_at(self, trail: Trail) -> list[Model]:
        """What the cloud may have to look at as it is."""
        if isinstance(self._audit, Sketch):
            return [trail.given, *(model for claim, _ in trail.claims for model in (claim.sent, claim.true))]
        return [trail.given, *(model for claim, _ in _checked(trail) for model in (claim.sent, claim.true))]

    def _verdict(self, case: Case, key: int, sketches: Mapping[Model, Model]) -> Verdict:
        if case.trail.given.row is None:  # in a dry run nobody can see
            return Verdict(case.aggregator, 0, False)
        if isinstance(self._audit, Sketch):
            return Verdict(case.aggregator, *self._compared(self._audit, case.trail, key, sketches))
        checked = _checked(case.trail)
        lies = any(self._lies(claim, key, sketches) for claim, _ in checked)
        return Verdict(case.aggregator, sum(m for _, m in checked), lies)

    def _compared(self, audit: Sketch, trail: Trail, key: int, sketches: Mapping[Model, Model]) -> tuple[int, bool]:
        """Follow the trail by sketches: of the first claim that does not fit, the merge is done again; if it was right (a member
        has lied) it goes on from there. How many updates were handed over, and whether a claim was a lie."""
        opened = merged = 0
        given, report = trail.given.row, trail.steps[-1]
        assert given is not None and isinstance(report, Claim) and report.sent.row is not None
        length = max(float(np.linalg.norm(row.astype(np.float64))) for row in (given, report.sent.row))
        expected = sketched(given, key, audit.numbers)
        for step in trail.steps:
            if isinstance(step, Merged):
                expected, merged = self._added_up(step, expected, sketches), len(step.updates)
                continue
            claimed = (
                _numbers(sketches[step.sent]) if step is not report else sketched(report.sent.row, key, audit.numbers)
            )
            allowed = audit.tolerance * length + SIGMAS * step.noise_std * np.sqrt(len(given))
            if fits(claimed, expected, allowed):
                continue
            opened += merged
            if self._lies(step, key, sketches):
                return opened, True
            true = self._carrier.true_row(step.true)
            expected = claimed if true is None else sketched(true, key, audit.numbers)
        return opened, False

    def _lies(self, claim: Claim, key: int, sketches: Mapping[Model, Model]) -> bool:
        """What the cloud sees when it does the merge again, and compares that with the report, or what members were shown."""
        true = self._carrier.true_row(claim.true)
        if true is None:
            return False
        if claim.sent.row is not None and not (claim.clients and self._carrier.witnessed):
            return differs(claim.sent.row, true, claim.noise_std)
        allowed = Sketch().tolerance * float(np.linalg.norm(true))
        return not fits(_numbers(sketches[claim.sent]), sketched(true, key, self._numbers), allowed)

    def _added_up(self, step: Merged, before: Floats, sketches: Mapping[Model, Model]) -> Floats:
        """The sketch (n,) of what a merge should give, from that of the model before and what members say."""
        weights = weights_now(self._method.merge_edge, step.part, self._held.sick)()
        total = weights.own * before
        clients, hostility = step.part.arrivals.client.tolist(), self._world.hostility
        for client, model, weight in zip(clients, step.updates, weights.model.tolist()):
            said = _numbers(sketches[model])
            total = total + weight * (said if hostility is None else hostility.sketch(said, client))
        for model, weight in zip(step.starts, [] if weights.start is None else weights.start.tolist()):
            total = total + weight * _numbers(sketches[model])
        return total

    # What it takes

    def _opened(self, n: int, m: int, trail: Trail, scene: Scene) -> float:
        """Aggregator n hands m updates to the cloud, and members tell what they were shown; returns the seconds."""
        way, one, times = scene.exchange.cloud_up, np.array([n]), np.array([m])
        if m:
            bills = way.bills_of(
                one, self._world.up_bytes, Load(times, times.astype(np.float64), times.astype(np.float64))
            )
            self._ledger.pay(bills)
            if self._outages is not None:
                spend_for_heads(self._outages, scene, bills, self._carrier.clock.now_s)
        asked_s = self._asked({k: PROOF_BYTES * n_shown for k, n_shown in trail.shown.items()}, scene)
        return max(asked_s, m * float(way.seconds[n]))

    def _asked(self, n_bytes: Mapping[int, int], scene: Scene) -> float:
        """The cloud asks devices, which answer with so many bytes, each over its own way to the cloud; returns the seconds. Who
        is not there, or cannot reach it, is not waited for."""
        snapshot = scene.snapshot
        who = np.array([k for k in sorted(n_bytes) if snapshot.active[k] and self._reaches(k, scene)], dtype=np.int64)
        if not len(who):
            return 0.0
        everyone = Topology(
            cover=np.isin(np.arange(len(snapshot.active)), who)[None, :], kind="cloud", host=np.zeros(1, dtype=np.int64)
        )
        down = exchange(snapshot, everyone, 8.0 * KEY_BYTES).client_down
        down.book(self._ledger, who, KEY_BYTES, a_model=False)
        takes_s = down.seconds[who]
        sizes = np.array([n_bytes[k] for k in who.tolist()])
        for size in np.unique(sizes).tolist():
            mine = sizes == size
            up = exchange(snapshot, everyone, 8.0 * size).client_up
            up.book(self._ledger, who[mine], size, a_model=False)
            takes_s[mine] += up.seconds[who[mine]]
            if self._outages is not None:
                self._outages.take(who[mine], up.legs[0].joules[who[mine]], self._carrier.clock.now_s)
        return float(takes_s[np.isfinite(takes_s)].max(initial=0.0))

    def _reaches(self, client: int, scene: Scene) -> bool:
        return not scene.snapshot.cloud_via_edge or bool(scene.snapshot.home[client] >= 0)


@dataclass(frozen=True)
class Sketched:
    """The rule of what members say of a model that each of the clients has, before the version-th merge of the cloud."""

    version: int
    key: int
    numbers: int
    clients: tuple[int, ...]

    def __call__(self, rows: list[Row]) -> NDArray[np.floating]:
        return sketched(rows[0], self.key, self.numbers)


def _numbers(sketch: Model) -> Floats:
    assert sketch.row is not None
    return sketch.row.astype(np.float64)


def _checked(trail: Trail) -> list[tuple[Claim, int]]:
    """The claims that were drawn, the report last, with the updates in the merge before each."""
    return [] if trail.drawn is None else [trail.claims[i] for i in (*trail.drawn, -1)]


def _held_by_members(step: Claim | Merged) -> list[tuple[Model, tuple[int, ...]]]:
    """Models of a step that members have, and who."""
    if isinstance(step, Claim):
        return [(step.sent, step.clients)] if step.clients else []
    clients = [(client,) for client in step.part.arrivals.client.tolist()]
    return [*zip(step.updates, clients), *zip(step.starts, clients)]
