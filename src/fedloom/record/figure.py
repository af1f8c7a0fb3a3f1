"""Figures for plotly.js as plain data: the JSON that the browser draws, made without importing plotly.

The package takes longer to import than a report to write, and most of it checks names of properties; the tests do that
instead: every figure of a report goes through plotly's own classes there and must come out unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Piece(dict[str, Any]):
    """A piece of a figure, whose entries are attributes too, None where there is none: `trace.marker.color`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions
            raise AttributeError(name)
        return self.get(name)


def trace(kind: str, **entries: Any) -> Piece:
    """One thing that is drawn: kind is plotly's, such as scatter, bar or heatmap; what is None is left out."""
    return _piece({"type": kind} | entries)


class Figure:
    """Traces and a layout; `to_json` is what plotly.js takes."""

    def __init__(self, traces: Sequence[Piece] = (), layout: Mapping[str, Any] | None = None) -> None:
        self.data = list(traces)
        self.layout = _piece(layout or {})
        self.layout.setdefault("xaxis", Piece())
        self.layout.setdefault("yaxis", Piece())

    def add_bar(self, **entries: Any) -> None:
        """One more trace of bars."""
        self.data.append(trace("bar", **entries))

    def update_xaxes(self, **entries: Any) -> None:
        """Change the horizontal axis; a title is a text, or None for none."""
        self.layout.xaxis.update(_axis(entries))

    def update_yaxes(self, **entries: Any) -> None:
        """Change the vertical axis; a title is a text, or None for none."""
        self.layout.yaxis.update(_axis(entries))

    def plain(self) -> dict[str, Any]:
        """As dictionaries and lists; what is not finite is None, as in plotly: nothing is drawn there."""
        found: dict[str, Any] = _finite({"data": self.data, "layout": self.layout})
        return found

    def to_json(self) -> str:
        return json.dumps(self.plain(), separators=(",", ":"), allow_nan=False)


def plotly_js() -> str:
    """The JavaScript that draws figures, out of plotly's package, which is not imported."""
    from importlib.util import find_spec

    found = find_spec("plotly")
    assert found is not None and found.origin is not None
    return (Path(found.origin).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _axis(entries: Mapping[str, Any]) -> Piece:
    titled = {"title": {} if entries["title"] is None else {"text": entries["title"]}} if "title" in entries else {}
    return _piece({**entries, **titled})


def _piece(entries: Mapping[str, Any]) -> Piece:
    """With attributes all the way down, and without what is None."""
    return Piece({name: _deep(value) for name, value in entries.items() if value is not None})


def _deep(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _piece(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return [_piece(part) for part in value]
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
