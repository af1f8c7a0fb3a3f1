"""Watching a run: the panel, the logs for TensorBoard, and what is said when they cannot be had."""

import json
import subprocess
import sys

import pytest
from rich.console import Console

from fedloom.cli.live import cluster_rows, panel, sparkline, watching
from fedloom.simulator import Simulation, make_method, scenario


def finished(settings, method="hierfedavg"):
    simulation = Simulation(scenario(settings), make_method(method), 0, n_workers=1)
    for _ in simulation.rounds():
        pass
    return simulation


def test_the_panel_shows_accuracy_clock_energy_and_every_cluster(small):
    simulation = finished(small)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(panel(simulation, "small [x]", 4, 2.0))
    text = captured.get()
    last = simulation.measures[-1]
    for word in ("small [x]", "4 of 4", f"{last['accuracy']:.1%}", "simulated", "edge 0", "edge 1", "merged, 0 late"):
        assert word in text


def test_the_panel_before_anything_was_measured(small):
    simulation = Simulation(scenario(small), make_method("hierfedavg"), 0, dry_run=True)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(panel(simulation, "small", 0, 0.0))
    assert "0 of 4" in captured.get() and "clock" not in captured.get()


def test_clusters_are_at_work_for_a_share_of_the_round(small):
    simulation = finished(small)
    rows = cluster_rows(simulation, 4)
    assert [row["name"] for row in rows] == ["edge 0", "edge 1"]
    assert sum(row["devices"] for row in rows) == 6
    assert sum(row["updates"] for row in rows) == 6 * small["training"]["edge_rounds"]
    assert all(0 < row["busy"] <= 1 for row in rows)
    assert cluster_rows(simulation, 99) == []


def test_devices_of_several_cells_are_a_row_of_their_own(small):
    simulation = finished(small, "hhfl")
    rows = cluster_rows(simulation, 4)
    assert [row["name"] for row in rows] == ["edge 0", "edges 0 + 1", "edge 1"]
    assert sum(row["devices"] for row in rows) == 6
    bridges = int((simulation.places[-1].topology.cover.sum(axis=0) > 1).sum())
    assert rows[1]["devices"] == bridges > 0


def test_a_sparkline_goes_from_the_lowest_to_the_highest():
    assert sparkline([1, 2, 3], 2) == "▁█" and sparkline([5.0, 5.0], 9) == "▁▁"
    assert sparkline([0.0, float("nan"), 1.0], 9) == "▁ █" and sparkline([], 5) == ""


def test_measures_are_logged_for_tensorboard(small, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    simulation = Simulation(scenario(small), make_method("hierfedavg"), 0, n_workers=1)
    with watching(simulation, "small", quiet=True, tensorboard=tmp_path) as on_round:
        for measures in simulation.rounds():
            on_round(simulation.cloud_rounds_done, measures)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    accuracy = events.Scalars("accuracy")
    assert [e.step for e in accuracy] == [m["local_steps"] for m in simulation.measures]
    assert [e.value for e in accuracy] == pytest.approx([m["accuracy"] for m in simulation.measures])
    assert [e.wall_time for e in accuracy] == pytest.approx([m["time_s"] for m in simulation.measures])
    assert {"cost/energy_j", "cost/bytes", "loss"} <= set(events.Tags()["scalars"])


def test_without_tensorboard_the_error_says_what_to_install(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    simulation = Simulation(scenario(small), make_method("hierfedavg"), 0, dry_run=True)
    with (
        pytest.raises(ValueError, match=r"pip install 'fedloom\[tensorboard\]'"),
        watching(simulation, "small", quiet=True, tensorboard=tmp_path),
    ):
        pass


@pytest.mark.full  # four commands, one after the other
def test_a_watched_run_and_its_figures_on_the_command_line(small, tmp_path):
    (tmp_path / "small.yaml").write_text(json.dumps(small))

    def fedloom(*args):
        command = [sys.executable, "-m", "fedloom", *args]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done

    done = fedloom("run", "small.yaml", "--live", "--tensorboard", "logs", "--out", "one")
    assert "cluster" in done.stderr and "edge 1" in done.stderr and "report: one/report.html" in done.stdout
    assert list((tmp_path / "logs").glob("events.out.tfevents.*"))
    assert (tmp_path / "one" / "report.html").stat().st_size < 6e6
    done = fedloom("report", "one", "--out", "page.html", "--target", "0.3", "--figures", "figures")
    assert "figures: " in done.stdout and (tmp_path / "figures" / "curves-joules.pdf").exists()
    assert "30.0 % accuracy" in (tmp_path / "page.html").read_text(encoding="utf-8")
