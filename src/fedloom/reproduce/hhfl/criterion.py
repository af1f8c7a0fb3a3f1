"""How much the gain of HHFL by the slope depends on the window and the unit of the slope, neither of which is published."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.hhfl.gains import GAIN, GAIN_6, gains
from fedloom.reproduce.hhfl.setups import APART, HFL, HHFL
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Value, Verdict, mean, spread

WINDOWS = (1, 2, 3, 5, 10, 20)  # evaluations, which are 25 steps apart
UNITS = (5, 25, 50, 125, 250)  # steps in which the accuracy must rise by 0.1 %
PER_STEPS = 25  # of a threshold


def judge_criterion(runs: Runs) -> Outcome:
    """The gain in every reading, and whether the bars are met in all, some or none of them."""
    rows, claims, shown = [], [], []
    for model in dict.fromkeys(label[0] for label in runs):
        for case in APART:
            pair = runs[model, case, HFL], runs[model, case, HHFL]
            of: dict[tuple[int, int], list[Value]] = {
                (w, u): [g.gain_steps for g in gains(*pair, 0.001 * PER_STEPS / u, w)] for w in WINDOWS for u in UNITS
            }
            rows += [(f"{model}, case {case}, {w}", *(spread(of[w, u]) for u in UNITS)) for w in WINDOWS]
            known = [values for values in of.values() if None not in values]
            if not known:
                continue
            shown.append(f"{model}, case {case}: {min(map(mean, known)):.2f} to {max(map(mean, known)):.2f}")
            bars = [(GAIN + 1e-9, f"above {GAIN:g}")] + [(GAIN_6, f"at least {GAIN_6:g}")] * (case == 6)
            for bar, text in bars:
                each = [verdicts.at_least(values, bar) for values in known]
                count = sum(v.state == verdicts.HOLDS for v in each)
                measured = f"in {count} of {len(of)}, {len(of) - len(known)} not converged"
                state = verdicts.agreed(*each) if len(known) == len(of) else verdicts.OPEN
                claims.append(
                    Claim(
                        text=f"{model}, case {case}: gain {text} in every window and unit",
                        verdict=Verdict(state, measured, min(v.n for v in each)),
                        own=True,
                    )
                )
    columns = ("model, case, window in evaluations", *(f"0.1 % in {u} steps" for u in UNITS))
    title = f"Gain by the slope in {len(WINDOWS) * len(UNITS)} readings"
    table = Table(title=title, columns=columns, rows=tuple(rows))
    return Outcome(claims=tuple(claims), tables=(table,), ours=f"From least to most: {'; '.join(shown)}.")
