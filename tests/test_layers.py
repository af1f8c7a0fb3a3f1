"""Each layer imports only from those above it; policy has no I/O, clock, logging or global randomness."""

import ast
from pathlib import Path

import pytest

import fedloom

LAYERS = [
    *("gate", "radio", "fleet", "data", "grouping", "mixing", "pacing", "coding", "privacy", "allocation", "bounds"),
    "attacks",
    *("training", "protocol", "methods", "simulator", "planning", "scale", "record", "deployment", "flower"),
    *("reproduce", "cli"),
]
BASE = {"_blas", "_check", "_kernels", "_random", "_settings", "_sums", "_versions", "numbers"}  # below all layers
POLICY = [
    "radio",
    "grouping",
    "mixing",
    "pacing",
    "coding",
    "privacy",
    "allocation",
    "bounds",
    "attacks",
    "protocol",
    "methods",
]
LEARNS = {"allocation/ppo.py"}  # trains a network; its test sees that threads and generators are put back
ROOT = Path(fedloom.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def imports(path):
    """Modules of fedloom that a file imports, also inside functions, as (layer, line)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            names = [f"{node.module}.{a.name}" if node.module == "fedloom" else node.module for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "fedloom" and rest:
                yield rest[0], node.lineno


def layer_of(path):
    return path.relative_to(ROOT).parts[0]


@pytest.mark.parametrize("path", [f for f in FILES if layer_of(f) in LAYERS], ids=lambda f: str(f.relative_to(ROOT)))
def test_a_layer_imports_only_from_those_above(path):
    allowed = BASE | set(LAYERS[: LAYERS.index(layer_of(path)) + 1])
    wrong = [f"{path.name}:{line} imports fedloom.{name}" for name, line in imports(path) if name not in allowed]
    assert not wrong


def test_every_folder_is_a_layer():
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and list(p.glob("*.py"))}
    assert folders <= set(LAYERS)


PURE = [f for f in FILES if layer_of(f) in POLICY and f.relative_to(ROOT).as_posix() not in LEARNS]


@pytest.mark.parametrize("path", PURE, ids=lambda f: str(f.relative_to(ROOT)))
def test_policy_is_pure(path):
    forbidden = {"time", "logging", "random", "os", "io", "socket", "threading", "subprocess", "torch"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            assert not forbidden & {n.split(".")[0] for n in names}, f"{path}:{node.lineno}"
            assert not any(n.startswith("numpy.random") for n in names), f"{path}:{node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"print", "open"}, f"{path}:{node.lineno}"
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
            assert node.attr == "Generator", f"{path}:{node.lineno} uses global randomness"


def test_the_simulator_knows_no_method_by_name():
    from fedloom.methods import METHODS

    for path in (ROOT / "simulator").glob("*.py"):
        names = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
        named = names & set(METHODS)
        assert named <= ({"hierfedavg"} if path.name == "simulation.py" else set())  # the default of simulate()


def test_no_file_is_called_utils():
    assert not [f for f in FILES if "util" in f.name or "helper" in f.name]


def test_the_public_names_are_these():
    assert set(fedloom.__all__) == {
        *("Method", "Result", "Scenario", "Simulation", "load_model", "make_method", "scenario", "simulate"),
        *("Allotment", "Allotting", "Coding", "Grouping", "Local", "Start", "State", "Waiting"),
        *("Rounds", "TimeBox", "Async", "Barrier", "Immediate", "NoCloud"),
        *("Linear", "ByRows", "CloudLinear", "CloudByRows"),
        *("bounds", "coding", "data", "fleet", "grouping", "methods", "mixing", "pacing", "protocol", "radio"),
        "training",
    }
    for name in fedloom.__all__:
        assert getattr(fedloom, name) is not None
    with pytest.raises(AttributeError, match="fedloom has no 'nothing'"):
        fedloom.nothing  # noqa: B018
