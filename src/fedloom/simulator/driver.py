"""The protocol in a simulated world: tells the machines what happens when, does what they answer, and books what it costs.

A cloud round is: regroup if the method asks for it (after collecting the features it wants to see) -> the aggregators fetch the
cloud's model -> edge rounds (clients fetch, train, return; the aggregator merges) -> the aggregators report -> the cloud
merges. Who takes part, how much is done, when an edge or the cloud stops waiting and what counts how much is decided by the
machines (fedloom.protocol) with the method's parts; the driver knows time, costs and who holds which model, and no method by
name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from fedloom.fleet import Snapshot
from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.pacing.periods import fixed_edge_rounds
from fedloom.protocol import Edge, Federation
from fedloom.protocol.messages import (
    Action,
    Again,
    Asleep,
    Begin,
    CloudMerge,
    Down,
    Due,
    EdgeEvent,
    Merge,
    Moved,
    Open,
    Ready,
    Report,
    RoundOver,
    Score,
    Send,
    Wake,
)
from fedloom.protocol.terms import TIE
from fedloom.simulator.agenda import Agenda
from fedloom.simulator.air import Air
from fedloom.simulator.auditing import Auditing
from fedloom.simulator.backhaul import Backhaul
from fedloom.simulator.book import Model
from fedloom.simulator.carrying import Carrier, Collects, Imagined
from fedloom.simulator.clock import (
    Arrival,
    Back,
    Check,
    Clock,
    Coming,
    Delivered,
    Failed,
    Fetched,
    Left,
    Lost,
    Nothing,
    Opening,
    Overdue,
    Reporting,
    Returned,
    Waking,
)
from fedloom.simulator.errands import Errands
from fedloom.simulator.faults import Faults
from fedloom.simulator.held import Held
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.looks import Looks
from fedloom.simulator.outages import outages_of
from fedloom.simulator.regrouping import Regrouping
from fedloom.simulator.scene import Scene, Scenes, has_moved
from fedloom.simulator.scores import Scores
from fedloom.simulator.steady import Steady
from fedloom.simulator.timeline import Timeline
from fedloom.simulator.told import state_of
from fedloom.simulator.trails import Verdict
from fedloom.simulator.vigil import Vigil
from fedloom.simulator.world import CloudRound, Decision, World


class Driver:
    """A federation on a virtual clock. `cloud_rounds` runs it; `ledger` holds what was spent so far.

    decisions: groupings by cloud round that depended on features; scores: accuracies of the cloud's model on samples that no
    client has, by the number of cloud merges, which a bound on staleness goes by; what is given at the start is not made or
    measured again. score measures one. verdicts: on the aggregators' reports, likewise; compute: models that have to be looked at
    for these. look_every: yield also between cloud rounds, every so many edge rounds; keep_devices: keep
    the last model of every device; keep_timeline: keep what each client did when. carrier: who carries out what is decided; by
    default nobody, and all happens as predicted.
    """

    def __init__(
        self,
        method: Method,
        world: World,
        first: Model,
        features: Collects | None = None,
        decisions: Mapping[int, Decision] | None = None,
        score: Callable[[Model], float] | None = None,
        scores: Mapping[int, float] | None = None,
        *,
        look_every: int | None = None,
        keep_devices: bool = False,
        keep_timeline: bool = True,
        carrier: Carrier | None = None,
        verdicts: Mapping[int, Sequence[Verdict]] | None = None,
        compute: Callable[[list[Model]], None] | None = None,
    ) -> None:
        self.method, self.world = method, world
        wander = world.fleet.moves == "edge-round" or world.fleet.in_time
        shared = world.fleet.snapshot(0).air
        air = Air(shared) if carrier is None and shared.is_shared else None
        gathers = method.edge.waits_for_all and world.fleet.moves == "never" and not world.fleet.in_time
        self.carrier = Imagined(method.edge.at_once, air, gathers=gathers) if carrier is None else carrier
        failing = outages_of(world.fleet.settings, world.seed, method.waiting.patience_s)
        outages = failing if carrier is None else None  # else it is reality that fails
        self.machines = Federation(
            world.terms,
            method.edge,
            method.cloud,
            method.merge_edge,
            method.merge_cloud,
            wander=wander,
            foreseen=self.carrier.foreseen,
            returns=air is not None,
            failing=outages is not None,
        )
        devices = self.machines.devices
        self.clock, self.ledger = self.carrier.clock, Ledger()
        self.held = Held(method, world, first, keep_devices)
        self.scenes = Scenes(method, world, self.machines, self.clock)
        self.errands = Errands(method, world, devices, self.held, self.ledger, outages, keep_timeline=keep_timeline)
        self.regrouping = Regrouping(
            method, world, self.clock, devices, self.held, self.ledger, features, decisions, self.carrier.seen, outages
        )
        self._vigil = Vigil(method, world, self.machines, self.scenes, self.clock)
        self._faults = Faults(
            method, world, self.machines, self.scenes, self.held, self.errands, self.clock, self._perform, self._wake
        )
        self.deserted = False  # nobody is there any more, nor will be
        self._opens: dict[int, float] = {}  # by group, when it opens its next round
        self._looks = Looks(self.machines, self.held, look_every)
        self.agenda = Agenda(method, world, self.held)
        absent = self._faults.absent
        self.auditing = Auditing(
            method, world, self.machines, self.held, self.ledger, absent, self.carrier, outages, compute, verdicts
        )
        self.backhaul = Backhaul(
            method, world, self.machines, self.carrier, self.held, self.ledger, air, self.auditing, outages
        )
        self._begun: dict[int, Begin] = {}  # by group, what it is told when it has fetched the cloud's model
        self._scores = Scores(method, self.carrier, self.held, score, scores)
        self._snapshot: Snapshot | None = None  # before the first round
        self.rounds_before = 0  # edge rounds before this cloud round
        plain = carrier is None and air is None and outages is None and look_every is None and not keep_devices
        self.steady = Steady(self, self.clock if plain and isinstance(self.clock, Clock) else None)

    def cloud_rounds(self, n_rounds: int) -> Iterator[CloudRound]:
        """Yield after every cloud round (a cloud that does not wait: after as many reports as there are groups, or times that),
        and between them if asked to. With total_steps the rounds go on until these are done, whatever n_rounds is. If all have
        gone for good the cloud round ends as it is, and is the last."""
        machines, g, over = self.machines, 0, n_rounds == 0
        while not over:
            self.scenes.cloud_round = self.held.cloud_round = g
            if not self.steady.repeat(g):
                self.steady.begin(g)
                machines.devices.begin_cloud_round()
                self.deserted = not (self._faults.somebody_is_there(self._happen) and self._vigil.somebody_comes())
                if not self.deserted:
                    self._begin(g)
                while machines.cloud.due > 0 and not self.deserted:
                    self._happen()
                    for look in self._looks.due(self.rounds_before):
                        yield replace(state_of(self, g, look.edge_rounds, look.model), **look.models, between=True)
                self._looks.forget()
                if not self.deserted:
                    self._perform(self.method.cloud.finish(machines.cloud))
                self.steady.end()
            g += 1
            over = self.agenda.is_over(g, n_rounds) or self.deserted
            costs, noise_std = self.ledger.by_aggregator(), self.held.merged_noise(self.scenes.now)
            n_rounds_of_all = max(edge.n_rounds for edge in machines.edges)
            yield state_of(self, g, n_rounds_of_all, self.held.model, last=over, costs=costs, noise_std=noise_std)

    def _begin(self, g: int) -> None:
        """Cloud round g begins."""
        self._enter(g)
        rounds = fixed_edge_rounds(self.method.edge.rounds)
        begun = self.machines.begin(self.method.cloud.reports_of_each(rounds, self.world.edge_rounds))
        if begun:
            self.rounds_before = max(edge.n_rounds for edge in self.machines.edges)
        self._perform(begun)

    def live_models(self) -> list[Model]:
        """The models that the rest of the run may still refer to, in a fixed order."""
        return [*self.held.live(self.machines.flights()), *self._looks.kept()]

    @property
    def decisions(self) -> dict[int, Decision]:
        """Groupings that depended on features, by cloud round."""
        return self.regrouping.decisions

    @property
    def scores(self) -> dict[int, float]:
        """Accuracies that a bound on staleness goes by, by the number of cloud merges."""
        return self._scores.known

    @property
    def model(self) -> Model:
        """The cloud's."""
        return self.held.model

    @property
    def timeline(self) -> Timeline:
        """What each client did when."""
        return self.errands.timeline

    @property
    def steps_done(self) -> int:
        """Local steps of all clients so far, with those for features."""
        return int(self.machines.devices.steps.sum())

    def _happen(self) -> None:
        """What happens next."""
        machines, happening = self.machines, self.clock.next()
        now_s = self.clock.now_s
        self.steady.note(happening)
        self._faults.look()
        match happening:
            case Opening(i):
                if (
                    i >= len(machines.edges)
                    or machines.edges[i].rounds_left == 0
                    or now_s + TIE < self._opens.pop(i, np.inf)
                ):
                    return  # its aggregators were lost meanwhile
                index = machines.next_index(i)
                scene = self._advance(index)
                attendance = self.scenes.now if self.method.edge.at_once else scene
                self._tell(i, Open(now_s, index - 1, attendance))
            case Waking(i, edge_round):
                if i < len(machines.edges):  # else it is of a group that is no more
                    self._tell(i, Due(now_s, edge_round))
            case Arrival(lead):
                self._see()
                for edge, event in machines.arrived(lead, now_s):
                    self._tell(edge.group, event)
            case Delivered(client, ticket):
                for edge, event in machines.delivered(np.array(client), np.array(ticket), now_s):
                    self._tell(edge.group, event)
            case Left() | Failed() | Lost() | Back() | Check() | Returned():
                self._faults.meet(happening)
            case Nothing():
                self.deserted = True
            case Reporting(i) if i in machines.cloud.out:  # else its aggregators were lost meanwhile
                for n in machines.edges[i].aggregators.tolist():
                    self.held.report(n, self._scene_of(i), machines.cloud.version)
                self._perform(machines.cloud.reported(i, now_s))
            case Reporting():
                pass
            case Fetched(i):
                if i < len(machines.edges) and i in self._begun:
                    self._tell(i, self._begun.pop(i)._replace(at_s=now_s))
            case Overdue(sent, is_back):
                self.errands.overdue(sent, is_back)
            case Coming():
                self._advance(machines.next_index())
                self._vigil.look_again()
            case _:
                assert_never(happening)

    def _tell(self, group: int, event: EdgeEvent) -> None:
        self.steady.note(event)
        self._perform(self.machines.edges[group].handle(event))

    def _perform(self, actions: Sequence[Action]) -> None:
        """Do what the machines answer, one after the other."""
        for action in actions:
            self.steady.note(action)
            match action:
                case Ready(i, at_s):
                    self._open(i, at_s)
                case Send():
                    self._send(action)
                case Wake(i, at_s, edge_round):
                    self.clock.foresee(at_s, Waking(i, edge_round))
                case Again(_, lead):
                    self.clock.foresee(max(self.clock.now_s, self.machines.ready_s(lead)), Arrival(lead))
                case Merge():
                    self._merge(action)
                case RoundOver(i, n_rounds):
                    self._looks.note(self.machines.edges[i], n_rounds - self.rounds_before)
                case Report():
                    self.backhaul.report(action, self._scene_of(action.group))
                case Asleep():
                    self._perform(self.method.cloud.fell_asleep(self.machines.cloud))
                    self._faults.stir()
                    self._vigil.look_again()
                case Down(i):
                    self._hand_down(self.machines.edges[i])
                case CloudMerge():
                    self.clock.spend(self.auditing.judge(self.machines.cloud.version, self.scenes.now))
                    self.held.merge_cloud(action)
                case Score(version):
                    accuracy, cloud = self._scores.of(version), self.machines.cloud
                    self._perform(self.method.cloud.scored(cloud, version, accuracy, self.clock.now_s))
                case _:
                    assert_never(action)

    def _open(self, group: int, at_s: float) -> None:
        """A group opens its next round then; what was said of it before does not count any more."""
        self._opens[group] = at_s
        self.clock.foresee(at_s, Opening(group))

    def _send(self, action: Send) -> None:
        """Clients go to work; when they will be back is foreseen."""
        edge = self.machines.edges[action.group]
        event = self.errands.send(action, edge, self._scene_of(action.group), self.clock.now_s, self.scenes.cloud_round)
        told = self.carrier.sent(action, self._scene_of(action.group), event)
        self._faults.sent(action)
        self._tell(action.group, told)

    def _merge(self, action: Merge) -> None:
        """Aggregators of a group have new models."""
        scene = self._scene_of(action.group)
        for part in action.parts:
            self.held.merge_edge(part, scene)
            self.carrier.merged(part, scene, self.held.edges[part.aggregator])
        self.errands.merged(action, self.machines.topology.host, self.scenes.now.n_reached, self.clock.now_s)

    def _hand_down(self, edge: Edge) -> None:
        """The aggregators of a group get their models from the cloud, if there is one, and begin."""
        takes_s = self.backhaul.fetch(edge, self._scene_of(edge.group))
        periods, allotted = self.agenda.begin(), self.regrouping.allotment.edge_rounds
        begin = Begin(
            self.clock.now_s + (takes_s or 0.0),
            periods.edge_rounds if allotted is None else int(allotted[edge.aggregators[0]]),
            periods.local_steps,
            self.agenda.steps_left,
            self.regrouping.progress if self.method.group.keep_progress else None,
        )
        if takes_s is None:
            self._begun[edge.group] = begin
        else:
            self._tell(edge.group, begin)

    def _enter(self, g: int) -> None:
        """Take the snapshot of cloud round g; regroup if it is time to; see what the links cost now."""
        machines, before, when = self.machines, self._snapshot, self.method.group.when
        self.regrouping.begin_cloud_round()
        index = machines.next_index()
        changed, follow = self._faults.absent.begin_cloud_round(), bool(machines.edges) and self.scenes.base.follow
        found = changed and self._faults.absent.heads_banned(self.scenes.base)
        due = before is None or when == "cloud-round" or g == self.method.cloud.warmup or found
        now = self._snapshot = self._vigil.snapshot(g, index, anybody=due or (when == "moved" and not follow))
        now_s = self.clock.now_s  # features take time, and the cloud round is as it was before
        moved = has_moved(before, now)
        if machines.edges and machines.roster.wander and not self.method.cloud.waits:
            if self.world.fleet.in_time and moved and when == "moved" and not follow:
                self._regroup(self._decided(g, now), now)
                changed = True
            if changed:
                machines.move(self.scenes.again())
                self._wake(self.scenes.now)
            self._wake(self._advance(index))
            return
        if now is before and not due and not changed:
            return
        if due or (moved and when == "moved" and not (follow and machines.roster.wander)):
            self._regroup(self._decided(g, now), now)
        elif moved and when == "once" and follow and not machines.roster.wander:
            self._regroup(self.scenes.base.at_home(now.home), now)
        elif changed or (moved and self.world.fleet.in_time and self.scenes.stays):
            self._regroup(self.scenes.base, now)
        scene = self.scenes.enter(index, now_s, self.regrouping.allotment.power_w)
        machines.enter(scene)
        for edge in machines.edges:
            self._tell(edge.group, Moved(self.clock.now_s, scene))
            self._wake(scene, [edge])

    def _decided(self, g: int, now: Snapshot) -> Topology:
        """Who aggregates with whom from now on, of those who are there."""
        there, instead = self._faults.leave_out(now)
        return self.regrouping.decide(g, there, self.agenda.periods(), instead)

    def _regroup(self, topology: Topology, now: Snapshot) -> None:
        self.scenes.base = topology
        present = self.scenes.present(topology, now)
        if not self.machines.regroup(present, topology.pace_groups()):
            self.held.regroup(present)
        self.held.follow(present)
        self._faults.watch(topology)

    def _advance(self, index: int) -> Scene:
        """The scene of a running edge round that a group opens now. If it is the newest, clients are there now."""
        scene = self.scenes.at(index)
        if scene is self.scenes.now or (index <= self.scenes.newest and not self.world.fleet.in_time):
            return scene
        self.scenes.show(index, scene)
        if self.machines.move(scene):
            for edge in self.machines.edges:
                self._tell(edge.group, Moved(self.clock.now_s, scene))
        if not self.method.cloud.waits:
            self._wake(scene)
        return scene

    def _see(self) -> None:
        """Where no round is waited for, clients are sent when others come back: who is where then, if that changes with time."""
        if self.world.fleet.in_time and self.method.edge.at_once:
            self._advance(self.scenes.newest)

    def _wake(self, scene: Scene, edges: Sequence[Edge] | None = None) -> None:
        """Groups that had nobody go on if somebody has come."""
        for edge in self.machines.woken(scene, edges):
            if edge.rounds_left > 0 and edge.n_rounds > edge.begun_at:  # it has models that were not reported yet
                self._open(edge.group, self.clock.now_s)
            else:
                self._perform(self.machines.cloud.woken(edge.group))

    def _scene_of(self, group: int) -> Scene:
        scene = self.machines.edges[group].here
        assert isinstance(scene, Scene)
        return scene
