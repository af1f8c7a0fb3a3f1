"""HHFL: clients in overlapping cells bridge edge servers. Figures 4, 5 and 7 to 16.

57 clients and 3 edge servers, E = G = 5, batches of 20. Cases 1 to 3: edge servers have the same labels; 4 and 5: each misses
three or four classes; 6: as 5 with 21 instead of 15 clients in overlaps. One round trip between client and edge server takes
10 units of time, edge server and cloud 1, five local steps 1. HFL is HierFedAVG with clients of overlaps dealt evenly.

"Gain" is steps of HFL over steps of HHFL until training has converged. *Slope* is the published criterion: the accuracy rises by
less than 0.1 %; per how many steps and averaged over how many is not published, ours are 25 and 250. *Common* is a measure of
ours: steps until both have reached the lower of the two accuracies at which they converged. It was added after gains by the slope
had come out below the published ones, so both are judged, against the published bars: above 1.5 in cases 4 to 6 (Appendix F), 2
in case 6.

Not published, and ours: who holds what (clients in overlaps carry the classes of their home; all clients as many samples;
places and homes are fixed, so that seeds vary samples and batches only), an epoch (a pass over a client's own data, by which the
learning rate falls), momentum (starts anew with every model that a client gets), which clients move into overlaps in case 6,
and the layers of both networks.

Figures 4, 5 and 7 to 13 are published for logistic regression and for a convolutional network: at paper scale there is an item
of each for both (but Fig. 8), with the same bars; at laptop scale the network has one item. The layout *home* is the kept one;
*shared*: clients in overlaps have only classes that all edge servers have; *random*: 19 clients anywhere in each cell, drawn
anew with every seed, so that chance says who is in overlaps and what they hold there. FedMes and MS-FedAvg are built from what
HHFL says of them and from what is known of them. They have no cloud, so their accuracy is that of the mean of all models, which
nobody holds, and, where it was recorded, the mean accuracy of their edge servers' models on the whole test set.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fedloom.reproduce.hhfl.convergence import fig4, fig5, fig7
from fedloom.reproduce.hhfl.costs import fig9, fig10, fig11
from fedloom.reproduce.hhfl.criterion import judge_criterion
from fedloom.reproduce.hhfl.layouts import judge_layouts
from fedloom.reproduce.hhfl.networks import cnn, fig14
from fedloom.reproduce.hhfl.others import judge_others
from fedloom.reproduce.hhfl.overlaps import fig8
from fedloom.reproduce.hhfl.periods import judge_periods
from fedloom.reproduce.hhfl.readings import READINGS
from fedloom.reproduce.hhfl.remarks import judge_drift, judge_growing
from fedloom.reproduce.hhfl.setups import (
    ALIKE,
    CASES,
    TOTAL_STEPS,
    both,
    criterion_setups,
    drift_setups,
    growing_setups,
    layout_setups,
    network_setups,
    others_setups,
    period_setups,
    sweep_setups,
    theory_setups,
)
from fedloom.reproduce.hhfl.theory import judge_theory
from fedloom.reproduce.paper import Item, Outcome, Paper, Runs, Setups

Judge = Callable[[Runs], Outcome]


def _curve_item(key: str, title: str, published: str, cases: Sequence[int], judge: Judge) -> Item:
    return Item(
        key=key,
        title=title,
        published=published,
        setups=lambda scale: both(cases, TOTAL_STEPS[scale]),
        judge=judge,
    )


def _with_network(item: Item) -> Item:
    """The same figure with the convolutional network, at paper scale."""
    periods = {"fig12": "local_steps", "fig13": "edge_rounds"}

    def setups(scale: str) -> Setups:
        if item.key in periods:
            return period_setups(scale, periods[item.key], model="cnn")
        return both(CASES_OF[item.key], TOTAL_STEPS[scale], model="cnn")

    def judge(runs: Runs) -> Outcome:
        found = item.judge(runs)
        return replace(found, plots=tuple(replace(plot, key=f"{plot.key}-cnn") for plot in found.plots))

    key, title = f"{item.key}-cnn", f"{item.title}, convolutional network"
    return replace(item, key=key, title=title, setups=setups, judge=judge, scales=("paper",))


CASES_OF = {"fig4": ALIKE, "fig5": (4, 5), "fig7": (5, 6), "fig9": CASES, "fig10": CASES, "fig11": CASES}
FIGURES = (
    _curve_item(
        "fig4",
        "Fig. 4: convergence when edge servers have the same labels",
        "HFL and HHFL coincide in cases 1 to 3; case 3 is clearly slower than cases 1 and 2.",
        ALIKE,
        fig4,
    ),
    _curve_item(
        "fig5",
        "Fig. 5: convergence when edge servers miss classes",
        "HHFL is ahead in cases 4 and 5; from 4 to 5 HHFL hardly changes, HFL degrades and the gap widens.",
        (4, 5),
        fig5,
    ),
    _curve_item(
        "fig7",
        "Fig. 7: more clients in overlaps",
        "HHFL is ahead in cases 5 and 6 and slightly faster in 6 than in 5; HFL is the same in both.",
        (5, 6),
        fig7,
    ),
    Item(
        key="fig8",
        title="Fig. 8: gain against the share of clients in overlaps",
        published="Cases 1 to 3: about 1 at every share. Cases 4 and 5: the gain rises steeply at first, then saturates.",
        setups=sweep_setups,
        judge=fig8,
    ),
    _curve_item(
        "fig9",
        "Fig. 9: accuracy against time",
        "No visible gain where edge servers are alike; HHFL is faster where they are not.",
        CASES,
        fig9,
    ),
    _curve_item(
        "fig10",
        "Fig. 10: accuracy against data sent",
        "HHFL needs more data where edge servers are alike, and clearly less where they are not.",
        CASES,
        fig10,
    ),
    _curve_item(
        "fig11",
        "Fig. 11: gain in steps and in time",
        "The two are nearly equal; about 1 in cases 1 to 3, above 1.5 in cases 4 to 6 (Appendix F), and 2 in case 6.",
        CASES,
        fig11,
    ),
    Item(
        key="fig12",
        title="Fig. 12: gain against the local steps of an edge round",
        published="The gain grows with E (cases 4 to 6, G = 5).",
        setups=lambda scale: period_setups(scale, "local_steps"),
        judge=lambda runs: judge_periods(runs, "fig12", "E", "local steps in an edge round"),
    ),
    Item(
        key="fig13",
        title="Fig. 13: gain against the edge rounds of a cloud round",
        published="The gain grows with G (cases 4 to 6, E = 5).",
        setups=lambda scale: period_setups(scale, "edge_rounds"),
        judge=lambda runs: judge_periods(runs, "fig13", "G", "edge rounds in a cloud round"),
    ),
)

PAPER = Paper(
    key="hhfl",
    name="HHFL",
    title="Hybrid Hierarchical Federated Learning over 5G/NextG Wireless Networking",
    authors=("Liu", "Xue", "Xu", "Liu", "Lu"),
    where="arXiv 2604.09680, 2026",
    readings=READINGS,
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        *FIGURES,
        *(_with_network(item) for item in FIGURES if item.key != "fig8"),
        Item(
            key="criterion",
            title="Fig. 11: gains in every window and unit of the slope",
            published="“Less than 0.1 %”, of what and over what is not said; gains above 1.5 in cases 4 to 6, and 2 in case 6.",
            setups=criterion_setups,
            judge=judge_criterion,
            scales=("paper",),
        ),
        Item(
            key="layouts",
            title="Figs. 5, 7 and 11 with other layouts of the data",
            published="Random placement; who holds what is not said.",
            setups=layout_setups,
            judge=judge_layouts,
            scales=("paper",),
            seeds={"paper": 5},
        ),
        Item(
            key="drift",
            title="Remark 5 and Appendix E: drift of edge servers against E and G",
            published="Models of HFL's edge servers drift further apart than HHFL's, the more the larger E and G are.",
            setups=drift_setups,
            judge=judge_drift,
            scales=("paper",),
        ),
        Item(
            key="theory",
            title="Lemma 3 beside runs: what it allows of the drift",
            published="A bound on the drift of clients with E, G and H, and with it Theorem 1; no numbers.",
            setups=theory_setups,
            judge=judge_theory,
            scales=("paper",),
        ),
        Item(
            key="growing",
            title="Remark 4: periods that grow during training, at equal time",
            published="E and G may grow as the learning rate falls, which saves communication; no experiment.",
            setups=growing_setups,
            judge=judge_growing,
            scales=("paper",),
        ),
        Item(
            key="fig14",
            title="Figs. 14 to 16: CIFAR-10 with a VGG-style network (laptop scale: an eighth of its width, 300 steps; paper "
            "scale: half of it, 1,250 steps)",
            published="The same trends: gain above 1.5 in steps and time for cases 4 to 6, less data sent; none for 1 to 3.",
            setups=network_setups(
                "vgg",
                {"laptop": 300, "paper": 1250},
                {"laptop": (1, 6), "paper": CASES},
                {"laptop": 0.125, "paper": 0.5},
            ),
            judge=fig14,
            seeds={"laptop": 3, "paper": 1},
        ),
        Item(
            key="cnn",
            title="MNIST with a convolutional network",
            published="Used beside logistic regression in Figs. 4, 5 and 7 to 13: the same trends.",
            setups=network_setups("cnn", {"laptop": 1000}, {"laptop": (1, 5, 6)}),
            judge=cnn,
            scales=("laptop",),
        ),
        Item(
            key="others",
            title="Multi-server methods without a cloud, and fewer links",
            published="HHFL is said, without an experiment, to be better than FedMes and MS-FedAvg where edge data differ.",
            setups=others_setups,
            judge=judge_others,
        ),
    ),
)
