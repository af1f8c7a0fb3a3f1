"""LTC: device clusters by learning direction and round time. Tables 6 to 12 and Figures 7, 9 and 13.

20 devices (30 with Dirichlet data) in clusters of about five, time-boxed cloud rounds: 80 units of time to collect features,
then as many cluster rounds as fit into 120. A model takes 15 units over a link of rate 1; rates are 3, or drawn from 1 to 5
for every pair and cloud round. A client trains one epoch in a round, 10 batches of 16 in a unit of time. Data are named by the
standard deviation of client sizes (of 2,500 in the mean) and classes per client, or by the Dirichlet concentration.

A: spectral clusters of similar clients; A+: of complementary ones; B: clusters by label swaps; 1.1, 1.2, 2 and 3: the swap
search under its four criteria. Numbers of clusters, size bounds, work per round and model size are not published; ours are the
readings described in docs/methods/ltc.md. Laptop scale: 10,000 training images, two classes per client (a setting that is in
none of the published tables), learning rate 0.02, ten cloud rounds; the magnet with 40,000 instead of 900,000 points, a smaller
network and learning rate 0.3. Paper scale: Tables 6 to 9 with ten seeds that were not used when the scale of the inputs was
chosen, two more rows with three; Tables 10 to 12 of their first rows; the magnet of a middle size, 100,000 points and three
layers of 512, for 24 cloud rounds, as the published one would take days. A guess at the middle of the box is 68 mm off; the
published claims are about 5 mm and 6 degrees.

Images are standardised per channel. The paper does not say how its inputs are scaled, and it matters: with pixels in [0, 1]
and everything else the same, our first rows of Tables 6 and 7 ended at 31.0 to 32.2 % for all four methods (3 seeds), and of
eight comparisons only one, 1.2 above A+ with links from 1 to 5, was larger than its spread. We standardised after seeing
that, and after one run each of A and 1.1 with the first of these seeds: the choice is not independent of the result.
"""

from typing import Any

from fedloom.reproduce.ltc.accuracies import judge_accuracies, table_10
from fedloom.reproduce.ltc.bounds import table_8, table_9
from fedloom.reproduce.ltc.features import crop_claims, judge_features, untrained_claims
from fedloom.reproduce.ltc.magnet import judge_magnet
from fedloom.reproduce.ltc.published import TABLE_6, TABLE_7
from fedloom.reproduce.ltc.readings import READINGS
from fedloom.reproduce.ltc.setups import (
    MORE_ROWS,
    ROWS,
    UNIFORM,
    UNTRAINED,
    VARYING,
    accuracy_setups,
    features_setups,
    magnet_setups,
    table_10_setups,
)
from fedloom.reproduce.ltc.theory import judge_theory
from fedloom.reproduce.paper import Item, Paper

FRESH: dict[str, Any] = {"seeds": {"paper": 10}, "first_seed": {"paper": 10}}  # 0 to 2 were seen when choices were made

