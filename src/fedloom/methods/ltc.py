"""LTC: clusters around devices that learn in the same direction as all clients together and finish a round quickly.

    theta_c = angle(phi_c, phi),  phi_c = sum_{i in c} n_i phi_i / n_c     direction of a cluster against that of all  (eq. 3)
    T_c = min_j max_i (t'_i + t''_ij)                                       round time with the best member as head  (eqs 4, 5)
    r_c = floor(T_g / T_c)                                                  rounds in the time box

Mengfan Wu, Mate Boban, Falko Dressler, "Hierarchical Federated Learning in Device-to-Device Networks with Learning-Topology
Co-Optimization". t' is computing, t'' what the link of member and head takes in a round: the upload, as published, and the
download too unless heads broadcast for free (`fleet.head_broadcast`), so that the round planned is the round run. Every
cloud round clients reveal a feature phi_i, and a local search swaps and moves them between clusters where the one of theta and
T gains at least z times what the other loses.

Features: "update" (change of the model by local training), "crop" (of the smallest convolutions only), "prediction" (mean
output of the current model), or "skew" (label counts; the distance from the overall labels instead of an angle).
Solutions "1.1", "1.2", "2", "3" are the criteria compared in the paper (section 5.3).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping import Need, Topology, View, complementary_clusters, device_round_s, swap_search
from fedloom.grouping.local_search import CHOICES, check_trials
from fedloom.grouping.swap_search import Z, check_exchange_rate
from fedloom.methods.parts import Group, Grouping, Method, TimeBox

FEATURES = {
    "update": ("update", Need.UPDATES),
    "crop": ("update", Need.UPDATES),
    "prediction": ("prediction", Need.PREDICTIONS),
    "skew": ("labels", Need.LABELS),
}
STARTS = ("random", "complementary")


def method(
    solution: str | float = "1.1",
    feature: str = "update",
    n_clusters: int | None = None,
    size_min: int | None = None,
    size_max: int | None = None,
    n_trials: int | None = None,
    z: float | None = None,
    choice: str = "random",
    start: str = "random",
    box_s: float = 120.0,
    feature_s: float | None = None,
    keep_progress: bool = True,
    crop_layers: int = 1,
    remember_liars: bool = False,
) -> Method:
    """solution: the criterion, 1.1, 1.2, 2 or 3. feature: what clients reveal, update, crop, prediction or skew. n_clusters: by
    default one for five clients, at least two. size_min, size_max: of clusters after moves, by default half and one and a half
    times the mean. n_trials: of the search, by default 80 for up to 30 clients and more for more (`trials_for`). z: what a loss
    must be paid back with, at least 1 (inf: nothing may get worse), by default 1.05, for solution 3 1.8. choice: of valid
    changes, random or best. start: clusters to begin with, by chance or with complementary directions (A+). box_s: seconds of
    a cloud round; feature_s: seconds to collect features, if not what it takes. keep_progress: clients go on from what they
    trained for a feature. crop_layers: how many of the smallest convolutions "crop" reveals. remember_liars: who was once found
    to report links falsely is left out of all later groupings, and not only while it lies."""
    _check.one_of("feature", feature, tuple(FEATURES))
    _check.one_of("start", start, STARTS)
    _check.one_of("choice", choice, CHOICES)
    _check.one_of("solution", str(solution), tuple(Z))
    _check.wholes(n_clusters=n_clusters, size_min=size_min, size_max=size_max, crop_layers=crop_layers)
    _check_search(n_trials, z)
    kind, need = FEATURES[feature]
    layers = crop_layers if feature == "crop" else None

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.trusted)
        features = view.features(kind, layers)[who]
        n = clusters_for(view, who, n_clusters)
        work_s, exchange_s = view.work_s[who], view.exchange_s[np.ix_(who, who)]
        first = _complementary(features, work_s, exchange_s, n, rng) if start == "complementary" else None
        found = swap_search(
            features,
            view.n_samples[who],
            work_s,
            exchange_s,
            n_clusters=n if first is None else len(first),
            size_min=size_min,
            size_max=size_max,
            n_trials=n_trials,
            solution=str(solution),
            z=z,
            choice=choice,
            start=first,
            t_cap=10 * box_s,
            metric="skew" if feature == "skew" else "angle",
            rng=rng,
        )
        notes: dict[str, Any] = {"theta": found.theta, "round_s": found.round_s, "swaps": float(len(found.accepted))}
        return Topology.of_heads([who[c] for c in found.clusters], who[found.heads], len(view.active), notes)

    return d2d_method(
        "ltc",
        f"device clusters by swap search on direction ({feature}) and round time, time-boxed",
        group,
        {Need.SPEEDS, Need.LINKS, need},
        box_s,
        feature_s,
        keep_progress,
        remember_liars,
    )


def _complementary(
    features: NDArray[np.floating],
    work_s: NDArray[np.float64],
    exchange_s: NDArray[np.float64],
    n_clusters: int,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Clusters to begin with: those of A+ (`fedmds_plus`), with its widths."""
    t_s = device_round_s(work_s, exchange_s)
    return complementary_clusters(features, t_s, n_clusters=n_clusters, sigma_t=0.5, sigma_ft=0.8, rng=rng)


def _check_search(n_trials: int | None, z: float | None) -> None:
    if n_trials is not None:
        check_trials(n_trials)
    if z is not None:
        check_exchange_rate(z)


def d2d_method(
    name: str,
    summary: str,
    group: Group,
    needs: set[Need],
    box_s: float,
    feature_s: float | None = None,
    keep_progress: bool = True,
    remember_liars: bool = False,
) -> Method:
    """Clusters around devices, made anew in every cloud round, that run the rounds which fit into a time box."""
    return Method(
        name=name,
        summary=summary,
        group=Grouping(
            group,
            when="cloud-round",
            feature_s=feature_s,
            keep_progress=keep_progress,
            remember_liars=remember_liars,
        ),
        needs=frozenset({Need.SIZES} | needs),
        edge=TimeBox(seconds=box_s),
    )


def clusters_for(view: View, who: NDArray[np.int64], n_clusters: int | None) -> int:
    """One cluster for five of the clients `who` (m,) and at least two, if nothing else is asked for; not more than there are, if
    others are away now."""
    n = len(who)
    if n_clusters is None:
        return min(n, max(2, round(n / 5)))
    return n_clusters if view.active.all() else min(n, n_clusters)
