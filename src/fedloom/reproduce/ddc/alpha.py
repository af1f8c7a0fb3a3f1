"""Table 2 of DDC: the weight of data against distance."""

from collections.abc import Sequence

from fedloom.bounds.ddc_energy import ENERGY_READINGS
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.accuracies import all_near
from fedloom.reproduce.ddc.measures import Values, final, joules, label_distances, mean_member_m, n_heads, note, seconds
from fedloom.reproduce.ddc.published import ALPHAS, CAPACITIES, TABLE_2
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Verdict, apart, mean, ratios, spread


def table_2(runs: Runs) -> Outcome:
    """Accuracy, likeness, joules and seconds against alpha, for two capacities."""
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    for (capacity, weighting, alpha), same in runs.items():
        accuracy = spread(final(same)) if len(same[0].metrics) > 2 else "–"  # one cloud round says nothing
        rows.append(
            (
                f"capacity {capacity}, alpha {alpha:g}" + ("" if weighting == "cluster" else ", c(C) by size"),
                accuracy,
                f"{TABLE_2[alpha][0]:.1f}" if weighting == "cluster" else "–",
                *(spread(v) for v in (n_heads(same), mean_member_m(same), label_distances(same))),
                *(spread(note(same, column)) for column in ("cosine", "cosine_by_size")),
                *(spread(joules(same, reading)) for reading in ENERGY_READINGS),
                f"{TABLE_2[alpha][1]:.0f}" if weighting == "cluster" else "–",
                spread(seconds(same, "literal")),
            )
        )
    for capacity in CAPACITIES:
        by_alpha = [runs[capacity, "cluster", alpha] for alpha in ALPHAS]
        if len(by_alpha[0][0].metrics) > 2:
            claims += _accuracy_claims(capacity, by_alpha)
        falling = [note(same, "cosine") for same in reversed(by_alpha)]
        text = f"capacity {capacity}: c(C) falls as alpha grows (shown from alpha = 1 to 0)"
        claims.append(Claim(text=text, verdict=verdicts.rising(falling, slack=0.005)))
        for reading in ENERGY_READINGS:
            found = [joules(same, reading) for same in by_alpha]
            text = f"capacity {capacity}, {reading}: joules grow with alpha"
            claims.append(Claim(text=text, verdict=verdicts.rising(found)))
            claims.append(_published_joules(f"capacity {capacity}, {reading}", found))
        text = f"capacity {capacity}: seconds on the air grow with alpha, as joules do (literal)"
        claims.append(Claim(text=text, verdict=verdicts.rising([seconds(same, "literal") for same in by_alpha])))
    columns = ("", "accuracy in %", "published", "heads", "m to head", "TV of labels", "c(C)", "c(C) by size")
    joule_columns = (*(f"J, {reading}" for reading in ENERGY_READINGS), "J, published", "s, literal")
    table = Table(title="Effect of alpha", columns=columns + joule_columns, rows=tuple(rows))
    of = {r: [mean(joules(runs[CAPACITIES[0], "cluster", alpha], r)) for alpha in ALPHAS] for r in ENERGY_READINGS}
    shown = "; ".join(f"{reading} {', '.join(f'{v:.0f}' for v in values)}" for reading, values in of.items())
    ours = f"Joules with capacity {CAPACITIES[0]}: {shown}."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(_alpha_plot(runs),), ours=ours)


def _accuracy_claims(capacity: int, by_alpha: Sequence[Sequence[Run]]) -> list[Claim]:
    found = [final(same) for same in by_alpha]
    off = [apart([TABLE_2[alpha][0]] * len(v), v) for alpha, v in zip(ALPHAS, found)]
    gain = verdicts.at_least(apart(found[0], found[-1]), 5.0)
    return [
        Claim(text=f"capacity {capacity}: accuracy grows with alpha", verdict=verdicts.rising(found)),
        Claim(
            text=f"capacity {capacity}: by 5 points or more from 0 to 1 (published: 14.7)", verdict=gain, absolute=True
        ),
        Claim(
            text=f"capacity {capacity}: accuracies within 2 points of the published ones (alpha, points from them)",
            verdict=all_near(dict(zip(ALPHAS, off))),
            absolute=True,
        ),
    ]


def _published_joules(text: str, found: Sequence[Values]) -> Claim:
    over = [ratios([TABLE_2[alpha][1]] * len(same), same) for alpha, same in zip(ALPHAS, found)]
    each = [verdicts.within(r, 0.9, 1.1) for r in over]
    shown = " → ".join(spread(r) for r in over)
    verdict = Verdict(verdicts.worst(*each), shown, min(v.n for v in each))
    return Claim(text=f"{text}: within 10 % of the published joules (ratio)", verdict=verdict)


def _alpha_plot(runs: Runs) -> Plot:
    published = Series(label="published", x=ALPHAS, y=tuple(j for _, j in TABLE_2.values()), dashed=True, colour=5)
    series = [
        Series(
            label=f"{reading}, capacity {capacity}",
            x=ALPHAS,
            y=tuple(mean(joules(runs[capacity, "cluster", alpha], reading)) for alpha in ALPHAS),
            colour=i,
            dashed=capacity != CAPACITIES[0],
        )
        for i, reading in enumerate(ENERGY_READINGS)
        for capacity in CAPACITIES
    ]
    caption = "Joules of 200 rounds against alpha in three readings of the constants, mean over seeds."
    return Plot(key="table2", caption=caption, x_label="alpha", y_label="joules", series=(*series, published))
