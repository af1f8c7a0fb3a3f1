"""Edges, heads and the cloud as stations of one process: their orders are carried out here, in a store that they share."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment.conductor import Conductor
from fedloom.deployment.orders import Order
from fedloom.deployment.recipes import Recipe, leaves, merged, mixed, needed, stepped

Row = NDArray[np.float32]
HERE = ("merge", "hold", "report", "deliver")


class Stations:
    """conductor: whose orders they are. What an order needs and is not here yet is waited for: it is asked again."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor, self._method = conductor, conductor.method

    def carry_out(self, node: str, order: Order) -> bool:
        """Do one of HERE; whether all that it needs was here."""
        store = self._conductor.store
        match order["do"]:
            case "merge":
                rows = self._rows(leaf.name for leaf in needed(order))
                if rows is None:
                    return False
                new = merged(order, rows, self._method, self._conductor.wire)
                store.put(order["name"], self._stepped(order, rows, new) if "step" in order else new)
            case _:  # all stations have what one has
                here = self._rows(order["names"] if order["do"] == "deliver" else [order["name"]])
                if here is None:
                    return False
                for name, row in here.items():
                    store.put(name, row)
        self._conductor.done(node, order["id"])
        return True

    def _stepped(self, order: Order, rows: dict[str, Row], row: Row) -> Row:
        """The model after a server optimiser's step; the moments after it are kept."""
        store, names = self._conductor.store, order["step"]["from"]
        before = None if names is None else [store[name] for name in names]
        new, *after = stepped(order, rows, row, self._method, self._conductor.wire, before)
        for name, moment in zip(order["step"]["to"], after):
            store.put(name, moment)
        return new

    def made(self, recipe: Recipe) -> Row | None:
        """The row that a recipe gives; None if what it is made of is not here yet."""
        rows = self._rows(leaf.name for leaf in leaves(recipe))
        return None if rows is None else mixed(recipe, rows, self._method, self._conductor.wire)

    def _rows(self, names: Iterable[str]) -> dict[str, Row] | None:
        found = {name: self._conductor.row_of(name) for name in dict.fromkeys(names)}
        there = {name: row for name, row in found.items() if row is not None}
        return there if len(there) == len(found) else None
