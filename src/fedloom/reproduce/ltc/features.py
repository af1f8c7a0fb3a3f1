"""Tables 11 and 12 of LTC: clusters by other features."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedloom.record.outperform import largest_feature_time, never_limit, rounds_to, threshold_text
from fedloom.reproduce import verdicts
from fedloom.reproduce.ltc.measures import curves_plot, rows_of
from fedloom.reproduce.ltc.published import MOST_FEATURE_TIME, ROUNDS_NEEDED
from fedloom.reproduce.ltc.setups import FEATURES, UNTRAINED
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Beyond, Value, Values, apart, spread


def _more_rounds(runs: Runs, data: str, reference: int) -> dict[str, list[Value]]:
    """Rounds beyond `reference` that each feature needs to the accuracy of 1.1 after so many, seed by seed."""
    found: dict[str, list[Value]] = {m: [] for m in FEATURES if m != "1.1"}
    for m, more in found.items():
        for ours, other in zip(runs[data, "1.1"], runs[data, m]):
            accuracy = other.metrics["accuracy"].to_numpy()
            needed = rounds_to(accuracy, float(ours.metrics["accuracy"][reference]))
            more.append(Beyond(len(accuracy) - 1.0 - reference) if math.isinf(needed) else needed - reference)
    return found


def _reference(runs: Runs, data: str) -> int:
    """The cloud rounds of 1.1 that others are measured by: 16, or five fewer than there are."""
    return min(16, len(runs[data, "1.1"][0].metrics) - 5)


def judge_features(runs: Runs, names: Sequence[str], claims_of: Any, key: str) -> Outcome:
    """Tables 11 and 12: rounds needed with other features, and how cheap these must be to win."""
    rows, claims, shown = [], [], []
    for data in rows_of(runs):
        reference = _reference(runs, data)
        more = _more_rounds(runs, data, reference)
        claims += claims_of(data, reference, more)
        for m in names:
            whole = [None if v is None or isinstance(v, Beyond) else reference + v for v in more[m]]
            most = [None if r is None else largest_feature_time(r, rounds_reference=reference) for r in whole]
            never = [None if r is None else never_limit(r, rounds_reference=reference) for r in whole]
            known = ROUNDS_NEEDED.get(data, {}).get(m)
            published = "–" if known is None else f"{known:.1f}, {threshold_text(largest_feature_time(known))}"
            rows.append((f"{data}, {m}", verdicts.span(more[m]), spread(most), spread(never), published))
            shown.append(f"{data}, {m}: {verdicts.span(more[m])} more")
    columns = ("", "more rounds", "feature time below which it wins", "time of 1.1 below which it cannot")
    table = Table(
        title=f"Cloud rounds to the accuracy of 1.1 after {reference}, beyond these; of time 50 for the features of 1.1",
        columns=(*columns, "published (after 16): rounds, feature time"),
        rows=tuple(rows),
    )
    plots = (curves_plot({label: same for label, same in runs.items() if label[1] in ("1.1", *names)}, key),)
    return Outcome(claims=tuple(claims), tables=(table,), plots=plots, ours="; ".join(shown) + ".")


def crop_claims(data: str, reference: int, more: Mapping[str, Values]) -> list[Claim]:
    """Of Table 11."""
    text = f"{data}: with crop about one more round than with the whole update ({reference} rounds; 0 to 2 more)"
    return [Claim(text=text, verdict=verdicts.within(more["crop"], 0.0, 2.0))]


def untrained_claims(data: str, reference: int, more: Mapping[str, Values]) -> list[Claim]:
    """Of Table 12."""
    claims = [
        Claim(
            text=f"{data}: {worse} needs more rounds than {better} (rounds)",
            verdict=verdicts.at_least(apart(more[better], more[worse]), 1e-9),
        )
        for better, worse in (("crop", "skew"), ("skew", "pred"), ("pred", "B"))
    ]
    for m in UNTRAINED:
        # T_max falls with the rounds needed, so a run that never gets there has a smaller one than if it had at its end
        times: list[Value] = []
        for v in more[m]:
            if v is None:
                times.append(None)
                continue
            t = largest_feature_time(reference + verdicts.number_of(v), rounds_reference=reference)
            times.append(Beyond(t, -1) if isinstance(v, Beyond) else t)
        text = f"{data}: {m} wins only if its features take less than {MOST_FEATURE_TIME[m]:g} of 50 (the largest published)"
        claims.append(Claim(text=text, verdict=verdicts.at_most(times, MOST_FEATURE_TIME[m]), absolute=True))
    return claims
