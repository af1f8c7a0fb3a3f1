"""The report of folders small enough to know what every figure must hold."""

import base64
import dataclasses
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedloom.record import (
    curves,
    figure_style,
    groupings,
    headline,
    label_figures,
    ledgers,
    maps,
    report,
    report_making,
    timeline,
)
from fedloom.record.axes import AXES
from fedloom.record.comparison import compare
from fedloom.record.comparison_table import rich_tables
from fedloom.record.runs import BOOKINGS, DISPATCHES, Run, find_runs, read_run

LEDGER = [
    {"hop": "device_edge", "direction": "up", "bytes": 3_000_000, "airtime_s": 30.0, "energy_j": 6.0},
    {"hop": "computing", "direction": "", "bytes": 0, "airtime_s": 90.0, "energy_j": 14.0},
]
# cloud_round, client, aggregator, kind, host, x_m, y_m: client 1 is in both cells, client 3 in none
OVERLAP = [
    (1, 0, 0, "edge", 0, -50.0, 0.0),
    (1, 1, 0, "edge", 0, 50.0, 0.0),
    (1, 1, 1, "edge", 1, 50.0, 0.0),
    (1, 2, 1, "edge", 1, 150.0, 0.0),
    (1, 3, -1, "edge", -1, 900.0, 0.0),
]
# heads 0 and 2; in round 3 client 1 changes its cluster and moves
MOVING = [
    (1, 0, 0, "head", 0, -50.0, 0.0),
    (1, 1, 0, "head", 0, 50.0, 0.0),
    (1, 2, 1, "head", 2, 150.0, 0.0),
    (3, 0, 0, "head", 0, -50.0, 0.0),
    (3, 1, 1, "head", 2, 99.0, 0.0),
    (3, 2, 1, "head", 2, 150.0, 0.0),
]
LABELS = [[4, 0], [0, 4], [4, 0], [2, 2]]
# cloud_round, edge_round, client, aggregator, start_s, compute_s, upload_s, arrival_s, merged_s, late, moved
WORK = [
    (1, 1, 0, 0, 10.0, 2.0, 1.0, 14.0, 18.0, False, False),  # fetches 1 s, waits 4 s
    (1, 1, 1, 0, 10.0, 5.0, 2.0, 18.0, 18.0, False, False),
    (1, 1, 2, 1, 10.0, 1.0, 0.0, 11.0, None, True, True),  # never merged
    (2, 2, 0, 0, 20.0, 2.0, 1.0, 24.0, 24.0, False, False),
]

# cloud_round, aggregator, hop, direction, links, bytes, airtime_s, energy_j: they add up to LEDGER
BOOKED = [
    (1, 0, "device_edge", "up", 2, 1_500_000, 12.0, 2.0),
    (1, 1, "device_edge", "up", 1, 500_000, 8.0, 1.0),
    (2, 0, "device_edge", "up", 1, 750_000, 6.0, 2.0),
    (1, -1, "device_edge", "up", 4, 250_000, 4.0, 1.0),
    (1, 0, "computing", "", 0, 0, 60.0, 10.0),
    (2, 1, "computing", "", 0, 0, 30.0, 4.0),
]


def write_run(
    folder: Path,
    method: str = "a",
    seed: int = 0,
    scores: tuple[float, ...] = (0.1, 0.5, 0.7),
    seconds: tuple[float, ...] = (0.0, 2.0, 4.0),
    *,
    measure: str = "accuracy",
    places: list[tuple[Any, ...]] | None = OVERLAP,
    labels: list[list[int]] = LABELS,
    name: str = "tiny",
    ledger: list[dict[str, Any]] = LEDGER,
    work: list[tuple[Any, ...]] | None = None,
    booked: list[tuple[Any, ...]] | None = None,
) -> Run:
    """A run of 4 devices in two cells of 100 m; unfinished if `places` is None. work: its timeline; booked: its costs by
    cluster."""
    folder.mkdir(parents=True)
    fleet = {"compute": {"power_w": 2.0}, "device_edge": {"up": {"power_w": 0.5}}}
    task = {"model": {"kind": "mlp", "hidden": [8]}}
    content = {
        "scenario": {"name": name, "description": "four devices", "fleet": fleet, "task": task},
        "method": method,
        "seed": seed,
        "data": "toy",
        "n_params": 1234,
        "clients": {"n_samples": [4, 4, 4, 4], "label_counts": labels},
        "cells": {"centre_m": [[0, 0], [100, 0]], "radius_m": [100, None], "server_m": [50, 50]},
        "versions": {"fedloom": "0.1.0"},
        "machine": {"system": "Linux", "cores": 2},
        "started": "2026-01-01T00:00:00+0000",
    }
    (folder / "run.json").write_text(json.dumps(content))
    n = range(len(scores))
    columns: dict[str, Any] = {"cloud_round": list(n), "local_steps": [10 * i for i in n], "time_s": list(seconds)}
    columns |= {"energy_j": [3.0 * i for i in n], "bytes": [100 * i for i in n], measure: list(scores)}
    pl.DataFrame(columns).write_parquet(folder / "metrics.parquet")
    if work is not None:
        pl.DataFrame(work, schema=list(DISPATCHES), orient="row").write_parquet(folder / "timeline.parquet")
    if booked is not None:
        pl.DataFrame(booked, schema=list(BOOKINGS), orient="row").write_parquet(folder / "costs.parquet")
    if places is not None:
        schema = ["cloud_round", "client", "aggregator", "kind", "host", "x_m", "y_m"]
        pl.DataFrame(places, schema=schema, orient="row").write_parquet(folder / "topology.parquet")
        (folder / "summary.json").write_text(json.dumps({"ledger": ledger, "wall_s": 61.0}))
    return read_run(folder)


