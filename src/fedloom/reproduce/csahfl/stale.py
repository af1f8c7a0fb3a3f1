"""Three readings of eq. (10) of CSAHFL: how late updates count."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.csahfl.measures import METRICS, final, in_each_case, late_shares, round_seconds
from fedloom.reproduce.csahfl.setups import CLOCKS, STALE
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import apart, mean, spread


def judge_stale(runs: Runs) -> Outcome:
    """With exact and with jittering times."""
    exact, jitter = CLOCKS
    share = {clock: late_shares(runs[clock, STALE[0]]) for clock in CLOCKS}
    claims = [
        Claim(
            text=f"{exact}: no update is late (% of updates)",
            verdict=verdicts.at_most(share[exact], 0.0),
            because="predicted times are exact, and slow clients get less work",
        ),
        Claim(
            text=f"{jitter}: 1 % of the updates are late, or more (%)",
            verdict=verdicts.at_least(share[jitter], 1.0),
            own=True,
        ),
    ]
    for metric in METRICS:
        found = {label: final(same, metric) for label, same in runs.items()}
        alike = {m: verdicts.within(apart(found[exact, "delta"], found[exact, m]), -0.5, 0.5) for m in STALE[1:]}
        text = f"{metric}, {exact}: the three modes are within half a point (points from delta)"
        because = "no update is late"
        claims.append(Claim(text=text, verdict=in_each_case(alike), because=because))
        better = {m: verdicts.at_least(apart(found[jitter, m], found[jitter, "delta"]), 1e-9) for m in STALE[1:]}
        text = f"{metric}, {jitter}: delta is more accurate than the others (points)"
        claims.append(Claim(text=text, verdict=in_each_case(better), own=True))
    rows = tuple(
        (
            f"{clock}, {mode}",
            *(spread(final(same, metric)) for metric in METRICS),
            spread(late_shares(same)),
            spread(round_seconds(same)),
        )
        for (clock, mode), same in runs.items()
    )
    columns = ("", *(f"{metric} in %" for metric in METRICS), "late in %", "s of a cloud round")
    table = Table(title="How late updates count", columns=columns, rows=rows)
    shown = ", ".join(f"{mode} {mean(final(runs[jitter, mode], 'G')):.1f}" for mode in STALE)
    return Outcome(claims=tuple(claims), tables=(table,), ours=f"G with jitter: {shown} %.")
