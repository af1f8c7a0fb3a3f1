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
from numpy.typing import NDArray

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
from fedloom.simulator.absent import Absent
from fedloom.simulator.agenda import Agenda
from fedloom.simulator.backhaul import Backhaul
from fedloom.simulator.book import Model
from fedloom.simulator.carrying import Carrier, Collects, Imagined
from fedloom.simulator.clock import Arrival, Back, Delivered, Left, Lost, Opening, Reporting, Waking
from fedloom.simulator.errands import Errands
from fedloom.simulator.held import Held
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.looks import Looks
from fedloom.simulator.regrouping import Regrouping
from fedloom.simulator.scene import Scene, Scenes
from fedloom.simulator.scores import Scores
from fedloom.simulator.timeline import Timeline
from fedloom.simulator.world import CloudRound, Decision, World

Ints = NDArray[np.int64]


class Driver:
    """A federation on a virtual clock. `cloud_rounds` runs it; `ledger` holds what was spent so far.

    decisions: groupings by cloud round that depended on features; scores: accuracies of the cloud's model on samples that no
    client has, by the number of cloud merges, which a bound on staleness goes by; what is given at the start is not made or
    measured again. score measures one. look_every: yield also between cloud rounds, every so many edge rounds; keep_devices: keep
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
    ) -> None:
        self.method, self.world = method, world
        wander = world.fleet.moves == "edge-round"
        self.carrier = Imagined(method.edge.at_once) if carrier is None else carrier
        self.machines = Federation(
            world.terms,
            method.edge,
            method.cloud,
            method.merge_edge,
            method.merge_cloud,
            wander=wander,
            foreseen=self.carrier.foreseen,
        )
        devices = self.machines.devices
        self.clock, self.ledger = self.carrier.clock, Ledger()
        self.held = Held(method, world, first, keep_devices)
        self.scenes = Scenes(method, world, self.machines)
        self.errands = Errands(method, world, devices, self.held, self.ledger, keep_timeline=keep_timeline)
        self.regrouping = Regrouping(
            method, world, self.clock, devices, self.held, self.ledger, features, decisions, self.carrier.seen
        )
        self._absent = Absent(self.machines, self.scenes, self.held, at_once=not method.cloud.waits)
        self._looks = Looks(self.machines, self.held, look_every)
        self.agenda = Agenda(method, world, self.held)
        self.backhaul = Backhaul(method, world, self.machines, self.carrier, self.held, self.ledger)
        self._scores = Scores(method, self.carrier, self.held, score, scores)
        self._snapshot: Snapshot | None = None  # before the first round
        self.rounds_before = 0  # edge rounds before this cloud round

    def cloud_rounds(self, n_rounds: int) -> Iterator[CloudRound]:
        """Yield after every cloud round (a cloud that does not wait: after as many reports as there are groups, or times that),
        and between them if asked to. With total_steps the rounds go on until these are done, whatever n_rounds is."""
        machines, g, over = self.machines, 0, n_rounds == 0
        while not over:
            self.scenes.cloud_round = self.held.cloud_round = g
            machines.devices.begin_cloud_round()
            self._enter(g)
            rounds = fixed_edge_rounds(self.method.edge.rounds)
            begun = machines.begin(self.method.cloud.reports_of_each(rounds, self.world.edge_rounds))
            if begun:
                self.rounds_before = max(edge.n_rounds for edge in machines.edges)
            self._perform(begun)
            while machines.cloud.due > 0:
                self._happen()
                for look in self._looks.due(self.rounds_before):
                    yield replace(_state(self, g, look.edge_rounds, look.model), **look.models, between=True)
            self._looks.forget()
            self._perform(self.method.cloud.finish(machines.cloud))
            g += 1
            over = self.agenda.is_over(g, n_rounds)
            state = _state(self, g, max(edge.n_rounds for edge in machines.edges), self.held.model)
            noise_std = self.held.merged_noise(self.scenes.now)
            yield replace(state, last=over, costs=self.ledger.by_aggregator(), noise_std=noise_std)

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
        match happening:
            case Opening(i):
                if (
                    i >= len(machines.edges) or machines.edges[i].rounds_left == 0
                ):  # its aggregators were lost meanwhile
                    return
                index = machines.next_index(i)
                scene = self._advance(index)
                attendance = self.scenes.now if self.method.edge.at_once else scene
                self._tell(i, Open(now_s, index - 1, attendance))
            case Waking(i, edge_round):
                if i < len(machines.edges):  # else it is of a group that is no more
                    self._tell(i, Due(now_s, edge_round))
            case Arrival(lead):
                for edge, event in machines.arrived(lead, now_s):
                    self._tell(edge.group, event)
            case Delivered(client, ticket):
                for edge, event in machines.delivered(np.array(client), np.array(ticket), now_s):
                    self._tell(edge.group, event)
            case Left(client, sick):
                told, actions = machines.gone(np.array(client), now_s)
                self.held.withdraw(client)
                self.held.reject(client, sick)
                for edge, gone in told:
                    self._tell(edge.group, gone)
                self._perform(actions)
            case Lost(kind, host, client):
                silenced, answers = self._absent.lost(kind, host, np.array(client, dtype=np.int64), now_s)
                for edge, lost in silenced:
                    self._absent.let_go(lost)
                    self._tell(edge.group, lost)
                self._perform(answers)
            case Back(kind, host):
                if self._absent.back(kind, host):
                    self._wake(self.scenes.now)
            case Reporting(i) if i in machines.cloud.out:  # else its aggregators were lost meanwhile
                for n in machines.edges[i].aggregators.tolist():
                    self.held.report(n, self._scene_of(i), machines.cloud.version)
                self._perform(machines.cloud.reported(i, now_s))
            case Reporting():
                pass
            case _:
                assert_never(happening)

    def _tell(self, group: int, event: EdgeEvent) -> None:
        self._perform(self.machines.edges[group].handle(event))

    def _perform(self, actions: Sequence[Action]) -> None:
        """Do what the machines answer, one after the other."""
        for action in actions:
            match action:
                case Ready(i, at_s):
                    self.clock.foresee(at_s, Opening(i))
                case Send():
                    self._send(action)
                case Wake(i, at_s, edge_round):
                    self.clock.foresee(at_s, Waking(i, edge_round))
                case Again(_, lead):
                    self.clock.foresee(self.clock.now_s, Arrival(lead))
                case Merge():
                    self._merge(action)
                case RoundOver(i, n_rounds):
                    self._looks.note(self.machines.edges[i], n_rounds - self.rounds_before)
                case Report():
                    self.backhaul.report(action, self._scene_of(action.group))
                case Asleep():
                    self._perform(self.method.cloud.fell_asleep(self.machines.cloud))
                case Down(i):
                    self._hand_down(self.machines.edges[i])
                case CloudMerge():
                    self.held.merge_cloud(action)
                case Score(version):
                    accuracy, cloud = self._scores.of(version), self.machines.cloud
                    self._perform(self.method.cloud.scored(cloud, version, accuracy, self.clock.now_s))
                case _:
                    assert_never(action)

    def _send(self, action: Send) -> None:
        """Clients go to work; when they will be back is foreseen."""
        edge = self.machines.edges[action.group]
        event = self.errands.send(action, edge, self._scene_of(action.group), self.clock.now_s, self.scenes.cloud_round)
        self._tell(action.group, self.carrier.sent(action, self._scene_of(action.group), event))

    def _merge(self, action: Merge) -> None:
        """Aggregators of a group have new models."""
        scene = self._scene_of(action.group)
        for part in action.parts:
            self.held.merge_edge(part, scene)
            self.carrier.merged(part, scene, self.held.edges[part.aggregator])
        self.errands.merged(action, self.machines.topology.host, self.scenes.now.n_reached, self.clock.now_s)

    def _hand_down(self, edge: Edge) -> None:
        """The aggregators of a group get their models from the cloud, if there is one, and begin."""
        start_s = self.clock.now_s + self.backhaul.fetch(edge, self._scene_of(edge.group))
        periods, allotted = self.agenda.begin(), self.regrouping.allotment.edge_rounds
        begin = Begin(
            start_s,
            periods.edge_rounds if allotted is None else int(allotted[edge.aggregators[0]]),
            periods.local_steps,
            self.agenda.steps_left,
            self.regrouping.progress if self.method.group.keep_progress else None,
        )
        self._tell(edge.group, begin)

    def _enter(self, g: int) -> None:
        """Take the snapshot of cloud round g; regroup if it is time to; see what the links cost now."""
        machines, before = self.machines, self._snapshot
        self.regrouping.begin_cloud_round()
        index = machines.next_index()
        changed = self._absent.begin_cloud_round()
        if machines.edges and machines.roster.wander and not self.method.cloud.waits:
            if changed:
                machines.move(self.scenes.again())
                self._wake(self.scenes.now)
            self._wake(self._advance(index))
            return
        now = self._snapshot = self.world.fleet.snapshot(g, index)
        when = self.method.group.when
        due = before is None or when == "cloud-round" or g == self.method.cloud.warmup
        if now is before and not due and not changed:
            return
        moved, follow = _has_moved(before, now), bool(machines.edges) and self.scenes.base.follow
        if due or (moved and when == "moved" and not (follow and machines.roster.wander)):
            self._regroup(self.regrouping.decide(g, self._absent.leave_out(now), self.agenda.periods()))
        elif moved and when == "once" and follow and not machines.roster.wander:
            self._regroup(self.scenes.base.at_home(now.home))
        elif changed:
            self._regroup(self.scenes.base)
        scene = self.scenes.enter(index, self.regrouping.allotment.power_w)
        machines.enter(scene)
        for edge in machines.edges:
            self._tell(edge.group, Moved(self.clock.now_s, scene))
            self._wake(scene, [edge])

    def _regroup(self, topology: Topology) -> None:
        self.scenes.base = topology
        present = self.scenes.present(topology)
        if not self.machines.regroup(present, topology.pace_groups()):
            self.held.regroup(present)
        self.held.follow(present)

    def _advance(self, index: int) -> Scene:
        """The scene of a running edge round that a group opens. If it is the newest, clients are there now."""
        scene = self.scenes.at(index)
        if index <= self.scenes.newest or scene is self.scenes.now:
            return scene
        self.scenes.show(index, scene)
        if self.machines.move(scene):
            for edge in self.machines.edges:
                self._tell(edge.group, Moved(self.clock.now_s, scene))
        if not self.method.cloud.waits:
            self._wake(scene)
        return scene

    def _wake(self, scene: Scene, edges: Sequence[Edge] | None = None) -> None:
        """Groups that had nobody go on if somebody has come."""
        for edge in self.machines.woken(scene, edges):
            if edge.rounds_left > 0 and edge.n_rounds > edge.begun_at:  # it has models that were not reported yet
                self.clock.foresee(self.clock.now_s, Opening(edge.group))
            else:
                self._perform(self.machines.cloud.woken(edge.group))

    def _scene_of(self, group: int) -> Scene:
        scene = self.machines.edges[group].here
        assert isinstance(scene, Scene)
        return scene


def _has_moved(before: Snapshot | None, now: Snapshot) -> bool:
    return before is None or not (
        np.array_equal(before.home, now.home)
        and np.array_equal(before.in_reach, now.in_reach)
        and np.array_equal(before.active, now.active)
    )


def _state(driver: Driver, cloud_round: int, edge_rounds: int, model: Model) -> CloudRound:
    """What is told of a federation when it has done so many cloud rounds and edge rounds, and the cloud's model is this."""
    scene, held, machines = driver.scenes.now, driver.held, driver.machines
    bound = machines.cloud.bound
    return CloudRound(
        cloud_round=cloud_round,
        edge_rounds=edge_rounds,
        time_s=driver.clock.now_s,
        model=model,
        edges=held.merged,
        reported_models=list(held.reported),
        cluster_models=held.of_clusters,
        topology=scene.topology,
        snapshot=scene.snapshot,
        client_steps=machines.devices.in_cloud_round,
        up_s=scene.exchange.client_up.seconds,
        group_rounds=np.array([edge.n_rounds for edge in machines.edges]) - driver.rounds_before,
        n_updates=driver.errands.n_updates,
        n_late=driver.errands.n_late,
        handovers=driver.scenes.handovers,
        s_max=None if bound is None else bound.s_max,
        device_models=dict(held.last),
        residuals=held.kept,
        states=held.states.kept,
        sick=held.sick,
    )
