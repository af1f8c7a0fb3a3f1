"""Reports of groups: each is there when all its models are with the cloud, and not before it is time."""

from fedloom.deployment.clock import WallClock
from fedloom.deployment.store import Store
from fedloom.simulator.clock import Reporting


class Reports:
    """By group: names of models that are not here yet."""

    def __init__(self, store: Store, clock: WallClock) -> None:
        self._store, self._clock = store, clock
        self._wanted: dict[int, tuple[set[str], float]] = {}  # and not before so many seconds
        self._told: set[int] = set()

    def __repr__(self) -> str:
        wanted = {group: sorted(names) for group, (names, _) in self._wanted.items()}
        return f"Reports({wanted}, told={sorted(self._told)})"

    def expect(self, group: int, wanted: set[str], at_s: float) -> None:
        """A group reports: these models are to come."""
        self._wanted[group] = wanted, at_s
        self._told.discard(group)
        self.check()

    def told(self, group: int) -> None:
        """The driver knows."""
        self._told.add(group)

    def check(self) -> None:
        """Groups whose models are all here have reported. That is told once, though a group may report twice if a station was
        lost meanwhile."""
        for group, (wanted, at_s) in list(self._wanted.items()):
            wanted -= {name for name in wanted if name in self._store}
            if not wanted and self._clock.live and group not in self._told:
                self._told.add(group)
                if not self._clock.foresees(Reporting(group)):
                    self._clock.foresee(at_s, Reporting(group))
