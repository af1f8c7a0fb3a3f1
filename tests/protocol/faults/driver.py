"""Drives the machines as a real network would: arrivals are known when they happen, any message may be lost, doubled, late or
out of order, and any process may stop, with or without its state.

What each process does is in the machines. Here are letters, alarms, models (small vectors) and faults. Everything that decides
about models is written to `log`, from which the reference computes them anew.

Lives: a process that has lost its state has a new boot number, and whoever knows the new one does not listen to the old one.
    device    is sent its order again, under the same ticket, as edges repeat orders until the update is there
    edge      says hello; it is told to begin again, with the cloud's last model and under a new ticket, if its report is awaited
    cloud     asks who is there; what edges were last sent tells it how far it had come, and they repeat what they have reported
"""

import copy
import random

import numpy as np

from fedloom.mixing.merges import CloudLinear, Linear
from fedloom.protocol import Device, Federation
from fedloom.protocol.cloud import Said
from fedloom.protocol.messages import (
    Again,
    Asleep,
    Begin,
    CloudMerge,
    Down,
    Due,
    EdgeEvent,
    Merge,
    Moved,
    OnTheWay,
    Open,
    Ready,
    Report,
    RoundOver,
    Score,
    Send,
    Wake,
)

from .laws import Laws
from .network import Deliver, Envelope, Fault, Local, Network, Process, Retry, Up
from .plan import CLOUD_RULES, EDGE_RULES, Plan

CLOUD = ("cloud", 0)
ROSTER = ("roster", 0)  # who is where, which all know
SIZE = 3


class Stuck(AssertionError):
    """A federation has not ended, and this is what it waits for."""


def trained(start: np.ndarray, client: int, ticket: int, steps: int) -> np.ndarray:
    """What a device makes of a model: any function of these will do."""
    return start * 0.75 + np.array([client + 1.0, ticket * 0.5, steps * 0.25 - client])


