"""What the figures of the report share: colours, layout, and labels that are escaped."""

from __future__ import annotations

import html
from typing import Any

# Paul Tol's bright and vibrant colours, none of them one of a method.
CLUSTER_COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE7733", "#009988")
NEUTRAL = "#8A8F99"
BLUES = [[0, "rgba(0,114,178,0.03)"], [1, "rgba(0,114,178,0.75)"]]


def shared_layout(height: int, margin: dict[str, int]) -> dict[str, Any]:
    """What all figures share; the page sets the colours of text and grid, for light and dark."""
    axis = {"gridcolor": "rgba(138,143,153,0.25)", "zerolinecolor": "rgba(138,143,153,0.25)", "ticks": ""}
    return {
        "template": {"data": {"scatter": [{"type": "scatter"}]}},  # plotly's "none": no colours of its own
        "height": height,
        "margin": margin,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {
            "family": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif",
            "size": 12,
        },
        "hoverlabel": {"align": "left"},
        "showlegend": False,
        "xaxis": axis,
        "yaxis": axis,
    }


def label_text(text: str) -> str:
    """Escaped for the labels of figures, which know a few tags and entities, but not those for quotes."""
    return html.escape(text, quote=False)


def cluster_color(aggregator: int) -> str:
    """The colour of a cluster, or of the aggregator that has it; with more of them than colours, they come again."""
    return CLUSTER_COLORS[int(aggregator) % len(CLUSTER_COLORS)]
