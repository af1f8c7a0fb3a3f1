"""Gains of HHFL with other data of the clients in overlaps, and with other clients there."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import GAIN, gain_claims, gain_table, listed_means, sooner_by
from fedloom.reproduce.hhfl.setups import HOME
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Values


def judge_layouts(runs: Runs) -> Outcome:
    """By layout: the published bar, and whether HHFL is ahead at all. The kept layout's are Fig. 11's."""
    claims: list[Claim] = []
    tables: list[Table] = []
    shown: list[str] = []
    for layout in dict.fromkeys(label[0] for label in runs):
        part = {label[1:]: same for label, same in runs.items() if label[0] == layout}
        cases = sorted({case for case, _ in part})
        ahead: dict[int, Values] = {case: sooner_by(part, case) for case in cases}
        for case in cases:
            found = gain_claims(part, case, lambda v: verdicts.at_least(v, GAIN + 1e-9), f"gain above {GAIN:g}")
            text = f"case {case}: HHFL is ahead (steps to 88 %, HFL's over HHFL's, above 1)"
            found.append(Claim(text=text, verdict=verdicts.at_least(ahead[case], 1 + 1e-9, "times")))
            claims += [
                Claim(
                    text=f"{layout}, {claim.text}",
                    verdict=claim.verdict,
                    repeats="Figs. 5 and 11" if layout == HOME else "",
                    own=layout != HOME,
                )
                for claim in found
            ]
        table = gain_table(part, 0.88)
        tables.append(Table(title=f"{layout}: {table.title}", columns=table.columns, rows=table.rows))
        shown.append(f"{layout} {listed_means(ahead)}")
    ours = f"Steps of HFL over HHFL's to 88 %: {'; '.join(shown)}."
    return Outcome(claims=tuple(claims), tables=tuple(tables), ours=ours)
