"""HHFL: a client in reach of several edge servers works with all of them, and so carries knowledge between cells.

    w_i   = (1 / |S_i|) sum_{n in S_i} w_(n)                             where a client starts
    w_(n) = (1 / o_n) sum_{i in C_n} (p_i / |S_i|) v_i,                  every edge round
            o_n = sum_{i in C_n} p_i / |S_i|
    w     = sum_n o_n w_(n)                                              after G edge rounds

Hybrid hierarchical federated learning. p_i is the client's share of all data; it keeps exactly this share in w however many
edge servers it reaches. Without overlaps, or with max_links = 1, this is HierFedAVG bit for bit.

Fewer links: `disable_links` [[client, edge], ...], then `max_links` a client, then `link_budget` in all, removed by
`policy`. Periods that grow during training: `stages` [[from step, local steps, edge rounds], ...], or `grow` to let the
learning rate decide.
"""

from collections.abc import Sequence

import numpy as np

from fedloom.grouping import Topology, View, all_cells, limit_links
from fedloom.methods.method import Group, Method
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
    """Links to leave out, and periods other than the scenario's; see the head of this file."""
    if stages is not None and grow:
        raise ValueError("give stages, or grow=true to let the learning rate decide, not both")
    return Method(
        name="hhfl",
        summary="clients in overlaps start from the mean of their cells and report to all of them",
        group=some_links(max_links, link_budget, disable_links, policy),
        weigh_edge=by_split_size,
        periods=staged(stages) if stages is not None else lr_ladder() if grow else None,
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
