"""The report of folders small enough to know what every figure must hold."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedloom.record import figures, report
from fedloom.record.runs import Run, find_runs, read_run

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
) -> Run:
    """A run of 4 devices in two cells of 100 m; unfinished if `places` is None."""
    folder.mkdir(parents=True)
    content = {
        "scenario": {"name": name, "description": "four devices", "task": {"model": {"kind": "mlp", "hidden": [8]}}},
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
    if places is not None:
        schema = ["cloud_round", "client", "aggregator", "kind", "host", "x_m", "y_m"]
        pl.DataFrame(places, schema=schema, orient="row").write_parquet(folder / "topology.parquet")
        (folder / "summary.json").write_text(json.dumps({"ledger": ledger, "wall_s": 61.0}))
    return read_run(folder)


def outside_of_plotly(page: str) -> str:
    """The page without the text of plotly.js, which is somebody else's."""
    head, _, rest = page.partition("<script>")
    return head + rest.partition("</script>")[2]


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
    own = outside_of_plotly(page)
    for name in ("comparison", "curves", "map", "labels", "ledger", "making"):
        assert f'<section id="{name}"' in own
    for text in ("<h1>tiny</h1>", "four devices", "toy", "mlp (8), 1,234 values", "80.0 ± 14.1 %", "different seeds"):
        assert text in own
    assert len(page) < 6e6 and page.count("plotly.js v") == 1
    assert not re.search(r"https?://", own)
    assert not re.search(r"<(link|img|iframe|script|source)[^>]+(src|href)\s*=|@import|url\(", own)
    assert "default-src 'none'" in own
    embedded = re.findall(r'<script type="application/json">(.*?)</script>', own, re.DOTALL)
    assert len(embedded) == 4 + 2 + 2 + 3
    assert all(set(json.loads(figure)) >= {"data", "layout"} for figure in embedded)


def test_a_title_can_be_given(runs, tmp_path):
    page = report.write_report(runs, tmp_path / "report.html", title="Ours & theirs").read_text(encoding="utf-8")
    assert "<title>Ours &amp; theirs</title>" in page and "<h1>Ours &amp; theirs</h1>" in page


def test_text_from_files_cannot_become_markup(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x onerror=\"alert('2')\">"
    ledger = [{**LEDGER[0], "hop": evil}, LEDGER[1]]
    write_run(tmp_path / "runs" / "a", evil, name=evil, ledger=ledger)
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "report.html").read_text(encoding="utf-8")
    own = outside_of_plotly(page)
    assert "<script>alert" not in own and "<img" not in own
    assert (
        own.count("<script") == own.count("</script>") == 1 + len(re.findall('<script type="application/json">', own))
    )
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in own
    figure = figures.ledger_figure(find_runs([tmp_path / "runs"]), "energy_j")
    assert "<img" not in figure.to_json().replace("\\u003c", "<")


def test_the_curve_of_two_seeds_by_hand(tmp_path):
    """Seeds evaluated at 0, 2, 4 s and at 0, 4, 8 s."""
    write_run(tmp_path / "a0", "a", 0, (0.0, 0.4, 0.6), (0.0, 2.0, 4.0))
    write_run(tmp_path / "a1", "a", 1, (0.0, 0.4, 0.8), (0.0, 4.0, 8.0))
    curve = figures.mean_curve(find_runs([tmp_path]), "seconds")
    np.testing.assert_allclose(curve.x, [0, 2, 4, 8])
    # seed 0: 0, 0.4, 0.6, and 0.6 held; seed 1: 0, halfway to 0.4, 0.4, 0.8
    np.testing.assert_allclose(curve.mean, [0, (0.4 + 0.2) / 2, (0.6 + 0.4) / 2, (0.6 + 0.8) / 2])
    np.testing.assert_allclose(curve.std, np.array([0, 0.2, 0.2, 0.2]) / np.sqrt(2))
    np.testing.assert_allclose(curve.costs["steps"], [0, (10 + 5) / 2, (20 + 10) / 2, 20])


def test_the_curve_ends_where_an_unfinished_run_ends(tmp_path):
    write_run(tmp_path / "a0", "a", 0)
    write_run(tmp_path / "a1", "a", 1, (0.1, 0.7), (0.0, 2.0), places=None)
    np.testing.assert_allclose(figures.mean_curve(find_runs([tmp_path]), "seconds").x, [0, 2])


