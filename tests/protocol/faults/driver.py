"""Drives the machines as a real network would: arrivals are known when they happen, any message may be lost, doubled, late or
out of order, and any process may stop, with or without its state.

What each process does is in the machines. Here are letters, alarms, models (small vectors) and faults:

    driver          what happens, and what is done with the answers      letters    which letter means what to whom
    cloud_rounds    the life of a federation, from round to round        alarms     what a process had set itself to do
    clouds, edges, devices      what each role does with letters and models
    failures, moves             who stops and starts again; who goes elsewhere

Everything that decides about models is written to `log`, from which the reference computes them anew.

Lives: a process that has lost its state has a new boot number, and whoever knows the new one does not listen to the old one.
    device    is sent its order again, under the same ticket, as edges repeat orders until the update is there
    edge      says hello; it is told to begin again, with the cloud's last model and under a new ticket, if its report is awaited
    cloud     asks who is there; what edges were last sent tells it how far it had come, and they repeat what they have reported
"""

import random

import numpy as np

from fedloom.mixing.merges import CloudLinear, Linear
from fedloom.protocol import Device, Federation
from fedloom.protocol.messages import (
    Again,
    Asleep,
    CloudMerge,
    Down,
    EdgeEvent,
    Merge,
    Ready,
    Report,
    RoundOver,
    Score,
    Send,
    Wake,
)

from . import alarms, cloud_rounds, clouds, edges, failures, letters
from .laws import Laws
from .network import CLOUD, ROSTER, Deliver, Fault, Local, Network, Process, Retry, Up
from .plan import CLOUD_RULES, EDGE_RULES, Plan
from .schedule_laws import ScheduleLaws

SIZE = 3


class Stuck(AssertionError):
    """A federation has not ended, and this is what it waits for."""


