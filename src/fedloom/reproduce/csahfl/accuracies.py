"""Table 1 of CSAHFL: accuracy by four measures."""

from collections.abc import Sequence
from statistics import fmean

from fedloom.reproduce import verdicts
from fedloom.reproduce.csahfl.measures import (
    METRICS,
    final,
    in_each_case,
    n_clusters,
    present_in,
    rivals_of,
    until_hierfedavg_ends,
)
from fedloom.reproduce.csahfl.published import (
    FASHION,
    FULL,
    METHODS,
    MOBILE,
    RECONSTRUCTED,
    STATIC,
    TABLE_1,
    published_value,
)
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, spread


def table_1(runs: Runs, data: str = FASHION, key: str = "table1") -> Outcome:
    """Accuracies of all methods, and what the paper says of them."""
    runs = until_hierfedavg_ends(runs)
    places, settings, _ = present_in(runs)
    claims: list[Claim] = []
    for metric in METRICS:
        for place in places:
            if len(settings) > 1:
                claims += _severity_claims(runs, metric, place, settings)
            text = f"{metric}, {place}: CSAHFL is the most accurate (points ahead of the best other)"
            claims.append(Claim(text=text, verdict=in_each_case({s: _ahead(runs, metric, place, s) for s in settings})))
        if len(places) > 1:
            claims += _mobility_claims(runs, metric, settings)
        near = {
            f"{p}, {s}": verdicts.within(
                apart(
                    [published_value(TABLE_1[data][p][FULL], s)] * len(runs[p, s, FULL]),
                    final(runs[p, s, FULL], metric),
                ),
                -2,
                2,
            )
            for p in places
            for s in settings
        }
        text = f"{metric}: CSAHFL is within 2 points of the published accuracies (points from them)"
        claims.append(Claim(text=text, verdict=in_each_case(near), absolute=True))
    several = {f"{p}, {s}": verdicts.at_least(n_clusters(runs[p, s, FULL]), 2.0) for p in places for s in settings}
    claims.append(Claim(text="CSAHFL finds more than one cluster (clusters)", verdict=in_each_case(several), own=True))
    tables = [_accuracy_table(runs, metric, data) for metric in METRICS]
    return Outcome(
        claims=tuple(claims),
        tables=(*tables, _distance_table(runs, data)),
        plots=tuple(_bars(runs, key, setting) for setting in settings),
        ours=_lead(runs, places, settings),
    )


def _lead(runs: Runs, places: Sequence[str], settings: Sequence[str]) -> str:
    """Points of CSAHFL ahead of the best other, from least to most, by each measure."""
    shown = []
    for metric in METRICS:
        ahead = []
        for place in places:
            for setting in settings:
                others = [mean(final(same, metric)) for same in rivals_of(runs, place, setting).values()]
                ahead.append(mean(final(runs[place, setting, FULL], metric)) - max(others))
        shown.append(f"{metric} {min(ahead):+.1f}" + (f" to {max(ahead):+.1f}" if len(ahead) > 1 else ""))
    return f"CSAHFL's points ahead of the best other: {', '.join(shown)}."


def _severity_claims(runs: Runs, metric: str, place: str, settings: Sequence[str]) -> list[Claim]:
    """(a) accuracy falls from EIID to ENIID50% to ENIID30%."""
    methods = [m for m in METHODS if (place, settings[0], m) in runs]
    order = list(reversed(settings))
    found = {m: verdicts.rising([final(runs[place, s, m], metric) for s in order]) for m in methods}
    where = " → ".join(order)
    return [
        Claim(text=f"{metric}, {place}: CSAHFL's accuracy falls with skew (shown {where})", verdict=found[FULL]),
        Claim(
            text=f"{metric}, {place}: so does that of every other method (shown {where})",
            verdict=in_each_case({m: v for m, v in found.items() if m != FULL}),
        ),
    ]


