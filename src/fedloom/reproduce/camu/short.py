"""Short runs for CAMU: readings of Fig. 4, and two solvers of the problem behind Config 5."""

from fedloom.reproduce import verdicts
from fedloom.reproduce.camu.figures import accuracies, at_round, better_than, by_round, costs, final, last
from fedloom.reproduce.camu.setups import DATA, FIG_4, NEAR, PPO, SHORT_ROUNDS
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import apart, mean, number_of, ratios, spread

EARLY = 4  # a round at which the published sign was seen in probes


def judge_readings(runs: Runs) -> Outcome:
    """The order of Fig. 4 in every reading, early and at the end of short runs."""
    base = {(d, m): same for (d, reading, m), same in runs.items() if reading == NEAR}
    full = {(d, m, reading): runs.get((d, reading, m), base[d, m]) for d, reading, _ in runs for _, m in base}
    rows, claims, signs = [], [], []
    for data, pairs in FIG_4.items():
        for reading in dict.fromkeys(r for d, r, _ in runs if d == data):
            gains = {
                (pair, t): apart(at_round(full[data, pair[1], reading], t), at_round(full[data, pair[0], reading], t))
                for pair in pairs
                for t in (EARLY, SHORT_ROUNDS)
            }
            for (pair, t), gain in gains.items():
                text = f"{data}, {reading}: {pair[0]} is more accurate than {pair[1]} after {t} rounds (points)"
                claims.append(Claim(text=text, verdict=verdicts.at_least(gain, 1e-9), own=True))
            rows.append((f"{data}, {reading}", *(spread(gain) for gain in gains.values())))
            if all(mean(gain) > 0 for (_, t), gain in gains.items() if t == SHORT_ROUNDS):
                signs.append(f"{data}, {reading}")
    columns = ("points", *(f"{a} – {b}, {t} rounds" for a, b in FIG_4["MNIST"] for t in (EARLY, SHORT_ROUNDS)))
    gains_table = Table(title="Gains in every reading", columns=columns, rows=tuple(rows))
    ours = f"Both signs as published after {SHORT_ROUNDS} rounds, on average: {'; '.join(signs) or 'in no reading'}."
    early = by_round(full, {data: list(pairs) for data, pairs in FIG_4.items()})
    return Outcome(claims=tuple(claims), tables=(gains_table, early), ours=ours)


def judge_ppo(runs: Runs) -> Outcome:
    """PPO, as published, beside the exact solver."""
    claims, shown = [], []
    schemes = list(dict.fromkeys(name for _, name, _ in runs))
    for data in DATA:
        exact, learnt = runs[data, "Config 5", 1.0], runs[data, PPO, 1.0]
        off = apart(final(exact), final(learnt))
        joules = ratios(last(exact, "energy_j"), last(learnt, "energy_j"))
        over = [None if r is None else 100 * (number_of(r) - 1) for r in joules]
        claims += [
            better_than(runs, data, 1.0, PPO, "Benchmark 2", own=True),
            Claim(
                text=f"{data}: PPO is within a point of the exact solver (points)",
                verdict=verdicts.within(off, -1.0, 1.0),
                own=True,
            ),
            Claim(
                text=f"{data}: PPO spends no more energy than the exact solver (% over)",
                verdict=verdicts.at_most(over, 0.01),
                own=True,
            ),
        ]
        shown.append(f"{data}: PPO {mean(off):+.2f} points from the exact solver")
    tables = (accuracies(runs, schemes, "Accuracy in %"), costs(runs, schemes, 1.0))
    return Outcome(claims=tuple(claims), tables=tables, ours="; ".join(shown) + ".")
