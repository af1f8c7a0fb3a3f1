"""A plan and what belongs to it, as rows: a device, a cluster or a compared plan each, and all of it as a summary."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom._versions import version_of
from fedloom.fleet.table import FleetTable
from fedloom.planning import Devices, Figures, Objective, Plan, Turns, Work
from fedloom.record.plan_words import other_work, si, verdicts
from fedloom.simulator.ledger import HOPS

Floats = NDArray[np.float64]
Row = dict[str, Any]

MOST_CHOICES = 12  # numbers of clusters in the table


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """A plan and what belongs to it. others: the plans it is compared with, by what they are called; simple: those of them that
    anybody would try first. missing: columns that would improve it, and how; notes: what was assumed; warnings: what should not
    stay as it is. objective: what was asked for; by_number: the best that was found for it with some numbers of clusters,
    by_k_means: those of them that k-means found. run_as: the method of a run of the plan. turns: of every cluster, heads rising:
    who stands in for its head, and who leads it how often."""

    title: str
    table: FleetTable
    devices: Devices
    work: Work
    seed: int
    plan: Plan
    others: dict[str, Plan]
    missing: dict[str, str]
    notes: list[str]
    simple: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    objective: Objective | None = None
    by_number: tuple[Figures, ...] = ()
    by_k_means: frozenset[int] = frozenset()
    run_as: str = "geographic"
    turns: tuple[Turns, ...] = ()

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan first."""
        return {self.plan.name: self.plan, **self.others}

    @property
    def compared(self) -> list[str]:
        """How the plan stands against the best simple one, in sentences."""
        differs = other_work(self.plan, self.work.edge_rounds) if self.simple else None
        totals = {name: plan_totals(self, plan) for name, plan in self.plans.items()}
        return ([] if differs is None else [differs]) + verdicts(totals, self.simple)

    @property
    def drain(self) -> Floats | None:
        """(K,) of each battery in a cloud round, with heads that take turns if they do; None if batteries are not known."""
        if self.table.battery_j is None:
            return None
        drain: Floats = self.plan.joules / self.table.battery_j
        for one in self.turns:
            drain[one.members] = one.drain
        return drain

    @property
    def turns_of(self) -> dict[int, Turns]:
        """By head."""
        return {one.head: one for one in self.turns}

    def head_name(self, k: int) -> str:
        """Of a device; "server" for none."""
        return self.table.ids[k] if k >= 0 else "server"


def device_rows(planned: Planned) -> list[Row]:
    """A row per device, per cloud round."""
    plan, position, drain = planned.plan, planned.devices.position_m, planned.drain
    is_head = np.isin(np.arange(len(plan.cluster)), plan.topology.host) & (plan.topology.kind == "head")
    return [
        {
            "id": name,
            **_place(planned, position[k]),
            "cluster": int(plan.cluster[k]),
            "head": planned.head_name(int(plan.head[k])) if plan.cluster[k] >= 0 else "",
            "is_head": bool(is_head[k]),
            "distance_m": _short(plan.distance_m[k]),
            "tx_power_w": _short(plan.power_w[k]),
            "seconds": _short(plan.seconds[k]),
            "joules": _short(plan.joules[k]),
            "bytes_sent": int(plan.bytes_sent[k]),
            "bytes_received": int(plan.bytes_received[k]),
            **({} if drain is None else {"battery_rounds": _rounds(drain[k])}),
        }
        for k, name in enumerate(planned.table.ids)
    ]


def _rounds(drain: float) -> float | None:
    """Cloud rounds until a battery is empty; None: for ever."""
    return _short(1 / drain) if drain > 0 else None


def cluster_rows(planned: Planned) -> list[Row]:
    """A row per cluster, per cloud round."""
    plan, devices = planned.plan, planned.devices
    rows = []
    for n, members in enumerate(plan.topology.cover):
        head = int(plan.topology.host[n]) if plan.topology.kind == "head" else -1
        others = members & (np.arange(devices.n) != head)
        rows.append(
            {
                "cluster": n,
                "head": planned.head_name(head),
                **_turns_row(planned, head),
                **_place(planned, devices.position_m[head] if head >= 0 else devices.server_m),
                "devices": int(members.sum()),
                "n_samples": int(devices.n_samples[members].sum()) if planned.table.n_samples is not None else None,
                "edge_rounds": int(plan.edge_rounds[n]),
                "edge_round_s": _short(plan.edge_round_s[n]),
                "cloud_round_s": _short(plan.cluster_s[n]),
                "joules": _short(plan.joules[members].sum()),
                "bytes_sent": int(plan.bytes_sent[members].sum()),
                "member_distance_m": _short(plan.distance_m[others].mean()) if others.any() else 0.0,
                "server_distance_m": _short(devices.to_server_m[head]) if head >= 0 else 0.0,
                "label_imbalance": _known(plan.imbalance[n]),
            }
        )
    return rows


def _turns_row(planned: Planned, head: int) -> Row:
    """Who stands in for a head, and who leads its cluster how often."""
    one = planned.turns_of.get(head)
    if one is None:
        return {}
    row = {"stand_in": planned.table.ids[one.stand_in] if one.stand_in >= 0 else ""}
    if any(len(other.leaders) > 1 for other in planned.turns):
        leaders = zip(one.leaders.tolist(), one.share.tolist())
        row["turns"] = " ".join(f"{planned.table.ids[k]}:{share:.3f}" for k, share in leaders)
    return row


