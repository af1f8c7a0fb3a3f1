"""Figures 4, 5 and 7 of HHFL: accuracy against steps."""

import numpy as np

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import (
    curve,
    curves_plot,
    gain_claims,
    gain_table,
    listed_means,
    near_one,
    sooner_by,
    steps_to,
)
from fedloom.reproduce.hhfl.setups import ALIKE, HFL, HHFL
from fedloom.reproduce.paper import Claim, Outcome, Runs
from fedloom.reproduce.verdicts import apart, mean, ratios


def fig4(runs: Runs) -> Outcome:
    """Edge servers with the same labels."""
    claims, most = [], []
    for case in ALIKE:
        off = [100 * float(np.abs(curve(a)[1] - curve(b)[1]).max()) for a, b in zip(runs[case, HFL], runs[case, HHFL])]
        most.append(mean(off))
        claims.append(
            Claim(
                text=f"case {case}: the curves are never more than one point of accuracy apart",
                verdict=verdicts.at_most(off, 1.0, "points"),
            )
        )
        claims += gain_claims(runs, case, near_one, "gain about 1 (0.9 to 1.1)", repeats="Fig. 11")
    for case in (1, 2):
        slower = ratios(steps_to(runs[case, HHFL], 0.88), steps_to(runs[3, HHFL], 0.88))
        claims.append(
            Claim(
                text=f"case 3 is clearly slower than case {case} (steps to 88 %, at least 1.2 times as many)",
                verdict=verdicts.at_least(slower, 1.2, "times"),
            )
        )
    ours = f"Curves at most {max(most):.2f} points apart; case 3 takes {mean(slower):.1f} times the steps of case 2 to 88 %."
    return Outcome(
        claims=tuple(claims), tables=(gain_table(runs, 0.88),), plots=(curves_plot(runs, "fig4"),), ours=ours
    )


def fig5(runs: Runs) -> Outcome:
    """Edge servers that miss classes."""
    hfl, hhfl = (ratios(steps_to(runs[4, m], 0.88), steps_to(runs[5, m], 0.88)) for m in (HFL, HHFL))
    sooner = {case: sooner_by(runs, case) for case in (4, 5)}
    claims = (
        *(_ahead(runs, case) for case in (4, 5)),
        Claim(
            text="from case 4 to 5 HFL degrades (steps to 88 % grow by more than half)",
            verdict=verdicts.at_least(hfl, 1.5, "times"),
        ),
        Claim(
            text="from case 4 to 5 HHFL hardly changes (steps to 88 % grow by less than 35 %)",
            verdict=verdicts.at_most(hhfl, 1.35, "times"),
        ),
        Claim(
            text="the gap widens from case 4 to 5 (growth of HFL's steps to 88 % over HHFL's)",
            verdict=verdicts.at_least(apart(sooner[4], sooner[5]), 1e-9),
        ),
    )
    ours = (
        f"HFL takes {listed_means(sooner)} times the steps of HHFL to 88 %; "
        f"from 4 to 5 HFL's grow {mean(hfl):.2f} times, HHFL's {mean(hhfl):.2f}."
    )
    return Outcome(claims=claims, tables=(gain_table(runs, 0.88),), plots=(curves_plot(runs, "fig5"),), ours=ours)


def _ahead(runs: Runs, case: int, repeats: str = "") -> Claim:
    return Claim(
        text=f"case {case}: HHFL is ahead (steps to 88 %, HFL's over HHFL's, above 1)",
        verdict=verdicts.at_least(sooner_by(runs, case), 1.0 + 1e-9, "times"),
        repeats=repeats,
    )


def fig7(runs: Runs) -> Outcome:
    """More clients in overlaps."""
    faster = ratios(steps_to(runs[6, HHFL], 0.88), steps_to(runs[5, HHFL], 0.88))
    same = [float(np.abs(curve(a)[1] - curve(b)[1]).max()) for a, b in zip(runs[5, HFL], runs[6, HFL])]
    claims = (
        _ahead(runs, 5, repeats="Fig. 5"),
        _ahead(runs, 6),
        Claim(
            text="HHFL is a little faster in case 6 than in case 5 (steps to 88 %, case 5 over case 6, above 1)",
            verdict=verdicts.at_least(faster, 1.0 + 1e-9, "times"),
        ),
        Claim(
            text="HFL does not change from case 5 to 6 (largest difference of accuracies)",
            verdict=verdicts.at_most(same, 0.0),
            because="homes and data are those of case 5, and HFL uses nothing else",
        ),
    )
    sooner = {case: sooner_by(runs, case) for case in (5, 6)}
    ours = f"HFL takes {listed_means(sooner)} times the steps of HHFL to 88 %; HHFL is {mean(faster):.2f} times as fast in 6."
    return Outcome(claims=claims, tables=(gain_table(runs, 0.88),), plots=(curves_plot(runs, "fig7"),), ours=ours)