def unpacked(page: str, name: str) -> str:
    """What is packed into the page under a name."""
    (packed,) = re.findall(rf'<script type="application/gzip" id="packed-{name}">([A-Za-z0-9+/=]*)</script>', page)
    return gzip.decompress(base64.b64decode(packed)).decode()


def data_of(page: str) -> dict[str, Any]:
    return json.loads(unpacked(page, "data"))


def trace(figure: Any, name: str, which: int = 0) -> Any:
    return [t for t in figure.data if t.name == name][which]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    write_run(tmp_path / "a0", "a", 0)
    write_run(tmp_path / "a1", "a", 1, (0.1, 0.7, 0.9))
    write_run(tmp_path / "b0", "b", 0, (0.1, 0.4, 0.6), places=MOVING)
    return find_runs([tmp_path])


def test_the_page_holds_every_section_and_loads_nothing(runs, tmp_path):
    path = report.write_report(runs, tmp_path / "new" / "report.html")
    page = path.read_text(encoding="utf-8")
    for name in report.SECTIONS:
        there = name not in ("measured", "failures")  # of simulated runs nothing is, and of these nothing failed
        assert (f'<section id="{name}"' in page) == (f'<a href="#{name}">' in page) == there
    for text in ("<h1>tiny</h1>", "four devices", "toy", "mlp (8), 1,234 values", "80.0 %", "different seeds"):
        assert text in page
    assert len(page) < 6e6 and unpacked(page, "plotly").count("plotly.js v") == 1
    assert not re.search(r"https?://", page)
    assert not re.search(r"<(img|iframe|script|source)[^>]+(src|href)\s*=|@import|url\(", page)
    assert re.findall(r"<link[^>]*>", page) == ['<link rel="icon" href="data:,">']
    assert "default-src 'none'" in page
    drawn = data_of(page)["figures"]
    assert len(drawn) == 2 + 2 * 2 + 3 and all(set(figure) >= {"data", "layout"} for figure in drawn.values())


def test_every_figure_has_a_caption_and_can_be_saved(runs, tmp_path):
    page = report.write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    cards = re.findall(r'<figure class="card">.*?</figure>', page, re.DOTALL)
    assert len(cards) == len(data_of(page)["figures"]) + 1  # and the curves, which are drawn from a table
    for card in cards:
        (name,) = re.findall(r'<div class="figure" id="([^"]+)"', card)
        assert len(re.findall(r"<figcaption>(.{20,}?)</figcaption>", card, re.DOTALL)) == 1
        assert re.findall(rf'data-save="(\w+)" data-for="{name}"', card) == ["svg", "png", "csv"]


def test_a_title_can_be_given(runs, tmp_path):
    page = report.write_report(runs, tmp_path / "report.html", title="Ours & theirs").read_text(encoding="utf-8")
    assert "<title>Ours &amp; theirs</title>" in page and "<h1>Ours &amp; theirs</h1>" in page


