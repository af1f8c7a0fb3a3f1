"""What a node has measured itself while it carried out an order: seconds, joules, and bytes that it sent and got.

It travels with the word that an order is done, and passes the gate there: whoever says nonsense is refused.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedloom.deployment import naming
from fedloom.deployment.letters import Letter
from fedloom.deployment.transport import Refusal

MOST_PARTNERS = 10_000
MOST = 1e15
Bytes = tuple[int, int, int, int]
"""Values that were sent and got, and whole letters, both in bytes."""


class Took(NamedTuple):
    """fetch_s, train_s, send_s: of a job, without waiting for the model to be made; None if the order was no training, or its
    update was there already. joules: by the device's own meter. carried: by the node that was called."""

    fetch_s: float | None = None
    train_s: float | None = None
    send_s: float | None = None
    joules: float | None = None
    carried: Mapping[str, Bytes] = {}

    def fields(self) -> dict[str, Any]:
        """For a letter."""
        return {"took": [self.fetch_s, self.train_s, self.send_s, self.joules], "carried": dict(self.carried)}


NOTHING = Took()


def took_of(letter: Letter) -> Took:
    """What a letter says; Refusal if it cannot be."""
    numbers, carried = letter.fields.get("took", [None] * 4), letter.fields.get("carried", {})
    if not (isinstance(numbers, list) and len(numbers) == 4 and all(n is None or _amount(n) for n in numbers)):
        raise Refusal("took must be seconds to fetch, train and send, and joules, or nothing for each")
    if not (isinstance(carried, dict) and len(carried) <= MOST_PARTNERS):
        raise Refusal(f"carried must be bytes by node, of at most {MOST_PARTNERS} nodes")
    for node, counts in carried.items():
        whole = isinstance(counts, list) and len(counts) == 4 and all(_amount(n) and isinstance(n, int) for n in counts)
        if not (whole and naming.is_node(node)):
            raise Refusal("carried must be four whole numbers of bytes for every node that was called")
    fetch_s, train_s, send_s, joules = numbers
    return Took(fetch_s, train_s, send_s, joules, {node: tuple(counts) for node, counts in carried.items()})


def _amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST


class Traffic:
    """Counts bytes between this node and those that it calls."""

    def __init__(self) -> None:
        self._since: dict[str, list[int]] = {}

    def note(self, node: str, sent: Letter, n_sent: int, got: Letter, n_got: int) -> None:
        """A call: both letters, and how many bytes each has in all."""
        counts = self._since.setdefault(node, [0, 0, 0, 0])
        for i, n in enumerate((_values(sent), _values(got), n_sent, n_got)):
            counts[i] += n

    def take(self) -> dict[str, Bytes]:
        """Bytes since the last time."""
        taken, self._since = self._since, {}
        return {node: (a, b, c, d) for node, (a, b, c, d) in taken.items()}


def _values(letter: Letter) -> int:
    return sum(int(array.nbytes) for array in letter.arrays.values())