PAPER = Paper(
    key="ltc",
    name="LTC",
    title="Hierarchical Federated Learning in Device-to-Device Networks with Learning-Topology Co-Optimization",
    authors=("Wu", "Boban", "Dressler"),
    where="IEEE Transactions on Mobile Computing, 2026",
    readings=READINGS,
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        Item(
            key="table6",
            title="Table 6: accuracy on CIFAR-10 with equal links (paper scale: its first row)",
            published="1.1 and 1.2 are at least 6 % more accurate than A where data are unbalanced, and reach 40 % in 25 % "
            "less time; A+ ties with them.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=lambda runs: judge_accuracies(runs, TABLE_6, "table6", uniform=True),
            **FRESH,
        ),
        Item(
            key="table7",
            title="Table 7: accuracy on CIFAR-10 with links from 1 to 5 (paper scale: its first row)",
            published="1.1 and 1.2 are better than A+, which is better than A; by 6.3 to 7.3 % than A where data are unbalanced.",
            setups=lambda scale: accuracy_setups(scale, VARYING, ROWS[:1], theory=False),
            judge=lambda runs: judge_accuracies(runs, TABLE_7, "table7", uniform=False),
            **FRESH,
        ),
        Item(
            key="table8",
            title="Table 8: loss-gap term of the bound",
            published="About 1.6 to 1.8 x 10^-4 in the first row, not larger for A than for the others.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=table_8,
            **FRESH,
        ),
        Item(
            key="table9",
            title="Table 9: gradient mismatch",
            published="A+, 1.1, 1.2 have clusters closer to all clients, and clients farther from their cluster, than A.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=table_9,
            **FRESH,
        ),
        Item(
            key="theory",
            title="The bound (10) beside runs (paper scale: the first row of Table 6)",
            published="A bound on the mean squared gradient, smaller for clusters that are each like the whole; no numbers.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, ROWS[:1], theory=True),
            judge=judge_theory,
            scales=("paper",),
            **FRESH,
        ),
        Item(
            key="table10",
            title="Table 10: three criteria under varying links",
            published="At the end 1.1 is better than 3 in all cells but one of 32, and 3 better than 2 in all.",
            setups=table_10_setups,
            judge=table_10,
        ),
        Item(
            key="table11",
            title="Table 11: a cropped update instead of the whole",
            published="About one more cloud round (0.1 to 1.4 after 16): it wins if it takes less than 36.0 to 48.6 of 50.",
            setups=features_setups,
            judge=lambda runs: judge_features(runs, ("crop",), crop_claims, "table11"),
        ),
        Item(
            key="table12",
            title="Table 12: features that need no training",
            published="B needs about five more cloud rounds (4.4 to 6.6 after 16), pred one more than skew (3.0 to 5.2): "
            "they win only if they take less than 3.5 to 21.2 of 50, or never.",
            setups=features_setups,
            judge=lambda runs: judge_features(runs, UNTRAINED, untrained_claims, "table12"),
        ),
        Item(
            key="fig7",
            title="Fig. 7: magnet tracking, A and 1.1 with equal links",
            published="A needs about two more cloud rounds than 1.1: 18 % of the time to 5 mm is saved, 16.7 % to 6 degrees.",
            setups=lambda scale: magnet_setups(scale, ("1.1", "A"), 3, 0.3, UNIFORM),
            judge=lambda runs: judge_magnet(runs, "1.1", ("A",), "fig7", headline=True),
        ),
        Item(
            key="fig9",
            title="Fig. 9: magnet tracking, criteria 1.1, 2 and 3 with varying links",
            published="Neither 2 nor 3 beats 1.1.",
            setups=lambda scale: magnet_setups(scale, ("1.1", "3", "2"), 2, 0.48, VARYING),
            judge=lambda runs: judge_magnet(runs, "1.1", ("3", "2"), "fig9"),
        ),
        Item(
            key="fig13",
            title="Fig. 13: magnet tracking, update and label features",
            published="Updates (1.1) are clearly better than virtual labels (skew).",
            setups=lambda scale: magnet_setups(scale, ("1.1", "skew"), 3, 0.3, VARYING),
            judge=lambda runs: judge_magnet(runs, "1.1", ("skew",), "fig13"),
        ),
        Item(
            key="table6-rows",
            title="Table 6, two more rows",
            published="As Table 6.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, MORE_ROWS, theory=True),
            judge=lambda runs: judge_accuracies(runs, TABLE_6, "table6-rows", uniform=True),
            scales=("paper",),
        ),
        Item(
            key="table7-rows",
            title="Table 7, two more rows",
            published="As Table 7.",
            setups=lambda scale: accuracy_setups(scale, VARYING, MORE_ROWS, theory=False),
            judge=lambda runs: judge_accuracies(runs, TABLE_7, "table7-rows", uniform=False),
            scales=("paper",),
        ),
        Item(
            key="table8-rows",
            title="Table 8, two more rows",
            published="As Table 8.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, MORE_ROWS, theory=True),
            judge=table_8,
            scales=("paper",),
        ),
        Item(
            key="table9-rows",
            title="Table 9, two more rows",
            published="As Table 9.",
            setups=lambda scale: accuracy_setups(scale, UNIFORM, MORE_ROWS, theory=True),
            judge=table_9,
            scales=("paper",),
        ),
    ),
)
