"""What the map of a plan shows: colours of clusters, the part of the plane, and words; for the picture (`plan_picture`) and the
figure of the page (`plan_figure`).

Clusters that are neighbours have different colours, out of few that colour-blind readers can tell apart too.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.radio import distances
from fedloom.record.plan_tables import Planned
from fedloom.record.plan_words import count, si

Floats = NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
DARK, GREY = "#222222", "#6B7280"
FAR = 0.6  # of the fleet's extent: a server further outside is shown by an arrow
FEW_HEADS = 8  # whose lines to the server are drawn to the end
STUB = 0.05  # of the map: of the others so much is drawn


def cluster_colours(planned: Planned) -> list[str]:
    """One of COLOURS per cluster: of those that fewest of its nearest neighbours have, the first."""
    plan, position = planned.plan, planned.devices.position_m
    middle = np.stack([position[members].mean(axis=0) for members in plan.topology.cover])
    away = distances(middle, middle)
    given = np.full(len(middle), -1)
    for n in np.argsort(middle[:, 0], kind="stable").tolist():
        near = [m for m in np.argsort(away[n], kind="stable").tolist() if given[m] >= 0][: len(COLOURS) - 1]
        free = [c for c in range(len(COLOURS)) if c not in given[near]]
        count = np.bincount(given[given >= 0], minlength=len(COLOURS))
        given[n] = min(free, key=lambda c: (count[c], c))
    return [COLOURS[c] for c in given.tolist()]


def headline(planned: Planned) -> tuple[str, str]:
    """A title, and what a cloud round takes, in words."""
    plan = planned.plan
    where = f"in {count(plan.n_clusters, 'cluster')}" if plan.topology.kind == "head" else "at one server"
    title = f"{planned.title}: {count(planned.devices.n, 'device')} {where} ({plan.name})"
    total_j, total_bytes = plan.ledger.total_j, plan.ledger.total_bytes
    return title, f"a cloud round: {si(plan.time_s, 's')}, {si(total_j, 'J')}, {si(total_bytes, 'B')}"


def server_place(planned: Planned) -> str:
    """Where the server is: in degrees if the table is, else in metres."""
    server = planned.devices.server_m
    degrees = planned.table.to_degrees(server)
    if degrees is not None:
        return f"{degrees[0]:.5f}, {degrees[1]:.5f} (latitude, longitude)"
    return f"({server[0]:,.0f}, {server[1]:,.0f}) m"


def axis_titles(planned: Planned) -> tuple[str, str]:
    """Of x and y."""
    return ("metres east", "metres north") if planned.table.origin else ("x (m)", "y (m)")


def window(planned: Planned) -> tuple[Floats, Floats, bool]:
    """Lower left and upper right corner of the map, and whether the server is on it."""
    position, server = planned.devices.position_m, planned.devices.server_m
    low, high = position.min(axis=0), position.max(axis=0)
    extent = max(float((high - low).max()), 1.0)
    shown = bool(((server >= low - FAR * extent) & (server <= high + FAR * extent)).all())
    if shown:
        low, high = np.minimum(low, server), np.maximum(high, server)
    middle, half = (low + high) / 2, (high - low) / 2
    half = np.maximum(half, 0.35 * half.max()) + 0.06 * max(float(half.max()), 0.5)
    return middle - half, middle + half, shown


def towards_server(planned: Planned) -> Floats:
    """(k, 2): where the lines of heads to the server end: there, or if there are many, after a piece of the way, so that
    they do not cover the middle of the map."""
    low, high, _ = window(planned)
    start = planned.devices.position_m[planned.plan.topology.host]
    way = planned.devices.server_m - start
    length = np.hypot(way[:, 0], way[:, 1])[:, None]
    most = np.inf if len(start) <= FEW_HEADS else STUB * float((high - low).max())
    return np.asarray(start + way * np.minimum(1.0, most / np.maximum(length, 1e-9)))


def server_key(planned: Planned) -> str:
    """What the lines of heads are called in the legend."""
    return "head reports to server" if planned.plan.n_clusters <= FEW_HEADS else "towards the server"
