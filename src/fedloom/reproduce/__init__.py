"""Published tables and figures beside our own runs: one folder or file per paper, one place for verdicts.

A paper is a list of items (a figure or a table of it). An item says which curves it needs (scenario and method; a run for
every seed) and judges them: tables, plots, and a verdict for every claim of the paper. How runs are made, cached and
resumed is none of its business.
"""

import difflib
import importlib

from fedloom.reproduce.paper import Claim, Item, Outcome, Paper, Plot, Reading, Runs, Series, Setup, Table

PAPERS = ("ltc", "hhfl", "ddc", "csahfl", "camu")

__all__ = [
    "PAPERS",
    "Claim",
    "Item",
    "Outcome",
    "Paper",
    "Plot",
    "Reading",
    "Runs",
    "Series",
    "Setup",
    "Table",
    "find_items",
]


def load(name: str) -> Paper:
    """The paper of this name."""
    if name not in PAPERS:
        close = difflib.get_close_matches(name, PAPERS, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise ValueError(f"there is no paper {name!r}{hint} Known: {', '.join(PAPERS)}")
    paper: Paper = importlib.import_module(f"fedloom.reproduce.{name}").PAPER
    return paper


def find_items(text: str) -> tuple[Paper, tuple[Item, ...]]:
    """The paper and its items that "hhfl" (all) or "hhfl:fig4,fig5" names."""
    name, colon, wanted = text.partition(":")
    paper = load(name)
    if not colon:
        return paper, paper.items
    known = {item.key: item for item in paper.items}
    chosen = [key.strip() for key in wanted.split(",") if key.strip()]
    for key in chosen or [""]:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else "."
            raise ValueError(f"paper {name} has no item {key!r}{hint} Known: {', '.join(known)}")
    return paper, tuple(known[key] for key in dict.fromkeys(chosen))
