"""Figures 14 to 16 of HHFL, and its convolutional network: gains of larger models."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.costs import data_claim
from fedloom.reproduce.hhfl.gains import (
    GAIN,
    cases_of,
    common_gain,
    converged,
    cost_ratio,
    curves_plot,
    gain_claims,
    gain_table,
    inverse,
    listed_means,
    near_one,
)
from fedloom.reproduce.hhfl.setups import ALIKE, APART, HFL, HHFL
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import OPEN, Verdict, spread


def _network_claims(runs: Runs, repeats: str = "") -> list[Claim]:
    """Gains of another network, undecided where a run has not converged: the step at which it was cut off says nothing."""
    claims = []
    for case in cases_of(runs):
        for claim in (
            gain_claims(runs, case, near_one, "gain about 1 (0.9 to 1.1)")
            if case in ALIKE
            else gain_claims(runs, case, lambda v: verdicts.at_least(v, GAIN + 1e-9), f"gain above {GAIN:g}")
        ):
            v = claim.verdict
            if not converged(runs, (case,)):
                v = Verdict(OPEN, f"{v.measured}, not converged", v.n)
            claims.append(Claim(text=claim.text, verdict=v))
    return claims


def _network_ours(runs: Runs) -> str:
    common = {c: common_gain(runs, c) for c in cases_of(runs)}
    state = "" if converged(runs, cases_of(runs)) else " No verdict on gains: some runs had not converged."
    return f"Gain at common accuracy {listed_means(common)}.{state}"


def cnn(runs: Runs) -> Outcome:
    """MNIST with a convolutional network."""
    return Outcome(
        claims=tuple(_network_claims(runs)),
        tables=(gain_table(runs, 0.9),),
        plots=(curves_plot(runs, "cnn"),),
        ours=_network_ours(runs),
    )


def fig14(runs: Runs) -> Outcome:
    """CIFAR-10 with a VGG-style network."""
    claims = _network_claims(runs)
    rows = []
    for case in cases_of(runs):
        pair = runs[case, HFL], runs[case, HHFL]
        time = inverse(cost_ratio(*pair, "time_s"))
        sent = cost_ratio(*pair, "models_unicast")
        rows.append((f"case {case}", spread(common_gain(runs, case)), spread(time), spread(sent)))
        claim = data_claim(case, sent)
        if case in APART and not converged(runs, (case,)):
            v = claim.verdict
            claim = Claim(text=claim.text, verdict=Verdict(OPEN, f"{v.measured}, not converged", v.n))
        claims.append(claim)
    costs = Table(
        title="At common accuracy: gains, and models sent (HHFL over HFL)",
        columns=("", "gain in steps", "gain in time", "models sent"),
        rows=tuple(rows),
    )
    return Outcome(
        claims=tuple(claims),
        tables=(gain_table(runs, 0.5), costs),
        plots=(curves_plot(runs, "fig14"),),
        ours=_network_ours(runs),
    )
