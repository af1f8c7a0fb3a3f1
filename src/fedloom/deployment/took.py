"""What a node has measured itself while it carried out an order: seconds, joules, and bytes that it sent and got.

It travels with the word that an order is done, and passes the gate there: whoever says nonsense is refused.
"""

from collections.abc import Mapping, Sequence
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
    update was there already. joules: by the device's own meter. fetched, sent: bytes of values. carried: by the node that was
    called, all since the last time."""

    fetch_s: float | None = None
    train_s: float | None = None
    send_s: float | None = None
    joules: float | None = None
    fetched: int | None = None
    sent: int | None = None
    carried: Mapping[str, Bytes] = {}

    def fields(self) -> dict[str, Any]:
        """For a letter."""
        return {"took": self.numbers(), "carried": dict(self.carried)}

    def numbers(self) -> list[float | int | None]:
        """All but what was carried."""
        return list(self[:-1])


NOTHING = Took()
N_NUMBERS = len(Took._fields) - 1


def took_of(letter: Letter) -> Took:
    """What a letter says; Refusal if it cannot be."""
    numbers, carried = letter.fields.get("took", [None] * N_NUMBERS), letter.fields.get("carried", {})
    whole = isinstance(numbers, list) and len(numbers) == N_NUMBERS and all(n is None or _amount(n) for n in numbers)
    if not whole or any(isinstance(n, float) for n in numbers[4:]):
        raise Refusal("took must be seconds to fetch, train and send, joules, and bytes both ways, or nothing for each")
    if not (isinstance(carried, dict) and len(carried) <= MOST_PARTNERS):
        raise Refusal(f"carried must be bytes by node, of at most {MOST_PARTNERS} nodes")
    for node, counts in carried.items():
        whole = isinstance(counts, list) and len(counts) == 4 and all(_amount(n) and isinstance(n, int) for n in counts)
        if not (whole and naming.is_node(node)):
            raise Refusal("carried must be four whole numbers of bytes for every node that was called")
    return numbered(numbers)._replace(carried={node: tuple(counts) for node, counts in carried.items()})


def numbered(numbers: Sequence[Any]) -> Took:
    """The reverse of `numbers`."""
    fetch_s, train_s, send_s, joules, fetched, sent = numbers
    return Took(fetch_s, train_s, send_s, joules, fetched, sent)


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
