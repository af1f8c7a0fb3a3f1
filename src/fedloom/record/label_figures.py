"""Who holds what: labels by cluster and by client, and the figures of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fedloom.record.figure import Figure, trace
from fedloom.record.figure_style import BLUES, CLUSTER_COLORS, cluster_color, label_text, shared_layout
from fedloom.record.groupings import aggregator_names, aggregators_of, group_name
from fedloom.record.runs import Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_CLIENTS = 400  # columns of the label histograms


@dataclass(frozen=True)
class Clusters:
    """Labels by cluster in the first recorded round. N clusters, C classes.

    shares (N + 1, C): of each cluster's samples; the last row is of all clients. distance (N,): total variation
    distance to that last row, half the sum of absolute differences, from 0 (alike) to 1 (no class in common).
    n_samples (N + 1,). A client of several clusters counts fully in each.
    """

    names: list[str]
    shares: NDArray[np.float64]
    distance: NDArray[np.float64]
    n_samples: NDArray[np.int64]


def clusters(run: Run) -> Clusters:
    """Who holds what; with no classes (regression) `shares` is (N + 1, 0) and all distances are 0."""
    import numpy as np

    place = run.first_place
    if place is None:
        raise ValueError(f"{run.path} has no topology; it is written when the run is finished")
    samples = np.asarray(run.clients["n_samples"], dtype=np.int64)
    counts = np.asarray(run.clients["label_counts"], dtype=float).reshape(len(samples), -1)
    names = aggregator_names(place)
    members = [place.filter(place["aggregator"] == n)["client"].to_numpy() for n in names]
    members.append(np.arange(len(samples)))
    held = np.stack([counts[m].sum(axis=0) for m in members])  # (N + 1, C)
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1)
    return Clusters(
        names=list(names.values()),
        shares=shares,
        distance=np.abs(shares[:-1] - shares[-1]).sum(axis=1) / 2,
        n_samples=np.array([samples[m].sum() for m in members]),
    )


def labels_figure(run: Run) -> Figure:
    """Heat map of the classes' shares by cluster and for all clients; bars of samples if there are no classes."""
    found = clusters(run)
    n_rows, n_classes = found.shares.shape
    height = 100 + (28 if n_rows <= 12 else 14 if n_rows <= 60 else 5) * n_rows
    layout = shared_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 48})
    if not n_classes:
        bars = trace(
            "bar",
            x=found.n_samples[:-1].tolist(),
            y=found.names,
            orientation="h",
            marker={"color": CLUSTER_COLORS[0]},
            hovertemplate="%{y}: %{x:,} samples<extra></extra>",
        )
        figure = Figure([bars], layout)
        figure.update_xaxes(title="training samples")
        figure.update_yaxes(autorange="reversed", automargin=True)
        return figure
    rows = [f"{name}  ·  {d:.2f}" for name, d in zip(found.names, found.distance)] + ["all devices"]
    text = [[f"{100 * share:.0f}" for share in row] for row in found.shares]
    shares = trace(
        "heatmap",
        z=(100 * found.shares).round(2).tolist(),
        x=[str(c) for c in range(n_classes)],
        y=rows,
        zmin=0,
        zmax=max(float(100 * found.shares.max()), 200 / n_classes),  # even shares are half-tone
        colorscale=BLUES,
        xgap=2,
        ygap=2,
        text=text if n_classes <= 12 and n_rows <= 12 else None,
        texttemplate="%{text}" if n_classes <= 12 and n_rows <= 12 else None,
        colorbar={
            "title": {"text": "%"},
            "thickness": 10,
            "outlinewidth": 0,
            "nticks": 5,
            "lenmode": "pixels",
            "len": 130,
            "yanchor": "top",
            "y": 1,
        },
        hovertemplate="%{y}<br>class %{x}: %{z:.1f} %<extra></extra>",
    )
    figure = Figure([shares], layout)
    figure.update_xaxes(title="class", type="category", showgrid=False, nticks=20)
    figure.update_yaxes(type="category", autorange="reversed", automargin=True, showgrid=False)
    figure.update_yaxes(tickfont={"size": 12 if n_rows <= 12 else 9}, title="cluster" if n_rows > 60 else None)
    figure.update_yaxes(nticks=n_rows + 1 if n_rows <= 60 else 30)
    return figure


def client_labels_figure(run: Run, most_clients: int = MOST_CLIENTS) -> Figure:
    """Label histogram of every client, ordered by cluster; of many clients a choice spread evenly.

    Clients of the same several clusters stand together, in a group of their own. With no classes: the clients' samples.
    """
    import numpy as np

    order, group, names = ordered_clients(run, most_clients)
    samples = np.asarray(run.clients["n_samples"], dtype=np.int64)
    counts = np.asarray(run.clients["label_counts"], dtype=np.int64).reshape(len(samples), -1)
    where = [f"device {k}" for k in order]
    if counts.shape[1]:
        z = counts[order].T  # (C, clients)
        drawn = trace(
            "heatmap",
            z=z.tolist(),
            x=where,
            y=[str(c) for c in range(len(z))],
            zmin=0,
            zmax=max(int(z.max()), 1),
            colorscale=BLUES,
            hovertemplate="%{x}, class %{y}: %{z:,} samples<extra></extra>",
            colorbar={"title": {"text": "samples"}, "thickness": 10, "outlinewidth": 0, "nticks": 4},
        )
        height = 150 + 14 * min(len(z), 20)
    else:
        drawn = trace(
            "bar",
            x=where,
            y=samples[order].tolist(),
            marker={"color": [cluster_color(n) for n in group]},
            hovertemplate="%{x}: %{y:,} samples<extra></extra>",
        )
        height = 260
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(order)]
    middle = [(a + b - 1) / 2 for a, b in pairwise(edges)]
    few = len(middle) <= 12
    between = [
        {"type": "line", "x0": e - 0.5, "x1": e - 0.5, "y0": 0, "y1": 1, "yref": "paper", "line": {"width": 1.5}}
        for e in edges[1:-1]
    ]
    layout = shared_layout(height=height, margin={"l": 10, "r": 10, "t": 8, "b": 50})
    figure = Figure([drawn], layout | {"shapes": between})
    figure.update_xaxes(
        type="category",
        range=[-0.5, len(order) - 0.5],
        tickvals=middle if few else [],
        ticktext=[label_text(names[int(group[e])]) for e in edges[:-1]] if few else [],
        title=None if few else "devices, cluster by cluster",
        showgrid=False,
        automargin=True,
    )
    if counts.shape[1]:
        figure.update_yaxes(title="class", type="category", showgrid=False, automargin=True)
    else:
        figure.update_yaxes(title="training samples", automargin=True)
    return figure


def ordered_clients(run: Run, most_clients: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Clients by cluster in the first recorded round, the number of each one's group, and the groups' names.

    Clients with the same aggregators are a group, those with several between those with one; who takes no part comes last.
    """
    import numpy as np

    place = run.first_place
    if place is None:
        raise ValueError(f"{run.path} has no topology; it is written when the run is finished")
    of = aggregators_of(place)
    groups = sorted(set(of.values()), key=lambda group: (not group, group))
    number = {group: i for i, group in enumerate(groups)}
    clients = sorted(of, key=lambda k: (number[of[k]], k))
    if len(clients) > most_clients:
        clients = [clients[i] for i in np.linspace(0, len(clients) - 1, most_clients).round().astype(int)]
    names = aggregator_names(place)
    numbers = np.array([number[of[k]] for k in clients], dtype=np.int64)
    return np.array(clients, dtype=np.int64), numbers, [group_name(group, names) for group in groups]