def test_figures_of_curves_have_a_line_for_each_method_and_a_band_for_seeds(runs):
    figure = figures.curves_figure(runs, "steps")
    band, line_a, line_b = figure.data
    assert (band.fill, band.legendgroup, line_a.legendgroup, line_b.legendgroup) == ("toself", "0", "0", "1")
    np.testing.assert_allclose(line_a.y, [0.1, 0.6, 0.8])
    np.testing.assert_allclose(line_b.y, [0.1, 0.4, 0.6])
    deviation = 0.2 / np.sqrt(2)
    np.testing.assert_allclose(band.y[:3], [0.1, 0.6 + deviation, 0.8 + deviation])
    np.testing.assert_allclose(band.y[3:], [0.8 - deviation, 0.6 - deviation, 0.1])
    assert line_a.line.color == figures.METHOD_COLORS[0] and line_b.line.color == figures.METHOD_COLORS[1]
    assert figure.layout.xaxis.title.text == "local steps"
    assert line_a.hovertext[2] == (
        "<b>a</b><br>accuracy 80.0 ± 14.1 % (2 seeds)<br>20 local steps<br>4.00 s · 6.00 J · 200 B"
    )
    assert figures.curves_figure(runs, "seconds").layout.xaxis.title.text == "simulated time (s)"


def test_the_start_does_not_flatten_the_curves(runs):
    low, high = figures.score_range(runs)
    assert 0.3 < low < 0.4 and 0.9 < high <= 1.0  # without the 0.1 before training


def test_long_curves_are_thinned_to_their_ends(tmp_path):
    n = 3000
    run = write_run(tmp_path / "a", scores=tuple(np.linspace(0, 1, n)), seconds=tuple(map(float, range(n))))
    curve = figures.mean_curve([run], "seconds")
    assert len(curve.x) <= figures.MOST_POINTS and (curve.x[0], curve.x[-1], curve.mean[-1]) == (0, n - 1, 1)
    assert curve.std is None


def test_the_map_shows_bridging_and_idle_devices_and_servers(runs):
    figure = figures.map_figure(runs[0])
    assert list(trace(figure, "device").x) == [-50, 150]
    assert list(trace(figure, "device").marker.color) == list(figures.CLUSTER_COLORS[:2])
    assert list(trace(figure, "bridging device").x) == [50]
    assert trace(figure, "bridging device").hovertext[0] == "device 1<br>edge 0, edge 1<br>4 samples"
    assert list(trace(figure, "takes no part").x) == [900]
    assert list(trace(figure, "edge server").x) == [0, 100] and trace(figure, "edge server").marker.symbol == "square"
    assert (trace(figure, "cloud server").x[0], trace(figure, "cloud server").y[0]) == (50, 50)
    (circle,) = figure.layout.shapes  # the second cell reaches everybody
    assert (circle.x0, circle.x1, circle.y0, circle.y1) == (-100, 100, -100, 100)
    assert figure.layout.yaxis.scaleanchor == "x" and figure.layout.xaxis.title.text == "x (m)"
    assert not figure.layout.sliders
    assert figures.bridging(runs[0].topology) == [1]


def test_a_changing_topology_has_a_slider(runs):
    figure = figures.map_figure(runs[2])
    assert [step.label for step in figure.layout.sliders[0].steps] == ["1", "3"]
    first, last = trace(figure, "device", 0), trace(figure, "device", 1)
    assert first.visible is None and last.visible is False
    assert (list(first.x), list(last.x)) == ([-50, 50, 150], [-50, 99, 150])
    assert last.marker.color[1] == figures.CLUSTER_COLORS[1]
    assert trace(figure, "cluster head").marker.symbol == "star" and list(trace(figure, "cluster head").x) == [-50, 150]
    shown = figure.layout.sliders[0].steps[1].args[1]
    assert [t.name for t, s in zip(figure.data, shown) if s] == [
        "cell centre", "cloud server", "link", "device", "cluster head",
    ]  # fmt: skip


def test_of_many_rounds_a_choice_is_drawn(tmp_path):
    places = [(r, c, 0, "cloud", 0, 0.0, 0.0) for r in range(1, 101) for c in range(4)]
    run = write_run(tmp_path / "a", places=places)
    labels = [step.label for step in figures.map_figure(run, most_places=20).layout.sliders[0].steps]
    assert len(labels) == 5 and (labels[0], labels[-1]) == ("1", "100")


