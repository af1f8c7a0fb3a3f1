"""Every chart and table of a report adds up to the ledger, to the joule and byte."""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedloom.record import figures, paper_figures, timeline
from fedloom.record.comparison import AXES, compare
from fedloom.record.folder import record
from fedloom.record.report import write_report
from fedloom.record.runs import BOOKINGS, Run, read_run
from fedloom.simulator import Simulation, make_method, scenario
from small import SMALL

WHAT = figures.LEDGER  # energy_j, bytes, airtime_s
MOVING = {"fleet": {"mobility": {"p_stay": 0.5, "neighbours": "complete"}}}
SCENARIOS: dict[str, dict[str, Any]] = {"still": {}, "moving": MOVING}
METHODS = ("fedavg", "hierfedavg", "hhfl", "fedmes", "csahfl", "pacfl", "ltc", "ddc")


def run_of(folder: Path, method: str, settings: dict[str, Any]) -> Run:
    """A finished run of a small scenario with its costs by cluster."""
    content = copy.deepcopy(SMALL)
    for part, changes in settings.items():
        content[part] |= changes
    record(Simulation(scenario(content), make_method(method), 0, n_workers=1), method, folder)
    if not (folder / "costs.parquet").exists():
        split_ledger(read_run(folder))
    return read_run(folder)


def split_ledger(run: Run) -> None:
    """Write a costs.parquet that shares the ledger out among the aggregators and cloud rounds, and some to nobody: of computing
    what is not in the timeline, since that was for grouping."""
    rng = np.random.default_rng(0)
    assert run.summary is not None and run.topology is not None and run.timeline is not None
    at_work = float(run.timeline.unique(["client", "start_s"])["compute_s"].sum())
    rounds = range(1, int(run.metrics["cloud_round"].max()) + 1)
    owners = [(r, n) for r in rounds for n in {-1, *run.topology["aggregator"].to_list()}]
    rows = []
    for line in run.summary["ledger"]:
        share = rng.dirichlet(np.ones(len(owners)))
        if line["hop"] == "computing":
            nobody = np.array([n < 0 for _, n in owners])
            working = min(at_work / line["airtime_s"], 1.0)  # sums may round
            share[nobody] *= (1 - working) / share[nobody].sum()
            share[~nobody] *= working / share[~nobody].sum()
        links, sent = rng.multinomial(line["links"], share), rng.multinomial(line["bytes"], share)
        for (r, n), part, n_links, n_bytes in zip(owners, share.tolist(), links.tolist(), sent.tolist()):
            seconds, joules = part * line["airtime_s"], part * line["energy_j"]
            rows.append((r, n, line["hop"], line["direction"], n_links, n_bytes, seconds, joules))
    pl.DataFrame(rows, schema=list(BOOKINGS), orient="row").write_parquet(run.path / "costs.parquet")


def alike(what: str, total: float) -> Any:
    """Bytes to the byte, joules and seconds but for rounding."""
    return pytest.approx(total, rel=1e-12 if what == "bytes" else 1e-9, abs=1e-12)


def ledger_total(run: Run, what: str) -> float:
    assert run.summary is not None
    return sum(line[what] for line in run.summary["ledger"])


def bars(figure: Any, what: str) -> float:
    """All bars of a figure, in the basic unit."""
    sizes = {name: size for size, name in AXES[WHAT[what][1]].units}
    return sum(sum(trace.x) for trace in figure.data) * sizes[figure.layout.xaxis.title.text]


@pytest.fixture(scope="module", params=[(m, s) for m in METHODS for s in SCENARIOS], ids="-".join)
def run(request, tmp_path_factory) -> Run:
    method, settings = request.param
    return run_of(tmp_path_factory.mktemp("run") / "run", method, SCENARIOS[settings])


def test_the_last_evaluation_and_the_comparison_have_all_the_ledger_has(run):
    for x, what in (("joules", "energy_j"), ("bytes", "bytes")):
        assert run.metrics[AXES[x].column][-1] == alike(what, ledger_total(run, what))
        assert compare([run]).rows[0].totals[x].mean == alike(what, ledger_total(run, what))


@pytest.mark.parametrize("what", WHAT)
def test_costs_by_hop_add_up(run, what):
    assert figures.whole(figures.ledger_means([run])[run.method], what) == alike(what, ledger_total(run, what))
    assert bars(figures.ledger_figure([run], what), what) == alike(what, ledger_total(run, what))


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


def test_the_tables_of_the_page_end_with_the_ledger(run, tmp_path):
    page = write_report([run], tmp_path / "r.html").read_text(encoding="utf-8")
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
        assert set.union(*groups) == set(drawn["client"]) and len(drawn["client"]) == len(set(drawn["client"]))
        computed += float(found.spans[:, 1].sum())
    nobodys = run.costs.filter((pl.col("aggregator") < 0) & (pl.col("hop") == "computing"))["airtime_s"].sum()
    booked = timeline.ledger_of(run)["computing", ""]["airtime_s"]
    assert computed + nobodys == alike("airtime_s", booked)


def test_every_sample_stands_once_in_the_data(run):
    (heat,) = figures.client_labels_figure(run).data
    assert np.sum(heat.z) == sum(run.clients["n_samples"])
    _, group, names = figures.ordered_clients(run, 100)
    assert len(group) == len(run.clients["n_samples"]) and len(names) == len(set(names))


def test_devices_of_several_cells_are_a_group_of_their_own(tmp_path):
    run = run_of(tmp_path / "run", "hhfl", {})
    assert run.first_place is not None and figures.bridging(run.first_place)
    _, group, names = figures.ordered_clients(run, 100)
    assert names == ["edge 0", "edges 0 + 1", "edge 1"]
    found = timeline.dispatches(run, 1)
    assert found.groups == ((0,), (0, 1), (1,))
    bridges = {k for k, g in zip(found.client.tolist(), found.group.tolist()) if g == 1}
    assert bridges == set(figures.bridging(run.first_place)) and int((group == 1).sum()) == len(bridges)
