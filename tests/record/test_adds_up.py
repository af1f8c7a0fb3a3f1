"""Every chart and table of a report adds up to the ledger, to the joule and byte."""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedloom.methods import METHODS
from fedloom.record import groupings, label_figures, ledgers, paper_figures, timeline
from fedloom.record.axes import AXES
from fedloom.record.comparison import compare
from fedloom.record.folder import record
from fedloom.record.report import write_report
from fedloom.record.report_elements import MOST_MAPS
from fedloom.record.runs import Run, read_run
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.scenarios import names
from small import SMALL

WHAT = ledgers.LEDGER  # energy_j, bytes, airtime_s
MOVING = {"fleet": {"mobility": {"p_stay": 0.5, "neighbours": "complete"}}}
FAILING = {
    "fleet": {
        "availability": {"kind": "on-off", "on_s": 5, "off_s": 2},
        "battery": {"capacity_j": 4, "charging": {"power_w": 1, "when": {"kind": "on-off", "on_s": 9, "off_s": 9}}},
        "dropout": {"per_round": 0.1},
        "loss": {"packet": 0.1, "packet_bytes": 100, "tries": 3},
    }
}
SCENARIOS: dict[str, dict[str, Any]] = {"still": {}, "moving": MOVING, "failing": FAILING}
SAMPLE = ("fedavg", "hierfedavg", "hhfl", "fedmes", "csahfl", "pacfl", "ltc", "ddc")


def run_of(folder: Path, method: str, settings: dict[str, Any]) -> Run:
    """A finished run of a small scenario with its costs by cluster."""
    content = copy.deepcopy(SMALL)
    for part, changes in settings.items():
        content[part] |= changes
    record(Simulation(scenario(content), make_method(method), 0, n_workers=1), method, folder)
    return read_run(folder)


def alike(what: str, total: float) -> Any:
    """Bytes to the byte, joules and seconds but for rounding."""
    return pytest.approx(total, rel=1e-12 if what == "bytes" else 1e-9, abs=1e-12)


def ledger_total(run: Run, what: str) -> float:
    assert run.summary is not None
    return sum(line[what] for line in run.summary["ledger"])


def bars(figure: Any, what: str) -> float:
    """All bars of a figure, in the basic unit."""
    return sum(bars_by_label(figure, what).values())


def bars_by_label(figure: Any, what: str) -> dict[str, float]:
    """What the bars of each label add up to, in the basic unit."""
    sizes = {name: size for size, name in AXES[WHAT[what][1]].units}
    size, sums = sizes[figure.layout.xaxis.title.text], dict[str, float]()
    for trace in figure.data:
        for label, value in zip(trace.y, trace.x):
            sums[label] = sums.get(label, 0.0) + value * size
    return sums


CASES = [*((m, "still") for m in SAMPLE), *((m, s) for m in ("hhfl", "csahfl", "ddc") for s in ("moving", "failing"))]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def run(request, tmp_path_factory) -> Run:
    method, settings = request.param
    return run_of(tmp_path_factory.mktemp("run") / "run", method, SCENARIOS[settings])


@pytest.fixture(scope="module")
def page(run, tmp_path_factory) -> str:
    return write_report([run], tmp_path_factory.mktemp("page") / "r.html").read_text(encoding="utf-8")


def test_the_last_evaluation_and_the_comparison_have_all_the_ledger_has(run):
    for x, what in (("joules", "energy_j"), ("bytes", "bytes")):
        assert run.metrics[AXES[x].column][-1] == alike(what, ledger_total(run, what))
        assert compare([run]).rows[0].totals[x].mean == alike(what, ledger_total(run, what))


def test_costs_of_cloud_rounds_add_up_to_what_was_measured_after_them(run):
    lines = run.costs.group_by("cloud_round").agg(pl.col("bytes", "energy_j").sum()).sort("cloud_round")
    after = run.metrics.filter(pl.col("cloud_round") > 0)
    assert lines["cloud_round"].to_list() == after["cloud_round"].to_list()
    for what in ("bytes", "energy_j"):
        assert lines[what].cum_sum().to_list() == [alike(what, total) for total in after[what].to_list()]


