"""Updates that nobody can use: who sent them, and why they are left out.

An update is named by who made it and when: ("client", device, its first step), or ("edge" or "head", host, number of the report).
What is left out counts as if it had not come: the others are weighed by the method's rule without it. Its sender stays what it
was before the job: with the model and the states that it was sent out with.

    not finite   it has values that are NaN or infinite: left out everywhere
    norm         its change is absurdly long among those that came to one aggregator (fedloom.mixing.screen): left out there
    audit        a report of an aggregator that was found to lie (fedloom.mixing.audit): left out everywhere
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Update = tuple[str, int, int]

NOT_FINITE, NORM, AUDIT = "not finite", "norm", "audit"


class Sick:
    """suspects: clients whose models did not stay finite in the last settlement, which are tried by themselves in the next."""

    def __init__(self) -> None:
        self._causes: dict[Update, str] = {}
        self.suspects: set[int] = set()

    def __len__(self) -> int:
        return len(self._causes)

    def __contains__(self, update: Update) -> bool:
        """Whether it is left out everywhere."""
        return self._causes.get(update) in (NOT_FINITE, AUDIT)

    def add(self, update: Update, cause: str) -> None:
        """The first cause is the one that counts, but what is left out everywhere is no matter of length."""
        certain = cause == AUDIT or (cause == NOT_FINITE and not self.is_found(update))
        if certain or update not in self._causes:
            self._causes[update] = cause

    def is_found(self, update: Update) -> bool:
        """Whether it is the report of an aggregator that was found to lie."""
        return self._causes.get(update) == AUDIT

    def among(self, clients: Ints, first_steps: Ints) -> NDArray[np.bool_]:
        """(m,): which of these updates of clients are left out everywhere."""
        if not self._causes:
            return np.zeros(len(clients), dtype=np.bool_)
        return np.array(
            [("client", k, s) in self for k, s in zip(clients.tolist(), first_steps.tolist())], dtype=np.bool_
        )

    @property
    def counts(self) -> dict[str, int]:
        """By cause, how many were left out so far."""
        return dict(sorted(Counter(self._causes.values()).items()))

    @property
    def table(self) -> list[tuple[str, int, int, str]]:
        """All of them with their causes, for a checkpoint."""
        return [(*update, cause) for update, cause in sorted(self._causes.items())]

    def restore(self, table: Iterable[Sequence[str | int]]) -> None:
        """What the run that is gone on with had found."""
        self._causes = {(str(who), int(k), int(n)): str(cause) for who, k, n, cause in table}
