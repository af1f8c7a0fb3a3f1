"""The same federation as plain loops over its log: who was sent, merged and reported when. Ages, weights and models are computed
anew, from sizes and from nothing that the machines say about them."""

from .plan import Plan

Vector = list[float]
Name = tuple[int, int]


def plus(a: Vector, weight: float, b: Vector) -> Vector:
    return [x + weight * y for x, y in zip(a, b)]


def trained(start: Vector, client: int, ticket: int, steps: int) -> Vector:
    change = [client + 1.0, ticket * 0.5, steps * 0.25 - client]
    return [x * 0.75 + c for x, c in zip(start, change)]


class Reference:
    """models: of the cloud, by the number of the merge; edges: of each aggregator."""

    def __init__(self, plan: Plan, n_aggregators: int) -> None:
        self.plan = plan
        self.sizes = plan.terms.n_samples.tolist()
        first = [0.0, 0.25, 0.5]
        self.models = {0: first}
        self.model = self.version = 0
        self.edges = [first] * n_aggregators
        self.reported = [first] * n_aggregators
        self.contributed: list[set[int]] = [set() for _ in range(n_aggregators)]
        self.news: list[set[int]] = [set() for _ in range(n_aggregators)]  # as reported, until the cloud merges
        self.fetched = [0] * n_aggregators
        self.where: list[tuple[list, list]] = []  # cover, group of each client
        self.group_of: list[int] = []
        self.groups: list[list[int]] = []
        self.rounds: list[int] = []
        self.merges: list[int] = []
        self.index: list[int] = []
        self.left: dict[Name, int] = {}
        self.starts: dict[Name, Vector] = {}
        self.results: dict[Name, Vector] = {}
        self.sent: dict[tuple[int, int], tuple[dict, dict]] = {}  # by group and ticket: models and who is in them
        self.begun = False

    def replay(self, log: list[tuple]) -> None:
        for what, *body in log:
            getattr(self, what.replace(" ", "_"))(*body)

    # Who is where

    def look(self, cover: list, group_of: list) -> None:
        self.where.append((cover, group_of))

    def counts(self) -> list[int]:
        """What ages are counted in, at each client's group."""
        count = self.merges if self.plan.edge.at_once else self.rounds
        return [count[g] if g >= 0 else 0 for g in self.group_of]

    def keep_ages(self, before: list[int]) -> None:
        now = self.counts()
        for name in self.left:
            self.left[name] += now[name[0]] - before[name[0]]

    def regroup(self, groups: list[list[int]], stays: bool, note: int, first: bool) -> None:
        before = None if first else self.counts()
        if not stays:
            self.rounds = [max(self.rounds, default=0)] * len(groups)
            self.merges = [max(self.merges, default=0)] * len(groups)
            self.index = [0] * len(groups)
            self.groups = groups
            self.fetched = [self.version] * len(self.fetched)
            self.contributed = [set() for _ in self.contributed]
            self.news = [set() for _ in self.news]
        self.group_of = self.where[note][1]
        if before is not None:
            self.keep_ages(before)

    def enter(self, note: int) -> None:
        assert self.group_of == self.where[note][1]

    def move(self, note: int) -> None:
        before = self.counts()
        self.group_of = self.where[note][1]
        if self.plan.edge.at_once:
            self.keep_ages(before)

    def begin(self) -> None:
        if self.plan.cloud.waits or not self.begun:
            before = self.counts()
            self.rounds = [max(self.rounds)] * len(self.rounds)
            self.keep_ages(before)
        self.begun = True

    # Edges

    def open(self, group: int) -> None:
        together = self.plan.wander and not self.plan.cloud.waits
        self.index[group] = sum(self.rounds) // len(self.rounds) if together else self.rounds[group]

    def round_over(self, group: int) -> None:
        self.rounds[group] += 1

    def now(self, group: int) -> int:
        return self.merges[group] if self.plan.edge.at_once else self.index[group]

    def send(self, group: int, names: list[Name], steps: list[int], note: int) -> None:
        cover = self.where[note][0]
        for (client, ticket), n_steps in zip(names, steps):
            mine = [n for n, row in enumerate(cover) if row[client]]
            start = [x / len(mine) for x in self.edges[mine[0]]]
            for n in mine[1:]:
                start = [x + y / len(mine) for x, y in zip(start, self.edges[n])]
            self.left[client, ticket] = self.now(group)
            self.starts[client, ticket] = start
            self.results[client, ticket] = trained(start, client, ticket, n_steps)

    def merge(self, group: int, n: int, names: list[Name], ages: list[int], note: int, found: Vector) -> None:
        cover = self.where[note][0]
        own_ages = [self.now(group) - self.left[name] for name in names]
        assert own_ages == ages, f"ages of {names} at aggregator {n} are {own_ages}, not {ages}"
        sizes = [self.sizes[client] for client, _ in names]
        reached = [max(1, sum(row[client] for row in cover)) for client, _ in names]
        own, weights, of_starts = self.weights(sizes, reached, own_ages)
        model = [own * x for x in self.edges[n]]
        for name, weight in zip(names, weights):
            model = plus(model, weight, self.results[name])
        for name, weight in zip(names, of_starts):
            model = plus(model, weight, self.starts[name])
        assert model == found, f"{names} at aggregator {n} give {model}, not {found}"
        self.edges[n] = model
        self.contributed[n] |= {client for client, _ in names}

    def merged(self, group: int) -> None:
        if self.plan.edge.at_once:
            self.merges[group] += 1

    def weights(self, sizes: list[int], reached: list[int], ages: list[int]) -> tuple[float, list[float], list[float]]:
        """Of the old model, of the updates, and of what they started from."""
        match self.plan.edge_rule:
            case "size":
                return 0.0, [size / sum(sizes) for size in sizes], []
            case "split":
                shares = [size / n for size, n in zip(sizes, reached)]
                return 0.0, [share / sum(shares) for share in shares], []
            case "delta":
                found = [size / (1 + age) / sum(sizes) for size, age in zip(sizes, ages)]
                return 1.0, found, [-weight for weight in found]
        return (*one_by_one(ages), [])

    def restarted(self, group: int) -> None:
        for n in self.groups[group]:
            self.edges[n], self.contributed[n] = self.models[0], set()

    # The cloud

    def order(self, group: int, version: int) -> None:
        assert version == self.version
        for n in self.groups[group]:
            self.fetched[n] = version if self.plan.cloud.exists else self.fetched[n]

    def down(self, aggregators: list[int], model: int) -> None:
        for n in aggregators:
            self.edges[n] = self.models[model]

    def report(self, group: int, ticket: int, aggregators: list[int]) -> None:
        models, who = {n: self.edges[n] for n in aggregators}, {n: set(self.contributed[n]) for n in aggregators}
        self.sent[group, ticket] = models, who

    def accepted(self, group: int, ticket: int) -> None:
        models, who = self.sent[group, ticket]
        for n in models:
            self.reported[n], self.news[n] = models[n], who[n]

    def cloud_merge(self, fresh: list[int], note: int, number: int, found: Vector) -> None:
        own, weights = self.cloud_weights(fresh, self.where[note][0])
        model = [own * x for x in self.models[self.model]]
        for weight, reported in zip(weights, self.reported):
            model = plus(model, weight, reported)
        assert model == found, f"the cloud merges {fresh} to {model}, not {found}"
        self.models[number], self.model = model, number
        self.version += 1
        for n in fresh:
            self.contributed[n], self.news[n] = set(), set()

    def cloud_weights(self, fresh: list[int], cover: list) -> tuple[float, list[float]]:
        share = [size / max(1, sum(row[k] for row in cover)) for k, size in enumerate(self.sizes)]
        match self.plan.cloud_rule:
            case "total":
                total = [sum((s for s, inside in zip(share, row) if inside), 0.0) for row in cover]
                return 0.0, [x / sum(total) for x in total]
            case "reported":
                total = [sum(share[k] for k in self.news[n]) if n in fresh else 0.0 for n in range(len(cover))]
                return (0.0, [x / sum(total) for x in total]) if any(total) else (1.0, [0.0] * len(cover))
        own, parts = one_by_one([self.version - self.fetched[n] for n in sorted(fresh)])
        found = dict(zip(sorted(fresh), parts))
        return own, [found.get(n, 0.0) for n in range(len(cover))]

    def recovered(self, model: int, version: int, fetched: list[int]) -> None:
        self.model, self.version = model, version
        for group, of_group in zip(self.groups, fetched):
            for n in group:
                self.fetched[n] = of_group


def one_by_one(ages: list[int]) -> tuple[float, list[float]]:
    """Each takes 1/2 of what is there, the less the older it is."""
    own, weights = 1.0, []
    for age in ages:
        a = 0.5 / (1 + age)
        own, weights = own * (1 - a), [*(weight * (1 - a) for weight in weights), a]
    return own, weights
