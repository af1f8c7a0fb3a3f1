"""When rounds must open, close and report, and how far aggregators may run ahead: checked against what was ordered."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedloom.protocol.messages import Action, Down, Merge, Part, Report, Send, Wake

from .laws import Name, must

if TYPE_CHECKING:
    from .driver import Run

TIE_S = 1e-6  # seconds: what is this close together happens at the same time


class ScheduleLaws:
    """awaited: by group, those that were sent in its open round. By group, too: when it was ordered to begin, and rounds since;
    by group and round: when it wanted to be woken."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.awaited: dict[int, set[Name]] = {}
        self._begun_s: dict[int, float] = {}
        self._n_rounds: dict[int, int] = {}
        self._alarm_s: dict[tuple[int, int], float] = {}
        self._gone: set[Name] = set()
        self._last_job: dict[tuple[int, int], int] = {}

    def begun(self, group: int) -> None:
        """A group begins what the cloud has ordered."""
        self._begun_s[group], self._n_rounds[group] = self.run.net.now_s, 0

    def alarm(self, action: Wake) -> None:
        """A group wants to be woken."""
        self._alarm_s[action.group, action.edge_round] = action.at_s

    def sent(self, action: Send) -> None:
        """In rounds: as many as are to be sampled, of those who have nothing to do."""
        if self.run.plan.edge.at_once:
            return
        self.awaited[action.group] = {name for part in action.parts for name in part.names}
        members = self.run.federation.edges[action.group].members
        idle = len(set(members.tolist()) - {client for client, _ in self._away()})
        share = max(1, round(self.run.plan.terms.participation * len(members)))
        found = len(action.client)
        self._must(found == min(idle, share), f"group {action.group} sends {found} of {idle} idle, and should {share}")

    def works(self, client: int, boot: int, ticket: int) -> None:
        """A device begins a job: in one life no job twice, and none that a later one has overtaken."""
        last = self._last_job.get((client, boot), -1)
        self._must(ticket > last, f"device {client} begins job {ticket} after job {last}")
        self._last_job[client, boot] = ticket

    def merging(self, action: Merge) -> None:
        """An update is merged by those who sent it in this round, or else where its client is; if moves lose updates, on the
        host that it was sent from."""
        run, group = self.run, action.group
        ages = {name: age for part in action.parts for name, age in ages_of(part).items()}
        names = set(ages)
        late = names - self.awaited.get(group, set())
        astray = sorted(name for name in late if run.federation.roster.group_of[name[0]] != group)
        self._must(not astray, f"{astray} are merged by group {group}, and their clients are elsewhere")
        if run.plan.wander and not run.plan.edge.at_once:  # groups are in different rounds
            new = sorted(name for name in late if ages[name] < 1)
            self._must(not new, f"{new} are merged late in a round that is not after the one they were sent in")
        if run.plan.edge.lost_on_move:
            hosts = run.federation.topology.host[run.federation.edges[group].aggregators].tolist()
            moved = sorted(name for name in names if run.laws.sent_from[name] not in hosts)
            self._must(not moved, f"{moved} are merged on hosts {hosts} though moves lose them")

    def round_over(self, group: int, n_rounds: int) -> None:
        """A round is over when nobody is missing, or at its time."""
        missing = self.awaited.pop(group, set()) & self._away()
        alarm_s = self._alarm_s.get((group, n_rounds - 1), np.inf)
        early = missing and self.run.net.now_s < alarm_s - TIE_S
        self._must(not early, f"group {group} did not wait for {sorted(missing)} until {alarm_s:.3f} s")
        self._n_rounds[group] += 1

    def reporting(self, action: Report) -> None:
        """A group reports after as many rounds as were ordered, or when its time box is over."""
        plan, group = self.run.plan, action.group
        if plan.edge.box_s is None:
            found = self._n_rounds[group]
            self._must(found == plan.edge_rounds, f"group {group} reports after {found} of {plan.edge_rounds} rounds")
        else:
            over_s = self._begun_s[group] + plan.edge.box_s
            self._must(
                action.at_s >= over_s - TIE_S, f"group {group} reports at {action.at_s:.3f} s, not {over_s:.3f} s"
            )

    def ordering(self, actions: Sequence[Action]) -> None:
        """Who may go on does not run too far ahead of those at work."""
        cloud = self.run.cloud
        on = {action.group for action in actions if isinstance(action, Down)}
        if cloud.bound is None or not on:
            return
        working = [edge for edge in cloud.edges if edge.group in cloud.out.keys() - on and not edge.asleep]
        oldest = min((int(cloud.fetched[edge.aggregators].min()) for edge in working), default=cloud.version)
        ahead = cloud.version - oldest
        self._must(ahead <= cloud.bound.s_max, f"groups {sorted(on)} go on {ahead} ahead of {cloud.bound.s_max}")

    def late_dropped(self) -> None:
        """Where the cloud drops what is late, nothing is late when it has merged."""
        late = [name for flight in self.run.federation.roster.late for name in flight.names]
        self._must(not (late and self.run.plan.drops_late), f"{late} are late after the cloud has merged")

    def regrouped(self) -> None:
        """Nobody is waited for whose update goes elsewhere now."""
        edges = self.run.federation.edges
        now = {e.group: set(e.on_time.names) for e in edges if e.on_time is not None}
        self.awaited = {i: self.awaited.get(i, set()) & names for i, names in now.items()}

    def gone(self, clients: Sequence[int]) -> None:
        """Clients have left: nobody needs to wait for them, though groups that are down have not heard of it."""
        self._gone |= {name for name in self._away() if name[0] in clients}

    def restarted(self, group: int) -> None:
        """A group has lost what it had."""
        self.awaited.pop(group, None)

    def _away(self) -> set[Name]:
        """All updates that somebody waits for and that are not here."""
        return {
            name
            for flight in self.run.federation.flights()
            for name, arrives_s in zip(flight.names, flight.arrives_s.tolist())
            if np.isinf(arrives_s) and name not in self._gone
        }

    def _must(self, holds: bool, otherwise: str) -> None:
        must(self.run, holds, otherwise)


def ages_of(part: Part) -> dict[Name, int]:
    """By name, the age of each update that is merged."""
    names = [name for flight in part.flights for name in flight.names]
    return dict(zip(names, part.arrivals.staleness.tolist()))
