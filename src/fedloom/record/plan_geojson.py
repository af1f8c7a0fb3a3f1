"""A plan as GeoJSON (RFC 7946): a point per device and for the server, a line for every link; longitude before latitude."""

from typing import Any

import numpy as np

from fedloom.record.plan_tables import Planned, Row, device_rows


def geojson(planned: Planned) -> Row:
    """Of a plan whose table is in degrees."""
    plan, server = planned.plan, _point(planned, planned.devices.server_m)
    rows = device_rows(planned)
    place = [[row["longitude"], row["latitude"]] for row in rows]
    features = [
        _feature(
            "Point", place[k], {name: value for name, value in row.items() if name not in ("latitude", "longitude")}
        )
        for k, row in enumerate(rows)
    ]
    features.append(_feature("Point", server, {"id": "server"}))
    for k in np.flatnonzero(plan.cluster >= 0).tolist():
        head = int(plan.head[k])
        end = server if head in (k, -1) else place[head]
        to = "server" if head in (k, -1) else planned.table.ids[head]
        about = {"from": planned.table.ids[k], "to": to, "cluster": int(plan.cluster[k])}
        features.append(_feature("LineString", [place[k], end], about))
    return {"type": "FeatureCollection", "features": features}


def _feature(kind: str, coordinates: list[Any], about: Row) -> Row:
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}, "properties": about}


def _point(planned: Planned, point_m: Any) -> list[float]:
    degrees = planned.table.to_degrees(point_m)
    assert degrees is not None
    return [degrees[1], degrees[0]]
