"""The scripts of the gallery are short, run, and have made the pictures in the documents."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {"quickstart": "in the README, see test_readme.py", "city_fleet": "writes the fleets of docs/plan.md"}
ELSEWHERE["own_task"] = "in docs/deploy.md, run by tests/deployment"
GALLERY = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem not in ELSEWHERE)
LONG = {"coded_models", "moving_devices", "price_of_accuracy"}
LONG |= {"own_client_state", "own_loss", "own_merge", "own_model", "own_optimiser", "own_pacing"}
RUN = [pytest.param(name, marks=pytest.mark.full if name in LONG else ()) for name in GALLERY]
PAGE = (ROOT / "docs" / "gallery.md").read_text()


@pytest.mark.parametrize("name", GALLERY)
def test_an_example_is_short_and_stands_in_the_gallery(name):
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < 40
    assert f"](pictures/{name}.png)" in PAGE and f'--8<-- "examples/{name}.py"' in PAGE
    picture = ROOT / "docs" / "pictures" / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size < 150_000


def test_the_gallery_shows_only_what_exists():
    assert set(re.findall(r'--8<-- "examples/(\w+)\.py"', PAGE)) == set(GALLERY)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_an_example_runs_and_makes_its_picture(name, tmp_path):
    picture = tmp_path / "picture.png"
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), str(picture)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert re.search(r"\d", done.stdout), "an example prints what it found"