def _ahead(runs: Runs, metric: str, place: str, setting: str) -> Verdict:
    """(b) CSAHFL against the most accurate of the others."""
    others = {m: final(same, metric) for m, same in rivals_of(runs, place, setting).items()}
    rival = max(others, key=lambda m: mean(others[m]))
    v = verdicts.at_least(apart(others[rival], final(runs[place, setting, FULL], metric)), 1e-9)
    return Verdict(v.state, f"{v.measured} ({rival})", v.n)


def _mobility_claims(runs: Runs, metric: str, settings: Sequence[str]) -> list[Claim]:
    """(e) mobility changes little: CSAHFL's published accuracies by 0.7 points at most, those of all by 3.6."""

    def change(m: str, setting: str, most: float) -> Verdict:
        both = (final(runs[place, setting, m], metric) for place in (STATIC, MOBILE))
        return verdicts.within(apart(*both), -most, most)

    own = {s: change(FULL, s, 2.0) for s in settings}
    moving = [m for m in METHODS if m != FULL and (MOBILE, settings[0], m) in runs]
    every = {m: in_each_case({s: change(m, s, 4.0) for s in settings}) for m in moving}
    shown = "; ".join(f"{m}: {v.measured}" for m, v in every.items())
    return [
        Claim(
            text=f"{metric}: mobility changes CSAHFL's accuracy by 2 points at most (points)", verdict=in_each_case(own)
        ),
        Claim(
            text=f"{metric}: and that of every other method by 4 at most (points)",
            verdict=Verdict(verdicts.worst(*every.values()), shown, min(v.n for v in every.values())),
        ),
    ]


def _accuracy_table(runs: Runs, metric: str, data: str) -> Table:
    places, settings, methods = present_in(runs)
    rows = []
    for place in places:
        for m in methods:
            if (place, settings[0], m) not in runs:
                continue
            cells = [
                text
                for s in settings
                for text in (
                    spread(final(runs[place, s, m], metric)),
                    f"{published_value(TABLE_1[data][place][m], s):.2f}",
                )
            ]
            rows.append((f"{place}, {m}", *cells))
    columns = [text for s in settings for text in (s, "published")]
    return Table(title=f"{metric} in % ({RECONSTRUCTED})", columns=("", *columns), rows=tuple(rows))


def _distance_table(runs: Runs, data: str) -> Table:
    """Which measure is nearest to the published numbers."""
    _, _, methods = present_in(runs)
    rows = []
    for m in methods:
        cells = []
        for metric in METRICS:
            off = [
                abs(mean(final(same, metric)) - published_value(TABLE_1[data][p][m], s))
                for (p, s, name), same in runs.items()
                if name == m
            ]
            cells.append(f"{fmean(off):.1f}")
        rows.append((m, *cells))
    title = f"Mean distance from the published accuracies, in points, by measure ({RECONSTRUCTED})"
    return Table(title=title, columns=("", *METRICS), rows=tuple(rows))


def _bars(runs: Runs, key: str, setting: str) -> Plot:
    methods = [m for (place, s, m) in runs if (place, s) == (STATIC, setting)]
    found = {metric: [final(runs[STATIC, setting, m], metric) for m in methods] for metric in METRICS}
    series = tuple(
        Series(
            label=metric,
            x=tuple(range(len(methods))),
            y=tuple(mean(v) for v in values),
            low=tuple(min(x for x in v if isinstance(x, float)) for v in values),
            high=tuple(max(x for x in v if isinstance(x, float)) for v in values),
            colour=i,
        )
        for i, (metric, values) in enumerate(found.items())
    )
    return Plot(
        key=f"{key}-{setting.lower().replace('%', '')}",
        caption=f"{setting}, static: accuracy at the end by four measures; means over seeds, lines from least to most.",
        x_label=RECONSTRUCTED,
        y_label="accuracy in %",
        series=series,
        kind="bars",
        ticks=tuple(m.replace("FedAVG", "\nFedAVG") for m in methods),
    )