def _place(planned: Planned, point_m: Floats) -> Row:
    """A point in metres, and in degrees if the table is."""
    degrees = planned.table.to_degrees(point_m)
    there = {} if degrees is None else dict(zip(("latitude", "longitude"), degrees))
    return {**there, "x_m": float(point_m[0]), "y_m": float(point_m[1])}


def plan_totals(planned: Planned, plan: Plan) -> Row:
    """One cloud round of a plan, in all."""
    sends = (plan.cluster >= 0) & (plan.head != np.arange(len(plan.head)))
    return {
        "clusters": plan.n_clusters if plan.topology.kind == "head" else 0,
        "seconds": plan.time_s,
        "joules": plan.ledger.total_j,
        "most_joules_of_a_device": _short(plan.joules.max()),
        "bytes": plan.ledger.total_bytes,
        "server_bytes": int(plan.ledger.bytes[HOPS.index("device_cloud")].sum()),
        "mean_distance_m": _short(plan.distance_m[sends].mean()) if sends.any() else 0.0,
        "label_imbalance": _known(plan.mean_imbalance(planned.devices.n_samples)),
    }


def summary(planned: Planned) -> Row:
    """All but the devices: settings, totals, clusters, comparison, ledger, notes."""
    server = planned.devices.server_m
    return {
        "title": planned.title,
        "method": planned.plan.name,
        "run_as": planned.run_as,
        "version": version_of("fedloom"),
        "seed": planned.seed,
        "work": {name: value for name, value in asdict(planned.work).items() if value is not None},
        "n_devices": planned.devices.n,
        "origin_latitude_longitude": planned.table.origin,
        "server_m": server.tolist(),
        "server_latitude_longitude": planned.table.to_degrees(server),
        "per_cloud_round": {name: plan_totals(planned, plan) for name, plan in planned.plans.items()},
        "for": None if planned.objective is None else planned.objective.name,
        "first_battery_rounds": None if planned.drain is None else _rounds(float(planned.drain.max())),
        "by_number_of_clusters": [_figures_row(planned, figures) for figures in choices(planned)],
        "compared": planned.compared,
        "ledger": planned.plan.ledger.table(),
        "clusters": cluster_rows(planned),
        "would_improve": planned.missing,
        "notes": planned.notes,
        "warnings": list(planned.warnings),
    }


def choices(planned: Planned) -> list[Figures]:
    """The plan and those with other numbers of clusters that are better in something: in seconds, joules, the worst device's
    joules or imbalance; at most MOST_CHOICES."""
    if planned.objective is None:
        return []
    key = planned.objective.key
    best = min(planned.by_number, key=key, default=None)
    kept = [
        one for one in planned.by_number if one is best or not any(_beaten(one, other) for other in planned.by_number)
    ]
    while len(kept) > MOST_CHOICES:  # the one that is nearest to its neighbours goes
        ratio = [kept[i + 1].clusters / kept[i - 1].clusters for i in range(1, len(kept) - 1)]
        for i in np.argsort(ratio, kind="stable").tolist():
            if kept[i + 1] is not best:
                del kept[i + 1]
                break
    return kept


def _beaten(one: Figures, other: Figures) -> bool:
    """Another is nowhere worse, and better somewhere."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("seconds", "joules", "worst_j", "balance")]
    return all(b <= a * (1 + 1e-9) for a, b in pairs) and any(b < a * (1 - 1e-6) for a, b in pairs)


def _figures_row(planned: Planned, figures: Figures) -> Row:
    row = {
        "clusters": figures.clusters,
        "seconds": _short(figures.seconds),
        "joules": _short(figures.joules),
        "most_joules_of_a_device": _short(figures.worst_j),
        "bytes": int(figures.bytes),
    }
    if planned.table.battery_j is not None:
        row["most_drain_of_a_battery"] = _short(figures.battery)
    if planned.devices.label_counts.any():
        row["label_imbalance"] = round(figures.balance, 4)
    return row | {"found_by": _found_by(planned, figures)}


def _found_by(planned: Planned, figures: Figures) -> str:
    return "k-means" if figures.clusters in planned.by_k_means else "search"


def choice_rows(planned: Planned) -> list[Row]:
    """A row per number of clusters, as text."""
    rows = []
    for figures in choices(planned):
        row = {
            "clusters": str(figures.clusters),
            "time": si(figures.seconds, "s"),
            "energy": si(figures.joules, "J"),
            "worst device": si(figures.worst_j, "J"),
            "traffic": si(figures.bytes, "B"),
        }
        if planned.table.battery_j is not None:
            row["rounds of the first battery"] = f"{1 / figures.battery:,.0f}" if figures.battery > 0 else "-"
        if planned.devices.label_counts.any():
            row["imbalance"] = f"{round(figures.balance, 4):.3f}"
        rows.append(row | {"found by": _found_by(planned, figures)})
    return rows


def comparison_rows(planned: Planned) -> list[Row]:
    """A row per plan, as text."""
    rows = []
    for name, plan in planned.plans.items():
        total = plan_totals(planned, plan)
        rows.append(
            {
                "plan": name,
                "clusters": str(total["clusters"] or "-"),
                "time": si(total["seconds"], "s"),
                "energy": si(total["joules"], "J"),
                "worst device": si(total["most_joules_of_a_device"], "J"),
                "traffic": si(total["bytes"], "B"),
                "at server": si(total["server_bytes"], "B"),
                "mean link": si(total["mean_distance_m"], "m"),
                "imbalance": "-" if total["label_imbalance"] is None else f"{total['label_imbalance']:.3f}",
            }
        )
    return rows


def _short(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)
