"""HHFL: a client in reach of several edge servers works with all of them, and so carries knowledge between cells.

    w_i   = (1 / |S_i|) sum_{n in S_i} w_(n)                             where a client starts (eq. 7)
    w_(n) = (1 / o_n) sum_{i in C_n} (p_i / |S_i|) v_i,                  every edge round (eqs 9, 10)
            o_n = sum_{i in C_n} p_i / |S_i|
    w     = sum_n o_n w_(n)                                              after G edge rounds (eq. 11)

Liu, Xue, Xu, Liu, Lu, "Hybrid Hierarchical Federated Learning over 5G/NextG Wireless Networking", arXiv 2604.09680, 2026. p_i is
the client's share of all data; it keeps exactly this share in w however many edge servers it reaches. Without overlaps, or with
max_links = 1, this is HierFedAVG bit for bit.

Fewer links, which the paper proposes and leaves open how (section IV-B3): `disable_links` [[client, edge], ...], then
`max_links` a client, then `link_budget` in all, removed by `policy`. Periods that grow during training (Remark 4): `stages`
[[from step, local steps, edge rounds], ...], or `grow` to let the learning rate decide.
"""

from collections.abc import Sequence

import numpy as np

from fedloom import _check
from fedloom.grouping import Topology, View, all_cells, limit_links
from fedloom.grouping.bridging import POLICIES, check_pairs
from fedloom.methods.parts import Group, Grouping, Linear, Method, Rounds
from fedloom.mixing import by_split_size
from fedloom.pacing import lr_ladder, staged


def method(
    max_links: int | None = None,
    link_budget: int | None = None,
    disable_links: Sequence[tuple[int, int]] = (),
    policy: str = "cap_first",
    stages: Sequence[tuple[int, int, int]] | None = None,
    grow: bool = False,
) -> Method:
    """max_links: most edge servers of a client, home included. link_budget: most links in all. disable_links: pairs (client,
    edge) that are not used. policy: which links go for the budget, random, cap_first or least_bridging. stages: periods (from
    step, local steps, edge rounds). grow: periods that grow as the learning rate falls; if it does not, they stay as they are,
    of which `ladder_note` warns."""
    _check.one_of("policy", policy, POLICIES)
    _check.wholes(max_links=max_links)
    _check.wholes(link_budget=link_budget, least=0)
    check_pairs(disable_links)
    if stages is not None and grow:
        raise ValueError("give stages, or grow=true to let the learning rate decide, not both")
    return Method(
        name="hhfl",
        summary="clients in overlaps start from the mean of their cells and report to all of them",
        group=Grouping(some_links(max_links, link_budget, disable_links, policy)),
        merge_edge=Linear(by_split_size),
        edge=Rounds(rounds=staged(stages) if stages is not None else lr_ladder() if grow else None),
    )


def some_links(
    max_links: int | None = None,
    link_budget: int | None = None,
    disable_links: Sequence[tuple[int, int]] = (),
    policy: str = "cap_first",
) -> Group:
    """All cells in reach, less the links that are switched off."""

    def group(view: View, rng: np.random.Generator) -> Topology:
        everything = all_cells(view, rng)
        cover = limit_links(
            everything.cover,
            view.home,
            view.n_samples,
            max_links=max_links,
            link_budget=link_budget,
            disable_links=disable_links,
            policy=policy,
            rng=rng,
        )
        return Topology(cover=cover, kind=everything.kind, host=everything.host)

    return group
