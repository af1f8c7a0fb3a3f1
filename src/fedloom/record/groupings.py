"""Who reported to whom, as recorded: names of aggregators and groups, devices that bridge, methods that group alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedloom.record.runs import Run, by_method

if TYPE_CHECKING:
    import polars as pl


def distinct_topologies(runs: Sequence[Run]) -> list[tuple[list[str], Run]]:
    """Methods that group alike, each with a run to show it: of the lowest seed that has a topology."""
    groups: list[tuple[list[str], Run]] = []
    for method, same in by_method(runs).items():
        shown = min((run for run in same if run.topology is not None), key=lambda run: run.seed, default=None)
        if shown is None:
            continue
        for methods, run in groups:
            if run.topology is not None and shown.topology is not None and run.topology.equals(shown.topology):
                methods.append(method)
                break
        else:
            groups.append(([method], shown))
    return groups


def aggregator_names(place: pl.DataFrame) -> dict[int, str]:
    """Names such as "edge 0" or "head 12", by host; with several clusters on a host, or clusters that span hosts, also by
    cluster."""
    pairs = place.select("aggregator", "host", "kind").unique().sort("aggregator").rows()
    hosts = [host for aggregator, host, _ in pairs if aggregator >= 0]
    spanning = cluster_numbers(place)
    names = {}
    for aggregator, host, kind in pairs:
        if aggregator < 0:
            continue
        name = "cloud" if kind == "cloud" else f"{kind} {host}"
        if kind == "cloud" and len(hosts) > 1 and hosts.count(host) == 1:  # such as tiers of clients
            name = f"cloud, group {host}"
        alone = hosts.count(host) == 1 and not spanning
        names[int(aggregator)] = name if alone else f"{name}, cluster {spanning.get(aggregator, aggregator)}"
    return names


def aggregators_of(place: pl.DataFrame) -> dict[int, tuple[int, ...]]:
    """The aggregators of each device, ascending; () for one that takes no part."""
    found: dict[int, list[int]] = {}
    for client, aggregator in place.select("client", "aggregator").iter_rows():
        found.setdefault(int(client), []).extend([int(aggregator)] if aggregator >= 0 else [])
    return {client: tuple(sorted(set(those))) for client, those in found.items()}


def group_name(group: tuple[int, ...], names: dict[int, str]) -> str:
    """Words for devices that report to all of `group`: a cluster's name, or those of several joined.

    >>> group_name((0, 2), {0: "edge 0", 2: "edge 7"}), group_name((1,), {1: "head 4"}), group_name((), {})
    ('edges 0 + 7', 'head 4', 'takes no part')
    """
    if not group:
        return "takes no part"
    each = [names.get(n, f"cluster {n}") for n in group]
    kinds = {name.split(" ")[0] for name in each}
    if len(each) > 1 and len(kinds) == 1 and all(name.split(" ")[-1].isdigit() and "," not in name for name in each):
        return f"{kinds.pop()}s {' + '.join(name.split(' ')[-1] for name in each)}"
    return " + ".join(each)


def cluster_numbers(place: pl.DataFrame) -> dict[int, int]:
    """The cluster of each aggregator, if clusters span several of them, else {}."""
    if "cluster" not in place.columns:
        return {}
    pairs = place.select("aggregator", "cluster").unique().drop_nulls().iter_rows()
    return {int(n): int(c) for n, c in pairs if n >= 0}


def bridging(place: pl.DataFrame) -> list[int]:
    """Devices that report to several aggregators."""
    import polars as pl

    several = place.group_by("client").agg(pl.col("aggregator").n_unique().alias("n")).filter(pl.col("n") > 1)
    return sorted(int(client) for client in several["client"])
