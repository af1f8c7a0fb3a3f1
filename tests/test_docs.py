"""The documents: every Python and shell block runs, and the site builds offline without a warning.

A block that is not to be run has a comment before it that says why: `<!-- not run: needs MNIST -->`; those that only take
minutes are run with the full tests. Commands that take hours or real datasets wherever they stand are named here.
"""

import dataclasses
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import docs_fields  # noqa: E402

PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+?) -->\n)?^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    flags=re.MULTILINE | re.DOTALL,
)
PYTHON, SHELL = {"python", "py"}, {"sh", "bash", "shell", "console"}
LONG = "takes minutes"
FIRST = {
    "README.md",
    "docs/start.md",
    "docs/limits.md",
}  # whose commands are always run; those of others with the full tests
LEFT_OUT = {
    "fedloom reproduce": "takes minutes to hours, and the real datasets",
    "fedloom data": "fetches from the network",
    "make ": "sets up or tests the whole project",
    "ray start": "starts a cluster on this machine",
}


def blocks(page: Path, languages: set[str], long: bool = False) -> list[str]:
    """The blocks of a page that are to be run; or those that take minutes."""
    found = []
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        indent, code = match["indent"], match["code"]
        code = "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))
        wanted = match["why"] == LONG if long else not match["why"]
        if match["language"] in languages and wanted and not code.startswith("--8<-- "):
            found.append(code)
    return found


def place(tmp_path: Path) -> dict[str, str]:
    """A folder that looks like the project's, and the environment of commands in it."""
    for name in ("examples", "scenarios"):
        (tmp_path / name).symlink_to(ROOT / name)
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, PYTHON)], ids=named)
def test_python_in_the_documents_runs(page, tmp_path):
    """The blocks of a page one after the other, as one reads them."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, PYTHON)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, env=place(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            p, id=str(p.relative_to(ROOT)), marks=() if str(p.relative_to(ROOT)) in FIRST else pytest.mark.full
        )
        for p in [ROOT / "README.md", *PAGES]
        if blocks(p, SHELL)
    ],
)
def test_commands_in_the_documents_run(page, tmp_path):
    run_commands(blocks(page, SHELL), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, SHELL, long=True)], ids=named)
def test_commands_that_take_minutes_run(page, tmp_path):
    run_commands(blocks(page, SHELL, long=True), tmp_path)


def run_commands(codes, tmp_path):
    environment = place(tmp_path)
    for code in codes:
        lines = re.sub(r"\\\n\s*", " ", code).splitlines()
        kept = [line for line in lines if not any(line.lstrip("$ ").startswith(name) for name in LEFT_OUT)]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(line.removeprefix("$ ") for line in kept)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def test_whether_a_block_runs_is_decided_by_its_language_and_a_reason(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1)\n```\n\n<!-- not run: takes hours -->\n```sh\nfedloom run x\n```\n\n"
        '!!! note\n\n    ```sh\n    fedloom list methods\n    ```\n\n```\nplain\n```\n\n```py\n--8<-- "examples/a.py"\n```\n'
    )
    assert blocks(page, PYTHON) == ["print(1)\n"]
    assert blocks(page, SHELL) == ["fedloom list methods\n"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder


@pytest.mark.slow
def test_the_site_has_all_pages_and_loads_nothing_from_elsewhere(site):
    for page in PAGES:
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        built = site / (path.with_name("index.html") if page.name == "README.md" else path)
        assert built.exists(), f"{page} is not part of the site"
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]+src="(https?:[^"]+)"', built.read_text())
        loaded += re.findall(
            r'<link[^>]+rel="(?:stylesheet|preconnect|icon)"[^>]+href="(https?:[^"]+)"', built.read_text()
        )
        assert not loaded


@pytest.mark.slow
def test_every_method_stands_in_the_navigation(site):
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        if page.name != "README.md":
            assert f'href="methods/{page.stem}.html"' in home


@pytest.mark.slow
def test_the_reference_documents_what_is_public(site):
    text = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    for name in ("simulate", "scenario", "Simulation", "Result"):
        assert re.search(rf'id="fedloom\.simulator\.\w+\.{name}"', text)
    assert 'id="fedloom.methods.by_name.make_method"' in text
    for package in ("grouping", "pacing", "mixing", "coding", "fleet", "radio", "bounds", "data"):
        module = importlib.import_module(f"fedloom.{package}")
        public = [n for n in module.__all__ if inspect.isfunction(v := getattr(module, n)) or inspect.isclass(v)]
        missing = [n for n in public if not re.search(rf'id="fedloom\.{package}\.({n}\.)?{n}"', text)]
        assert public and not missing


def test_pictures_are_small():
    pictures = list((ROOT / "docs" / "pictures").glob("*"))
    assert pictures and sum(p.stat().st_size for p in pictures) < 2_500_000
    used = "".join(p.read_text() for p in PAGES) + (ROOT / "README.md").read_text()
    unused = [p.name for p in pictures if p.name not in used]
    assert not unused, f"nobody shows {unused}"


PARTS = re.findall(
    r"<!-- fields: ([\w.]+)\.(\w+) -->", (ROOT / "docs" / "api" / "parts.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("module", "name"), PARTS)
def test_every_field_of_every_part_is_described_where_it_is_declared(module, name):
    part = getattr(importlib.import_module(module), name)
    described = {field: meaning for field, _, _, meaning in docs_fields.fields(module, name)}
    assert set(described) == {field.name for field in dataclasses.fields(part)}
    assert all(meaning.endswith(".") for meaning in described.values()), described