def test_methods_that_group_alike_share_a_map(tmp_path):
    write_run(tmp_path / "a", "a")
    write_run(tmp_path / "b", "b", places=MOVING)
    write_run(tmp_path / "c", "c")
    write_run(tmp_path / "d", "d", places=None)
    assert [names for names, _ in figures.distinct_topologies(find_runs([tmp_path]))] == [["a", "c"], ["b"]]


def test_several_clusters_on_one_server_have_names_of_their_own():
    rows = [(0, 0, "edge"), (1, 0, "edge"), (2, 1, "edge"), (-1, -1, "edge")]
    place = pl.DataFrame(rows, schema=["aggregator", "host", "kind"], orient="row")
    assert figures.aggregator_names(place) == {0: "edge 0, cluster 0", 1: "edge 0, cluster 1", 2: "edge 1"}


def test_label_shares_and_distance_by_hand(runs):
    found = figures.clusters(runs[2])  # heads: {0, 1} holds (4, 4), {2} holds (4, 0); all hold (10, 6)
    np.testing.assert_allclose(found.shares, [[0.5, 0.5], [1, 0], [0.625, 0.375]])
    np.testing.assert_allclose(found.distance, [0.125, 0.375])  # half of |0.5 - 0.625| + |0.5 - 0.375|, and so on
    assert found.names == ["head 0", "head 2"] and list(found.n_samples) == [8, 4, 16]
    (heat,) = figures.labels_figure(runs[2]).data
    np.testing.assert_allclose(heat.z, [[50, 50], [100, 0], [62.5, 37.5]])
    assert list(heat.y) == ["head 0  ·  0.12", "head 2  ·  0.38", "all devices"]


def test_the_ledger_is_the_mean_over_seeds(tmp_path):
    double = [{k: 3 * v if isinstance(v, (int, float)) else v for k, v in line.items()} for line in LEDGER]
    write_run(tmp_path / "a0", "a", 0)
    write_run(tmp_path / "a1", "a", 1, ledger=double)
    runs = find_runs([tmp_path])
    assert figures.ledger_means(runs)["a"]["computing", ""]["energy_j"] == pytest.approx((14 + 42) / 2)
    computing, up = figures.ledger_figure(runs, "energy_j").data
    assert (computing.name, computing.x[0]) == ("computing", pytest.approx(28))
    assert (up.name, up.x[0]) == ("device to edge", pytest.approx(12))
    (traffic,) = figures.ledger_figure(runs, "bytes").data
    assert traffic.x[0] == pytest.approx(6) and figures.ledger_figure(runs, "bytes").layout.xaxis.title.text == "MB"


def test_regression_shows_rmse_and_samples(tmp_path):
    write_run(tmp_path / "runs" / "a", scores=(3.0, 1.0, 0.5), measure="rmse", labels=[[], [], [], []])
    runs = find_runs([tmp_path / "runs"])
    own = outside_of_plotly(report.write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "RMSE against steps" in own and "regression has no classes" in own and "accuracy" not in own
    assert figures.curves_figure(runs, "steps").layout.yaxis.title.text == "rmse"
    (bars,) = figures.labels_figure(runs[0]).data
    assert list(bars.x) == [8, 8]


def test_unfinished_runs_make_a_report_too(tmp_path):
    write_run(tmp_path / "runs" / "a", places=None)
    page = report.write_report(find_runs([tmp_path / "runs"]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "is unfinished" in page and '<section id="map"' not in page


def test_many_methods_and_devices_stay_below_ten_megabytes(tmp_path):
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
    assert path.stat().st_size < 10e6
    assert len(set(figures.method_styles(find_runs([tmp_path / "runs"])).values())) == 8


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
    assert figures.link_qualities(place) == {0: "link", 1: "fast link", 2: "link", 3: "slow link", 4: "link down"}
    alike = pl.DataFrame({"client": [0, 1, 2], "up_s": [2.0, 2.1, 2.2]})
    assert set(figures.link_qualities(alike).values()) == {"link"}
    assert set(figures.link_qualities(alike.drop("up_s")).values()) == {"link"}
