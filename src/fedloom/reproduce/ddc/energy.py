"""Figure 4 of DDC: joules against the number of devices."""

from fedloom.bounds.ddc_energy import ENERGY_READINGS
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.measures import Values, flat_joules, is_less, joules, seconds
from fedloom.reproduce.ddc.published import CLUSTERED, FEDAVG, METHODS, PROPOSED, RANDOM, SELDOM, SIMILARITY, SIZES, TAU
from fedloom.reproduce.paper import Claim, Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.verdicts import Verdict, mean, spread


def fig_4(runs: Runs) -> Outcome:
    """Joules by method for four sizes of the fleet, and seconds for the largest."""
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    found: dict[tuple[str, int, str], Values] = {}
    for reading in ENERGY_READINGS:
        for n in SIZES:
            for m in CLUSTERED:
                found[reading, n, m] = joules(runs[n, m], reading)
            found[reading, n, FEDAVG] = flat_joules(runs[n, PROPOSED], reading, period=1)
            found[reading, n, SELDOM] = flat_joules(runs[n, PROPOSED], reading, period=TAU[1])
            rows.append((f"{reading}, {n} devices", *(spread(found[reading, n, m]) for m in METHODS)))
    for n in SIZES:
        for less, more in ((PROPOSED, SIMILARITY), (PROPOSED, RANDOM), (RANDOM, SIMILARITY), (SIMILARITY, FEDAVG)):
            each = [is_less(found[reading, n, less], found[reading, n, more]) for reading in ENERGY_READINGS]
            shown = ", ".join(f"{reading} {v.measured}" for reading, v in zip(ENERGY_READINGS, each))
            text = f"{n} devices: {less} takes less energy than {more} in every reading (ratio)"
            verdict = Verdict(verdicts.worst(*each), shown, min(v.n for v in each))
            asked = (less, more) == (RANDOM, SIMILARITY)  # the paper does not compare these
            claims.append(Claim(text=text, verdict=verdict, own=asked))
    last = SIZES[-1]
    delay = {m: seconds(runs[last, m], "literal") for m in CLUSTERED}
    delay |= {name: seconds(runs[last, PROPOSED], "literal", p) for name, p in ((FEDAVG, 1), (SELDOM, TAU[1]))}
    rows.append((f"seconds on the air, literal, {last} devices", *(spread(delay[m]) for m in METHODS)))
    shown = ", ".join(f"{m} {mean(found['literal', 100, m]):.1f}" for m in (*CLUSTERED, FEDAVG))
    table = Table(title="Joules of 200 rounds", columns=("", *METHODS), rows=tuple(rows))
    series = tuple(
        Series(label=m, x=tuple(range(len(SIZES))), y=tuple(mean(found["literal", n, m]) for n in SIZES), colour=i)
        for i, m in enumerate((*CLUSTERED, FEDAVG))
    )
    plot = Plot(
        key="fig4",
        caption="Joules of 200 rounds as printed (literal), mean over seeds.",
        x_label="devices",
        y_label="joules",
        series=series,
        kind="bars",
        ticks=tuple(map(str, SIZES)),
    )
    ours = f"100 devices, literal: {shown} J."
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,), ours=ours)
