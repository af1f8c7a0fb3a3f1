"""What a plan leaves on disk: tables, a picture and a page.

    devices.csv     a line per device: its cluster and head, what a cloud round takes it
    clusters.csv    a line per cluster
    plan.json       all of it, with settings, totals, the plans it is compared with and the scenario it runs in
    plan.geojson    devices, heads and links for maps, if the table is in degrees
    map.png         who reports to whom
    plan.html       the map to look into, and the tables; it holds everything it needs and loads nothing

They are written together: all of one plan.
"""

import csv
import io
from pathlib import Path

from fedloom.planning import scenario_of_plan
from fedloom.record.files import Content, json_bytes, write_together
from fedloom.record.plan_geojson import geojson
from fedloom.record.plan_page import page
from fedloom.record.plan_picture import draw_map
from fedloom.record.plan_tables import Planned, Row, cluster_rows, device_rows, summary


def write_plan(planned: Planned, folder: Path) -> dict[str, Path]:
    """All files, and where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    devices, clusters = device_rows(planned), cluster_rows(planned)
    files: dict[str, Content] = {
        "devices.csv": _csv_bytes(devices),
        "clusters.csv": _csv_bytes(clusters),
        "plan.json": json_bytes(
            summary(planned)
            | {"devices": devices, "scenario": scenario_of_plan(planned.title, planned.devices, planned.work)}
        ),
        **({} if planned.table.origin is None else {"plan.geojson": json_bytes(geojson(planned))}),
        "map.png": lambda path: draw_map(planned, path),
        "plan.html": page(planned).encode(),
    }
    write_together(folder, files)
    return {name: folder / name for name in files}


def _csv_bytes(rows: list[Row]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
