"""Pieces of HTML that sections of the report share: cards of figures, the name of a method, switches, escaped text."""

from __future__ import annotations

import html
from typing import Any

from fedloom.record.figure import Figure

MOST_MAPS = 12  # different topologies shown


class Figures:
    """The figures of a page by their names, and the elements that stand for them."""

    def __init__(self) -> None:
        self.drawn: dict[str, Any] = {}

    def embed(self, figure: Figure, name: str, title: str, caption: str, before: str = "", after: str = "") -> str:
        """A card with a title, what is before the figure, its place, a caption and buttons to save it; all escaped."""
        self.drawn[name] = figure.plain()
        return card(name, int(figure.layout.height), title, caption, before, after)


def card(name: str, height: int, title: str, caption: str, before: str = "", after: str = "") -> str:
    """The place of figure `name`; `before`, `after`, title and caption are HTML."""
    buttons = "".join(
        f'<button type="button" data-save="{form}" data-for="{name}" title="Save this figure as {form.upper()}">'
        f"{form.upper()}</button>"
        for form in ("svg", "png", "csv")
    )
    heading = f"<h3>{title}</h3>" if title else ""
    return (
        f'<figure class="card">{heading}{before}<div class="figure" id="{name}" style="height:{height}px"></div>{after}'
        f'<figcaption>{caption}</figcaption><div class="save">{buttons}</div></figure>'
    )


def name_cell(method: str, styles: dict[str, tuple[str, str]]) -> str:
    """The head of a method's line, with its colour."""
    return f'<th><div class="name">{dot(styles[method][0])}<span>{escape(method)}</span></div></th>'


def switch(name: str, choices: dict[str, str]) -> str:
    """Buttons of which one is pressed."""
    buttons = "".join(
        f'<button type="button" data-value="{value}" aria-pressed="{str(i == 0).lower()}">{text}</button>'
        for i, (value, text) in enumerate(choices.items())
    )
    return f'<span class="switch" id="{name}" role="group">{buttons}</span>'


def capital(words: str) -> str:
    """With a capital first letter."""
    return words[:1].upper() + words[1:]


def escape(value: Any) -> str:
    """As text that can stand in HTML."""
    return html.escape(str(value))


def dot(color: str) -> str:
    """A dot of this colour."""
    return f'<span class="dot" style="background:{color}"></span>'
