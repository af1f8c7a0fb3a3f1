"""Clusters in two stages of affinity propagation: devices that hear each other, then devices of like labels (CAMU).

Affinity propagation finds exemplars E among n points with similarities s and a preference, so that

    sum_{i not in E} max_{e in E} s(i, e) + |E| preference

is large, by messages between points. scikit-learn's is used; it may stop short of the largest, or not converge.

    radio   s_ij = -(max dB - dB_ij)^2             dB_ij: SNR between devices, the mean of both directions; preference: the
                                                   smallest of all pairs, so few groups
    labels  X_kl = C_kl / D ln(D C_kl / (D_k C_l)) information of labels and devices, in nats              (CAMU, eq. 12)
            s_ik = -sum_l (X_il - X_kl)^2          inside each radio group; preference: the median over all pairs of devices

A device that stays without a leader, because messages did not converge, goes to the nearest leader of its own radio
group, or of all if its group elected none; if nobody leads, each radio group is one cluster around the member most
similar to the others. K devices, C labels.

scikit-learn takes messages for settled when the exemplars stay the same, not everybody's choice; with the usual 15 iterations
and strong damping it stops at the first exemplar, long before the others have come up. So we wait for 50.

Other readings, for comparison. As printed ("literal") the strongest link makes the least similar devices, label
distances are positive and squared again, and a device's availability to itself is the largest instead of the sum of
what others say (eqs 8, 13, 11): members go to the farthest leader, clusters mix labels, and hardly anybody becomes a
leader.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.topology import Topology
from fedloom.radio import distances, ratio_to_db

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

RADIO = ("db_gap", "snr_db", "pos_snr_sq", "neg_dist_sq", "neg_bs_snr_diff_sq", "literal")
LABELS = ("neg_sq", "neg_sq_sq", "literal")
MOST_CLIENTS = 5000  # 4,000 take a minute and 2 GB
LEADERS = ("exemplar", "best_bs_snr")
AVAILABILITIES = ("sum", "literal")


@dataclass(frozen=True, kw_only=True, eq=False)
class Exemplars:
    """leader_of (n,): the exemplar of each point, itself if it is one, -1 for a leftover. converged: messages settled."""

    leader_of: Ints
    converged: bool

    @property
    def leaders(self) -> Ints:
        """Sorted exemplars."""
        return np.flatnonzero(self.leader_of == np.arange(len(self.leader_of)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DualSegment:
    """clusters: sorted arrays of devices, in the order of their lowest ones; heads (N,): the leader of each.

    radio_group (K,): the leader of each device's group in the first stage, or -1 if it elected none and all are one
    group. leftover (K,): devices that were placed by distance. converged: of the first stage and of each group in the
    second.
    """

    clusters: list[Ints]
    heads: Ints
    radio_group: Ints
    leftover: Mask
    converged: list[bool]

    def topology(self) -> Topology:
        """The clusters around their heads, with the number of radio groups and leftovers as notes."""
        notes = {"radio_groups": float(len(np.unique(self.radio_group))), "leftovers": float(self.leftover.sum())}
        return Topology.of_heads(self.clusters, self.heads, len(self.radio_group), notes)


def affinity_propagation(
    similarity: ArrayLike,
    preference: float,
    *,
    damping: float = 0.9,
    conv_iter: int = 50,
    max_iter: int = 1000,
    availability: str = "sum",
    seed: int = 0,
) -> Exemplars:
    """Exemplars among n points with `similarity` (n, n), whose diagonal does not count.

    Messages are damped by `damping` and have converged when the exemplars stay the same for `conv_iter` iterations out
    of at most `max_iter`; if they do not, all points are leftovers. seed: of the jitter that breaks ties, of the size
    of rounding. If all similarities are the same there is one exemplar, or n if the preference is above them.
    availability "literal": of a point to itself as printed (CAMU, eq. 11), without jitter.

    >>> x = np.array([0, 1, 3, 10, 11.5, 12])
    >>> affinity_propagation(-np.subtract.outer(x, x) ** 2, -72.25).leader_of.tolist()
    [1, 1, 1, 4, 4, 4]
    """
    s = _check.array("similarity", similarity, (None, None))
    n = len(s)
    _check.array("similarity", s, (n, n))
    _check.one_of("availability", availability, AVAILABILITIES)
    _check.whole("conv_iter", conv_iter)
    _check.whole("max_iter", max_iter)
    if not 0.5 <= damping < 1:
        raise ValueError(f"damping must be in [0.5, 1), got {damping:g}")
    if not n:
        raise ValueError("there are no points to group")
    if n == 1:
        return Exemplars(leader_of=np.zeros(1, dtype=np.int64), converged=True)
    if availability == "literal":
        return _printed_messages(s, preference, damping, conv_iter, max_iter)
    from sklearn.cluster import AffinityPropagation  # takes long to import
    from sklearn.exceptions import ConvergenceWarning

    model = AffinityPropagation(
        damping=damping,
        max_iter=max_iter,
        convergence_iter=conv_iter,
        preference=preference,
        affinity="precomputed",
        random_state=seed,
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(s)
    if any(issubclass(w.category, ConvergenceWarning) for w in said):
        return Exemplars(leader_of=np.full(n, -1), converged=False)
    return Exemplars(
        leader_of=np.asarray(model.cluster_centers_indices_, dtype=np.int64)[model.labels_], converged=True
    )


def radio_similarity(snr: ArrayLike, *, reading: str = "db_gap", position_m: ArrayLike | None = None) -> Floats:
    """Similarity (K, K) of devices by radio, from the SNR matrix (K, K) of ratios with the base station on its
    diagonal.

    Between two devices the geometric mean of both directions counts. reading: "db_gap" as above; "literal" -snr^2
    (CAMU, eq. 8), "pos_snr_sq" +snr^2, "snr_db"; "neg_bs_snr_diff_sq": minus the squared difference of the SNRs at the
    base station, in dB; "neg_dist_sq": minus the squared distance, from position_m (K, D). The diagonal means nothing.
    """
    _check.one_of("reading", reading, RADIO)
    matrix = _check.array("snr", snr, (None, None))
    n = len(matrix)
    _check.array("snr", matrix, (n, n))
    _check.positive("snr", matrix)
    mean = np.sqrt(matrix * matrix.T)
    db = ratio_to_db(mean)
    if reading == "neg_dist_sq":
        if position_m is None:
            raise ValueError('the radio reading "neg_dist_sq" needs position_m')
        points = _check.array("position_m", position_m, (n, None))
        return -(distances(points, points) ** 2)
    if reading == "neg_bs_snr_diff_sq":
        at_station = db.diagonal()
        return np.asarray(-(np.subtract.outer(at_station, at_station) ** 2))
    if reading == "db_gap":
        return np.asarray(-((np.max(db, where=_pairs(n), initial=-np.inf) - db) ** 2))
    return np.asarray({"literal": -(mean**2), "pos_snr_sq": mean**2, "snr_db": db}[reading])


def label_information(label_counts: ArrayLike) -> Floats:
    """X (K, C), nats: what each device and label adds to the mutual information of the two (CAMU, eq. 12).

    label_counts (K, C) samples, at least one for each device. Labels that nobody has are 0. Rows sum to 0 or more; all
    0 if everybody's labels are spread alike.

    >>> label_information([[30, 10, 0], [0, 20, 20], [10, 10, 20]])[0].round(6).tolist()
    [0.202733, -0.023974, 0.0]
    """
    counts = _check.array("label_counts", label_counts, (None, None))
    _check.positive("label_counts", counts, zero=True)
    size, of_label, total = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    empty = np.flatnonzero(size == 0)
    if len(empty):
        raise ValueError(f"devices {empty.tolist()} have no samples, so no labels; leave them out")
    ratio = np.divide(total * counts, np.outer(size, of_label), out=np.ones_like(counts), where=counts > 0)
    return np.asarray(counts / total * np.log(ratio))


def label_similarity(information: ArrayLike, *, reading: str = "neg_sq") -> Floats:
    """Similarity (K, K) of devices by labels, from `label_information` (K, C).

    reading: "neg_sq" minus the squared distance; "neg_sq_sq" minus its square; "literal" plus its square (CAMU, eq.
    13).
    """
    _check.one_of("reading", reading, LABELS)
    x = _check.array("information", information, (None, None))
    square = np.asarray(((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2))
    if reading == "neg_sq":
        return -square
    return square**2 if reading == "literal" else -(square**2)


def dual_segment(
    snr: ArrayLike,
    label_counts: ArrayLike,
    position_m: ArrayLike,
    *,
    radio: str = "db_gap",
    labels: str = "neg_sq",
    leader: str = "exemplar",
    availability: str = "sum",
    damping: float = 0.9,
    conv_iter: int = 50,
    max_iter: int = 1000,
) -> DualSegment:
    """Clusters of devices that hear each other and have like labels, each around a leader.

    snr (K, K): as `snr_matrix` gives it; label_counts (K, C); position_m (K, D), for leftovers. radio and labels:
    readings of the similarities. leader "best_bs_snr": the member that the base station hears best, instead of the
    exemplar.
    """
    _check.one_of("leader", leader, LEADERS)
    by_radio = radio_similarity(snr, reading=radio, position_m=position_m)
    n = len(by_radio)
    counts = _check.array("label_counts", label_counts, (n, None))
    apart = distances(*2 * [_check.array("position_m", position_m, (n, None))])
    by_label = label_similarity(label_information(counts), reading=labels)
    how = {"availability": availability, "damping": damping, "conv_iter": conv_iter, "max_iter": max_iter}
    if n == 1:
        alone = np.zeros(1, dtype=np.int64)
        return DualSegment(
            clusters=[alone], heads=alone, radio_group=alone, leftover=np.zeros(1, np.bool_), converged=[True]
        )

    first = affinity_propagation(by_radio, float(by_radio[_pairs(n)].min()), **how)  # type: ignore[arg-type]
    group = _nearest(first.leader_of, first.leaders, apart) if len(first.leaders) else first.leader_of.copy()
    inner, preference = np.full(n, -1), float(np.median(by_label[_pairs(n)]))
    converged = [first.converged]
    for members in _parts(group):
        inside = affinity_propagation(by_label[np.ix_(members, members)], preference, **how)  # type: ignore[arg-type]
        converged.append(inside.converged)
        inner[members] = np.where(inside.leader_of >= 0, members[inside.leader_of], -1)
    leader_of = _all_led(inner, group, by_label, apart)
    clusters = _parts(leader_of)
    clusters.sort(key=lambda c: int(c[0]))
    return DualSegment(
        clusters=clusters,
        heads=_heads(clusters, leader_of, leader, np.asarray(snr).diagonal()),
        radio_group=group,
        leftover=(first.leader_of < 0) | (inner < 0),
        converged=converged,
    )


def _all_led(leader_of: Ints, group: Ints, by_label: Floats, apart: Floats) -> Ints:
    """(n,) leaders with those who have none, -1, given one: the nearest in their group, else of all; if nobody leads, the one
    of their group with the labels most like the others'."""
    found, leaders = leader_of.copy(), np.flatnonzero(leader_of == np.arange(len(leader_of)))
    for members in _parts(group):
        own = leaders[np.isin(leaders, members)]
        if len(leaders):
            found[members] = _nearest(leader_of, own if len(own) else leaders, apart)[members]
        else:
            found[members] = members[by_label[np.ix_(members, members)].sum(axis=1).argmax()]
    return found