@pytest.mark.parametrize("what", WHAT)
def test_costs_by_hop_add_up(run, what):
    assert ledgers.whole(ledgers.ledger_means([run])[run.method], what) == alike(what, ledger_total(run, what))
    assert bars(ledgers.ledger_figure([run], what), what) == alike(what, ledger_total(run, what))


@pytest.mark.parametrize("what", WHAT)
def test_costs_by_cluster_add_up_hop_by_hop(run, what):
    costs = timeline.cluster_costs(run)
    assert costs is not None and timeline.does_not_add_up(run) == []
    for hop, true in timeline.ledger_of(run).items():
        assert sum(parts.get(hop, {}).get(what, 0.0) for parts in costs.values()) == alike(what, true[what])
    assert bars(timeline.cluster_cost_figure(run, what), what) == alike(what, ledger_total(run, what))


@pytest.mark.parametrize("what", WHAT)
def test_costs_in_figures_for_papers_add_up(run, what):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    paper_figures._costs([run], what)(axes)
    sizes = {name: size for size, name in AXES[WHAT[what][1]].units}
    drawn = sum(patch.get_width() for patch in axes.patches) * sizes[axes.get_xlabel()]
    assert drawn == alike(what, ledger_total(run, what))


def test_the_tables_of_the_page_end_with_the_ledger(run, page):
    whole = "".join(f"<td>{AXES[axis].text(ledger_total(run, what))}</td>" for what, (_, axis) in WHAT.items())
    by_hop, by_cluster = re.findall(r'<details class="print">.*?</details>', page, re.DOTALL)
    assert by_hop.endswith(f'<td class="text">together</td>{whole}</tr></tbody></table></div></details>')
    assert f'<th>all clusters</th><td class="text">all hops</td>{whole}</tr></tbody>' in by_cluster
    for what, (_, axis) in WHAT.items():
        assert f"Whole run, seed 0: {AXES[axis].text(ledger_total(run, what))} in all." in page, what


def test_every_device_that_worked_stands_once_in_the_timeline(run):
    computed = 0.0
    (data,) = timeline.timeline_data([run])
    for cloud_round, drawn in zip(timeline.timeline_rounds(run), data["rounds"], strict=True):
        found = timeline.dispatches(run, cloud_round)
        groups = [set(found.client[found.group == i].tolist()) for i in range(len(found.groups))]
        assert len(found.groups) == len(set(found.groups)) == len(drawn["shares"])
        worked, shown = set.union(*groups), set(drawn["client"])
        assert shown <= worked and len(drawn["client"]) == len(shown) == min(len(worked), timeline.MOST_CLIENTS)
        computed += float(found.spans[:, 1].sum())
    nobodys = run.costs.filter((pl.col("aggregator") < 0) & (pl.col("hop") == "computing"))["airtime_s"].sum()
    booked = timeline.ledger_of(run)["computing", ""]["airtime_s"]
    assert computed + nobodys == alike("airtime_s", booked)


def test_what_is_lost_stands_in_metrics_timeline_and_page(run, page):
    assert run.timeline is not None
    lost = int(run.timeline["arrival_s"].is_infinite().sum())
    if "lost" not in run.metrics.columns:
        assert lost == 0 and 'id="failures"' not in page
        return
    assert run.metrics["lost"][-1] <= lost  # of the last round some may not be known yet
    (data,) = timeline.timeline_data([run])
    assert sum(len(drawn["lost"]) for drawn in data["rounds"]) <= lost
    causes = [name for name in run.metrics.columns if name.startswith("lost_")]
    assert run.metrics["lost"].to_list()[1:] == [sum(row) for row in run.metrics.select(causes).rows()[1:]]
    assert 'id="failures"' in page and "<h2>What failed</h2>" in page and "Lost updates so far" in page


