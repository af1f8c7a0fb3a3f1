"""DDC: clusters around heads by gradients and distance. Tables 1 and 2, Figures 2 to 4, and a harder setting of ours.

100 devices in a disc of 100 m, the server 1 km from its centre, Dirichlet labels of concentration 0.5, batches of 32, learning
rate 0.01, 200 rounds of one epoch; members average at heads every round, heads at the server every second. Proposed: DDC with
alpha = 0.5; Similarity: clusters of similar labels; Random: clusters of neighbours; both with heads by chance and as many
clusters as capacity 20 needs; FedAvg: no clusters, at the server every round as stated, and at laptop scale every second as
the others, too.

Joules are those of 200 rounds, in three readings of the published constants: literal (1 MHz for every link), shared (1 MHz for
all devices together) and per_global (shared, members counted once for two rounds); nine were looked at in all, each for both
capacities, and none gives the published joules. They leave out what collecting gradients costs, as the paper does, and depend on
places, clusters and constants, not on what is trained, so that they are judged at both scales. Seconds are those of the slowest
member and the slowest head, every time, at the same rates; the paper says that delay goes as energy does.

How much a metre weighs against likeness is D_ref: the paper adds metres and cosines as they are, with which alpha has no effect
until it is almost 1. Ours divides metres by those of everybody to the server; level and slope of the joules against alpha depend
on it, so that a curve flatter than the published one may be a consequence of our D_ref.

Heads are searched with `search=auto`, which for 100 devices and 30 candidates is our faster search, not Algorithm 1 as
published (`full`); how far the two are apart at this size is an item of its own. Which model is evaluated (the server's,
heads', devices') is not published: the verdicts are about the server's, and at paper scale all three are measured. 200 rounds
are read as local ones; "global" ones would be 400, which Table 1 at paper scale has too: its runs are of 400 rounds and read at
both. Candidates, capacities, networks and seeds are not published either; ours are described in docs/methods/ddc.md.

Paper scale: networks of two 3x3 convolutions, 28 kB; three seeds, one for the search. Five were meant for Table 1 and three for
the search; with them all items would take 18 hours of a core, not the 8 that were planned. Capacity 10 is priced only. Laptop
scale: a 196-34-10 network on Fashion-MNIST, 100 rounds; 5,000 images, 40 rounds and learning rate 0.1 on CIFAR-10; clusters
that are only priced, on 10,000 images.
"""

from fedloom.reproduce.ddc.accuracies import curves_figure, table_1
from fedloom.reproduce.ddc.alpha import table_2
from fedloom.reproduce.ddc.energy import fig_4
from fedloom.reproduce.ddc.hard import judge_hard
from fedloom.reproduce.ddc.joules import judge_joules
from fedloom.reproduce.ddc.published import CIFAR, CLUSTERED, FASHION, SIZES
from fedloom.reproduce.ddc.readings import READINGS
from fedloom.reproduce.ddc.search import judge_search
from fedloom.reproduce.ddc.setups import (
    hard_setups,
    joules_setups,
    methods_setups,
    priced,
    search_setups,
    table_2_setups,
    theory_setups,
)
from fedloom.reproduce.ddc.theory import judge_theory
from fedloom.reproduce.paper import Item, Paper

PAPER = Paper(
    key="ddc",
    name="DDC",
    title="Data- and distance-aware clustering for scalable wireless federated learning",
    authors=("Chen", "Xu", "Ding", "Wang"),
    where="Frontiers in Communications and Networks 7, 2026, doi 10.3389/frcmn.2026.1748815",
    readings=READINGS,
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        Item(
            key="table1",
            title="Table 1: accuracy of four methods",
            published="Proposed 83.4 and 82.1 %, Similarity 79.8 and 78.3 %, Random 76.7 and 73.8 %, FedAvg 73.6 and 70.2 %.",
            setups=lambda scale: methods_setups(scale, (FASHION, CIFAR)),
            judge=table_1,
        ),
        Item(
            key="table2",
            title="Table 2: accuracy and energy against alpha (Fashion-MNIST)",
            published="Alpha 0, 0.3, 0.5, 0.7, 1: 70.4, 79.5, 83.4, 84.9, 85.1 % and 101, 117, 132, 154, 168 J.",
            setups=table_2_setups,
            judge=table_2,
        ),
        Item(
            key="fig2",
            title="Fig. 2: accuracy against local rounds, Fashion-MNIST",
            published="Proposed above Similarity above Random above FedAvg throughout.",
            setups=lambda scale: methods_setups(scale, (FASHION,)),
            judge=lambda runs: curves_figure(runs, "fig2"),
        ),
        Item(
            key="fig3",
            title="Fig. 3: accuracy against local rounds, CIFAR-10",
            published="Proposed above Similarity above Random above FedAvg throughout.",
            setups=lambda scale: methods_setups(scale, (CIFAR,)),
            judge=lambda runs: curves_figure(runs, "fig3"),
        ),
        Item(
            key="fig4",
            title="Fig. 4: energy with 60 to 120 devices",
            published="FedAvg always takes the most energy, Proposed the least; no numbers.",
            setups=lambda scale: {(n, m): priced(m, scale, n=n) for n in SIZES for m in CLUSTERED},
            judge=fig_4,
        ),
        Item(
            key="joules",
            title="Table 2: its joules in every reading of the constants, D_ref and the capacity",
            published="Alpha 0, 0.3, 0.5, 0.7, 1: 101, 117, 132, 154, 168 J.",
            setups=joules_setups,
            judge=judge_joules,
            scales=("paper",),
        ),
        Item(
            key="search",
            title="Algorithm 1: the search as published and our faster one",
            published="Algorithm 1 is used throughout; its complexity is given, no times.",
            setups=search_setups,
            judge=judge_search,
            scales=("paper",),
            seeds={"paper": 1},  # 45 minutes each
        ),
        Item(
            key="theory",
            title="The bound (13) beside runs",
            published="A bound on the mean squared gradient, smaller for clusters that are each like the whole; no numbers.",
            setups=theory_setups,
            judge=judge_theory,
            scales=("paper",),
        ),
        Item(
            key="hard",
            title="A harder setting: concentration 0.1, the server every ten rounds",
            published="Not in the paper. Its analysis says that clusters like the whole help most here.",
            setups=hard_setups,
            judge=judge_hard,
        ),
    ),
)
