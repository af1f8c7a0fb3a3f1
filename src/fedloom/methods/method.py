"""A method is a frozen record of parts, the answers to a few questions, with no behaviour of its own.

An option lives with the part it belongs to, so that combinations that make no sense cannot be written: a deadline with `Rounds`,
a bound on staleness with a cloud that does not wait (`Immediate`), models of clusters with one that does (`Barrier`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.coding import Coding, Gaussian, codec
from fedloom.gate import options
from fedloom.grouping import Need, Topology, View
from fedloom.grouping.view import FEATURES
from fedloom.mixing import by_steps, cloud_screened, mean_of_aggregators, screened
from fedloom.mixing.audit import AUDITS, Audit, Sketch
from fedloom.mixing.merges import ByRows, CloudLinear, Linear, MergeCloud, MergeEdge, Rows
from fedloom.mixing.private_mean import PrivateMean, private_mean
from fedloom.mixing.robust.by_name import cloud_by_name, edge_by_name
from fedloom.mixing.weights import Floats
from fedloom.protocol import Barrier, CloudMode, EdgeMode, Rounds
from fedloom.training.client_rules import client_rule
from fedloom.training.state import ClientRule

Group = Callable[[View, np.random.Generator], Topology]
WHEN = ("once", "moved", "cloud-round")
PRIVATE: dict[str, Callable[..., Gaussian | PrivateMean]] = {"client": Gaussian, "edge": PrivateMean}
"""Who adds the noise that protects clients: each of them, to what it sends, or aggregators, to what they merge."""
CODING = ("up", "down", "feedback")  # fields of a coding that a method by name, or with_, may have by themselves


@dataclass(frozen=True)
class Grouping:
    """Who aggregates with whom, and when that is decided."""

    rule: Group
    """From what the server knows of a cloud round, and a generator, to a topology."""
    _: KW_ONLY
    when: str = "moved"
    """Asked again: "once" not at all, "moved" when a client has changed cells, "cloud-round" in every one."""
    feature_s: float | None = None
    """Seconds it takes to collect a feature for grouping, if not what computing and sending take."""
    keep_progress: bool = True
    """Clients that trained for a feature go on from there in the first edge round."""
    remember_liars: bool = False
    """Who was once suspected of false reports about links stays so in all later cloud rounds."""

    def __post_init__(self) -> None:
        _check.one_of("when", self.when, WHEN)
        if self.feature_s is not None:
            _check.positive("feature_s", self.feature_s, zero=True)
            if not math.isfinite(self.feature_s):
                raise ValueError(f"feature_s must be finite, so that grouping ends, got {self.feature_s:g}")


@dataclass(frozen=True, kw_only=True)
class Start:
    """Which model a client begins with."""

    weights: Callable[[Topology], Floats] = mean_of_aggregators
    """(K, N): how much of each aggregator's model is in it."""
    share: Callable[[Rows, Rows], float] | None = None
    """(that model (P,), what the client trained last (P,)) -> how much of the first it takes; the rest is its own last one."""


