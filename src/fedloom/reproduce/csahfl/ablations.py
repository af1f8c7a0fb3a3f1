"""Table 3 of CSAHFL: without one of its three parts."""

from collections.abc import Mapping

from fedloom.reproduce import verdicts
from fedloom.reproduce.csahfl.measures import (
    LESS,
    METRICS,
    Values,
    before_rivals,
    best_of,
    final,
    in_each_case,
    just_below,
    present_in,
    round_seconds,
    seconds_to,
)
from fedloom.reproduce.csahfl.published import (
    ABLATIONS,
    FASHION,
    FULL,
    HIGH,
    NO_C,
    NO_D,
    NO_SA,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    published_value,
)
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, spread


def table_3(runs: Runs) -> Outcome:
    """Each part helps, in accuracy or in time."""
    claims: list[Claim] = []
    for metric in METRICS:
        claims += _part_claims(runs, metric)
    lost = {m: [] for m in ABLATIONS}  # type: dict[str, list[float]]
    for place, setting, m in runs:
        if m in ABLATIONS:
            lost[m].append(mean(apart(final(runs[place, setting, m], "G"), final(runs[place, setting, FULL], "G"))))
    shown = ", ".join(f"{m} {min(v):+.1f} to {max(v):+.1f}" for m, v in lost.items())
    tables = tuple(_parts_table(runs, metric) for metric in METRICS)
    return Outcome(claims=tuple(claims), tables=tables, ours=f"CSAHFL's points (G) ahead of itself {shown}.")


def _part_claims(runs: Runs, metric: str) -> list[Claim]:
    """(d) each part helps, C most in accuracy, SA most in time."""
    places, settings, _ = present_in(runs)
    cases = [(place, setting) for place in places for setting in settings]

    def last(case: tuple[str, str], m: str) -> Values:
        return final(runs[*case, m], metric)

    def times(case: tuple[str, str], m: str) -> Values:
        return seconds_to(runs[*case, m], metric, just_below(runs[*case, FULL], metric))

    def others(case: tuple[str, str]) -> Values:
        """The lower accuracy of the variants without SA and without D, seed by seed."""
        return best_of([last(case, NO_SA), last(case, NO_D)])

    def slowest(case: tuple[str, str]) -> Verdict:
        without, rest = times(case, NO_SA), best_of([times(case, m) for m in (NO_C, NO_D)], max)
        v = verdicts.at_least(apart(rest, without), 1e-9)
        return Verdict(v.state, f"{spread(without)} s (the later of the others: {spread(rest)})", v.n)

    def judged(text: str, parts: Mapping[tuple[str, str], Verdict]) -> Claim:
        named = {", ".join(case): v for case, v in parts.items()}
        return Claim(text=f"{metric}: {text}", verdict=in_each_case(named))

    claims = [
        judged(
            f"CSAHFL is more accurate than {m} (points)",
            {case: verdicts.at_least(apart(last(case, m), last(case, FULL)), 1e-9) for case in cases},
        )
        for m in ABLATIONS
    ]
    goal = f"CSAHFL's last accuracy less {LESS:.0f} points"
    return [
        *claims,
        judged(
            f"{NO_C} is the least accurate (points below the lower of the others)",
            {case: verdicts.at_least(apart(last(case, NO_C), others(case)), 1e-9) for case in cases},
        ),
        judged(
            f"CSAHFL reaches {goal} before {NO_SA} (the latter)",
            {case: before_rivals(times(case, FULL), {NO_SA: times(case, NO_SA)}) for case in cases},
        ),
        judged(f"{NO_SA} is the last to reach {goal}", {case: slowest(case) for case in cases}),
    ]


def _parts_table(runs: Runs, metric: str) -> Table:
    rows = []
    for (place, setting, m), same in runs.items():
        own = just_below(runs[place, setting, FULL], metric)
        if m == FULL:
            accuracy, time = (
                published_value(TABLE_1[FASHION][place][m], setting),
                published_value(TABLE_2[place][m], setting)[1],
            )
        else:
            accuracy, time = published_value(TABLE_3[place][m], setting)
        rows.append(
            (
                f"{place}, {setting}, {m}",
                spread(final(same, metric)),
                f"{accuracy:.2f}",
                spread(seconds_to(same, metric, [HIGH[setting]] * len(same))),
                f"{time:,}",
                spread(seconds_to(same, metric, own)),
                spread(round_seconds(same)),
            )
        )
    goals = "/".join(f"{HIGH[s]:.0f}" for s in HIGH)
    columns = ("", f"{metric} in %", "published", f"s to {goals} %", "published", "s to CSAHFL's", "s of a cloud round")
    return Table(title=f"Parts left out, {metric}", columns=columns, rows=tuple(rows))
