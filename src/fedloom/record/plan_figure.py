"""The map of a plan as a plotly figure: what a device costs is said where the mouse is. plotly is imported only then."""

import html
from typing import Any

import numpy as np

from fedloom.record.plan_map import (
    DARK,
    GREY,
    axis_titles,
    cluster_colours,
    server_key,
    server_place,
    towards_server,
    window,
)
from fedloom.record.plan_tables import Planned
from fedloom.record.plan_words import si

MANY = 2000  # devices; more of them are drawn by the graphics card
HOVER = "%{hovertext}<extra></extra>"


def map_figure(planned: Planned) -> Any:
    """The map as a plotly figure."""
    import plotly.graph_objects as go

    colour = [*cluster_colours(planned), GREY]  # the last for who takes no part
    low, high, shown = window(planned)
    traces = _links(planned, colour, shown)
    traces += _devices(planned, [colour[c] for c in planned.plan.cluster.tolist()])
    traces += [_server(planned)] if shown else []
    figure = go.Figure(traces)
    figure.update_layout(
        height=680,
        margin={"l": 60, "r": 10, "t": 10, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        template="none",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY},
    )
    east, north = axis_titles(planned)
    figure.update_xaxes(title=east, zeroline=False, range=[low[0], high[0]], constrain="domain")
    figure.update_yaxes(
        title=north, zeroline=False, range=[low[1], high[1]], constrain="domain", scaleanchor="x", scaleratio=1
    )
    return figure


def _links(planned: Planned, colour: list[str], shown: bool) -> list[Any]:
    """Lines of devices to their heads or the server, a trace for each colour, and of heads to a server on the map."""
    import plotly.graph_objects as go

    plan, position, server = planned.plan, planned.devices.position_m, planned.devices.server_m
    headed, n = plan.topology.kind == "head", planned.devices.n
    by_colour: dict[str, list[float | None]] = {}
    for k in np.flatnonzero(plan.cluster >= 0).tolist():
        end = position[plan.head[k]] if headed else server
        lines = by_colour.setdefault(colour[plan.cluster[k]], [])
        lines += [float(position[k, 0]), float(end[0]), None, float(position[k, 1]), float(end[1]), None]
    traces = []
    for shade, flat in by_colour.items():
        pairs = np.array(flat, dtype=object).reshape(-1, 2, 3)
        traces.append(
            _scatter(n)(
                x=pairs[:, 0].ravel().tolist(),
                y=pairs[:, 1].ravel().tolist(),
                mode="lines",
                hoverinfo="skip",
                line={"width": 1 if n <= 500 else 0.5, "color": shade},
                opacity=0.5,
                showlegend=False,
            )
        )
    if headed and shown:
        ends = np.hstack([position[plan.topology.host], towards_server(planned)]).tolist()
        x, y = ([value for end in ends for value in (end[i], end[i + 2], None)] for i in (0, 1))
        line = {"width": 1, "color": GREY, "dash": "dash"}
        traces.append(go.Scatter(x=x, y=y, mode="lines", hoverinfo="skip", line=line, name=server_key(planned)))
    return traces


def _devices(planned: Planned, shades: list[str]) -> list[Any]:
    """Points for devices, stars for heads; shades (K): of each."""
    import plotly.graph_objects as go

    plan, position, n = planned.plan, planned.devices.position_m, planned.devices.n
    texts = [_device_words(planned, k) for k in range(n)]
    traces = [
        _scatter(n)(
            x=position[:, 0].round(2),
            y=position[:, 1].round(2),
            mode="markers",
            name="device",
            hovertext=texts,
            hovertemplate=HOVER,
            marker={"size": 8 if n <= 500 else 5, "color": shades, "line": {"width": 0.5, "color": "white"}},
        )
    ]
    if plan.topology.kind == "head":
        hosts = plan.topology.host
        marker = {
            "symbol": "star",
            "size": 15 if len(hosts) <= 60 else 10,
            "color": [shades[h] for h in hosts.tolist()],
            "line": {"width": 1, "color": DARK},
        }
        traces.append(
            go.Scatter(
                x=position[hosts, 0].round(2),
                y=position[hosts, 1].round(2),
                mode="markers",
                name="head of a cluster",
                hovertext=[texts[h] for h in hosts.tolist()],
                hovertemplate=HOVER,
                marker=marker,
            )
        )
    return traces


def _server(planned: Planned) -> Any:
    import plotly.graph_objects as go

    server = planned.devices.server_m
    return go.Scatter(
        x=[server[0]],
        y=[server[1]],
        mode="markers",
        name="server",
        marker={"symbol": "square", "size": 16, "color": GREY, "line": {"width": 2, "color": "white"}},
        hovertext=[f"server<br>{server_place(planned)}"],
        hovertemplate=HOVER,
    )


def _scatter(n_devices: int) -> Any:
    """The kind of trace for so many points."""
    import plotly.graph_objects as go

    return go.Scattergl if n_devices > MANY else go.Scatter


def _device_words(planned: Planned, k: int) -> str:
    plan = planned.plan
    words = [f"<b>{html.escape(planned.table.ids[k])}</b>"]
    if plan.cluster[k] < 0:
        return f"{words[0]}<br>takes no part"
    head = int(plan.head[k])
    if head == k:
        words.append(f"head of cluster {plan.cluster[k]}, {plan.size[plan.cluster[k]]} devices")
    elif head >= 0:
        words.append(f"cluster {plan.cluster[k]}, head {html.escape(planned.head_name(head))}")
    words.append(f"{si(plan.distance_m[k], 'm')} to {'the server' if head < 0 else 'its head'}" if head != k else "")
    words.append(f"a cloud round: busy {si(plan.seconds[k], 's')}, {si(plan.joules[k], 'J')}")
    words.append(f"{si(plan.bytes_sent[k], 'B')} sent, {si(plan.bytes_received[k], 'B')} received")
    words.append(f"sends at {si(plan.power_w[k], 'W')}")
    return "<br>".join(word for word in words if word)
