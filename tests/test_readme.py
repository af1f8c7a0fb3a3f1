"""The README shows what the example prints, and the documents name only what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    """Contents of the fenced blocks of a language ("" for none)."""
    pieces = re.split(r"^```(.*)\n", README, flags=re.MULTILINE)[1:]  # fence, inside, fence, outside, ...
    return [inside for fence, inside in zip(pieces[::4], pieces[1::4]) if fence == language]


def test_the_quickstart_is_the_example():
    example = (ROOT / "examples" / "quickstart.py").read_text()
    code = blocks("python")[0]
    assert example.endswith(code)
    assert len(code.splitlines()) <= 20


@pytest.mark.slow
def test_the_quickstart_prints_what_the_readme_shows():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "quickstart.py"], capture_output=True, text=True, check=True
    )
    shown = next(b for b in blocks("") if b.startswith("fedavg "))
    number = re.compile(r"[\d.]+")
    assert number.sub("#", done.stdout) == number.sub("#", shown)
    for ours, theirs in zip(done.stdout.splitlines(), shown.splitlines()):
        assert [float(n) for n in number.findall(ours)] == pytest.approx(
            [float(n) for n in number.findall(theirs)], abs=1.0, rel=0.01
        )  # accuracy may differ by a point between processors; clock and ledger do not


def test_commands_in_the_readme_exist():
    from fedloom.cli.app import app

    known = {c.name or c.callback.__name__ for c in app.registered_commands} | {g.name for g in app.registered_groups}
    named = set(re.findall(r"^fedloom (\w+)", README, flags=re.MULTILINE))
    assert named == known


def test_links_in_the_documents_lead_somewhere():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+?)\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_method_has_a_page():
    from fedloom.methods import METHODS

    for name in METHODS:
        assert (ROOT / "docs" / "methods" / f"{name}.md").exists()