@dataclass(frozen=True, kw_only=True)
class Local:
    """What clients do beside minimising the loss."""

    proximal: float = 0.0
    """mu of the proximal term (mu / 2) ||w - w_start||^2."""
    rule: ClientRule | None = None
    """What clients remember and do with it: Scaffold(), Ditto(), or a rule of one's own (fedloom.training.state)."""

    def __post_init__(self) -> None:
        _check.positive("proximal", self.proximal, zero=True)
        if self.rule is not None and (isinstance(self.rule, type) or not isinstance(self.rule, ClientRule)):
            raise ValueError(
                f"rule must be a client rule, with states, trainings, gradient and after, such as Scaffold(); got {self.rule!r}"
            )


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Whom a federation goes on without: one of real devices, and one of simulated devices that fail (availability, battery,
    dropout, loss). Quora count for real devices only."""

    patience_s: float | None = 60.0
    """Seconds without a word after which nobody waits for a device, edge server or head, if enough others are left; None: for
    ever."""
    quorum: float = 0.0
    """Share of the clients sent to work together, or asked for a feature, that must be left; with 0, somebody anywhere."""
    cloud_quorum: float = 0.0
    """Share of the edge servers or heads with clients that must be left, at least one."""

    def __post_init__(self) -> None:
        if self.patience_s is not None:
            _check.positive("patience_s", self.patience_s)
            if not math.isfinite(self.patience_s):
                raise ValueError("patience_s must be finite; None waits for ever")
        for name, share in (("quorum", self.quorum), ("cloud_quorum", self.cloud_quorum)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {share:g}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Allotment:
    """What each of the N aggregators of a topology is to do in a cloud round, where it is not what the scenario says."""

    edge_rounds: NDArray[np.int64] | None = None
    """(N,): edge rounds before it reports, at least 1."""
    power_w: Floats | None = None
    """(N,): with what a head sends to the cloud."""
    notes: Mapping[str, float | Floats] = field(default_factory=dict)
    """Figures to be recorded with those of the grouping."""

    def check(self, n_aggregators: int) -> None:
        """Refuse what does not fit so many aggregators."""
        for name, value in (("edge_rounds", self.edge_rounds), ("power_w", self.power_w)):
            if value is not None and value.shape != (n_aggregators,):
                raise ValueError(
                    f"{name} must have one number for each of {n_aggregators} aggregators, got {value.shape}"
                )
        if self.edge_rounds is not None and (self.edge_rounds < 1).any():
            raise ValueError(f"aggregators need at least one edge round, got {self.edge_rounds.tolist()}")


Allot = Callable[[View, Topology, np.random.Generator], Allotment]


@dataclass(frozen=True)
class Allotting:
    """How it is decided what each aggregator is to do: after every grouping."""

    rule: Allot
    """From what the server knows then (not from features), the topology and a generator, to an allotment."""
    _: KW_ONLY
    edge_rounds: bool = True
    """It decides on edge rounds, so that the edge has no number of its own; else on powers alone, which go with any edge."""

    def __call__(self, view: View, topology: Topology, rng: np.random.Generator) -> Allotment:
        """Ask the rule, and refuse what does not fit the topology, or edge rounds that were not announced."""
        found = self.rule(view, topology, rng)
        found.check(topology.n_aggregators)
        if found.edge_rounds is not None and not self.edge_rounds:
            raise ValueError(
                f"edge rounds {found.edge_rounds.tolist()} were allotted by a rule with edge_rounds=False; say edge_rounds=True, "
                "or allot powers alone"
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Method:
    """Which parts, with which constants. `with_` makes a variant: any part may be combined with any other."""

    name: str
    """By which it is called in records and reports."""
    summary: str
    """In one line, for lists."""
    group: Grouping
    """Who aggregates with whom."""
    needs: frozenset[Need] = frozenset({Need.SIZES})
    """What clients must reveal: the price in privacy."""
    edge: EdgeMode = Rounds()  # noqa: RUF009 - frozen, as the others
    """When an aggregator opens, closes and reports: `Rounds`, `TimeBox` or `Async`."""
    cloud: CloudMode = Barrier()  # noqa: RUF009
    """What the cloud waits for: `Barrier`, `Immediate`, or `NoCloud`."""
    start: Start = Start()
    """Which model clients begin with."""
    local: Local = Local()
    """What clients minimise, and what they remember."""
    merge_edge: MergeEdge = Linear()  # noqa: RUF009
    """How an aggregator merges updates: `Linear`, or `ByRows`."""
    merge_cloud: MergeCloud = CloudLinear()  # noqa: RUF009
    """How the cloud merges the aggregators' models: `CloudLinear`, or `CloudByRows`."""
    allot: Allotting | None = None
    """Edge rounds and powers of each aggregator; by default the scenario's."""
    waiting: Waiting = Waiting()
    """How long, and for how many, real devices and servers are waited for."""
    coding: Coding = Coding()  # noqa: RUF009
    """What is sent of a model, up and down; by default all of it."""
    audit: Audit | None = None
    """How edge servers and heads are checked: `Sketch`, or `Recompute`; by default they are believed."""

    def __post_init__(self) -> None:
        if self.group.feature_s is not None and not self.needs & set(FEATURES.values()):
            raise ValueError(
                f"feature_s={self.group.feature_s:g} is the time to collect a feature, and {self.name} needs none "
                f"({', '.join(sorted(self.needs))}); leave feature_s out, or declare the feature in needs"
            )
        if self.allots_rounds and self.edge.box_s is not None:
            raise ValueError(
                f"{self.name} allots edge rounds, and its time box of {self.edge.box_s:g} s has as many as fit; take Rounds or "
                "Async as edge, or allot powers alone (Allotting(..., edge_rounds=False))"
            )
        if self.allots_rounds and self.edge.rounds is not None:
            raise ValueError(
                f"{self.name} allots edge rounds, and its edge has a number or schedule of its own (rounds); leave one of them "
                "out"
            )
        if self.audit is not None and (reason := self._unseen(self.audit)):
            raise ValueError(f"{self.name} cannot be audited by {type(self.audit).__name__.lower()}: {reason}")

    def _unseen(self, audit: Audit) -> str | None:
        """Why an audit cannot check what aggregators do; None if it can."""
        rule = self.merge_edge
        if not self.cloud.exists:
            return "it is the cloud who checks, and there is none"
        if isinstance(rule, ByRows) and isinstance(rule.rule, PrivateMean):
            return "noise of aggregators protects clients from the cloud, and a check would show it what they sent"
        if not isinstance(audit, Sketch):
            return None
        if isinstance(rule, ByRows) or rule.then is not None:
            return "sketches see sums, and its aggregators do more than add up; take audit=recompute"
        if self.coding.codes_down or self.coding.codes_reports:
            return "what aggregators send is rounded by more than sketches allow; take audit=recompute"
        if self.local.rule is not None and any(state.shared for state in self.local.rule.states):
            return f"shared states of {self.local.rule} are not just added up; take audit=recompute"
        return None

    @property
    def protects(self) -> bool:
        """Noise protects clients, where they send or where they are merged."""
        rule = self.merge_edge
        return self.coding.private is not None or (isinstance(rule, ByRows) and isinstance(rule.rule, PrivateMean))

    @property
    def allots_rounds(self) -> bool:
        """Aggregators have numbers of edge rounds of their own."""
        return self.allot is not None and self.allot.edge_rounds

    def with_(self, **parts: Any) -> "Method":
        """The same method with some parts exchanged. As `group` a rule alone will do: it is asked when the one before was. Of the
        coding, `up`, `down` (a codec, or its name with options, "topk:share=0.01") and `feedback` may be given by themselves.
        `rule`: a client rule with state, or its name with options, "ditto:pull=0.5". `merge_edge` and `merge_cloud` may be
        the name of a robust rule with its options, "trimmed_mean:share=0.1", which takes the place of the mean. `by_steps`: what
        clients changed is divided by their local steps before it is merged (fedloom.mixing.nova). `private`: who adds noise,
        client or edge, and how much: Gaussian(clip=1.0, noise=1.0), PrivateMean(...), or as text, "client:noise=0.5". `screen`:
        what is looked at before updates, and reports, are merged (fedloom.mixing.Screen); it goes with the merges that the method
        has then. `audit`: how aggregators are checked, Sketch(), Recompute(), or as text, "recompute:share=0.5"."""
        if "group" in parts and not isinstance(parts["group"], Grouping):
            parts["group"] = replace(self.group, rule=parts["group"])
        if isinstance(parts.get("merge_edge"), str):
            parts["merge_edge"] = edge_by_name(parts["merge_edge"], self.merge_edge)
        if isinstance(parts.get("merge_cloud"), str):
            parts["merge_cloud"] = cloud_by_name(parts["merge_cloud"], self.merge_cloud)
        if isinstance(parts.get("audit"), str):
            parts["audit"] = options.make(parts["audit"], AUDITS, "audit")
        if "private" in parts:
            how = parts.pop("private")
            mechanism = options.make(how, PRIVATE, "level of privacy") if isinstance(how, str) else how
            if isinstance(mechanism, PrivateMean):
                parts["merge_edge"] = private_mean(parts.get("merge_edge", self.merge_edge), mechanism)
            else:
                parts["up"] = mechanism
        ways = {name: parts.pop(name) for name in CODING if name in parts}
        if ways:
            made = {name: codec(way) if isinstance(way, str) else way for name, way in ways.items()}
            parts["coding"] = replace(parts.get("coding", self.coding), **made)
        if "rule" in parts:
            rule = parts.pop("rule")
            made_rule = client_rule(rule) if isinstance(rule, str) else rule
            parts["local"] = replace(parts.get("local", self.local), rule=made_rule)
        if parts.pop("by_steps", False):
            parts["merge_edge"] = by_steps(parts.get("merge_edge", self.merge_edge))
        if (screen := parts.pop("screen", None)) is not None:
            parts["merge_edge"] = screened(parts.get("merge_edge", self.merge_edge), screen)
            parts["merge_cloud"] = cloud_screened(parts.get("merge_cloud", self.merge_cloud), screen)
        return replace(self, **parts)
