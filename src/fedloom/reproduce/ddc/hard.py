"""A harder setting of ours for DDC: few classes per device, rare global averages."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.accuracies import balance_claims, clusters_table, curves_plot
from fedloom.reproduce.ddc.measures import Values, at_round
from fedloom.reproduce.ddc.published import FEDAVG, METHODS, PROPOSED, RANDOM, SELDOM, SIMILARITY
from fedloom.reproduce.ddc.setups import HARD_AT, HARD_TAU
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import apart, mean, spread


def judge_hard(runs: Runs) -> Outcome:
    """The proposed method against the others after few rounds."""
    found = {(m, t): at_round(runs["hard", m], t, HARD_TAU[1]) for m in METHODS for t in HARD_AT}
    first = HARD_AT[0]

    def ahead(m: str) -> Values:
        return apart(found[m, first], found[PROPOSED, first])

    claims = [
        Claim(
            text=f"after {first} rounds {PROPOSED} is ahead of {SIMILARITY} by 3 points or more",
            verdict=verdicts.at_least(ahead(SIMILARITY), 3.0),
            own=True,
        ),
        Claim(
            text=f"after {first} rounds {PROPOSED} is ahead of {SELDOM} (every 10 rounds) by 10 points or more",
            verdict=verdicts.at_least(ahead(SELDOM), 10.0),
            own=True,
        ),
        Claim(
            text=f"after {first} rounds {PROPOSED} is within 3 points of {FEDAVG} (every round)",
            verdict=verdicts.within(ahead(FEDAVG), -3.0, 3.0),
            own=True,
        ),
        Claim(
            text=f"after {first} rounds {PROPOSED} is more accurate than {RANDOM} (points)",
            verdict=verdicts.at_least(ahead(RANDOM), 1e-9),
            own=True,
        ),
        *balance_claims(runs, "hard"),
    ]
    rows = tuple((f"after {t} rounds", *(spread(found[m, t]) for m in METHODS)) for t in HARD_AT)
    table = Table(title="Accuracy in %", columns=("", *METHODS), rows=rows)
    return Outcome(
        claims=tuple(claims),
        tables=(table, clusters_table(runs)),
        plots=(curves_plot(runs, "hard", HARD_TAU[1]),),
        ours=f"After {first} rounds: " + ", ".join(f"{m} {mean(found[m, first]):.1f}" for m in METHODS) + " %.",
    )