def test_text_from_files_cannot_become_markup(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x onerror=\"alert('2')\">"
    ledger = [{**LEDGER[0], "hop": evil}, LEDGER[1]]
    booked = [(n, a, evil if hop != "computing" else hop, *rest) for n, a, hop, *rest in BOOKED]
    write_run(tmp_path / "runs" / "a", evil, name=evil, ledger=ledger, work=WORK, booked=booked)
    runs = find_runs([tmp_path / "runs"])
    page = report.write_report(runs, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<img" not in page
    assert page.count("<script") == page.count("</script>") == 3
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page
    for figure in (ledgers.ledger_figure(runs, "energy_j"), timeline.cluster_cost_figure(runs[0], "energy_j")):
        assert "<img" not in figure.to_json().replace("\\u003c", "<")


def test_the_curve_of_two_seeds_by_hand(tmp_path):
    """Seeds evaluated at 0, 2, 4 s and at 0, 4, 8 s."""
    write_run(tmp_path / "a0", "a", 0, (0.0, 0.4, 0.6), (0.0, 2.0, 4.0))
    write_run(tmp_path / "a1", "a", 1, (0.0, 0.4, 0.8), (0.0, 4.0, 8.0))
    curve = curves.mean_curve(find_runs([tmp_path]), "seconds")
    np.testing.assert_allclose(curve.x, [0, 2, 4, 8])
    # seed 0: 0, 0.4, 0.6, and 0.6 held; seed 1: 0, halfway to 0.4, 0.4, 0.8
    np.testing.assert_allclose(curve.mean, [0, (0.4 + 0.2) / 2, (0.6 + 0.4) / 2, (0.6 + 0.8) / 2])
    assert curve.half is None  # two seeds tell no interval
    np.testing.assert_allclose(curve.costs["steps"], [0, (10 + 5) / 2, (20 + 10) / 2, 20])


def test_the_curve_ends_where_an_unfinished_run_ends(tmp_path):
    write_run(tmp_path / "a0", "a", 0)
    write_run(tmp_path / "a1", "a", 1, (0.1, 0.7), (0.0, 2.0), places=None)
    np.testing.assert_allclose(curves.mean_curve(find_runs([tmp_path]), "seconds").x, [0, 2])


def test_curves_have_an_entry_for_each_method_axis_and_measure(runs):
    data = curves.curve_data(runs)
    assert [m["name"] for m in data["methods"]] == ["a", "b"] and [m["seeds"] for m in data["methods"]] == [2, 1]
    assert [m["color"] for m in data["methods"]] == list(curves.METHOD_COLORS[:2])
    assert list(data["axes"]) == list(data["curves"]) == ["steps", "seconds", "joules", "bytes"]
    assert [m["key"] for m in data["measures"]] == ["accuracy"]
    a, b = data["curves"]["steps"]
    assert a["x"] == [0, 10, 20] and a["costs"]["seconds"] == [0, 2, 4] and a["costs"]["joules"] == [0, 3, 6]
    np.testing.assert_allclose(a["measures"]["accuracy"]["mean"], [0.1, 0.6, 0.8])
    assert b["measures"]["accuracy"] == {"mean": [0.1, 0.4, 0.6], "half": None}


def test_the_band_of_a_curve_is_the_interval_of_its_mean(tmp_path):
    for seed, final in enumerate((0.5, 0.6, 0.7)):
        write_run(tmp_path / f"a{seed}", "a", seed, (0.1, final), (0.0, 2.0))
    runs = find_runs([tmp_path])
    np.testing.assert_allclose(curves.mean_curve(runs, "steps").half, [0, 4.302653 * 0.1 / np.sqrt(3)], atol=1e-7)
    row = compare(runs).rows[0]
    assert row.final.half == pytest.approx(curves.mean_curve(runs, "steps").half[-1])  # the same in table and curve
    again = [*runs, dataclasses.replace(runs[0])]  # a seed that is there twice counts once
    np.testing.assert_allclose(curves.mean_curve(again, "steps").half, curves.mean_curve(runs, "steps").half)


def test_several_evaluations_in_a_cloud_round_are_points_of_the_curve(tmp_path):
    run = write_run(tmp_path / "a", scores=(0.1, 0.3, 0.5, 0.7, 0.8), seconds=(0.0, 1.0, 2.0, 3.0, 4.0))
    frame = run.metrics.with_columns(cloud_round=pl.Series([0, 1, 1, 2, 2]), edge_round=pl.Series([0, 1, 2, 3, 4]))
    frame = frame.with_columns(edge_accuracy=pl.Series([None, None, 0.4, None, 0.6]))  # measured at cloud rounds only
    frame.write_parquet(run.path / "metrics.parquet")
    run = read_run(run.path)
    assert len(curves.mean_curve([run], "steps").x) == 5
    np.testing.assert_allclose(curves.mean_curve([run], "steps", "edge_accuracy").mean, [np.nan, np.nan, 0.4, 0.5, 0.6])
    assert compare([run]).rows[0].others["edge_accuracy"].mean == 0.6
    assert curves.curve_data([run])["curves"]["steps"][0]["measures"]["edge_accuracy"]["mean"][:2] == [None, None]


def test_a_measure_that_one_method_lacks_is_drawn_of_the_others(tmp_path):
    run = write_run(tmp_path / "a", "a")
    run.metrics.with_columns(local_by_edge=pl.Series([0.1, 0.5, 0.9])).write_parquet(run.path / "metrics.parquet")
    write_run(tmp_path / "b", "b")
    runs = find_runs([tmp_path])
    assert curves.measures(runs) == ["accuracy", "local_by_edge"]
    a, b = curves.curve_data(runs)["curves"]["steps"]
    assert a["measures"]["local_by_edge"]["mean"] == [0.1, 0.5, 0.9]
    assert b["measures"]["local_by_edge"]["mean"] == [None] * 3


def test_measures_are_those_all_runs_have_and_that_change(tmp_path):
    for i in range(2):
        run = write_run(tmp_path / str(i), "a", i)
        extra = {"loss": [2.0, 1.5, float("nan")], "late": [0, 0, 0], "models_once": [0, 1, 2], "word": ["x", "y", "z"]}
        frame = run.metrics.with_columns(**{k: pl.Series(v) for k, v in extra.items()})
        frame = frame.with_columns(only_here=pl.Series([1.0, 2.0, 3.0])) if i else frame
        frame.write_parquet(run.path / "metrics.parquet")
    found = find_runs([tmp_path])
    assert curves.measures(found) == ["accuracy", "loss"]
    assert curves.curve_data(found)["curves"]["steps"][0]["measures"]["loss"]["mean"] == [2.0, 1.5, None]


def test_the_start_does_not_flatten_the_curves(runs):
    low, high = curves.score_range(runs)
    assert 0.3 < low < 0.4 and 0.9 < high <= 1.0  # without the 0.1 before training


def test_long_curves_are_thinned_to_their_ends(tmp_path):
    n = 3000
    run = write_run(tmp_path / "a", scores=tuple(np.linspace(0, 1, n)), seconds=tuple(map(float, range(n))))
    curve = curves.mean_curve([run], "seconds")
    assert len(curve.x) <= curves.MOST_POINTS and (curve.x[0], curve.x[-1], curve.mean[-1]) == (0, n - 1, 1)
    assert curve.half is None


def test_the_map_shows_the_powers_that_heads_were_given(tmp_path):
    run = write_run(tmp_path / "a", places=MOVING)
    assert run.topology is not None
    assert maps.head_powers(run.topology) == {} and trace(maps.map_figure(run), "cluster head").mode == "markers"
    power_w = pl.when(pl.col("aggregator") == 0).then(0.25).otherwise(0.0123)
    given = dataclasses.replace(run, topology=run.topology.with_columns(head_power_w=power_w))
    heads = trace(maps.map_figure(given), "cluster head")
    assert list(heads.customdata) == ["0.25 W", "12 mW"] and heads.mode == "markers+text"
    assert list(heads.text) == ["head 0<br>sends with 0.25 W", "head 2<br>sends with 12 mW"]


def test_the_map_shows_bridging_and_idle_devices_and_servers(runs):
    figure = maps.map_figure(runs[0])
    assert list(trace(figure, "device").x) == [-50, 150]
    assert list(trace(figure, "device").marker.color) == list(figure_style.CLUSTER_COLORS[:2])
    assert list(trace(figure, "bridging device").x) == [50]
    assert trace(figure, "bridging device").hovertext[0] == "device 1<br>edge 0, edge 1<br>4 samples"
    assert list(trace(figure, "takes no part").x) == [900]
    assert list(trace(figure, "edge server").x) == [0, 100] and trace(figure, "edge server").marker.symbol == "square"
    assert (trace(figure, "cloud server").x[0], trace(figure, "cloud server").y[0]) == (50, 50)
    (circle,) = figure.layout.shapes  # the second cell reaches everybody
    assert (circle.x0, circle.x1, circle.y0, circle.y1) == (-100, 100, -100, 100)
    assert figure.layout.yaxis.scaleanchor == "x" and figure.layout.xaxis.title.text == "x (m)"
    assert list(figure.layout.meta["rounds"]) == [1]
    assert groupings.bridging(runs[0].topology) == [1]


def test_a_changing_topology_has_frames_and_a_slider(runs, tmp_path):
    figure = maps.map_figure(runs[2])
    assert list(figure.layout.meta["rounds"]) == [1, 3]
    first, last = trace(figure, "device", 0), trace(figure, "device", 1)
    assert first.visible is None and last.visible is False
    assert (list(first.x), list(last.x)) == ([-50, 50, 150], [-50, 99, 150])
    assert last.marker.color[1] == figure_style.CLUSTER_COLORS[1]
    assert trace(figure, "cluster head").marker.symbol == "star" and list(trace(figure, "cluster head").x) == [-50, 150]
    of_last = [t.name for t, f in zip(figure.data, figure.layout.meta["frames"]) if f in (-1, 1)]
    assert of_last == ["cell centre", "cloud server", "link", "device", "cluster head"]
    low, high = figure.layout.xaxis.range  # the same for all rounds: first cell from -100, second device at 150
    assert -120 < low < -100 and 150 < high < 170
    page = report.write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count('type="range" data-for="map-') == 1 and 'max="1"' in page


def test_of_many_rounds_a_choice_is_drawn(tmp_path):
    places = [(r, c, 0, "cloud", 0, 0.0, 0.0) for r in range(1, 101) for c in range(4)]
    run = write_run(tmp_path / "a", places=places)
    rounds = maps.map_figure(run, most_places=20).layout.meta["rounds"]
    assert len(rounds) == 5 and (rounds[0], rounds[-1]) == (1, 100)


def test_methods_that_group_alike_share_a_map(tmp_path):
    write_run(tmp_path / "a", "a")
    write_run(tmp_path / "b", "b", places=MOVING)
    write_run(tmp_path / "c", "c")
    write_run(tmp_path / "d", "d", places=None)
    assert [names for names, _ in groupings.distinct_topologies(find_runs([tmp_path]))] == [["a", "c"], ["b"]]


def test_several_clusters_on_one_server_have_names_of_their_own():
    rows = [(0, 0, "edge"), (1, 0, "edge"), (2, 1, "edge"), (-1, -1, "edge")]
    place = pl.DataFrame(rows, schema=["aggregator", "host", "kind"], orient="row")
    assert groupings.aggregator_names(place) == {0: "edge 0, cluster 0", 1: "edge 0, cluster 1", 2: "edge 1"}
    spanning = place.with_columns(cluster=pl.col("aggregator") % 2)  # edges 0 and 1 keep models of cluster 0
    assert groupings.aggregator_names(spanning)[2] == "edge 1, cluster 0"
    assert groupings.cluster_numbers(spanning) == {0: 0, 1: 1, 2: 0} and groupings.cluster_numbers(place) == {}


def test_aggregators_that_get_clients_later_have_their_names_before(tmp_path):
    later = [(3, 2, 2, "edge", 7, 150.0, 0.0) if row[1] == 2 else (3, *row[1:]) for row in OVERLAP]
    run = write_run(tmp_path / "a", places=[*OVERLAP, *later], work=WORK)
    assert timeline.cluster_names(run, 1) == {0: "edge 0", 1: "edge 1", 2: "edge 7"}


def test_label_shares_and_distance_by_hand(runs):
    found = label_figures.clusters(runs[2])  # heads: {0, 1} holds (4, 4), {2} holds (4, 0); all hold (10, 6)
    np.testing.assert_allclose(found.shares, [[0.5, 0.5], [1, 0], [0.625, 0.375]])
    np.testing.assert_allclose(found.distance, [0.125, 0.375])  # half of |0.5 - 0.625| + |0.5 - 0.375|, and so on
    assert found.names == ["head 0", "head 2"] and list(found.n_samples) == [8, 4, 16]
    (heat,) = label_figures.labels_figure(runs[2]).data
    np.testing.assert_allclose(heat.z, [[50, 50], [100, 0], [62.5, 37.5]])
    assert list(heat.y) == ["head 0  ·  0.12", "head 2  ·  0.38", "all devices"]


def test_clients_stand_cluster_by_cluster(runs):
    order, group, names = label_figures.ordered_clients(runs[0], 100)  # 1 is in both cells, 3 in none
    assert (order.tolist(), group.tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert names == ["edge 0", "edges 0 + 1", "edge 1", "takes no part"]
    figure = label_figures.client_labels_figure(runs[0])
    np.testing.assert_array_equal(figure.data[0].z, [[4, 0, 4, 2], [0, 4, 0, 2]])
    assert [shape.x0 for shape in figure.layout.shapes] == [0.5, 1.5, 2.5]
    assert list(figure.layout.xaxis.ticktext) == ["edge 0", "edges 0 + 1", "edge 1", "takes no part"]
    assert len(label_figures.client_labels_figure(runs[0], most_clients=2).data[0].x) == 2


def test_the_ledger_is_the_mean_over_seeds(tmp_path):
    double = [{k: 3 * v if isinstance(v, (int, float)) else v for k, v in line.items()} for line in LEDGER]
    write_run(tmp_path / "a0", "a", 0)
    write_run(tmp_path / "a1", "a", 1, ledger=double)
    runs = find_runs([tmp_path])
    assert ledgers.ledger_means(runs)["a"]["computing", ""]["energy_j"] == pytest.approx((14 + 42) / 2)
    computing, up = ledgers.ledger_figure(runs, "energy_j").data
    assert (computing.name, computing.x[0]) == ("computing", pytest.approx(28))
    assert (up.name, up.x[0]) == ("device to edge", pytest.approx(12))
    (traffic,) = ledgers.ledger_figure(runs, "bytes").data
    assert traffic.x[0] == pytest.approx(6) and ledgers.ledger_figure(runs, "bytes").layout.xaxis.title.text == "MB"


def test_regression_shows_rmse_and_samples(tmp_path):
    write_run(tmp_path / "runs" / "a", scores=(3.0, 1.0, 0.5), measure="rmse", labels=[[], [], [], []])
    runs = find_runs([tmp_path / "runs"])
    page = report.write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "RMSE after equal steps" in page and "regression has no classes" in page and "ccuracy" not in page
    assert [m["label"] for m in curves.curve_data(runs)["measures"]] == ["RMSE"]
    (clients,) = label_figures.client_labels_figure(runs[0]).data
    assert list(clients.y) == [4, 4, 4, 4]
    (bars,) = label_figures.labels_figure(runs[0]).data
    assert list(bars.x) == [8, 8]


def test_unfinished_runs_make_a_report_too(tmp_path):
    write_run(tmp_path / "runs" / "a", places=None)
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "is unfinished" in page and '<section id="map"' not in page and "left no timeline" in page


@pytest.mark.slow
def test_many_methods_and_devices_stay_below_six_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    n = 1000
    for m in range(8):
        place = {
            "cloud_round": np.repeat(np.arange(1, 21), n),
            "client": np.tile(np.arange(n), 20),
            "aggregator": rng.integers(0, 20, 20 * n),
            "kind": ["edge"] * 20 * n,
            "host": np.zeros(20 * n, dtype=int),
            "x_m": rng.uniform(0, 1000, 20 * n),
            "y_m": rng.uniform(0, 1000, 20 * n),
        }
        run = write_run(tmp_path / "runs" / str(m), f"m{m}", scores=tuple(rng.random(500)), seconds=tuple(range(500)))
        content = json.loads((run.path / "run.json").read_text())
        content["clients"] = {"n_samples": [10] * n, "label_counts": [[1] * 10] * n}
        (run.path / "run.json").write_text(json.dumps(content))
        pl.DataFrame(place).write_parquet(run.path / "topology.parquet")
    path = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html")
    assert path.stat().st_size < 6e6
    assert len(set(curves.method_styles(find_runs([tmp_path / "runs"])).values())) == 8


def test_the_report_itself_imports_neither_torch_nor_plotly():
    """Seen with a package `fedloom.record` that imports nothing of its own accord."""
    code = (
        "import sys, types, fedloom; bare = types.ModuleType('fedloom.record'); "
        f"bare.__path__ = [{str(Path(report.__file__).parent)!r}]; sys.modules['fedloom.record'] = bare; "
        "import fedloom.record.report; sys.exit(bool({'torch', 'plotly', 'polars'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_links_of_the_map_show_how_long_a_model_takes():
    seconds = {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0, 4: float("inf")}  # client 0 is the head itself
    place = pl.DataFrame({"client": list(seconds), "up_s": list(seconds.values())})
    assert maps.link_qualities(place) == {0: "link", 1: "fast link", 2: "link", 3: "slow link", 4: "link down"}
    alike = pl.DataFrame({"client": [0, 1, 2], "up_s": [2.0, 2.1, 2.2]})
    assert set(maps.link_qualities(alike).values()) == {"link"}
    assert set(maps.link_qualities(alike.drop("up_s")).values()) == {"link"}


def test_the_timeline_of_a_cloud_round_by_hand(tmp_path):
    run = write_run(tmp_path / "a", work=WORK)
    found = timeline.dispatches(run, 1)
    assert (found.begin_s, found.end_s) == (10.0, 8.0) and found.client.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.spans, [[1, 2, 1, 4], [1, 5, 2, 0], [0, 1, 0, 0]])
    assert found.late.tolist() == found.moved.tolist() == [False, False, True]
    assert found.groups == ((0,), (0, 1), (1,)) and found.group.tolist() == [0, 1, 2]  # client 1 reports to both
    shares = timeline.utilisation(found)  # one client each for 8 s
    np.testing.assert_allclose(shares[(0,)], np.array([1, 2, 1, 4]) / 8)
    np.testing.assert_allclose(shares[(0, 1)], np.array([1, 5, 2, 0]) / 8)
    np.testing.assert_allclose(shares[(1,)], np.array([0, 1, 0, 0]) / 8)
    (data,) = timeline.timeline_data([run])
    assert [r["round"] for r in data["rounds"]] == [1, 2] and data["rounds"][0]["late"] == [2]
    assert data["rounds"][0]["cluster"] == ["edge 0", "edges 0 + 1", "edge 1"]
    assert list(data["rounds"][0]["shares"]) == ["edge 0", "edges 0 + 1", "edge 1"]
    assert timeline.timeline_data([write_run(tmp_path / "b")]) == []


def test_a_client_with_two_aggregators_works_once(tmp_path):
    twice = [*WORK, (2, 2, 0, 1, 20.0, 2.0, 1.0, 24.0, 24.0, False, False)]
    run = write_run(tmp_path / "a", work=twice)
    assert timeline.dispatches(run, 2).client.tolist() == [0]


def test_of_a_long_timeline_a_choice_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_ROWS", 6)
    monkeypatch.setattr(timeline, "MOST_CLIENTS", 2)
    rows = [(r, r, k, 0, 1.0 * r, 0.2, 0.1, r + 0.5, r + 0.5, False, False) for r in range(1, 11) for k in range(3)]
    (data,) = timeline.timeline_data([write_run(tmp_path / "a", work=rows)])
    assert [r["round"] for r in data["rounds"]] == [1, 10]
    assert data["rounds"][0]["client"] == [0, 1] and data["rounds"][0]["n_clients"] == 3  # 0, 2, and 1 of both cells


def test_costs_by_cluster_are_the_ledger_by_hand(tmp_path):
    run = write_run(tmp_path / "a", booked=BOOKED)
    costs = timeline.cluster_costs(run)
    assert list(costs) == ["edge 0", "edge 1", "collecting features"]
    assert costs["edge 0"]["device_edge", "up"] == {"energy_j": 4.0, "bytes": 2_250_000.0, "airtime_s": 18.0}
    assert costs["edge 0"]["computing", ""] == {"energy_j": 10.0, "bytes": 0.0, "airtime_s": 60.0}
    assert costs["collecting features"] == {
        ("device_edge", "up"): {"energy_j": 1.0, "bytes": 250_000, "airtime_s": 4.0}
    }
    assert timeline.does_not_add_up(run) == []
    computing, up = timeline.cluster_cost_figure(run, "energy_j").data
    assert list(up.y) == list(costs) and (list(computing.x), list(up.x)) == ([10, 4, 0], [4, 1, 1])
    assert (up.name, up.marker.color) == ledgers.HOPS["device_edge", "up"]


def test_costs_that_do_not_add_up_are_said_in_the_report(tmp_path):
    write_run(tmp_path / "runs" / "a", booked=BOOKED[1:])
    runs = find_runs([tmp_path / "runs"])
    assert timeline.does_not_add_up(runs[0]) == [
        "energy_j of device_edge up: 4 by cluster, 6 in the ledger",
        "bytes of device_edge up: 1500000 by cluster, 3000000 in the ledger",
        "airtime_s of device_edge up: 18 by cluster, 30 in the ledger",
    ]
    assert "Does not add up" in report.write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8")


def test_tables_of_costs_have_totals(tmp_path):
    write_run(tmp_path / "runs" / "a", booked=BOOKED)
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    by_hop, by_cluster = re.findall(r'<details class="print">.*?</details>', page, re.DOTALL)
    whole = "<td>20.0 J</td><td>3.00 MB</td><td>2.00 min</td>"
    assert f'<td class="text">together</td>{whole}' in by_hop
    assert f'<th>all clusters</th><td class="text">all hops</td>{whole}' in by_cluster
    assert "Does not add up" not in page and "by cluster" in page


def test_without_costs_by_cluster_the_report_says_so(tmp_path):
    write_run(tmp_path / "runs" / "a", work=WORK)
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "left no costs by cluster" in page and "By cluster" not in page


def test_the_page_has_a_timeline_where_one_was_recorded(tmp_path):
    write_run(tmp_path / "runs" / "a", work=WORK)
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="timeline-plot"' in page and 'id="utilisation"' in page
    assert data_of(page)["timelines"][0]["rounds"][0]["spans"][1] == [2, 5, 1]


def answers(runs: list[Run], target: float | None = None) -> dict[str, headline.Headline]:
    found = headline.headlines({x: compare(runs, x, target) for x in AXES})
    return {line.question: line for line in found}


def test_the_answers_name_the_winner_and_its_lead_over_the_second(tmp_path):
    for seed, more in enumerate((0.0, 0.1, 0.2)):
        write_run(tmp_path / f"a{seed}", "a", seed, (0.1, 0.5 + more, 0.7 + more))
        write_run(tmp_path / f"b{seed}", "b", seed, (0.1, 0.4 + more, 0.62 + more))
        write_run(tmp_path / f"c{seed}", "c", seed, (0.1, 0.4, 0.5 + more / 2))
    found = answers(find_runs([tmp_path]), target=0.62)
    line = found["Accuracy after equal steps"]
    assert line.winner == "a"
    assert line.answer == "With 20 local steps each, a is best at 80.0 ± 24.8 %, 8.0 points above b (3 seeds)."
    line = found["Time to 62.0 % accuracy"]
    assert line.winner is None and line.answer.endswith("which may be chance (3 seeds). Not all runs of c get there.")


def test_the_answers_do_not_call_chance_a_win(tmp_path):
    for seed, (a, b) in enumerate([(0.7, 0.6), (0.6, 0.69), (0.65, 0.6)]):
        write_run(tmp_path / f"a{seed}", "a", seed, (0.1, 0.2, a))
        write_run(tmp_path / f"b{seed}", "b", seed, (0.1, 0.2, b))
    line = answers(find_runs([tmp_path]))["Accuracy after equal steps"]
    assert line.winner is None
    assert line.answer == (
        "With 20 local steps each, there is no clear winner: a (65.0 ± 12.4 %) and b (63.0 ± 12.9 %) differ by "
        "2.0 ± 24.5 points, which may be chance (3 seeds)."
    )


def test_the_answers_say_who_keeps_the_first_from_winning():
    from fedloom.record.headline import _unclear
    from fedloom.record.verdict import verdict

    values = {"a": {0: 0.9, 1: 0.9, 2: 0.9}, "b": {0: 0.8, 1: 0.8, 2: 0.81}, "c": {0: 0.0, 1: 0.9, 2: 0.95}}
    text = _unclear(verdict(values), lambda method: f"<{method}>", lambda lead: "")
    assert text == "there is no clear winner: a (<a>) may be ahead of c (<c>) by chance only (3 seeds)."


def test_below_three_seeds_the_answers_name_no_winner_and_how_many_are_needed(tmp_path):
    for seed in range(2):
        write_run(tmp_path / f"a{seed}", "a", seed, (0.1, 0.5, 0.9), (0.0, 1.0, 2.0))
        write_run(tmp_path / f"b{seed}", "b", seed, (0.1, 0.2, 0.3), (0.0, 9.0, 18.0))
    runs = find_runs([tmp_path])
    found = answers(runs, target=0.3)
    assert {line.winner for line in found.values()} == {None}
    assert found["Accuracy after equal steps"].answer == (
        "With 20 local steps each, no winner is called from 2 seeds, 3 are needed (such as --seeds 5); so far a 90.0 %, "
        "b 30.0 %."
    )
    assert "no winner is called from 1 seed," in answers([runs[0], runs[2]])["Accuracy after equal steps"].answer


@pytest.mark.parametrize("seed", range(6))
def test_answers_and_tables_never_contradict_each_other(tmp_path, seed):
    rng = np.random.default_rng(seed)
    for k, method in enumerate("abc"):
        for s in range(int(rng.integers(1, 5))):
            scores = (0.1, *(0.3 + 0.05 * k * (seed % 2) + 0.02 * rng.random(2)))
            write_run(tmp_path / f"{method}{s}", method, s, scores, (0.0, 1.0 + k, 2.0 + k + rng.random()))
    runs = find_runs([tmp_path])
    comparisons = {x: compare(runs, x) for x in AXES}
    lines = headline.headlines(comparisons)
    for line, comparison in zip(lines[:4], comparisons.values()):
        table = rich_tables(comparison)[0]
        heading = next(c for c in table.columns if str(c.header).startswith("at "))
        assert [r.method for r, c in zip(comparison.rows, heading.cells) if "[bold]" in str(c)] == (
            [line.winner] if line.winner else []
        )
    for line, x in zip(lines[4:], headline.COSTS):
        column = rich_tables(comparisons[x])[0].columns[-1]
        assert [r.method for r, c in zip(comparisons[x].rows, column.cells) if "[bold]" in str(c)] == (
            [line.winner] if line.winner else []
        )


def test_the_answers_of_one_run_and_of_equal_runs(tmp_path):
    one = [write_run(tmp_path / "a", "a")]
    assert answers(one)["Accuracy after equal steps"].answer == "With 20 local steps each, a is at 70.0 % (1 seed)."
    both = [*one, write_run(tmp_path / "b", "b")]
    assert answers(both)["Accuracy in equal time"].answer == "With 4.00 s each, all methods are alike: 70.0 % (1 seed)."
    assert answers(one, target=0.99)["Energy to 99.0 % accuracy"].answer == "No method gets there with all its runs."
    lame = [*one, write_run(tmp_path / "d", "d", scores=(0.1, 0.2, 0.3))]
    line = answers(lame, target=0.5)["Traffic to 50.0 % accuracy"]
    assert line.answer == "a gets there with 100 B (1 seed). Not all runs of d get there." and line.winner is None


def test_who_alone_gets_there_with_three_seeds_wins(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "a", seed)
        write_run(tmp_path / f"d{seed}", "d", seed, scores=(0.1, 0.2, 0.3))
    line = answers(find_runs([tmp_path]), target=0.5)["Traffic to 50.0 % accuracy"]
    assert line.winner == "a"
    assert line.answer == "a gets there with least, 100 B (3 seeds). Not all runs of d get there."


def test_the_page_shows_and_explains_accuracy_on_own_labels(tmp_path):
    run = write_run(tmp_path / "runs" / "a", "a")
    run.metrics.with_columns(local_by_cluster=pl.Series([0.1, 0.5, 0.89])).write_parquet(run.path / "metrics.parquet")
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "On a client&#x27;s own labels, final accuracy by" in page and "89.0 %" in page
    assert "which personalised methods are made for" in page
    (measure,) = [m for m in data_of(page)["curves"]["measures"] if m["key"] == "local_by_cluster"]
    assert (
        measure["share"] and measure["label"] == "own labels, cluster model" and "mean over clients" in measure["says"]
    )


def test_the_best_of_all_rounds_is_said_to_be_chosen_on_test_data(tmp_path):
    for seed in range(3):
        write_run(tmp_path / "runs" / f"a{seed}", "a", seed)
        write_run(tmp_path / "runs" / f"b{seed}", "b", seed, scores=(0.1, 0.2, 0.3))
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "best of all rounds, chosen on test data" in page
    first = re.search(r"<tbody><tr>.*?</tr>", page, re.DOTALL).group()  # of a: final is bold, best is not
    assert re.findall(r'<td class="[^"]*">[^<]*</td>', first)[:2] == [
        '<td class="first best">70.0 %</td>',
        '<td class="">70.0 %</td>',
    ]


def test_the_page_warns_of_a_curve_that_oscillates(tmp_path):
    zigzag = (0.1, *(0.5 + 0.05 * (-1) ** k for k in range(12)))
    write_run(tmp_path / "runs" / "a", scores=zigzag, seconds=tuple(map(float, range(13))))
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert '<p class="warn">a with seed 0: its curve oscillates' in page


def test_the_commands_make_the_runs_again(tmp_path):
    for method in ("a", "fedprox:mu=0.1"):
        for seed in range(2):
            write_run(tmp_path / f"{method[0]}{seed}", method, seed)
    runs = find_runs([tmp_path])
    assert report_making.commands(runs) == ["fedloom compare scenario.yaml --methods a,fedprox:mu=0.1 --seeds 2"]
    assert report_making.commands(runs[1:2]) == ["fedloom run scenario.yaml --method a --seed 1"]
    other = write_run(tmp_path / "o", "a", 0, name="other")
    assert report_making.commands([runs[0], other]) == [
        "fedloom run scenario-1.yaml --method a --seed 0",
        "fedloom run scenario-2.yaml --method a --seed 0",
    ]


@pytest.mark.slow
def test_the_report_of_twenty_runs_is_quick_and_small(tmp_path):
    import time

    rng = np.random.default_rng(0)
    for m in range(5):
        for seed in range(4):
            n, rounds, evaluations = 100, 30, 200
            frame = {
                "cloud_round": np.repeat(np.arange(1, rounds + 1), n),
                "client": np.tile(np.arange(n), rounds),
                "aggregator": rng.integers(0, 5, rounds * n),
                "kind": ["edge"] * rounds * n,
                "host": np.zeros(rounds * n, dtype=int),
                "x_m": rng.uniform(0, 1000, rounds * n),
                "y_m": rng.uniform(0, 1000, rounds * n),
            }
            work = [
                (r, r, k, k % 5, 10.0 * r, 2 * rng.random(), 1.0, 10 * r + 4, 10 * r + 5, False, False)
                for r in range(rounds)
                for k in range(n)
            ]
            folder = tmp_path / "runs" / f"{m}-{seed}"
            scores = tuple(rng.random(evaluations))
            run = write_run(folder, f"m{m}", seed, scores, tuple(range(evaluations)), work=work)
            content = json.loads((run.path / "run.json").read_text())
            content["clients"] = {"n_samples": [10] * n, "label_counts": [[1] * 10] * n}
            (run.path / "run.json").write_text(json.dumps(content))
            pl.DataFrame(frame).write_parquet(run.path / "topology.parquet")
    start = time.process_time()  # seconds of computing: others may keep the machine busy
    path = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html")
    assert time.process_time() - start < 10
    assert path.stat().st_size < 6e6
