"""What secure aggregation adds to the costs of a run (fedloom.privacy.secure_aggregation): on clock and ledger, and as counts.

Costs only: models are merged as without it. The clients of an aggregator that are sent to work together are a cluster. Messages
of each of the first three rounds wait for the slowest client of the cluster, so that every update comes later by the sum of these
times; who has several aggregators waits for the slowest of them. What opens the sum is sent when the updates are there, and is
booked, not waited for. What makes an update wider is billed as a message of its own. Clients whose update is lost or late have
dropped out: it could not be opened any more. m clients are sent.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.mixing import Linear
from fedloom.privacy.secure_aggregation import ROUNDS, Pairwise
from fedloom.simulator.exchange import Exchange, Way, exchange
from fedloom.simulator.ledger import Bill, Ledger, Note, Shares
from fedloom.simulator.scene import Extra, Scene

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
LEAST = 2  # clients that can hide behind each other


class Masking:
    """n_values: of a model. So far: rounds of messages, n_gone: clients that dropped out, n_closed: sums that did not open;
    n_bytes, joules and server_s of masks."""

    def __init__(self, secure: Pairwise, n_values: int) -> None:
        self._secure, self._n_values = secure, n_values
        self.rounds = self.n_gone = self.n_closed = self.n_bytes = 0
        self.joules = self.server_s = 0.0

    def before(self, scene: Scene, clients: Ints) -> Extra:
        """Keys, shares and wider updates of clients (m,) that are sent together."""
        compute_s, wait_s, entries = np.zeros(len(clients)), np.zeros(len(clients)), list[Bill]()
        for n, mine in _clusters(scene, clients):
            m, total_s = len(mine), 0.0
            cost = partial(_ways, scene, n, clients[mine])
            for number, (up, down) in enumerate(self._secure.before(m, self._n_values)):
                ways = cost(8.0 * up, 8.0 * down)
                total_s += _slowest(ways.client_up, clients[mine]) + _slowest(ways.client_down, clients[mine])
                entries += _bills(ways.client_up, clients[mine], up, each=True)
                entries += _bills(ways.client_down, clients[mine], down, each=number == 1)
            compute_s[mine] += self._secure.client_s(m, self._n_values)
            wait_s[mine] = np.maximum(wait_s[mine], total_s)
        return Extra(compute_s, wait_s, entries)

    def note(self, scene: Scene, clients: Ints, gone: Mask, extra: Extra, ledger: Ledger) -> None:
        """Clients (m,) were sent, of whom some are gone (m,): unmasking is booked, and all is counted."""
        clusters, entries = list(_clusters(scene, clients)), list[Bill | Note]()
        self.rounds += ROUNDS * len(clusters)
        for n, mine in clusters:
            there, m = mine[~gone[mine]], len(mine)
            self.n_gone += m - len(there)
            self.n_closed += not self._secure.opens(len(there), m)
            server_s = self._secure.server_s(len(there), m - len(there), self._n_values)
            self.server_s += server_s
            size = self._secure.unmasking(m)
            entries += _bills(
                _ways(scene, n, clients[there], 8.0 * size, 0.0).client_up, clients[there], size, each=True
            )
            if scene.topology.kind == "head":  # a device, whose work is paid for
                joules = server_s * scene.snapshot.compute_power_w
                ledger.compute(server_s, joules)
                entries.append(Note(Shares.of(np.array([n]), airtime_s=server_s, energy_j=joules)))
                self.joules += joules
        ledger.pay(entries)
        sent = [bill for bill in (*extra.entries, *entries) if isinstance(bill, Bill)]
        self.n_bytes += sum(bill.n_bytes for bill in sent)
        self.joules += (
            sum(bill.energy_j for bill in sent) + float(extra.compute_s.sum()) * scene.snapshot.compute_power_w
        )

    @property
    def counts(self) -> dict[str, float]:
        """For the metrics."""
        return {
            "mask_rounds": self.rounds,
            "mask_dropouts": self.n_gone,
            "mask_closed": self.n_closed,
            "mask_bytes": self.n_bytes,
            "mask_j": self.joules,
            "mask_server_s": self.server_s,
        }


def check_masking(method: Method, *, deployed: bool = False) -> None:
    """Refuse what goes with no masks: updates that are looked at one by one, or coded, or merged one by one."""
    if not isinstance(method.merge_edge, Linear):
        raise ValueError(
            f"secure_aggregation hides every single update, and {method.name} merges by a rule that looks at them (a robust "
            "merge, a screen, noise at aggregators); leave one of them out"
        )
    if method.coding.codes_up:
        raise ValueError(
            f"secure_aggregation adds masks to whole values, and {method.name} sends them coded; leave up out"
        )
    if method.edge.at_once:
        raise ValueError(
            f"secure_aggregation adds up a cluster, and {method.name} merges clients one by one; take edge rounds"
        )
    if deployed:
        raise ValueError("secure_aggregation counts costs, in simulations only; leave it out to deploy the scenario")


def _clusters(scene: Scene, clients: Ints) -> Iterator[tuple[int, Ints]]:
    """Aggregators, and which of the clients (m,) are theirs, where there are at least two."""
    cover = scene.topology.cover[:, clients]
    for n in np.flatnonzero(cover.sum(axis=1) >= LEAST).tolist():
        yield n, np.flatnonzero(cover[n])


def _ways(scene: Scene, n: int, members: Ints, up_bits: float, down_bits: float) -> Exchange:
    """Of messages between an aggregator and some of its clients, and no others."""
    topology = scene.topology
    cover = np.zeros_like(topology.cover)
    cover[n, members] = True
    if topology.kind == "head":
        cover[n, topology.host[n]] = True
    alone = Topology(cover=cover, kind=topology.kind, host=topology.host)
    return exchange(scene.snapshot, alone, up_bits, down_bits=down_bits)


def _slowest(way: Way, clients: Ints) -> float:
    """Seconds; who has no link is not waited for."""
    seconds = way.seconds[clients]
    return float(seconds[np.isfinite(seconds)].max(initial=0.0))


def _bills(way: Way, clients: Ints, n_bytes: int, *, each: bool) -> list[Bill]:
    """Messages that are no models; each: every client has one of its own, so that none is broadcast."""
    if not len(clients):
        return []
    legs = tuple(replace(leg, broadcast=leg.broadcast and not each) for leg in way.legs)
    return [_no_model(bill) for bill in replace(way, legs=legs).bills(clients, n_bytes)]


def _no_model(bill: Bill) -> Bill:
    shares = bill.shares
    if shares is not None:
        amounts = shares.amounts.copy()
        amounts[0] = 0.0
        shares = replace(shares, amounts=amounts)
    return replace(bill, n_links=0, n_parties=0, shares=shares)
