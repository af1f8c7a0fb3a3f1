"""FedAT: tiers of clients of similar speed, synchronous inside, asynchronous between, at the cloud.

    w = sum_m (T_{M+1-m} / sum_l T_l) w_m        after every update of a tier; tiers from fast to slow, T_m updates so far
    F_k(w) + (lam / 2) ||w - w_start||^2         the local objective

Z. Chai, Y. Chen, A. Anwar, L. Zhao, Y. Cheng, H. Rangwala, "FedAT: A High-Performance and Communication-Efficient Federated
Learning System with Asynchronous Tiers", SC 2021, reconstructed from public code and notes: we had no text of it. The counts
are reversed: the fastest tier counts as often as the slowest has updated. At the start the reversal goes over the tiers that
have updated. Every round of a tier is merged at once; a cloud round of a scenario stands for as many of them, over all tiers, as
if each tier made the scenario's edge rounds in it. Left out: the compression of the original. lam = 0.4 is not verified.
"""

import math

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View
from fedloom.methods.parts import CloudLinear, Group, Grouping, Immediate, Local, Method, Rounds
from fedloom.mixing import CloudWeights, Reports, tier_weights


def method(n_tiers: int = 5, lam: float = 0.4, start: str = "active") -> Method:
    """n_tiers: of equal numbers of clients; lam: weight of the proximal term; start: "active", counts are reversed among tiers
    that have updated, or "one", all counts start at 1."""
    _check.whole("n_tiers", n_tiers)
    _check.one_of("start", start, ("active", "one"))
    if not (isinstance(lam, int | float) and 0 <= lam < math.inf):
        raise ValueError(f"lam must be a number of at least 0, got {lam!r}")

    def weigh(reports: Reports) -> CloudWeights:
        assert reports.n_reports is not None
        return CloudWeights(own=0.0, edge=tier_weights(reports.n_reports, start))  # type: ignore[arg-type]

    return Method(
        name="fedat",
        summary="tiers by speed at the cloud, synchronous inside, asynchronous between, proximal term",
        group=Grouping(speed_tiers(n_tiers), when="once"),
        needs=frozenset({Need.SIZES, Need.SPEEDS}),
        edge=Rounds(rounds=1),
        cloud=Immediate(),
        merge_cloud=CloudLinear(weigh),
        local=Local(proximal=lam),
    )


def speed_tiers(n_tiers: int) -> Group:
    """Clients by the seconds of their local work, from fast to slow, in tiers of equal numbers that report to the cloud."""

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.active)
        if n_tiers > len(who):
            raise ValueError(f"n_tiers must be at most the number of clients, {len(who)}, got {n_tiers}")
        cover = np.zeros((n_tiers, len(view.active)), dtype=np.bool_)
        for row, tier in zip(cover, np.array_split(who[np.argsort(view.work_s[who], kind="stable")], n_tiers)):
            row[tier] = True
        return Topology(cover=cover, kind="cloud", host=np.arange(n_tiers))

    return group