def _parts(label: Ints) -> list[Ints]:
    """Points of the same label (n,), for each label in rising order."""
    return [np.flatnonzero(label == value) for value in np.unique(label)]


def _heads(clusters: Sequence[Ints], leader_of: Ints, leader: str, at_station: Floats) -> Ints:
    if leader == "exemplar":
        return np.array([leader_of[c[0]] for c in clusters])
    return np.array([c[at_station[c].argmax()] for c in clusters])


def _nearest(leader_of: Ints, leaders: Ints, apart: Floats) -> Ints:
    """Points without a leader, -1, go to the nearest of `leaders`."""
    return np.where(leader_of >= 0, leader_of, leaders[apart[:, leaders].argmin(axis=1)])


def _pairs(n: int) -> Mask:
    """(n, n) without the diagonal."""
    return ~np.eye(n, dtype=np.bool_)


def _printed_messages(s: Floats, preference: float, damping: float, conv_iter: int, max_iter: int) -> Exemplars:
    """Affinity propagation with the printed self-availability: A(k,k) = max(0, max_{i != k} R(i,k)) (CAMU, eqs 9 to
    11).

    It ends when all choices stay the same and somebody speaks for itself: choices stand still long before anybody does.
    """
    n = len(s)
    s = np.where(_pairs(n), s, preference)
    every, steady = np.arange(n), 0
    responsibility, availability = np.zeros((n, n)), np.zeros((n, n))
    choice = np.full(n, -1)
    for _ in range(max_iter):
        reach = availability + s
        best = reach.argmax(axis=1)
        top = reach[every, best]
        reach[every, best] = -np.inf
        others = np.broadcast_to(top[:, None], (n, n)).copy()
        others[every, best] = reach.max(axis=1)
        responsibility = damping * responsibility + (1 - damping) * (s - others)
        support = np.where(_pairs(n), np.maximum(responsibility, 0), 0.0)
        new = np.minimum(0, responsibility.diagonal() + support.sum(axis=0) - support)
        np.fill_diagonal(new, support.max(axis=0))
        availability = damping * availability + (1 - damping) * new
        both = responsibility + availability
        before, choice = choice, both.argmax(axis=1)
        steady = steady + 1 if (choice == before).all() else 0
        if steady >= conv_iter and (both.diagonal() > 0).any():
            break
    else:
        return Exemplars(leader_of=np.full(n, -1), converged=False)
    leads = choice == every
    return Exemplars(leader_of=np.where(leads[choice], choice, -1), converged=True)
