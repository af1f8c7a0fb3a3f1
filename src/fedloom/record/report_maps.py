"""Sections of the report that show who is where and holds what: the maps and the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedloom.record.groupings import aggregator_names, bridging, distinct_topologies
from fedloom.record.label_figures import MOST_CLIENTS, client_labels_figure, clusters, labels_figure
from fedloom.record.maps import MOST_PLACES, SIGNS, head_powers, map_figure
from fedloom.record.report_elements import MOST_MAPS, Figures, escape
from fedloom.record.runs import Run

if TYPE_CHECKING:
    import polars as pl


def maps_section(runs: Sequence[Run], figures: Figures) -> str:
    """A map for every grouping."""
    groups = distinct_topologies(runs)
    if not groups:
        return ""
    shown = groups[:MOST_MAPS]
    cards, drawn = [], set()
    for i, (methods, run) in enumerate(shown):
        place = run.first_place
        assert place is not None
        figure = map_figure(run, MOST_PLACES // len(shown))
        drawn |= {trace.name for trace in figure.data}
        rounds = figure.layout.meta["rounds"]
        slider = _round_slider(f"map-{i}", rounds) if len(rounds) > 1 else ""
        words = escape(_map_words(run, place))
        cards.append(figures.embed(figure, f"map-{i}", escape(", ".join(methods)), words, after=slider))
    seeds = ", ".join(map(str, sorted({run.seed for _, run in shown})))
    key = "".join(f"<span>{sign} {name}</span>" for name, sign in SIGNS.items() if name in drawn)
    return (
        '<section id="map"><h2>The map</h2><p class="note">Colours tell the clusters apart; dotted circles are the '
        "reach of cells, rectangles regions; lines go to a device’s aggregators. Methods that group alike share a map. "
        f"Seed {seeds}."
        f"{_left_out(groups)}</p>"
        f'<div class="chips key">{key}</div><div class="grid">{"".join(cards)}</div></section>'
    )


def _left_out(groups: Sequence[Any]) -> str:
    more = len(groups) - MOST_MAPS
    return f" {more} more groupings are not shown." if more > 0 else ""


def _round_slider(name: str, rounds: Sequence[int]) -> str:
    """A slider over cloud rounds with a button to play them."""
    return (
        f'<div class="controls rounds"><button type="button" class="play" data-for="{name}" aria-label="play">▶</button>'
        f'<input type="range" data-for="{name}" min="0" max="{len(rounds) - 1}" value="0" step="1" '
        f'aria-label="cloud round"><output data-for="{name}">from cloud round {rounds[0]}</output></div>'
    )


def _map_words(run: Run, place: pl.DataFrame) -> str:
    """What the map shows, and which devices are in several clusters."""
    kind, n = place["kind"][0], len(aggregator_names(place))
    if kind == "cloud":
        words = "Where the devices are. All of them report to the cloud."
    elif kind == "edge":
        words = f"Where the devices are, and the {n} edge cluster{'s' if n > 1 else ''} they report to."
    else:
        words = f"Where the devices are, and the {n} clusters they form, each with a device as its head."
        if head_powers(place):
            words += " Beside heads: the power they were given to send with."
    idle = place.filter(place["aggregator"] < 0)["client"].to_list()
    for text, devices in (("report to several aggregators", bridging(place)), ("take no part", idle)):
        if devices:
            more = f" and {len(devices) - 30} more" if len(devices) > 30 else ""
            shown = ", ".join(map(str, devices[:30])) + more
            words += f" {len(devices)} devices {text}: {shown}."
    topology = run.topology
    n_rounds = 0 if topology is None else topology["cloud_round"].n_unique()
    return words + (f" It changed {n_rounds - 1} times; the slider moves through the rounds." if n_rounds > 1 else "")


def labels_section(runs: Sequence[Run], figures: Figures) -> str:
    """Labels by device and by cluster, for every grouping."""
    groups = distinct_topologies(runs)
    if not groups:
        return ""
    shown = groups[:MOST_MAPS]
    cards = []
    for i, (methods, run) in enumerate(shown):
        found = clusters(run)
        names = escape(", ".join(methods))
        n_clients = len(run.clients["n_samples"])
        some = f" ({MOST_CLIENTS} of {n_clients:,} are shown)" if n_clients > MOST_CLIENTS else ""
        if found.shares.shape[1]:
            n_samples = found.n_samples[:-1]
            mean = float((found.distance * n_samples).sum() / max(n_samples.sum(), 1))
            each = f"Samples of each class that every device holds, cluster by cluster{some}.{_shared(run)}"
            share = (
                "Share of each class in a cluster’s samples, in percent. The number beside a cluster is its divergence "
                "from all devices, the total variation distance of its labels: 0 is alike, 1 has no class in common. "
                f"Mean distance, weighted by samples: {mean:.2f}.{_counted(run)}"
            )
        else:
            each = (
                f"Training samples of every device, cluster by cluster{some}; regression has no classes.{_shared(run)}"
            )
            share = f"Training samples of each cluster.{_counted(run)}"
        most = max(50, 2 * MOST_CLIENTS // len(shown))
        figure = client_labels_figure(run, min(MOST_CLIENTS, most))
        cards.append(figures.embed(figure, f"clients-{i}", f"{names}: devices", each))
        cards.append(figures.embed(labels_figure(run), f"labels-{i}", f"{names}: clusters", share))
    return (
        '<section id="labels"><h2>Who holds what</h2><p class="note">Training data as it was shared out, grouped as in '
        f"the first cloud round.{_left_out(groups)}</p>"
        f'<div class="grid">{"".join(cards)}</div></section>'
    )


def _shared(run: Run) -> str:
    """Where devices of several clusters stand, if there are any."""
    several = run.first_place is not None and bridging(run.first_place)
    return " Devices that report to several aggregators stand in groups of their own, once each." if several else ""


def _counted(run: Run) -> str:
    """How devices of several clusters count for clusters, if there are any."""
    several = run.first_place is not None and bridging(run.first_place)
    return " A device of several clusters counts in each, and once among all devices." if several else ""
