"""Predicted beside measured: of every job the seconds to fetch, train and send, and until the update was there; and bytes.

What is predicted is what the simulator's clock counts for the job. The first edge round after the cloud has handed down its
models is longer by their way to the station, which the simulator counts before the round; here they go while it is open.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from fedloom.deployment.journal import Journal
from fedloom.simulator.timeline import Sent

Job = tuple[int, int]


@dataclass(eq=False, kw_only=True)
class Line:
    """A client that was sent to work; `send`: with whom together. Seconds, predicted and measured; None: not measured. hand_s: of
    the cloud's model to the station, which it has to wait for. all_s: until the update was there. joules: by its own meter."""

    cloud_round: int
    edge_round: int
    send: int
    client: int
    aggregator: int
    steps: int
    start_s: float
    predicted_hand_s: float
    predicted_fetch_s: float
    predicted_train_s: float
    predicted_send_s: float
    predicted_all_s: float
    fetch_s: float | None = None
    train_s: float | None = None
    send_s: float | None = None
    all_s: float | None = None
    joules: float | None = None


class Measured:
    """Jobs by (client, ticket). Arrivals in the timeline become what was measured."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.lines: dict[Job, Line] = {}
        self._open: dict[Job, tuple[Sent, int]] = {}
        self._hand_s: dict[int, float] = {}
        self._sends: list[Sent] = []

    def handed_down(self, group: int, predicted_s: float) -> None:
        """The cloud's models go to a group: its next round waits for them."""
        self._hand_s[group] = predicted_s

    def sent(self, job: Job, group: int, sent: Sent, j: int, steps: int) -> None:
        """A client goes to work: note what was predicted, and that nobody knows when it is back."""
        if not self._sends or self._sends[-1] is not sent:
            self._sends.append(sent)
            self._this_hand_s = self._hand_s.pop(group, 0.0)
        self.lines[job] = Line(
            cloud_round=sent.cloud_round,
            edge_round=sent.edge_round,
            send=len(self._sends) - 1,
            client=job[0],
            aggregator=int(sent.aggregator[j]),
            steps=steps,
            start_s=sent.start_s,
            predicted_hand_s=self._this_hand_s,
            predicted_fetch_s=float(sent.fetch_s[j]),
            predicted_train_s=float(sent.compute_s[j]),
            predicted_send_s=float(sent.upload_s[j]),
            predicted_all_s=self._this_hand_s + float(sent.arrival_s[j]) - sent.start_s,
        )
        self._open[job] = sent, j
        sent.arrival_s[j], sent.late[j] = float("nan"), False

    def delivered(self, job: Job, at_s: float) -> None:
        """Its update is there."""
        if job in self._open:
            sent, j = self._open.pop(job)
            line, took = self.lines[job], self._journal.took.get(job)
            sent.arrival_s[j], line.all_s = at_s, at_s - line.start_s
            if took is not None:
                line.fetch_s, line.train_s, line.send_s, line.joules = took[:4]

    def report(
        self,
        *,
        counted_bytes: int,
        carried_bytes: int,
        coded: Mapping[str, Mapping[str, int]] | None,
        hops: list[dict[str, Any]],
        wire: Mapping[str, int] | None,
    ) -> dict[str, Any]:
        """As JSON. counted_bytes: of a model by the scenario; carried_bytes: of its values; coded: both of what goes up and what
        goes down of one, if that is coded. hops: the ledger, predicted and measured. wire: bytes that every node has sent with
        all headers, where links were shaped."""
        names = [field.name for field in fields(Line)]
        rows = [asdict(line) for line in self.lines.values()]
        carried = [
            {"node": node, "called": to, **dict(zip(("values_sent", "values_got", "letters_sent", "letters_got"), n))}
            for (node, to), n in sorted(self._journal.carried.items())
        ]
        return {
            "model": {"counted_bytes": counted_bytes, "carried_bytes": carried_bytes, "coded": coded},
            "jobs": {name: [row[name] for row in rows] for name in names},
            "hops": hops,
            "carried": carried,
            "wire": None if wire is None else [{"node": node, "bytes": n} for node, n in wire.items()],
        }
