"""Table 1 of DDC by whose model is scored after how many rounds, neither of which is published."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.measures import DEVICES, HEADS, Values, final
from fedloom.reproduce.ddc.published import FEDAVG, ORDER, PROPOSED, ROUNDS, TABLE_1, TAU
from fedloom.reproduce.ddc.setups import LONG
from fedloom.reproduce.paper import Claim, Runs, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, spread

SERVER = "accuracy"
WHOSE = {SERVER: "the server's model", HEADS: "heads' models", DEVICES: "devices' models"}


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """What is scored: which column after how many local rounds, of clustered methods, and of FedAvg."""

    clustered: tuple[str, int]
    flat: tuple[str, int]

    @property
    def name(self) -> str:
        (whose, rounds), (of_flat, flat_rounds) = self.clustered, self.flat
        if self.clustered == self.flat:
            return f"{WHOSE[whose]}, {rounds} rounds"
        return f"{WHOSE[whose]}, {rounds} rounds; FedAvg {WHOSE[of_flat]}, {flat_rounds} rounds"

    def values(self, runs: Sequence[Run], name: str) -> Values:
        """Of the runs of the method of this name."""
        return final(runs, *(self.flat if name == FEDAVG else self.clustered))


SCORINGS = (
    *(Scoring(clustered=(w, t), flat=(w, t)) for w in WHOSE for t in (ROUNDS, LONG)),
    *(Scoring(clustered=(HEADS, t), flat=(DEVICES, t)) for t in (ROUNDS, LONG)),
    *(Scoring(clustered=(w, LONG), flat=(w, ROUNDS)) for w in WHOSE),  # as many global rounds of each
    Scoring(clustered=(HEADS, LONG), flat=(DEVICES, ROUNDS)),
)


def all_scored(runs: Sequence[Run]) -> bool:
    """Whether these runs have what all readings need."""
    return all(DEVICES in run.metrics.columns and run.metrics["cloud_round"][-1] * TAU[1] >= LONG for run in runs)


def scoring_claims(runs: Runs, data: str) -> list[Claim]:
    """Whether any reading gives the published accuracies, or at least their order and size. Of so many readings one may by
    chance, so these are not counted."""
    known = TABLE_1[data]
    near, order, ahead = [], [], []
    for scoring in SCORINGS:
        found = {m: scoring.values(runs[data, m], m) for m in known}
        parts = [verdicts.within(apart([known[m]] * len(v), v), -2, 2) for m, v in found.items()]
        near.append(Verdict(verdicts.worst(*parts), scoring.name, parts[0].n))
        parts = [verdicts.at_least(apart(found[worse], found[better]), 1e-9) for better, worse in ORDER]
        order.append(Verdict(verdicts.worst(*parts), scoring.name, parts[0].n))
        gap = apart(found[FEDAVG], found[PROPOSED])
        published = known[PROPOSED] - known[FEDAVG]
        v = verdicts.within(gap, published - 2, published + 2)
        ahead.append(Verdict(v.state, f"{scoring.name}: {v.measured}", v.n))
    n = len(SCORINGS)
    return [
        Claim(
            text=f"{data}: one of {n} readings gives all accuracies within 2 points",
            verdict=any_of(near),
            own=True,
        ),
        Claim(text=f"{data}: one of {n} readings gives the published order", verdict=any_of(order), own=True),
        Claim(
            text=f"{data}: one of {n} readings has {PROPOSED} ahead of {FEDAVG} by what is published, within 2 points",
            verdict=any_of(ahead),
            own=True,
        ),
    ]


def any_of(readings: Sequence[Verdict]) -> Verdict:
    """The state of a claim that holds if it does in one of its readings; measured: in which, or in how many it is undecided."""
    good = [v for v in readings if v.state == verdicts.HOLDS]
    open_ones = [v for v in readings if v.state == verdicts.OPEN]
    n = min(v.n for v in readings)
    if good:
        return Verdict(verdicts.HOLDS, "; ".join(v.measured for v in good), n)
    if open_ones:
        return Verdict(verdicts.OPEN, f"undecided in {len(open_ones)} of {len(readings)}", n)
    return Verdict(verdicts.FAILS, f"in none of {len(readings)}", n)


def scoring_table(runs: Runs) -> Table:
    """Every reading with its accuracies and how far they are from the published ones."""
    rows: list[tuple[str, ...]] = []
    for data in dict.fromkeys(label[0] for label in runs):
        known = TABLE_1[data]
        for scoring in SCORINGS:
            found = {m: scoring.values(runs[data, m], m) for m in known}
            most = max((abs(mean(v) - known[m]), m) for m, v in found.items())
            gap = apart(found[FEDAVG], found[PROPOSED])
            shown = (spread(v) for v in found.values())
            rows.append((f"{data}: {scoring.name}", *shown, spread(gap), f"{most[0]:.1f} ({most[1]})"))
        gap_text = f"{known[PROPOSED] - known[FEDAVG]:.1f}"
        rows.append((f"{data}, published", *(f"{v:.1f}" for v in known.values()), gap_text, "–"))
    columns = ("scored", *next(iter(TABLE_1.values())), f"{PROPOSED} – {FEDAVG}", "largest distance")
    return Table(title=f"Accuracy in % in {len(SCORINGS)} readings", columns=columns, rows=tuple(rows))
