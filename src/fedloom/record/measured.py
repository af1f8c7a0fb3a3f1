"""What a deployed run has measured, beside what was predicted: measured.json of its record.

model     bytes of a model as the scenario counts them, and as its values are carried
jobs      in columns, a line for every client that was sent to work: seconds predicted and measured (fedloom.deployment.measured)
carried   by caller and who was called: bytes of values and of whole letters, both ways
wire      where links were shaped: bytes over every link with all headers
"""

from pathlib import Path
from typing import Any

from fedloom.record.files import FolderError, json_bytes, load_manifest

MEASURED = "measured.json"


def write_measured(folder: Path, measured: dict[str, Any]) -> None:
    """Add it to a record."""
    manifest = load_manifest(folder)
    if manifest is None:
        raise FolderError(f"{folder} holds no record yet; what was measured is added when the run is over")
    manifest.write({MEASURED: json_bytes(measured)})
