"""Pages and the overview are what the committed outcomes make of them; and in what words a paper is summed up."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from fedloom.reproduce import PAPERS, load
from fedloom.reproduce.kept import kept_file, read_kept
from fedloom.reproduce.overview import (
    CONFIRMED,
    IN_SIGN,
    NO_SIZES,
    NOT_CONFIRMED,
    NOT_TESTED,
    comes_to,
    hours_of,
    write_overview,
)
from fedloom.reproduce.page import read_outcomes, write_page
from fedloom.reproduce.tally import is_current
from fedloom.reproduce.verdicts import BUILT, FAILS, FEW, HOLDS, OPEN

DOCS = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for file in DOCS.glob("*/*.json"):
        (folder / file.parent.name).mkdir(exist_ok=True)
        shutil.copy(file, folder / file.parent.name)
    return folder


@pytest.mark.parametrize("name", PAPERS)
def test_pages_are_made_of_the_committed_outcomes(copied, name):
    page = write_page(copied, load(name)).read_text()
    assert page == (DOCS / f"{name}.md").read_text(), (
        f"write it again: fedloom reproduce {name} --page --out docs/reproduction"
    )
    head = page[: page.index("| item |")]
    assert "What it comes to at" in head and "tried" in head and "hours of runs" in head
    assert f"`fedloom reproduce {name} --scale" in head


def test_the_overview_is_made_of_the_committed_outcomes(copied):
    papers = [(load(name), read_outcomes(copied, load(name))) for name in PAPERS]
    page = write_overview(copied, papers)
    assert page.read_text() == (DOCS / "README.md").read_text()
    assert (copied / "overview.svg").exists() and (DOCS / "overview.svg").exists()
    assert all(f"({name}.md)" in page.read_text() for name in PAPERS)


def test_every_outcome_belongs_to_an_item(copied):
    """Nothing is left of items that are no more."""
    known = {(n, f"{item.key}-{scale}.json") for n in PAPERS for item in load(n).items for scale in item.scales}
    assert {(file.parent.name, file.name) for file in copied.glob("*/*.json")} <= known


def test_every_kept_run_belongs_to_an_item():
    """So that nothing is left of setups that are no more, or of another version of the numbers."""
    for name in PAPERS:
        paper = load(name)
        known = {
            kept_file(DOCS, paper, setup, seed)
            for item in paper.items
            for scale in item.scales
            for setup in item.setups(scale).values()
            for seed in item.seeds_at(scale)
        }
        left = set((DOCS / name / "kept").glob("*")) - known
        assert not left, f"of no item of {name}: {sorted(file.name for file in left)}"


def _whole():
    """Items at a scale of which every run is kept, as many seeds as their outcome says."""
    for name in PAPERS:
        paper = load(name)
        items = {item.key: item for item in paper.items}
        for outcome in filter(is_current, read_outcomes(DOCS, paper)):
            item, scale = items[outcome["item"]], outcome["scale"]
            setups, seeds = item.setups(scale), item.seeds_at(scale, outcome["seeds"])
            files = {label: [kept_file(DOCS, paper, setup, s) for s in seeds] for label, setup in setups.items()}
            if all(file.exists() for same in files.values() for file in same):
                yield pytest.param(item, outcome, files, id=f"{name}-{item.key}-{scale}")


@pytest.mark.parametrize(("item", "outcome", "files"), list(_whole()))
def test_outcomes_are_what_kept_runs_say(item, outcome, files):
    runs = {label: [read_kept(file) for file in same] for label, same in files.items()}
    judged = json.loads(json.dumps(asdict(item.outcome(runs, outcome["scale"]))))
    for part, value in judged.items():
        assert value == outcome[part], f"judge it again: fedloom reproduce ... --out docs/reproduction ({part})"


def test_no_page_without_outcomes(tmp_path):
    assert write_overview(tmp_path, [(load("ddc"), [])]) is None and not list(tmp_path.iterdir())


def claims(n_signs, n_figures, state):
    plain = {"verdict": {"state": state}}
    return [plain] * n_signs + [plain | {"absolute": True}] * n_figures


def test_what_it_comes_to():
    assert comes_to(claims(9, 1, HOLDS)) == CONFIRMED
    assert comes_to(claims(9, 0, HOLDS)) == NO_SIZES
    assert comes_to(claims(9, 0, HOLDS) + claims(0, 3, FAILS)) == IN_SIGN
    assert comes_to(claims(4, 3, HOLDS) + claims(5, 0, FAILS)) == NOT_CONFIRMED
    assert comes_to(claims(4, 0, HOLDS) + claims(5, 0, OPEN)) == NOT_CONFIRMED
    assert comes_to(claims(4, 0, HOLDS) + claims(5, 0, FEW)) == NOT_TESTED
    assert comes_to(claims(5, 0, HOLDS) + claims(5, 0, FEW)) == NO_SIZES
    not_counted = [claim | {"own": True} for claim in claims(5, 5, HOLDS)] + claims(3, 0, BUILT)
    assert comes_to(not_counted) == NOT_TESTED


def test_runs_that_items_share_take_their_time_once():
    a = {"seconds": {"x": 3600, "y": 3600}, "wall_s": 7200}
    b = {"seconds": {"x": 1800}, "wall_s": 1800}  # with fewer seeds
    assert hours_of([a, b]) == 2.0 and hours_of([a, {"wall_s": 3600}]) == 3.0
