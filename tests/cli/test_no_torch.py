"""A run that the native engine trains never loads torch: its import takes longer than many a run."""

import json
import subprocess
import sys

import pytest

from fedloom.simulator.scenarios import names, scenario
from fedloom.training.engine import Unsupported
from fedloom.training.native import load_build

try:
    load_build()
except Unsupported:
    pytest.skip("there is no native engine here", allow_module_level=True)

LARGE = ("numpy", "pydantic", "torch", "sklearn", "scipy", "polars", "plotly", "pandas", "matplotlib", "ray")
LOADED = """
import sys
from fedloom.cli.app import app
app({arguments!r}, standalone_mode=False)
print([name for name in {LARGE!r} if name in sys.modules], file=sys.stderr)
"""


def run(*arguments):
    """What a command prints, and which of the large packages it has loaded when it is done."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(LARGE=LARGE, arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(done.stderr.splitlines()[-1].replace("'", '"'))


FIRST = ("cells-overlap", "edge-mobility")  # the others with the full tests


@pytest.mark.slow
@pytest.mark.parametrize("place", [n if n in FIRST else pytest.param(n, marks=pytest.mark.full) for n in names()])
def test_no_shipped_scenario_loads_torch_from_command_to_result(place, tmp_path):
    short = ["training.cloud_rounds=1", "training.local_epochs=null", "training.local_steps=1"]
    changes = [word for change in short for word in ("--set", change)]
    printed, loaded = run("run", place, "--method", "hhfl", "--out", str(tmp_path / "r"), "--quiet", "--json", *changes)
    assert json.loads(printed)["final"]["cloud_round"] == 1
    assert (tmp_path / "r" / "model.safetensors").exists() and (tmp_path / "r" / "report.html").exists()
    assert not {"torch", "sklearn", "plotly", "pandas", "matplotlib", "ray"} & set(loaded)


@pytest.mark.slow
def test_a_dry_run_measures_the_speed_without_torch():
    printed, loaded = run("run", "cells-overlap", "--method", "hhfl", "--dry-run", "--quiet")
    assert "as measured just now" in printed and "torch" not in loaded


@pytest.mark.slow
def test_the_first_command_of_the_readme_loads_no_scipy(tmp_path):
    """Imports that one kind of method or curve needs are left to it."""
    few = ["--set", "training.cloud_rounds=2"]
    assert "scipy" not in run("run", "cells-overlap", "-m", "hhfl", "--out", str(tmp_path / "r"), "-q", *few)[1]


@pytest.mark.parametrize("what", ["methods", "models", "datasets"])
def test_lists_load_nothing_large(what):
    assert not {"torch", "sklearn", "scipy", "polars", "plotly"} & set(run("list", what)[1])


def test_scenarios_are_listed_without_the_machinery_that_checks_them():
    printed, loaded = run("list", "scenarios", "--json")
    assert set(loaded) <= {"pydantic"}  # which typer takes itself
    shown = {line["scenario"]: line["description"] for line in json.loads(printed)}
    assert shown == {name: scenario(path).description for name, path in names().items()}
