"""CAMU: clusters of like data, weights by labels, gated extra updates, powers by need. Figures 4 to 6.

30 devices in two regions, 41 to 71 m from a base station of 15 antennas; leaders of clusters send one after the other with
0.5 W in 1 MHz. A share of the devices has two classes, the others all of them. An update is a pass over a device's data in five
batches. The figures are known by the published differences only.

Published: the geometry of one region, antennas, gains, carrier, exponent, the network but for its widths, 0.5 W. Not
published, and ours as described in docs/methods/camu.md: the second region, noise (10 fW instead of 0.1 mW, which leaves
nothing to learn from), speeds (a tenth of the devices 0.25 GHz, a fifth 0.5, three tenths 1, the rest 2, each within 10 %),
shares, rounds, learning rate 0.1 with SGD, the budgets and constants of P1. P1 is solved exactly, not by PPO. Figures 4 and 5
have no noise. Config 5 may do more updates than fit while the slowest cluster does one, as its problem allows; Benchmark 2 may
not. So that powers and updates can be told apart, Fig. 6 has Config 5 within that wait too. Accuracy is the mean over the last
ten cloud rounds. Laptop scale: 4,000 training images, 30 cloud rounds, at most 5 extra updates, thresholds in proportion to the
data; differences below one point mean nothing there. Paper scale: all images, 200 cloud rounds, shares of 50, 80 and 100 %;
readings and PPO in runs of 20 rounds, the bound beside
runs of 50 rounds on 12,000 images, so that an update is one step on all samples of a device.
"""

from fedloom.reproduce.camu.figures import fig_4, fig_5, fig_6
from fedloom.reproduce.camu.setups import (
    BUDGET,
    NEAR,
    READ_AS,
    SHARES,
    UNITS,
    UPDATES,
    ppo_setups,
    readings_setups,
    setups,
    theory_setups,
)
from fedloom.reproduce.camu.short import judge_ppo, judge_readings
from fedloom.reproduce.camu.theory import judge_theory
from fedloom.reproduce.paper import Item, Paper, Reading

READINGS = (
    Reading(
        of="noise at the base station", tried="0.1 mW, as printed", outcome="-70 dB at 50 m: nothing to learn from"
    ),
    Reading(of="noise at the base station", tried="10 fW", outcome="kept"),
    Reading(of="where the second region is", tried="as printed: where the first is", outcome="one region"),
    Reading(of="where the second region is", tried="20 m further away", outcome="kept"),
    Reading(
        of="updates beyond the wait in Config 5",
        tried="allowed, up to the cap",
        outcome="kept, as its problem allows them; Fig. 6",
    ),
    *(
        Reading(of="Fig. 4", tried=name, outcome="in the item about readings at paper scale")
        for name in READ_AS
        if name != NEAR
    ),
    Reading(
        of="updates beyond the wait in Config 5", tried="not allowed (`limit=waiting`)", outcome="beside it in Fig. 6"
    ),
)

PAPER = Paper(
    key="camu",
    name="CAMU",
    title="Cluster-Aware Multi-Round Update for Wireless Federated Learning in Heterogeneous Environments",
    authors=("Sun", "Liu", "Ni", "Geng", "Yu", "Wang", "Jamalipour"),
    where="arXiv 2505.06268, 2025",
    readings=READINGS,
    notes=(__doc__ or "").partition("\n\n")[2],
    items=(
        Item(
            key="fig4",
            title="Fig. 4: clusters and weights by labels",
            published="Weights by labels (Config 2) beat FedAvg (Benchmark 1), clusters (Config 1) beat both, the more the more "
            "devices have few classes: by up to about 6 points each on MNIST, 1 and 5 on Fashion-MNIST.",
            setups=lambda scale: setups(scale, UNITS, SHARES[scale]),
            judge=fig_4,
        ),
        Item(
            key="fig5",
            title="Fig. 5: extra updates, with and without a gate",
            published="With few classes everywhere, extra updates of all clusters (Benchmark 2) lose 4.5 (MNIST) and 2.3 points "
            "to one update (Config 4), gated ones (Config 3) gain 1.5 and 2.6, the lowest threshold most; with alike data extra "
            "updates help.",
            setups=lambda scale: setups(scale, UPDATES, SHARES[scale]),
            judge=fig_5,
        ),
        Item(
            key="fig6",
            title="Fig. 6: powers and updates under one budget of energy, with noise",
            published="Config 5 beats Benchmark 2 by 2.9 (MNIST) and 4.4 points, Benchmark 3 by 5.2 and 3.8.",
            setups=lambda scale: setups(scale, BUDGET, (1.0,), noisy=True),
            judge=fig_6,
        ),
        Item(
            key="readings",
            title="Fig. 4: readings of what is left open, in short runs",
            published="Config 2 beats Benchmark 1, and Config 1 both.",
            setups=readings_setups,
            judge=judge_readings,
            scales=("paper",),
        ),
        Item(
            key="ppo",
            title="Fig. 6: PPO beside the exact solver, in short runs",
            published="Config 5 is solved by PPO.",
            setups=ppo_setups,
            judge=judge_ppo,
            scales=("paper",),
        ),
        Item(
            key="theory",
            title="The bound (17) beside schemes of Fig. 5, MNIST, two classes everywhere",
            published="A bound on the error of the global model, smaller the more updates clusters do; no numbers.",
            setups=theory_setups,
            judge=judge_theory,
            scales=("paper",),
        ),
    ),
)
