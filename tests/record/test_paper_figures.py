"""Figures for papers: one for every plot of the report, a column wide, with captions."""

import copy

import pytest

from fedloom.record.folder import record
from fedloom.record.paper_figures import COLUMN_IN, write_figures
from fedloom.record.runs import find_runs
from fedloom.simulator import Simulation, make_method, scenario
from small import SMALL


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        for method in ("hierfedavg", "fedprox:mu=0.1"):
            simulation = Simulation(scenario(copy.deepcopy(SMALL)), make_method(method), seed, n_workers=1)
            record(simulation, method, folder / f"{method[0]}{seed}")
    return find_runs([folder])


@pytest.mark.slow
def test_every_plot_is_written_twice_and_has_a_caption(runs, tmp_path):
    written = write_figures(runs, tmp_path / "new" / "figures")
    names = {path.stem for path in written if path.suffix == ".pdf"}
    costs = {"cost-energy_j", "cost-bytes", "cost-airtime_s"}
    axes = {"curves-steps", "curves-seconds", "curves-joules", "curves-bytes"}
    assert names == axes | costs | {
        *("map-fedprox-mu-0.1", "labels-fedprox-mu-0.1"),  # both methods group alike: one map
        *("timeline-fedprox-mu-0.1", "timeline-hierfedavg"),
    }
    captions = (tmp_path / "new" / "figures" / "captions.md").read_text()
    for path in written[:-1]:
        assert path.read_bytes().startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
        assert f"**{path.stem}**: " in captions
    assert "of fedprox:mu=0.1, hierfedavg in the first cloud round" in captions


@pytest.mark.slow
def test_figures_are_a_column_wide(runs, tmp_path):
    from matplotlib.image import imread

    write_figures(runs, tmp_path)
    assert imread(tmp_path / "curves-steps.png").shape[1] == pytest.approx(300 * COLUMN_IN, abs=1)


def test_an_unfinished_run_has_curves_only(runs, tmp_path):
    from dataclasses import replace

    lonely = replace(runs[0], topology=None, timeline=None, summary=None)
    names = {path.stem for path in write_figures([lonely], tmp_path) if path.suffix == ".pdf"}
    assert names == {"curves-steps", "curves-seconds", "curves-joules", "curves-bytes"}
