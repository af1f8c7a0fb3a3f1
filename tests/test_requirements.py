"""The pinned packages: what `make demo` installs is all that running and building need, and nothing of the tools."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
BUILDS = ("cmake", "ninja")  # which scikit-build-core calls


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file):
    lines = (ROOT / "requirements" / file).read_text().splitlines()
    return {plain(line.split("==")[0]): line for line in lines if "==" in line}


def needed():
    """Names of all that the project's own dependencies and its build need, as they are installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    todo = [*project["project"]["dependencies"], *project["build-system"]["requires"], *BUILDS]
    found = set()
    while todo:
        wanted = Requirement(todo.pop())
        if plain(wanted.name) not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(plain(wanted.name))
            todo += metadata.requires(wanted.name) or []
    return found - {"setuptools", "pip"}  # which come with the environment


def test_what_runs_is_pinned_and_nothing_else_is_installed_for_it():
    assert set(pinned("run.txt")) == needed()


def test_the_tools_come_on_top():
    assert "-r run.txt" in (ROOT / "requirements" / "lock.txt").read_text().splitlines()
    assert not set(pinned("run.txt")) & set(pinned("lock.txt"))
    for tool in (
        "ray",
        "stable-baselines3",
        "ortools",
        "tensorboard",
        "mkdocs",
        "pytest",
        "mypy",
        "ruff",
        "selenium",
        "flwr",
    ):
        assert tool in pinned("lock.txt")
