"""What a user should know of a scenario and a method is said by the run itself, and stands in its record."""

import json

import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

REGIONS = ["training.cloud_rounds=1", "task.data_limit=600"]


def said(chosen, method, **options):
    simulation = Simulation(chosen, make_method(method), 0, n_workers=1, **options)
    for _ in simulation.rounds():
        pass
    return simulation.warnings


@pytest.mark.parametrize("model", ["{kind: softmax}", "{kind: mlp, hidden: [16]}"])  # one begins at zero
@pytest.mark.parametrize(("factor", "heard"), [("2.0", False), ("1.0e-4", True)])
def test_power_so_low_that_noise_kills_the_model_is_said_and_enough_is_not(model, factor, heard):
    warnings = said(scenario("two-regions", [*REGIONS, f"task.model={model}"]), f"camu:power_factor={factor}")
    assert [w.split(":")[0] for w in warnings] == ["noise of the uplink drowns the model"] * heard


def test_periods_that_cannot_grow_are_said():
    made, _ = for_method("hhfl")
    (warning,) = said(scenario(made), "hhfl:grow=true", dry_run=True)
    assert "it does not fall in 4 cloud rounds, so that they stay at 2 local steps and 2 edge rounds" in warning
    assert said(scenario(made), "hhfl", dry_run=True) == []


@pytest.mark.parametrize(("box_s", "words"), [(60, "times the 2 of the scenario"), (0.01, "nothing is learnt")])
def test_a_time_box_that_holds_far_too_much_or_nothing_is_said(box_s, words):
    made, _ = for_method("random_clusters", cloud_rounds=1)
    (warning,) = said(scenario(made), f"random_clusters:n_clusters=2:box_s={box_s}", dry_run=True)
    assert words in warning


def test_warnings_stand_on_the_command_line_and_in_the_record(tmp_path, monkeypatch):
    made, _ = for_method("hhfl", cloud_rounds=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(json.dumps(made))
    for options in (["--dry-run"], ["--out", "run"]):
        done = CliRunner().invoke(app, ["run", "mine.yaml", "--method", "hhfl:grow=true", *options])
        assert done.exit_code == 0 and "note: periods are to grow" in done.output
    (warning,) = json.loads((tmp_path / "run/summary.json").read_text())["warnings"]
    assert warning.startswith("periods are to grow") and warning in (tmp_path / "run/report.html").read_text()