def test_every_sample_stands_once_in_the_data(run):
    (heat,) = label_figures.client_labels_figure(run).data
    assert np.sum(heat.z) == sum(run.clients["n_samples"])
    _, group, names = label_figures.ordered_clients(run, 100)
    assert len(group) == len(run.clients["n_samples"]) and len(names) == len(set(names))


def test_devices_of_several_cells_are_a_group_of_their_own(tmp_path):
    run = run_of(tmp_path / "run", "hhfl", {})
    assert run.first_place is not None and groupings.bridging(run.first_place)
    _, group, names = label_figures.ordered_clients(run, 100)
    assert names == ["edge 0", "edges 0 + 1", "edge 1"]
    found = timeline.dispatches(run, 1)
    assert found.groups == ((0,), (0, 1), (1,))
    bridges = {k for k, g in zip(found.client.tolist(), found.group.tolist()) if g == 1}
    assert bridges == set(groupings.bridging(run.first_place)) and int((group == 1).sum()) == len(bridges)


SHORT = [
    *("training.cloud_rounds=2", "training.edge_rounds=2", "training.local_steps=1", "training.local_epochs=null"),
    *("task.model={kind: softmax}", "evaluation.models=global"),
]
BOX_S = {
    "cells-overlap": 2,
    "city-trace": 1800,
    "d2d-mesh": 120,
    "disc-100": 2,
    "edge-mobility": 60,
    "factory": 60,
    "hostile": 2,
    "two-regions": 0.5,
}  # a few rounds
REFUSED = {  # what a scenario lacks that a method needs, with a clear word
    "camu": "device_cloud: {via: direct, up: {kind: radio}}",
    "hiflash_r": "samples that no client has",
}


EVERY = tuple(METHODS)
FIRST = ("cells-overlap",)  # with every method; on the others every method with the full tests
FEW = {"city-trace": ("hhfl", "csahfl")}  # of a large fleet, whose devices move and fail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "methods"),
    [
        *(pytest.param(n, EVERY if n in FIRST else FEW.get(n, SAMPLE), id=n) for n in names()),
        *(pytest.param(n, EVERY, id=f"{n}-every", marks=pytest.mark.full) for n in names() if n not in FIRST),
    ],
)
def test_every_method_adds_up_on_every_scenario(name, methods, tmp_path):
    """All figures and tables of one report with a run of every method."""
    runs, refused = [], []
    chosen = scenario(name, SHORT)
    for method in methods:
        if make_method(method).edge.box_s is not None:
            method += f":box_s={BOX_S[name]}"
        try:
            record(Simulation(chosen, make_method(method), 0, n_workers=1), method, tmp_path / method)
        except ValueError as error:
            assert any(method.startswith(m) and word in str(error) for m, word in REFUSED.items()), (method, error)
            refused.append(method)
            continue
        runs.append(read_run(tmp_path / method))
    assert len(runs) >= 0.6 * len(methods) and len(runs) + len(refused) == len(methods)
    page = write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    drawn = runs[:MOST_MAPS]  # the others are in the tables by hop only, and can be drawn by themselves
    for what in WHAT:
        by_hop = bars_by_label(ledgers.ledger_figure(runs, what), what)
        assert by_hop == {run.method: alike(what, ledger_total(run, what)) for run in runs}
    for run in runs:
        costs = timeline.cluster_costs(run)
        assert costs is not None and timeline.does_not_add_up(run, costs) == []
        for what, (_, axis) in WHAT.items():
            total = ledger_total(run, what)
            assert bars(timeline.cluster_cost_figure(run, what, costs), what) == alike(what, total)
            shown = {AXES[axis].text(total * (1 + rounding)) for rounding in (-1e-12, 0.0, 1e-12)}  # 6.515 or 6.514999
            assert run not in drawn or any(f"Whole run, seed 0: {text} in all." in page for text in shown), run.method
        if run.timeline is not None:  # in a box that is too short nobody is sent to work
            test_every_device_that_worked_stands_once_in_the_timeline(run)
