"""A plan in sentences: how it stands against the best simple plan, links that are too weak, what a method asks of heads."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedloom.fleet.settings.air import AirSettings
from fedloom.planning import Devices, Plan, WeakLink
from fedloom.simulator.ledger import HOPS

MEASURES = {  # in totals: what it is called, its unit, what is said if a simple plan wins, if the plan does
    "seconds": ("time", "s", "is faster", "is the fastest"),
    "joules": ("energy", "J", "takes less energy", "takes the least energy"),
    "most_joules_of_a_device": (
        "the worst device",
        "J",
        "asks less of its worst device",
        "asks the least of its worst device",
    ),
    "label_imbalance": ("imbalance", "", "has the lower imbalance", "has the lowest imbalance"),
}
FLAT = "flat"


def verdicts(totals: Mapping[str, Mapping[str, Any]], simple: Sequence[str]) -> list[str]:
    """A sentence for each measure: the plan, which is the first of totals, against the best of the plans `simple`.

    Digits that are printed decide: what looks alike is alike. Without clusters labels are alike by themselves, so that
    counts for no plan.

    >>> totals = {"ddc": {"seconds": 38.9, "clusters": 25}, "k-means": {"seconds": 35.1, "clusters": 20}}
    >>> verdicts(totals, ["k-means"])
    ['k-means with 20 clusters is faster: 35.1 s against 38.9 s']
    """
    name, own = next(iter(totals.items()))
    said = []
    for measure, (noun, unit, wins, holds) in MEASURES.items():
        labels = measure == "label_imbalance"
        rivals = [r for r in simple if totals[r].get(measure) is not None and (totals[r]["clusters"] or not labels)]
        if own.get(measure) is None or not rivals or (labels and not own["clusters"]):
            continue
        best = min(rivals, key=lambda rival: totals[rival][measure])
        here, there = (f"{t[measure]:.3f}" if labels else si(t[measure], unit) for t in (own, totals[best]))
        rival = _called(best, totals[best])
        if here == there:
            said.append(f"{name} and {rival} are alike in {noun}: {here}")
        elif totals[best][measure] < own[measure]:
            said.append(f"{rival} {wins}: {there} against {here}")
        else:
            said.append(f"{name} {holds}: {here} against {there} of {rival}")
    return said


def other_work(plan: Plan, edge_rounds: int) -> str | None:
    """That a plan does other work in a cloud round than those it is compared with, if so."""
    if (plan.edge_rounds == edge_rounds).all():
        return None
    return (
        f"not the same work: clusters of {plan.name} run {rounds_text(plan)} edge rounds in a cloud round, those of the simple "
        f"plans {edge_rounds}"
    )


def rounds_text(plan: Plan) -> str:
    """Edge rounds of the clusters in a cloud round."""
    least, most = int(plan.edge_rounds.min()), int(plan.edge_rounds.max())
    return str(least) if least == most else f"{least} to {most}"


def lonely_words(ids: Sequence[str], links: Sequence[WeakLink], devices: Devices, model_bytes: int) -> str:
    """Why there is no plan: devices that nobody reaches within a day."""
    link = links[0]
    near = "the server" if link.other < 0 else f"{ids[link.other]}, the nearest device that may be a head"
    return (
        f"{ids[link.device]} is {si(link.distance_m, 'm')} away from {near}, and nothing else reaches it sooner: a model of "
        f"{si(model_bytes, 'B')} would take {duration(link.seconds)}, the link is {link.missing_db:.0f} dB too weak to carry it "
        f"within a day{_and_more(ids, links)}. Correct the position, leave the device out or plan it with others near it, or "
        "give it more power (tx_power_dbm) or a server near it (--server)"
    )


def left_out_words(ids: Sequence[str], links: Sequence[WeakLink]) -> list[str]:
    """Who is left out, because nothing reaches it within a day."""
    return [
        f"{ids[link.device]} is left out: the nearest that could serve it is {si(link.distance_m, 'm')} away, and that link is "
        f"{link.missing_db:.0f} dB too weak to carry a model within a day"
        for link in links
    ]


def refusal_words(ids: Sequence[str], links: Sequence[WeakLink], plan: Plan, model_bytes: int) -> str:
    """Why a plan is none: links that do not carry a model within a day."""
    link = links[0]
    to = "the server" if link.other < 0 else f"its head {ids[link.other]}"
    cure = (
        "Give the server's position (--server), or plan parts of the fleet that are far apart by themselves"
        if link.other < 0
        else "Let a device near it be a head (candidate, capacity, --candidates), leave it out, or give it more power"
    )
    return (
        f"{plan.name} has {ids[link.device]} report over {si(link.distance_m, 'm')} to {to}: a model of {si(model_bytes, 'B')} "
        f"would take {duration(link.seconds)}, the link is {link.missing_db:.0f} dB too weak to carry it within a day"
        f"{_and_more(ids, links)}. {cure}"
    )


def slow_words(ids: Sequence[str], links: Sequence[WeakLink], plan: Plan, bits: float, within_s: float) -> str:
    """A warning of links of a plan that take long."""
    link = links[0]
    to = "the server" if link.other < 0 else f"its head {ids[link.other]}"
    rate = si(bits / link.seconds, "bit/s")
    return (
        f"{plan.name}: {ids[link.device]} reports over {si(link.distance_m, 'm')} to {to}, at {rate}: one model takes "
        f"{duration(link.seconds)}, {link.missing_db:.1f} dB short of a link that carries it within {duration(within_s)}"
        f"{_and_more(ids, links)}. Check the position, let a device near it be a head, or leave it out"
    )


def power_words(ids: Sequence[str], plan: Plan, devices: Devices) -> str | None:
    """How many heads are told to send above their own power, and the worst; None if none is."""
    if plan.topology.kind != "head":
        return None
    host = plan.topology.host
    ratio = plan.power_w[host] / devices.power_w[host]
    above = ratio > 1 + 1e-9
    if not above.any():
        return None
    worst = int(host[ratio.argmax()])
    return (
        f"{plan.name} tells {int(above.sum())} of {len(host)} heads to send to the server above their own transmit power, of "
        f"which it only keeps the sum; the worst is {ids[worst]}, {si(plan.power_w[worst], 'W')} with a radio of "
        f"{si(devices.power_w[worst], 'W')} ({ratio.max():.3g} times)"
    )


def budget_words(plan: Plan, comparable: Plan) -> str | None:
    """That a plan spends more than the one whose energy is its budget, and where; None if it does not."""
    own_j, other_j = plan.ledger.total_j, comparable.ledger.total_j
    if own_j <= other_j * (1 + 1e-6):
        return None
    inside = [si(float(p.ledger.energy_j[HOPS.index("device_head")].sum()), "J") for p in (plan, comparable)]
    return (
        f"{plan.name} takes {si(own_j, 'J')}, {100 * (own_j / other_j - 1):.0f} % more than {comparable.name} "
        f"({si(other_j, 'J')}), whose energy is its budget: links between devices and heads are not in the budget"
        f"{'' if plan.ledger.compute_j else ' and computing has no price here'}, so that extra edge rounds cost it nothing; "
        f"links take {inside[0]} against {inside[1]}"
    )


def in_turn_words(plan: Plan) -> str:
    """What it costs that heads send one after the other."""
    return (
        f"heads of {plan.name} send to the server one after the other, from when all are ready; side by side, as those of "
        f"the simple plans, a cloud round would take {si(plan.side_by_side_s, 's')} instead of {si(plan.time_s, 's')}"
    )


def bands_words(air: AirSettings) -> str:
    """How links share bands."""
    how = {"own": "have a band each", "time": "take turns in one band", "equal": "share one band equally"}
    return (
        f"links between a head and its members {how[air.d2d.sharing]} (--sharing); those with the server "
        f"{how[air.cloud.up.sharing]}{'' if air.cloud.up.sharing == 'own' else ' up and one down'} (--server-sharing)"
    )


def proof_words(plan: Plan, n_allowed: int) -> str:
    """What is proven of the plan, and what is not."""
    alpha, among = plan.topology.notes["alpha"], int(plan.topology.notes["candidates"])
    where = f" among the {among} devices considered (--candidates)" if among < n_allowed else ""
    data = f" plus {alpha:g} times the likeness of gradients inside clusters" if alpha else ""
    share = f"{1 - alpha:g} times " if alpha else ""
    return (
        f"the plan is proven to have the least sum of {share}the metres from devices to heads and from heads to the server, as a "
        f"share of everybody's to the server,{data} for heads{where}: {plan.topology.notes['objective']:.6g}. It is not proven "
        "for seconds, joules, the worst device or imbalance"
    )


def count(n: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "device"), count(2000, "device")
    ('1 device', '2,000 devices')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def duration(seconds: float) -> str:
    """Seconds in the unit one would say.

    >>> duration(90.0), duration(7200.0), duration(4e5), duration(4e9), duration(3e17)
    ('90 s', '2 h', '4.63 days', '127 years', 'more than a million years')
    """
    year_s = 365.25 * 86_400
    if seconds < 86_400 * 2:
        return si(seconds, "s")
    if seconds < year_s:
        return f"{seconds / 86_400:.3g} days"
    return f"{seconds / year_s:,.0f} years" if seconds < 1e6 * year_s else "more than a million years"


def si(value: float, unit: str) -> str:
    """Three digits with a prefix, seconds as minutes or hours.

    >>> si(0.0123, "J"), si(1520.0, "m"), si(75.0, "s"), si(4000.0, "s"), si(0, "B"), si(1.6e7, "m")
    ('12.3 mJ', '1.52 km', '75 s', '1.11 h', '0 B', '16,000 km')
    """
    if unit == "s" and value >= 120:
        return f"{value / 60:.3g} min" if value < 3600 else f"{value / 3600:.3g} h"
    if unit == "m" and value >= 1e6:
        return f"{float(f'{value / 1000:.3g}'):,.0f} km"
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {prefix}{unit}"
    if unit in ("J", "W", "s") and 0 < value < 0.9995:
        return f"{value * 1e3:.3g} m{unit}" if value >= 0.9995e-3 else f"{value * 1e6:.3g} µ{unit}"
    return f"{value:.3g} {unit}"


def _called(name: str, total: Mapping[str, Any]) -> str:
    if name == FLAT:
        return "everybody at the server"
    return f"{name.partition(' by ')[0]} with {count(total['clusters'], 'cluster')}"


def _and_more(ids: Sequence[str], links: Sequence[WeakLink]) -> str:
    if len(links) == 1:
        return ""
    named = ", ".join(ids[link.device] for link in links[1:4])
    return f"; so are the links of {len(links) - 1} more ({named}{', ...' if len(links) > 4 else ''})"
