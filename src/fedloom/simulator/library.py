"""The scenarios that come with FedLoom, by name; nothing is imported that checks or runs them."""

from pathlib import Path

from fedloom.gate import files, yaml_text


def names() -> dict[str, Path]:
    """The scenarios that come with FedLoom."""
    return {path.stem: path for path in sorted(_library().glob("*.yaml"))}


def descriptions() -> dict[str, str]:
    """What each of them says it is."""
    texts = {path: files.read_text(path, "a scenario", yaml_text.MOST_BYTES) for path in names().values()}
    return {path.stem: yaml_text.read(text, str(path)).get("description", "") for path, text in texts.items()}


def _library() -> Path:
    """The folder of scenarios: in the package when installed, at the root of a source tree."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "scenarios"
    return inside if inside.is_dir() else package.parents[1] / "scenarios"
