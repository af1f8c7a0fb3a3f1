"""docs/hostile_study.md from the results of tools/hostile_study.py: what attacks cost and defences save, in tables and words.

Accuracy of the global model at the end, in points; every figure is a difference between two runs with the same seed, the mean ±
half of its 95 % interval (Student's t) over the seeds that both have. A difference is told only where there are three of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedloom.record.statistics import LEAST, Interval, interval

MEAN, NOBODY, SHIPPED = "plain mean", "nobody", "one class a client"
LONGER = "three times as long"
FRESH = "ltc, progress not kept"
TOPOLOGIES = {"flat": "fedavg", "hierarchical": "hierfedavg", "overlapping": "hhfl", "D2D": "ddc"}
SYSTEMS = ("hhfl", "csahfl", "ltc", "ddc", "camu")
FIFTH, HEAD = "0.2", "a head"
WITHIN, UNDER = 1.0, 5.0  # points: what a defence may cost without attack, and lose to sign flips

Runs = Mapping[str, Mapping[str, Any]]
Case = tuple[str, str, str, str]  # where, defence, attack, who


def key(case: Case, seed: int) -> str:
    """The name of a run among the results."""
    return " | ".join((*case, str(seed)))


def seeds_of(runs: Runs, case: Case) -> set[int]:
    """Those that a case has been run with."""
    start = " | ".join(case) + " | "
    return {int(name.removeprefix(start)) for name in runs if name.startswith(start)}


def difference(runs: Runs, case: Case, other: Case) -> Interval | None:
    """Of the accuracy of a case to that of another, in points; None if fewer than three seeds have both."""
    seeds = sorted(seeds_of(runs, case) & seeds_of(runs, other))
    if len(seeds) < LEAST:
        return None
    return interval([100 * (runs[key(case, s)]["accuracy"] - runs[key(other, s)]["accuracy"]) for s in seeds])


def honest(where: str) -> Case:
    """What all others are held against: the plain mean, and nobody is hostile."""
    return where, MEAN, NOBODY, "0"


def shown(found: Interval | None) -> str:
    """Bold where the interval excludes zero; n where it is not five."""
    if found is None:
        return "–"
    text = f"{found.mean:+.1f} ± {found.half:.1f}"
    return (f"**{text}**" if found.excludes() else text) + ("" if found.n == 5 else f" ({found.n})")


def table(
    corner: str, rows: Sequence[str], columns: Sequence[str], of: Callable[[str, str], Interval | None]
) -> list[str]:
    """Rows and columns of which nothing is known are left out."""
    cells = {(r, c): of(r, c) for r in rows for c in columns}
    columns = [c for c in columns if any(cells[r, c] is not None for r in rows)]
    rows = [r for r in rows if any(cells[r, c] is not None for c in columns)]
    if not rows:
        return ["Not run yet."]
    head = [f"| {corner} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return head + [f"| {r} | " + " | ".join(shown(cells[r, c]) for c in columns) + " |" for r in rows]


def names(runs: Runs, place: int) -> list[str]:
    """Of defences (1), attacks (2) and so on, in the order in which they come."""
    return list(dict.fromkeys(name.split(" | ")[place] for name in runs))


def page(runs: Runs) -> str:
    """The page, from the results."""
    lines = [*_intro(runs), "## What it comes to", "", *(f"- {line}" for line in findings(runs)), ""]
    for where, method in TOPOLOGIES.items():
        lines += [f"## A fifth of the clients: {where} ({method})", "", *_fifth(runs, where), ""]
    lines += ["## A tenth, a fifth, three tenths", "", *_shares(runs), ""]
    lines += ["## Three times as many steps", "", *_patient(runs), ""]
    lines += ["## Where they are: bridging clients", "", *_where(runs), ""]
    lines += ["## One hostile head or edge server", "", *_heads(runs), ""]
    lines += ["## Five systems", "", *_systems(runs), ""]
    lines += ["## One class a client", "", *_shipped(runs)]
    return "\n".join([*lines, ""])


def _intro(runs: Runs) -> list[str]:
    honest_points = [
        f"{where} {interval([100 * runs[key(case, s)]['accuracy'] for s in sorted(seeds)]).mean:.1f} %"
        for where in (*TOPOLOGIES, *SYSTEMS)
        if len(seeds := seeds_of(runs, case := honest(where))) >= LEAST
    ]
    return [
        "# What attacks cost and defences save",
        "",
        "A figure is a difference of the global model's accuracy at the end, in points, paired over five seeds (or as many as "
        "stand in brackets): the mean ± half of the 95 % interval, **bold** where the interval excludes zero. It is held against "
        "the same federation with the plain mean and nobody hostile. Devices, data, attackers and their random numbers are the "
        "same for every method and defence of a seed.",
        "",
        "The fleet is that of `cells-overlap` (57 devices in three cells, 15 of them in reach of several), with links between "
        "devices and to the cloud so that every method runs; the task is small: `digits`, a network of 16 hidden units, labels "
        "by a Dirichlet law of concentration 1, 100 local steps. Defences stand where clients are averaged, and are set for "
        "three tenths of hostile models; lengths of clipping, the learning rate and how reputation finds its centre were chosen "
        "by a few trials on this task before. Not every combination was run: one thing is varied at a time.",
        "",
        f"`python tools/hostile_study.py` makes the runs and this page; all {len(runs)} are in `docs/hostile_study.json`. About "
        "[attacks](hostile.md) and [defences](merges.md). Accuracy with the plain mean and nobody hostile: "
        + (", ".join(honest_points) or "not run yet")
        + ".",
        "",
    ]


def findings(runs: Runs) -> list[str]:
    """What the tables say, in words."""
    out = [
        _costs(runs),
        _withstand(runs, "sign flip"),
        _withstand(runs, "sign flip, 4 times"),
        _longer(runs),
        *_bridging(runs),
    ]
    return [line for line in [*out, _worst_head(runs), _most_robust(runs), _as_shipped(runs)] if line]


def _defences(runs: Runs) -> list[str]:
    return [d for d in names(runs, 1) if d != MEAN]


def _costs(runs: Runs) -> str:
    """What defences cost where nobody attacks."""
    parts = []
    for where in TOPOLOGIES:
        found = {d: difference(runs, (where, d, NOBODY, "0"), honest(where)) for d in _defences(runs)}
        known = {d: i for d, i in found.items() if i is not None}
        if known:
            cheap = [d for d, i in known.items() if i.mean > -WITHIN]
            worst = min(known, key=lambda d: known[d].mean)
            parts.append(f"{where}, {len(cheap)} of {len(known)} (the dearest, {worst}, {shown(known[worst])})")
    return (
        "**Nobody hostile.** Defences that cost less than a point in the mean: " + "; ".join(parts) + "."
        if parts
        else ""
    )


def _withstand(runs: Runs, attack: str) -> str:
    """Which defences lose little to an attack by a fifth of the clients."""
    parts = []
    for where in TOPOLOGIES:
        found = {d: difference(runs, (where, d, attack, FIFTH), honest(where)) for d in [MEAN, *_defences(runs)]}
        known = {d: i for d, i in found.items() if i is not None}
        if MEAN in known and len(known) > 1:
            good = [d for d, i in known.items() if i.mean > -UNDER and d != MEAN]
            parts.append(f"{where}, the plain mean {shown(known[MEAN])}; {_and(good) or 'none'}")
    return (
        f"**{attack.capitalize()}, a fifth.** Under {UNDER:.0f} points lost: " + ". ".join(parts) + "." if parts else ""
    )


def _longer(runs: Runs) -> str:
    """Which defences lose little to sign flips in the end."""
    parts = []
    for attack in ("sign flip", "sign flip, 4 times"):
        found = {d: difference(runs, (LONGER, d, attack, FIFTH), honest(LONGER)) for d in [MEAN, *_defences(runs)]}
        known = {d: i for d, i in found.items() if i is not None}
        if MEAN in known and len(known) > 1:
            good = [d for d, i in known.items() if i.mean > -UNDER and d != MEAN]
            few = f"{_and(good) or 'none'}" if len(good) < len(known) - 1 else "every defence"
            parts.append(f"{attack}, the plain mean {shown(known[MEAN])}; under {UNDER:.0f} points lost: {few}")
    return f"**A fifth, {LONGER}** (overlapping). {'. '.join(parts)}." if parts else ""


def _bridging(runs: Runs) -> list[str]:
    """Whether a bridging client spreads poison."""
    parts = []
    for attack in names(runs, 2):
        found = difference(runs, ("overlapping", MEAN, attack, "bridging 0.2"), ("overlapping", MEAN, attack, FIFTH))
        if found is not None:
            word = "more" if found.mean < 0 else "less"
            word = (
                f"takes {abs(found.mean):.1f} points {word}"
                if found.excludes()
                else "makes no difference that the seeds can tell"
            )
            parts.append(f"{attack}: that they bridge cells {word} ({shown(found)})")
    return [f"**Bridging clients** against as many anywhere, plain mean. {'; '.join(parts)}."] if parts else []


def _worst_head(runs: Runs) -> str:
    parts = []
    for where in ("hierarchical", *SYSTEMS):
        found = {a: difference(runs, (where, MEAN, a, HEAD), honest(where)) for a in names(runs, 2)}
        known = {a: i for a, i in found.items() if i is not None}
        if known:
            worst = min(known, key=lambda a: known[a].mean)
            parts.append(f"{where} {shown(known[worst])} ({worst})")
    return "**One hostile head or edge server** costs at worst: " + "; ".join(parts) + "." if parts else ""


def _most_robust(runs: Runs) -> str:
    """By the mean loss over the attacks that all of them were run with."""
    losses: dict[str, list[float]] = {}
    attacks = [a for a in names(runs, 2) if all(difference(runs, (s, MEAN, a, FIFTH), honest(s)) for s in SYSTEMS)]
    for system in SYSTEMS:
        found = [difference(runs, (system, MEAN, a, FIFTH), honest(system)) for a in attacks]
        losses[system] = [i.mean for i in found if i is not None]
    if not attacks:
        return ""
    mean = {s: sum(values) / len(values) for s, values in losses.items()}
    order = sorted(SYSTEMS, key=lambda s: -mean[s])
    listed = ", ".join(f"{s} ({mean[s]:+.1f})" for s in order)
    return (
        f"**Five systems** as they are, by the mean loss to {_and(attacks)} by a fifth of the clients: {listed}."
        + _why_ltc(runs)
    )


def _why_ltc(runs: Runs) -> str:
    """What becomes of its lead if clients do not go on from what they trained for the grouping."""
    attack = "sign flip, 4 times"
    kept, fresh = (difference(runs, (s, MEAN, attack, FIFTH), honest(s)) for s in ("ltc", FRESH))
    if kept is None or fresh is None or fresh.mean >= kept.mean:
        return ""
    return (
        " In ltc clients train for the grouping first and go on from that, and attackers alter only what comes after: half of "
        f"the first edge round of every cloud round is out of their reach. Without that (`keep_progress=false`) {attack}, takes "
        f"{shown(fresh)} and not {shown(kept)}. It is no defence that was meant: who trains falsely for the grouping, too, "
        "would take it away."
    )


def _as_shipped(runs: Runs) -> str:
    within, known = [], 0
    for defence in _defences(runs):
        found = difference(runs, (SHIPPED, defence, NOBODY, "0"), honest(SHIPPED))
        known += found is not None
        within += [defence] if found is not None and found.mean - found.half > -WITHIN else []
    if not known:
        return ""
    return (
        f"**`cells-overlap` with its own data**, one class a client: of {known} defences {_and(within) or 'none'} "
        f"{'stays' if len(within) < 2 else 'stay'} within a point of the plain mean by the whole interval."
    )


def _fifth(runs: Runs, where: str) -> list[str]:
    attacks = [NOBODY, *(a for a in names(runs, 2) if a != NOBODY)]

    def of(defence: str, attack: str) -> Interval | None:
        return difference(runs, (where, defence, attack, "0" if attack == NOBODY else FIFTH), honest(where))

    return table("defence", names(runs, 1), attacks, of)


def _shares(runs: Runs) -> list[str]:
    attacks = [a for a in names(runs, 2) if any(f" | {a} | 0.3 | " in name for name in runs)]
    lines: list[str] = []
    for where in TOPOLOGIES:
        columns = {f"{a}, {share}": (a, share) for a in attacks for share in ("0.1", FIFTH, "0.3")}

        def of(
            defence: str, column: str, where: str = where, columns: dict[str, tuple[str, str]] = columns
        ) -> Interval | None:
            attack, share = columns[column]
            return difference(runs, (where, defence, attack, share), honest(where))

        made = table(where, names(runs, 1), list(columns), of)
        lines += [*([""] if lines else []), *made] if len(made) > 1 else []
    return lines or ["Not run yet."]


def _where(runs: Runs) -> list[str]:
    attacks = [a for a in names(runs, 2) if any(f" | {a} | bridging" in name for name in runs)]
    columns = {f"{a}, {label}": (a, who) for a in attacks for label, who in PLACES.items()}

    def of(defence: str, column: str) -> Interval | None:
        attack, who = columns[column]
        return difference(runs, ("overlapping", defence, attack, who), honest("overlapping"))

    return [
        "hhfl, in which a client in reach of several cells reports to all of them and begins with the mean of their models. A "
        "fifth of the devices, drawn from all, from those in reach of several cells, or filling one cell.",
        "",
        *table("defence", names(runs, 1), list(columns), of),
    ]


PLACES = {"anywhere": FIFTH, "bridging": "bridging 0.2", "one cell": "one-cell 0.2"}


def _heads(runs: Runs) -> list[str]:
    attacks = [a for a in names(runs, 2) if any(f" | {a} | {HEAD} | " in name for name in runs)]
    return [
        "The first cell's edge server, or the device that is head in most cloud rounds, alters what it sends to the cloud and to "
        "its members. Plain means.",
        "",
        *table(
            "method", ["hierarchical", *SYSTEMS], attacks, lambda s, a: difference(runs, (s, MEAN, a, HEAD), honest(s))
        ),
    ]


def _systems(runs: Runs) -> list[str]:
    attacks = [NOBODY, *(a for a in names(runs, 2) if a != NOBODY)]
    rows = {f"{s}{'' if d == MEAN else ', ' + d}": (s, d) for s in (*SYSTEMS, FRESH) for d in (MEAN, "trimmed mean")}

    def of(row: str, attack: str) -> Interval | None:
        system, defence = rows[row]
        return difference(runs, (system, defence, attack, "0" if attack == NOBODY else FIFTH), honest(system))

    return [
        "As they are, and with a trimmed mean where clients are averaged.",
        "",
        *table("system", list(rows), attacks, of),
    ]


def _patient(runs: Runs) -> list[str]:
    return [
        "Overlapping (hhfl), 300 local steps instead of 100. Much of what plain sign flips take is speed: a fifth of the updates "
        "undo what another fifth has learnt, and three fifths of the steps are left. So they take little in the end, defence or "
        "not, and what defences cost without attack is mostly speed, too. Four times as long they are another matter.",
        "",
        *_with_and_without(runs, LONGER),
    ]


def _shipped(runs: Runs) -> list[str]:
    made = _with_and_without(runs, SHIPPED)
    why = (
        " An honest client is an outlier there, and one that flips the sign of what it learnt says what clients of all other "
        "classes say, too: less of this class. So rules that go by what most send have a price there."
    )
    return [
        "The data of `cells-overlap` and `hostile` (Fashion-MNIST, every client has samples of one class, every cell misses "
        "four), hhfl with softmax regression, 10 cloud rounds of 2 edge rounds." + (why if len(made) > 1 else ""),
        "",
        *made,
    ]


def _with_and_without(runs: Runs, where: str) -> list[str]:
    columns = {NOBODY: (NOBODY, "0")} | {f"{a}, a fifth": (a, FIFTH) for a in ("sign flip", "sign flip, 4 times")}

    def of(defence: str, column: str) -> Interval | None:
        return difference(runs, (where, defence, *columns[column]), honest(where))

    return table("defence", names(runs, 1), list(columns), of)


def _and(words: Sequence[str]) -> str:
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"
