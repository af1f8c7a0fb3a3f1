"""Orders that are not carried out yet, by node. An order is named by what it makes, so that it is the same after a restart.

train     a device: begin with this recipe, so many steps; send the update to these stations
deliver   a device: send an update that you have to this station, too
feature   a device: compute what the method wants to know, and send it to the cloud
merge     a station: make this model of these updates and models
sketch    a device: send the cloud random sums of what you sent and were shown
alter     a hostile station: make this model, which you send in the place of another
hold      a station: fetch this model from this node, for your devices
report    a station: send this model to the cloud
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

Order = dict[str, Any]
AT_ONCE = 64  # orders in a letter


class Outbox:
    """told: called with nodes when there is something new for them. For one thread at a time."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Order]] = {}
        self.told: Callable[[Collection[str]], None] = lambda nodes: None
        self._untold: set[str] | None = None

    def add(self, node: str, order: Order) -> None:
        self._by_node.setdefault(node, {})[order["id"]] = order
        if self._untold is None:
            self.told([node])
        else:
            self._untold.add(node)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is added here is told when all of it is there: who tells and who hears it take turns, which takes as long as to
        prepare an order."""
        self._untold = set()
        try:
            yield
        finally:
            untold, self._untold = self._untold, None
            self.told(untold)

    def take(self, node: str, order_id: str) -> Order | None:
        """An order of a node is done, or not wanted any more; None if there is no such order."""
        return self._by_node.get(node, {}).pop(order_id, None)

    def get(self, node: str, order_id: str) -> Order | None:
        return self._by_node.get(node, {}).get(order_id)

    def has(self, node: str, order_id: str) -> bool:
        return order_id in self._by_node.get(node, {})

    def of(self, node: str, known: Collection[str] = ()) -> list[Order]:
        """Orders of a node that it does not know yet."""
        found = [order for name, order in self._by_node.get(node, {}).items() if name not in known]
        return found[:AT_ONCE]

    def waiting(self) -> dict[str, list[Order]]:
        """All that are not carried out, by node."""
        return {node: list(orders.values()) for node, orders in self._by_node.items() if orders}