class Run:
    """One federation from its plan to its end. models: of the cloud by the number of the merge; edges: of each aggregator; here:
    updates that edges have, by (client, ticket)."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed + 1)
        self.net = Network(self.chance, plan.lost, plan.doubled, plan.delay_s)
        self.log: list[tuple] = []
        self.laws, self.schedule = Laws(self), ScheduleLaws(self)
        edge_rule, cloud_rule = Linear(EDGE_RULES[plan.edge_rule]), CloudLinear(CLOUD_RULES[plan.cloud_rule])
        self.federation = Federation(
            plan.terms, plan.edge, plan.cloud, edge_rule, cloud_rule, wander=plan.wander, foreseen=False
        )
        self.cloud = self.federation.cloud
        n_edges, n_clients = len(plan.host), len(plan.home)
        first = np.arange(SIZE) / 4
        self.models = [first]
        self.model = 0  # which of them the cloud has
        self.edges = [first] * n_edges
        self.reported = [first] * n_edges
        self.here: dict[tuple[int, int], np.ndarray] = {}
        self.starts: dict[tuple[int, int], np.ndarray] = {}
        self.devices = [Device() for _ in range(n_clients)]
        self.jobs: dict[int, tuple[int, int, np.ndarray]] = {}  # of a device: ticket, steps, start
        self.results: dict[int, np.ndarray] = {}
        self.memos: dict[int, tuple] = {}  # of an edge: what came with its last order
        self.sent_reports: dict[int, tuple] = {}  # of an edge: its report, until the next order
        self.known: dict[tuple, int] = {}  # (who, whom): the newest boot that it has heard of
        self.told: dict[int, tuple] | None = None  # what a cloud without its state has been told so far
        self.steps: dict[tuple[int, int], int] = {}
        self.woken: set[int] = set()  # edges that slept and wait for an order
        self.n_events = self.n_tries = 0  # what happened; with looks whether something is to be sent again
        self.over = False
        self.kept: list = []  # notes of who was where, by number
        self.note_of: dict[int, int] = {}  # id of a note -> its number
        self.boots = 0
        self.net.processes = {
            CLOUD: Process(),
            ROSTER: Process(),
            **{("device", k): Process() for k in range(n_clients)},
        }
        for at_s, what in plan.faults:
            self.net.at(at_s, Fault(what))

    def run(self) -> None:
        """Until it ends; Stuck if it does not."""
        cloud_rounds.enter(self, first=True)
        while not self.over:
            event = self.net.next()
            if event is None or self.n_tries > self.plan.patience:
                raise Stuck(self.waits_for())
            self.n_tries += 1
            self.n_events += not isinstance(event, Retry)
            self._happen(event)
            self.laws.check()
        self.laws.check_end()

    def waits_for(self) -> str:
        """What is still missing, in words."""
        lines = [f"at {self.net.now_s:.1f} s after {self.n_events} events, version {self.cloud.version}"]
        lines += [f"{who} is down" for who, process in self.net.processes.items() if not process.up]
        lines += [f"{who} has lost its state" for who, process in self.net.processes.items() if process.blank]
        lines += [f"the cloud waits for the report of group {i}" for i in self.cloud.out]
        for edge in self.federation.edges:
            missing = [] if edge.on_time is None else edge.on_time.client[np.isinf(edge.on_time.arrives_s)].tolist()
            if missing:
                lines.append(f"group {edge.group} waits for clients {missing}")
            if edge.first_comer:
                lines.append(f"group {edge.group} waits for whoever comes first of {edge.members.tolist()}")
            if edge.merges_left:
                lines.append(f"group {edge.group} waits for {edge.merges_left} merges")
            if edge.asleep:
                lines.append(f"group {edge.group} sleeps")
        lines += [f"working {flight.names}" for flight in self.federation.roster.working.values()]
        lines += [f"repeated: {key}" for key in self.net.insisting()]
        return "; ".join(lines)

    def _happen(self, event: Deliver | Retry | Local | Fault | Up) -> None:
        """What happens next, at whom."""
        match event:
            case Deliver(envelope):
                letters.deliver(self, envelope)
            case Retry():
                letters.aim(self, event.key)
                self.net.retry(event)
            case Local(owner, boot, what, body):
                process = self.net.processes.get(owner)
                if process is None or process.boot != boot:
                    return
                if not process.up:
                    self.net.at(process.up_at_s, event)
                else:
                    alarms.act(self, owner, what, body)
            case Fault(what):
                failures.fail(self, what)
            case Up(who, boot):
                failures.come_up(self, who, boot)

    def perform(self, actions: list) -> None:
        """Do what the machines answer."""
        net = self.net
        for action in actions:
            match action:
                case Ready(i, at_s):
                    net.later(("edge", i), at_s, "open")
                case Send():
                    edges.send(self, action)
                case Wake(i, at_s, edge_round):
                    self.schedule.alarm(action)
                    net.later(("edge", i), at_s, "due", edge_round)
                case Again(i, lead):
                    net.later(ROSTER, net.now_s, "again", lead)
                case Merge():
                    edges.merge(self, action)
                case RoundOver(i, n_rounds):
                    self.log.append(("round over", i))
                    self.laws.round_over(i)
                    self.schedule.round_over(i, n_rounds)
                case Report():
                    edges.report(self, action)
                case Asleep(i):
                    net.later(CLOUD, net.now_s, "asleep", i)
                case Down():
                    clouds.order(self, action)
                case CloudMerge():
                    clouds.merge(self, action)
                case Score(version):
                    accuracy = (version * 37 % 11) / 11
                    scored = self.plan.cloud.scored(self.cloud, version, accuracy, net.now_s)
                    self.schedule.ordering(scored)
                    self.perform(scored)
                case _:
                    raise AssertionError(action)

    def tell(self, edge: object, event: EdgeEvent) -> None:
        """Tell an edge, or, if it is down, as soon as it is up."""
        process = self.net.processes["edge", edge.group]
        if process.up and not process.blank:
            self.perform(self.federation.edges[edge.group].handle(event))
        elif not process.blank:
            self.net.later(("edge", edge.group), process.up_at_s, "tell", event)

    def listen(self, groups: set[int]) -> bool:
        """Whether these groups are all up."""
        found = [self.net.processes["edge", i] for i in groups]
        return all(process.up and not process.blank for process in found)

    def boot(self, who: tuple) -> int:
        """Of the life that a process is in."""
        return self.net.processes[who].boot