class Run:
    """One federation from its plan to its end. models: of the cloud by the number of the merge; edges: of each aggregator; here:
    updates that edges have, by (client, ticket)."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed + 1)
        self.net = Network(self.chance, plan.lost, plan.doubled, plan.delay_s)
        self.log: list[tuple] = []
        self.laws = Laws(self)
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
        self._kept: list = []  # notes of who was where, by number
        self._note_of: dict[int, int] = {}  # id of a note -> its number
        self._boots = 0
        self.net.processes = {
            CLOUD: Process(),
            ROSTER: Process(),
            **{("device", k): Process() for k in range(n_clients)},
        }
        for at_s, what in plan.faults:
            self.net.at(at_s, Fault(what))

    # Life of a federation

    def run(self) -> None:
        """Until it ends; Stuck if it does not."""
        self._enter(first=True)
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
        match event:
            case Deliver(envelope):
                self._deliver(envelope)
            case Retry():
                self._aim(event.key)
                self.net.retry(event)
            case Local(owner, boot, what, body):
                process = self.net.processes.get(owner)
                if process is None or process.boot != boot:
                    return
                if not process.up:
                    self.net.at(process.up_at_s, event)
                else:
                    self._act(owner, what, body)
            case Fault(what):
                self._fault(what)
            case Up(who, boot):
                self._up(who, boot)

    def _enter(self, first: bool = False) -> None:
        """A cloud round begins: clients may have moved, groups may be others."""
        federation, plan = self.federation, self.plan
        left = [] if first or plan.wander else self._shuffle()
        if first or not plan.wander:
            stays = federation.regroup(plan.topology())
            attendance = self._look()
            self.log.append(("regroup", [e.aggregators.tolist() for e in federation.edges], stays, attendance, first))
            if not stays:
                self._new_edges()
            self.laws.regrouped(stays)
            self.laws.moved()
            federation.enter(self.attendance)
            self.log.append(("enter", attendance))
            self._leave(left)
            for edge in federation.edges:
                self._tell(edge, Moved(self.net.now_s, self.attendance))
            self._wake()
        begun = federation.begin(plan.cloud.reports_of_each(None, plan.edge_rounds))
        self.log.append(("begin",))
        self._perform(begun)

    def _look(self) -> int:
        """Note who is where; the number of the note."""
        self.attendance = self.plan.attendance()
        self.log.append(("look", self.attendance.topology.cover.tolist(), self.attendance.group_of.tolist()))
        self._note_of[id(self.attendance)] = len(self._kept)
        self._kept.append(self.attendance)
        return len(self._kept) - 1

    def _new_edges(self) -> None:
        """Groups are others: each is a process of its own."""
        for who in [who for who in self.net.processes if who[0] == "edge"]:
            self.net.forget(who)
            del self.net.processes[who]
        self._boots += 1000
        for edge in self.federation.edges:
            self.net.processes["edge", edge.group] = Process(boot=self._boots)
            self.known[CLOUD, ("edge", edge.group)] = self._boots
        self.memos, self.sent_reports, self.woken = {}, {}, set()
        for (client, ticket), (sender, steps, start) in self._orders().items():
            self._order(sender, client, ticket, steps, start)

    def _orders(self) -> dict:
        """Work under way whose order was the business of a group that is no more: those that have its client repeat it."""
        found = {}
        for flight in self.federation.flights():
            for (client, ticket), arrives_s in zip(flight.names, flight.arrives_s.tolist()):
                group = int(self.federation.roster.group_of[client])
                if np.isinf(arrives_s) and group >= 0:
                    found[client, ticket] = (group, self.steps[client, ticket], self.starts[client, ticket])
        return found

    def _after_report(self) -> None:
        """A cloud round is over when nothing is due; the federation, when the cloud has merged often enough."""
        cloud = self.cloud
        if cloud.due > 0 or self.told is not None:
            return
        late = [name for flight in self.federation.roster.late for name in flight.names]
        self._perform(self.plan.cloud.finish(cloud))
        if len(late) and not self.federation.roster.late:
            self.laws.excuse(late)
        if cloud.version >= self.plan.versions:
            self.over = True
        else:
            self._enter()

    # What processes do

    def _perform(self, actions: list) -> None:
        net = self.net
        for action in actions:
            match action:
                case Ready(i, at_s):
                    net.later(("edge", i), at_s, "open")
                case Send():
                    self._send(action)
                case Wake(i, at_s, edge_round):
                    net.later(("edge", i), at_s, "due", edge_round)
                case Again(i, lead):
                    net.later(ROSTER, net.now_s, "again", lead)
                case Merge():
                    self._merge(action)
                case RoundOver(i, _):
                    self.log.append(("round over", i))
                    self.laws.round_over(i)
                case Report(i, at_s, _, ticket):
                    edge = self.federation.edges[i]
                    models = {n: self.edges[n] for n in edge.aggregators.tolist()}
                    said = Said(edge.contributed.copy(), edge.contributed_last.copy())
                    self.sent_reports[i] = (ticket, models, said)
                    self.log.append(("report", i, ticket, edge.aggregators.tolist()))
                    net.later(("edge", i), at_s, "report", ticket)
                case Asleep(i):
                    net.later(CLOUD, net.now_s, "asleep", i)
                case Down(i, ticket):
                    edge = self.federation.edges[i]
                    memo = self.cloud.memo(i)
                    assert memo.ticket == ticket
                    self.log.append(("order", i, self.cloud.version))
                    to = ("edge", i)
                    net.insist(("down", i), "down", CLOUD, to, (i, memo, self.model), self.known[CLOUD, to])
                case CloudMerge():
                    self._merge_cloud(action)
                case Score(version):
                    accuracy = (version * 37 % 11) / 11
                    self._perform(self.plan.cloud.scored(self.cloud, version, accuracy, net.now_s))
                case _:
                    raise AssertionError(action)

    def _tell(self, edge: object, event: EdgeEvent) -> None:
        """Tell an edge, or, if it is down, as soon as it is up."""
        process = self.net.processes["edge", edge.group]
        if process.up and not process.blank:
            self._perform(self.federation.edges[edge.group].handle(event))
        elif not process.blank:
            self.net.later(("edge", edge.group), process.up_at_s, "tell", event)

    def _act(self, owner: tuple, what: str, body: object) -> None:
        """What a process had set itself to do."""
        federation, net, i = self.federation, self.net, owner[1]
        if owner[0] == "edge" and net.processes[owner].blank:
            if what == "up":
                net.insist(("hello", i), "hello", owner, CLOUD, i)
            return
        match what:
            case "open":
                self.log.append(("open", i))
                self._tell(federation.edges[i], Open(net.now_s, federation.next_index(i) - 1, self.attendance))
            case "due":
                self._tell(federation.edges[i], Due(net.now_s, body))
            case "tell":
                self._tell(federation.edges[i], body)
            case "report":
                self._repeat_report(i)
            case "again":
                self._again(body)
            case "asleep":
                if self.told is None:  # else it will see for itself
                    self._perform(self.plan.cloud.fell_asleep(self.cloud))
            case "wake":
                group, boot = body
                if self.told is not None or not net.processes[CLOUD].up:
                    net.later(ROSTER, net.now_s + 1.0, what, body)
                elif self._boot(("edge", group)) == boot and group in self.woken:
                    newer = self.cloud.out.get(group, 0) > (federation.edges[group].ticket or 0)  # it is on its way
                    self._perform([] if newer else self.cloud.down(group))
            case "done":
                self._trained(i, body)
            case "up":
                self._wake()
            case "who":
                for edge in federation.edges:
                    net.insist(("who", edge.group), "who", CLOUD, ("edge", edge.group), None)
            case _:
                raise AssertionError(what)

    def _again(self, lead: int) -> None:
        roster = self.federation.roster
        flight = roster.working.get(lead)
        if flight is None or np.isinf(flight.arrives_s).any():
            return
        if not self._listen({int(g) for g in roster.group_of[flight.client] if g >= 0}):
            self.net.later(ROSTER, self.net.now_s + 0.5, "again", lead)
            return
        for edge, event in self.federation.arrived(lead, self.net.now_s):
            self._tell(edge, event)

    def _listen(self, groups: set[int]) -> bool:
        """Whether these groups are all up."""
        found = [self.net.processes["edge", i] for i in groups]
        return all(process.up and not process.blank for process in found)

    def _send(self, action: Send) -> None:
        edge = self.federation.edges[action.group]
        self.federation.devices.leave(action.client, action.steps, edge.n_rounds)
        names = [name for part in action.parts for name in part.names]
        steps = dict(zip(action.client.tolist(), action.steps.tolist()))
        for client, ticket in names:
            cover = np.flatnonzero(edge.here.topology.cover[:, client]).tolist()
            start = sum((self.edges[n] / len(cover) for n in cover[1:]), self.edges[cover[0]] / len(cover))
            self.starts[client, ticket], self.steps[client, ticket] = start, steps[client]
            self._order(action.group, client, ticket, steps[client], start)
        hosts = [host for part in action.parts for host in part.host.tolist()]
        self.laws.sent(dict(zip(names, hosts)))
        self.log.append(("send", action.group, names, [steps[k] for k, _ in names], self._note_of[id(edge.here)]))
        m = len(action.client)
        event = OnTheWay(self.net.now_s, action.parts[0], np.full(m, np.nan), np.zeros(m, dtype=np.bool_))
        self._tell(edge, event)

    def _order(self, group: int, client: int, ticket: int, steps: int, start: np.ndarray) -> None:
        key, to = ("order", client, ticket), ("device", client)
        self.net.insist(key, "order", ("edge", group), to, (group, ticket, steps, start))

    def _merge(self, action: Merge) -> None:
        edge = self.federation.edges[action.group]
        self.laws.merging(action)
        for part in action.parts:
            names = [name for flight in part.flights for name in flight.names]
            weights, model = part.weights, part.weights.own * self.edges[part.aggregator]
            for name, weight in zip(names, weights.model.tolist()):
                model = model + weight * self.here[name]
            if weights.start is not None:
                for name, weight in zip(names, weights.start.tolist()):
                    model = model + weight * self.starts[name]
            self.edges[part.aggregator] = model
            ages, where = part.arrivals.staleness.tolist(), self._note_of[id(edge.here)]
            self.log.append(("merge", action.group, part.aggregator, names, ages, where, model.tolist()))
        self.log.append(("merged", action.group))

    def _merge_cloud(self, action: CloudMerge) -> None:
        self.laws.merging_cloud(action)
        model = action.weights.own * self.models[self.model]
        for weight, reported in zip(action.weights.edge.tolist(), self.reported):
            model = model + weight * reported
        self.models.append(model)
        self.laws.new_model(self.model, len(self.models) - 1)
        self.model = len(self.models) - 1
        fresh = np.flatnonzero(action.reports.fresh).tolist()
        self.log.append(("cloud merge", fresh, self._note_of[id(self.cloud.attendance)], self.model, model.tolist()))

    # Letters

    def _aim(self, key: tuple) -> None:
        """An update is sent to the edge that its client is with."""
        if key[0] == "update" and self.net.insists(key):
            serial, envelope = self.net._outbox[key]
            group = int(self.federation.roster.group_of[key[1]])
            self.net._outbox[key] = (serial, envelope._replace(to=("edge", group)))

    def _deliver(self, envelope: Envelope) -> None:
        kind, sender, from_boot, to, to_boot, body = envelope
        process = self.net.processes.get(to)
        if process is None or not process.up or to_boot not in (-1, process.boot):
            return
        if from_boot < self.known.get((to, sender), -1):
            return  # of an earlier life of its sender
        match kind:
            case "order":
                self._ordered(to[1], *body)
            case "update":
                self._updated(to, *body)
            case "taken":
                self.devices[to[1]].accepted(body)
                if not self.devices[to[1]].owes:
                    self.net.settle(("update", to[1]))
            case "down":
                self._down(to, process, *body)
            case "got":
                if self.cloud.out.get(sender[1]) == body or self.cloud.settled.get(sender[1], 0) >= body:
                    self._settle_down(sender[1], body)
            case "report":
                self._report(sender, *body)
            case "heard":
                if self.sent_reports.get(to[1], (None,))[0] == body:
                    self.net.settle(("report", to[1]))
            case "hello":
                self._hello(sender, from_boot)
            case "welcome":
                self.net.settle(("hello", to[1]))
            case "who":
                self.known[to, CLOUD] = from_boot
                body = (None if process.blank else self.memos.get(to[1]), to[1] in self.woken)
                self.net.post("told", to, CLOUD, body, self._boot(CLOUD))
                self._repeat_report(to[1])
            case "told":
                self._told(sender, from_boot, *body)
            case _:
                raise AssertionError(kind)

    def _boot(self, who: tuple) -> int:
        return self.net.processes[who].boot

    def _settle_down(self, group: int, ticket: int) -> None:
        found = self.net._outbox.get(("down", group))
        if found is not None and found[1].body[1].ticket <= ticket:
            self.net.settle(("down", group))

    def _ordered(self, client: int, group: int, ticket: int, steps: int, start: np.ndarray) -> None:
        """A device is told to work."""
        if self.plan.home[client] < 0:
            return
        if self.devices[client].ordered(ticket):
            self.jobs[client] = (ticket, steps, start)
            self.net.settle(("update", client))
            slow = self.chance.choice([0.3, 1.0, 1.0, 3.0, 8.0])
            seconds = steps * float(self.plan.step_s[client]) * slow
            self.net.later(("device", client), self.net.now_s + seconds, "done", ticket)

    def _trained(self, client: int, ticket: int) -> None:
        """A device has done its work; it delivers it until somebody has it."""
        device = self.devices[client]
        device.finished(ticket)
        if device.owes and ticket == device.ticket:
            ticket, steps, start = self.jobs[client]
            self.results[client] = trained(start, client, ticket, steps)
            self._offer(client)

    def _offer(self, client: int) -> None:
        group, ticket = int(self.federation.roster.group_of[client]), self.devices[client].ticket
        body = (client, ticket, self.results[client])
        self.net.insist(("update", client), "update", ("device", client), ("edge", group), body)

    def _updated(self, to: tuple, client: int, ticket: int, model: np.ndarray) -> None:
        """An update reaches an edge. Whoever is concerned must be up, else nobody takes it, and it is sent again."""
        federation, name = self.federation, (client, ticket)
        concerned = {e.group for e in federation.edges if e.on_time is not None and name in e.on_time.names}
        concerned = concerned or {int(federation.roster.group_of[client])} - {-1}
        for flight in federation.roster.working.values():
            if name in flight.names:
                concerned |= {int(g) for g in federation.roster.group_of[flight.client] if g >= 0}
        if not self._listen(concerned):
            return
        self.here.setdefault(name, model)
        self.laws.arrived(name)
        for edge, event in federation.delivered(np.array([client]), np.array([ticket]), self.net.now_s):
            self._tell(edge, event)
        self.net.settle(("order", client, ticket))
        self.net.post("taken", to, ("device", client), ticket)

    def _down(self, to: tuple, process: Process, group: int, memo: object, model: int) -> None:
        """The cloud's order reaches an edge."""
        net, edge = self.net, self.federation.edges[group]
        net.post("got", to, CLOUD, memo.ticket)
        net.settle(("hello", group))
        if edge.ticket is None or memo.ticket > edge.ticket:
            self.memos[group] = (memo, model)
            self.woken.discard(group)
            self.sent_reports.pop(group, None)
            net.settle(("report", group))
            if self.plan.cloud.exists:
                for n in edge.aggregators.tolist():
                    self.edges[n] = self.models[model]
                self.log.append(("down", edge.aggregators.tolist(), model))
        begin = Begin(net.now_s, self.plan.edge_rounds, self.plan.units, ticket=memo.ticket)
        self._tell(edge, begin)

    def _repeat_report(self, group: int) -> None:
        if group in self.sent_reports and not self.net.processes["edge", group].blank:
            self.net.insist(("report", group), "report", ("edge", group), CLOUD, self.sent_reports[group])

    def _report(self, sender: tuple, ticket: int, models: dict, said: Said) -> None:
        """A report reaches the cloud."""
        if self.told is not None:
            return  # it does not know yet what it waits for
        group = sender[1]
        self.net.post("heard", CLOUD, sender, ticket)
        if self.cloud.out.get(group) == ticket:
            self.net.settle(("down", group))
            for n, model in models.items():
                self.reported[n] = model
            self.log.append(("accepted", group, ticket))
            self.laws.reported(group, ticket)
        n_reports = self.cloud.n_reports.sum()
        self._perform(self.cloud.reported(group, self.net.now_s, ticket, said))
        if self.cloud.n_reports.sum() > n_reports:
            self._after_report()

    def _hello(self, sender: tuple, boot: int) -> None:
        """An edge has lost its state, and the cloud hears of it."""
        if self.told is None:
            self.net.post("welcome", CLOUD, sender, None, boot)
            if self.known.get((CLOUD, sender), -1) < boot:
                self._restart(sender, boot)

    def _restart(self, sender: tuple, boot: int) -> None:
        self.known[CLOUD, sender] = boot
        self.net.processes[sender].blank &= self._boot(sender) != boot  # it may have lost its state again
        group = sender[1]
        before = self.laws.held()
        edge = self.federation.edges[group]
        self.log.append(("restarted", group))
        for n in edge.aggregators.tolist():
            self.edges[n] = self.models[0]
        told, actions = self.federation.restarted(group, self.net.now_s)
        self.laws.restarted(group, before)
        for edge, event in told:
            self._tell(edge, event)
        for action in actions:
            if self.told is None or isinstance(action, Again):  # else it is told when the cloud knows what
                self._perform([action])

    def _told(self, sender: tuple, boot: int, memo: tuple | None, woken: bool) -> None:
        """A cloud that has lost its state is told by an edge what it was last sent."""
        if self.told is None:
            return
        self.told[sender[1]] = (boot, memo, woken)
        for group in self.told:
            self.net.settle(("who", group))
        if len(self.told) < len(self.federation.edges):
            return
        answers = self.told
        known = [memo for _, memo, _ in answers.values() if memo is not None]
        wait = {i for i, (_, _, woken) in answers.items() if woken}
        memos = [None if answers[i][1] is None else answers[i][1][0] for i in range(len(answers))]
        self.model = max(known, key=lambda memo: memo[0].version, default=(None, 0))[1]
        self.net.processes[CLOUD].blank = False
        for i, (boot, memo, _) in answers.items():
            if memo is None and self.known.get((CLOUD, ("edge", i)), -1) < boot:
                self._restart(("edge", i), boot)
            self.known[CLOUD, ("edge", i)] = boot
        self.told = None
        actions = self.cloud.recover(memos, wait)
        newest = max((m for m in memos if m is not None), key=lambda m: m.version, default=None)
        settled = {} if newest is None else newest.settled
        fetched = [
            self.cloud.version if m is None or i in wait or m.ticket <= settled.get(i, 0) else m.version
            for i, m in enumerate(memos)
        ]
        self.log.append(("recovered", self.model, self.cloud.version, fetched))
        if not self.plan.cloud.waits:
            self.cloud.due = max(self.plan.versions - self.cloud.version, 0)
        self.laws.recovered(memos)
        self._perform(actions)
        self._after_report()

    # Faults

    def _fault(self, what: str) -> None:
        chance, processes = self.chance, self.net.processes
        if what == "move":
            self._move()
            return
        role, state = what.split()
        who = chance.choice(sorted(who for who in processes if who[0] == role))
        process = processes[who]
        if not process.up:
            return
        process.up, process.up_at_s = False, self.net.now_s + chance.uniform(0.0, 10.0)
        if state == "lost":
            self._lose(who, process)
        else:
            self._restore(who)
        self.net.at(process.up_at_s, Up(who, process.boot))

    def _restore(self, who: tuple) -> None:
        """Its state is kept: a copy of it goes on."""
        federation = self.federation
        shared = [federation.roster, federation.terms, self.plan.edge, self.plan.cloud, *self._kept]
        shared += [federation.edges, *federation.edges] if who == CLOUD else []
        memo = {id(thing): thing for thing in shared}
        if who[0] == "edge":
            federation.edges[who[1]] = copy.deepcopy(federation.edges[who[1]], memo)
        elif who == CLOUD:
            self.cloud = federation.cloud = copy.deepcopy(self.cloud, memo)
        else:
            self.devices[who[1]] = copy.deepcopy(self.devices[who[1]])

    def _lose(self, who: tuple, process: Process) -> None:
        process.boot += 1
        self.net.forget(who)
        if who[0] == "device":
            self.devices[who[1]] = Device()
        else:
            process.blank = True
        if who[0] == "edge":
            self.memos.pop(who[1], None)
            self.woken.discard(who[1])
            self.sent_reports.pop(who[1], None)
        if who == CLOUD:
            self.told = {}
            self.cloud.forget()
            self.laws.lost_reports()
            self.reported = [self.models[0]] * len(self.reported)

    def _up(self, who: tuple, boot: int) -> None:
        process = self.net.processes.get(who)
        if process is None or process.boot != boot or process.up:
            return
        process.up = True
        if who == CLOUD and process.blank:
            self._act(CLOUD, "who", None)
        elif who[0] == "edge":
            self._act(who, "up", None)

    # Moves

    def _move(self) -> None:
        """A client goes elsewhere, leaves, or comes back. The first never leaves."""
        client = self.chance.randrange(len(self.plan.home))
        here = self.chance.random() < 0.8 or client == 0
        self.plan.home[client] = self.chance.randrange(len(self.plan.host)) if here else -1
        note = self._look()
        self.federation.move(self.attendance)
        self.log.append(("move", note))
        self.laws.moved()
        self._leave([] if here else [client])
        for edge in self.federation.edges:
            self._tell(edge, Moved(self.net.now_s, self.attendance))
        self._wake()
        self._returned(client)

    def _shuffle(self) -> list[int]:
        """Between cloud rounds clients may move, leave or come back; those who left."""
        left = []
        for client in range(len(self.plan.home)):
            if self.chance.random() < 0.15:
                here = self.chance.random() < 0.8 or client == 0
                self.plan.home[client] = self.chance.randrange(len(self.plan.host)) if here else -1
                left += [] if here else [client]
        return left

    def _leave(self, clients: list[int]) -> None:
        """Clients have left: nobody waits for them."""
        before = self.laws.held()
        for client in clients:
            self.net.settle(("update", client))
            for key in [key for key in self.net.insisting() if key[:2] == ("order", client)]:
                self.net.settle(key)
        if clients:
            told, actions = self.federation.gone(np.array(clients), self.net.now_s)
            for edge, event in told:
                self._tell(edge, event)
            self._perform(actions)
            self.laws.excuse({name for name in before - self.laws.held() if name[0] in clients})

    def _returned(self, client: int) -> None:
        if self.plan.home[client] >= 0 and self.devices[client].owes:
            self._offer(client)

    def _wake(self) -> None:
        """Groups that had nobody go on, if somebody has come."""
        if self.plan.cloud.waits:
            return
        up = [edge for edge in self.federation.edges if self._listen({edge.group})]
        for edge in self.federation.woken(self.attendance, up):
            if 0 < edge.rounds_left < self.plan.edge_rounds:
                self.net.later(("edge", edge.group), self.net.now_s, "open")
            else:
                self.woken.add(edge.group)
                self.net.later(ROSTER, self.net.now_s, "wake", (edge.group, self._boot(("edge", edge.group))))
