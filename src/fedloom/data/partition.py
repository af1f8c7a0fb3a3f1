"""Who holds which training samples.

Every function returns K sorted int64 arrays of sample indices, one for each client; no sample is given
twice, and the same generator state gives the same parts. Symbols: K clients, C classes, N_c samples of class
c, D_c clients that hold class c, q samples of each of its classes that a client gets.

    iid              a shuffled deck cut into K nearly equal parts
    by_label_sets    each client's classes are given; q = min_c floor(N_c / D_c) of each, so volumes are equal
    by_classes       the same with k classes a client, dealt so that D_c differ by at most one
    mixed            some clients by classes, the others a fair draw, all of one size
    dirichlet        each class is split by proportions drawn from Dir(concentration)
    by_user          the data's own users

`fedloom.data.sizes` has those for clients of different sizes.
"""

import bisect
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Indices = NDArray[np.int64]
Volume = Literal["equal", "all"]


def iid(n_samples: int, n_clients: int, rng: np.random.Generator) -> list[Indices]:
    """Every sample to some client at random; sizes differ by at most one."""
    _check.whole("n_samples", n_samples)
    _check.whole("n_clients", n_clients)
    _enough(n_samples, n_clients, 1)
    return [np.sort(part) for part in np.array_split(rng.permutation(n_samples), n_clients)]


def by_label_sets(
    labels: ArrayLike,
    sets: Sequence[Sequence[int]],
    rng: np.random.Generator,
    *,
    volume: Volume = "equal",
    samples_per_class: int | None = None,
) -> list[Indices]:
    """Client k gets samples of the classes sets[k], and of no other.

    labels              (n,) class of each sample
    sets                K lists of distinct classes
    volume "equal"      samples_per_class samples of each of its classes to every client, by default the most
                        that is possible, q = min_c floor(N_c / D_c). What is left over is not used.
    volume "all"        each class is cut evenly among its holders (shares differ by at most one), so that
                        every sample of a class that someone holds is used, and sizes may differ.
    """
    _check.one_of("volume", volume, ("equal", "all"))
    y = as_labels(labels)
    holders = _holders(sets)
    size = {c: int((y == c).sum()) for c in holders}
    scarce = min(holders, key=lambda c: size[c] // len(holders[c]))
    most = size[scarce] // len(holders[scarce])
    if most == 0:
        raise ValueError(
            f"class {scarce} has {size[scarce]} samples for {len(holders[scarce])} holders; "
            "use fewer clients, or give the class to fewer of them"
        )
    if samples_per_class is not None:
        _check.whole("samples_per_class", samples_per_class)
        if volume == "all":
            raise ValueError('samples_per_class goes with volume="equal"; volume="all" uses every sample')
        if samples_per_class > most:
            raise ValueError(
                f"samples_per_class must be at most {most}, got {samples_per_class}: class {scarce} has "
                f"{size[scarce]} samples for {len(holders[scarce])} clients"
            )
    wanted = most if samples_per_class is None else samples_per_class
    parts: list[list[Indices]] = [[] for _ in sets]
    for c in sorted(holders):
        deck = rng.permutation(np.flatnonzero(y == c))
        if volume == "equal":
            shares = np.split(deck[: wanted * len(holders[c])], len(holders[c]))
        else:
            shares = np.array_split(deck, len(holders[c]))
        # in random order, so that the larger shares of "all" do not always go to the first clients
        for k, share in zip(rng.permutation(holders[c]), shares):
            parts[k].append(share)
    return [np.sort(np.concatenate(part)) for part in parts]


def by_classes(
    labels: ArrayLike,
    n_clients: int,
    classes_per_client: int,
    rng: np.random.Generator,
    samples_per_class: int | None = None,
    *,
    volume: Volume = "equal",
) -> list[Indices]:
    """Each client holds exactly `classes_per_client` of the classes in labels (n,), dealt from decks.

    The numbers of clients that hold a class differ by at most one; volumes as in `by_label_sets`.
    """
    y = as_labels(labels)
    sets = deal_classes(np.unique(y).tolist(), n_clients, classes_per_client, rng)
    return by_label_sets(y, sets, rng, volume=volume, samples_per_class=samples_per_class)


def mixed(
    labels: ArrayLike, n_clients: int, skewed_share: float, classes_per_client: int, rng: np.random.Generator
) -> list[Indices]:
    """Equal shares of labels (n,): a share of the clients hold m = `classes_per_client` classes in equal parts, dealt from decks
    as in `by_classes`; the others are a fair draw of all labels.

    The others draw first, any sample with the same chance and without replacement, and the skewed ones take q of each of their
    classes from what that leaves. q, the same for all, is the largest for which this can be done: m q samples a client, at most
    m floor(n / (n_clients m)), and fewer where a class would run out, because it is small, or because a deck cannot be dealt
    evenly and one class has a holder more than another. What is left over is unused. Who is skewed is drawn, too.
    """
    y = as_labels(labels)
    _check.whole("n_clients", n_clients)
    _check.whole("classes_per_client", classes_per_client)
    _enough(len(y), n_clients, classes_per_client)
    if not 0 <= skewed_share <= 1:
        raise ValueError(f"skewed_share must be between 0 and 1, got {skewed_share:g}")
    n_skewed = round(skewed_share * n_clients)
    place = rng.permutation(n_clients)
    classes, kind, n_of_class = np.unique(y, return_inverse=True, return_counts=True)
    sets = deal_classes(classes.tolist(), n_skewed, classes_per_client, rng) if n_skewed else []
    n_holders = np.array([sum(c in hand for hand in sets) for c in classes.tolist()], dtype=np.int64)
    deck = rng.permutation(len(y))
    n_drawn = (n_clients - n_skewed) * classes_per_client  # by the others, for q = 1

    def lacking(q: int) -> NDArray[np.int64]:
        """Samples of each class that are missing if the others have drawn and its holders want q each; below 0: to spare."""
        left = n_of_class - np.bincount(kind[deck[: n_drawn * q]], minlength=len(classes))
        return n_holders * q - left

    # who draws less leaves more of every class, and less is wanted of it: what fits for q fits for all below
    most = len(y) // (n_clients * classes_per_client)
    q = bisect.bisect_left(range(1, most + 1), True, key=lambda q: bool((lacking(q) > 0).any()))
    if q == 0:
        scarce = int(lacking(1).argmax())
        raise ValueError(
            f"class {classes[scarce]} has {n_of_class[scarce]} samples, too few for {n_holders[scarce]} clients that hold it "
            f"after the draw of the others; use fewer clients or more samples"
        )
    drawn, rest = np.split(deck, [n_drawn * q])
    others = np.split(drawn, n_clients - n_skewed) if n_drawn else []
    few = [rest[part] for part in by_label_sets(y[rest], sets, rng, samples_per_class=q)] if n_skewed else []
    dealt = [*few, *others]
    return [np.sort(dealt[i]) for i in place]


def deal_classes(classes: Sequence[int], n_hands: int, per_hand: int, rng: np.random.Generator) -> list[list[int]]:
    """Deal `per_hand` distinct classes to each of `n_hands` hands; class counts differ by at most one.

    From a shuffled deck of all classes, each hand takes the first cards it does not have yet; a new deck
    comes when the last is empty. A hand can meet its own classes only when it began in the deck before, and
    then the new deck still holds enough others, so every deck is dealt to the end: hence the "at most one".
    """
    _check.whole("n_hands", n_hands)
    _check.whole("per_hand", per_hand)
    if len(set(classes)) != len(classes):
        raise ValueError(f"classes must be distinct, got {list(classes)}")
    if per_hand > len(classes):
        raise ValueError(f"classes per client must be at most the number of classes, {len(classes)}, got {per_hand}")
    hands: list[list[int]] = []
    deck: list[int] = []
    for _ in range(n_hands):
        hand: list[int] = []
        while len(hand) < per_hand:
            if not deck:
                deck = [classes[i] for i in rng.permutation(len(classes))]
            card = next(i for i, c in enumerate(deck) if c not in hand)
            hand.append(deck.pop(card))
        hands.append(sorted(hand))
    return hands


def wheel(n_positions: int, classes_per_client: int, n_classes: int) -> list[list[int]]:
    """Label sets without chance: position k holds classes (m k + j) mod C, j = 0..m-1.

    Edge servers that use the same wheel over their clients have identical label histograms.

    >>> wheel(3, 4, 10)
    [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 8, 9]]
    """
    _check.whole("n_positions", n_positions)
    _check.whole("classes_per_client", classes_per_client)
    if classes_per_client > n_classes:
        raise ValueError(
            f"classes per client must be at most the number of classes, {n_classes}, got {classes_per_client}"
        )
    m = classes_per_client
    return [sorted((m * k + j) % n_classes for j in range(m)) for k in range(n_positions)]


def dirichlet(
    labels: ArrayLike, n_clients: int, concentration: float, rng: np.random.Generator, min_samples: int = 1
) -> list[Indices]:
    """Each class is cut by proportions ~ Dir(concentration, ..., concentration); every sample is used.

    A small concentration gives each client few classes and sizes far apart; a large one tends to iid.
    The proportions are redrawn until every client has `min_samples`, at most 1,000 times; if even the last
    draw fails, one random sample at a time moves from the largest client to the first that has too few.
    """
    y = as_labels(labels)
    _check.whole("n_clients", n_clients)
    _check.positive("concentration", concentration)
    _check.whole("min_samples", min_samples, least=0)
    _enough(len(y), n_clients, min_samples)
    classes, size = np.unique(y, return_counts=True)
    for _ in range(1000):
        proportions = rng.dirichlet(np.full(n_clients, float(concentration)), size=len(classes))  # (C, K)
        cuts = np.floor(np.cumsum(proportions, axis=1) * size[:, None]).astype(np.int64)
        cuts[:, -1] = size  # whatever the rounding of the cumulative sum
        count = np.diff(np.minimum(cuts, size[:, None]), axis=1, prepend=0)  # (C, K)
        if count.sum(axis=0).min() >= min_samples:
            break
    while (total := count.sum(axis=0)).min() < min_samples:
        poor, rich = int(np.argmax(total < min_samples)), int(np.argmax(total))
        c = rng.choice(len(classes), p=count[:, rich] / total[rich])
        count[c, rich] -= 1
        count[c, poor] += 1
    shares = []
    for c, row in zip(classes, count):
        deck = rng.permutation(np.flatnonzero(y == c))
        shares.append(np.split(deck, np.cumsum(row)[:-1]))
    return [np.sort(np.concatenate([share[k] for share in shares])) for k in range(n_clients)]


def by_user(user: ArrayLike) -> list[Indices]:
    """One client for each distinct user (n,), in ascending order of the user's number."""
    users = np.asarray(user)
    if users.ndim != 1 or len(users) == 0:
        raise ValueError(f"user must have one entry for each sample, shape (n,), got {users.shape}")
    return [np.flatnonzero(users == u) for u in np.unique(users)]


def label_counts(labels: ArrayLike, parts: Sequence[Indices], n_classes: int) -> NDArray[np.int64]:
    """How many samples of each class each client holds, (K, C).

    >>> label_counts([0, 1, 1, 2], [np.array([0, 1]), np.array([2])], 3)
    array([[1, 1, 0],
           [0, 1, 0]])
    """
    y = as_labels(labels)
    if len(y) and int(y.max()) >= n_classes:
        raise ValueError(f"labels must lie in 0..{n_classes - 1}, got {int(y.max())}")
    return np.array([np.bincount(y[part], minlength=n_classes) for part in parts], dtype=np.int64)


def local_tests(
    y_test: ArrayLike, label_counts: ArrayLike, rng: np.random.Generator, n_per_client: int | None = None
) -> list[Indices]:
    """A test set for each client, in the proportions of its training labels: indices into the test split.

    y_test         (n',) labels of the test split
    label_counts   (K, C) training samples of each class that each client holds
    n_per_client   test samples for each client, shared out over its classes by largest remainder. If the
                   split has too few samples of a class, this client's whole set shrinks until the
                   proportions fit. None: all test samples of the classes the client holds.

    A test sample occurs at most once in one client's set; the sets of two clients may overlap.
    """
    y = as_labels(y_test)
    counts = _counts(label_counts)
    available = np.bincount(y, minlength=counts.shape[1])[: counts.shape[1]]
    _all_can_be_tested(counts, available)
    if n_per_client is None:
        return [np.flatnonzero(np.isin(y, np.flatnonzero(row))) for row in counts]
    _check.whole("n_per_client", n_per_client)
    of_class = [np.flatnonzero(y == c) for c in range(counts.shape[1])]
    tests = []
    for row in counts:
        held = np.flatnonzero(row)
        # n row_c / sum(row) <= available_c, in whole numbers so that the largest remainder cannot overshoot
        n = min(n_per_client, int((available[held] * row.sum() // row[held]).min()))
        drawn = [rng.choice(of_class[c], m, replace=False) for c, m in zip(held, largest_remainder(row[held], n))]
        tests.append(np.sort(np.concatenate(drawn)))
    return tests


def largest_remainder(weights: NDArray[np.integer], total: int) -> NDArray[np.int64]:
    """Whole numbers (m,) with sum `total` in proportion to whole weights (m,); ties to the lower index.

    >>> largest_remainder(np.array([1, 1, 1]), 5)
    array([2, 2, 1])
    """
    weight = [int(w) for w in weights]  # Python integers: no overflow, no rounding
    whole = sum(weight)
    shares = np.array([w * total // whole for w in weight], dtype=np.int64)
    remainder = [w * total % whole for w in weight]
    order = sorted(range(len(weight)), key=lambda i: -remainder[i])
    shares[order[: total - int(shares.sum())]] += 1
    return shares


def as_labels(labels: ArrayLike) -> NDArray[np.int64]:
    """Labels (n,) as int64, checked: whole numbers of at least 0."""
    y = np.asarray(labels)
    if y.ndim != 1 or len(y) == 0 or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"labels must be whole numbers of shape (n,), got {y.dtype} {y.shape}")
    if int(y.min()) < 0:
        raise ValueError(f"labels must be at least 0, got {int(y.min())} at sample {int(np.argmin(y))}")
    return y.astype(np.int64, copy=False)


def _counts(label_counts: ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(label_counts)
    if counts.ndim != 2 or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise ValueError(f"label_counts must be whole numbers >= 0 of shape (K, C), got {counts.dtype} {counts.shape}")
    empty = np.flatnonzero(counts.sum(axis=1) == 0).tolist()
    if empty:
        raise ValueError(f"clients {empty} hold no samples, so they have no label proportions; leave them out")
    return counts.astype(np.int64, copy=False)


def _all_can_be_tested(counts: NDArray[np.int64], available: NDArray[np.integer]) -> None:
    lacking = np.argwhere((counts > 0) & (available == 0))
    if len(lacking):
        k, c = lacking[0].tolist()
        raise ValueError(
            f"client {k} holds class {c}, of which the test split has no samples; "
            "use a larger test split or leave the class out of the partition"
        )


def _holders(sets: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """Class -> the clients that hold it."""
    if not sets:
        raise ValueError("sets must name the classes of at least one client, got none")
    holders: dict[int, list[int]] = {}
    for k, classes in enumerate(sets):
        if len(classes) == 0 or len(set(classes)) != len(classes):
            raise ValueError(f"client {k} must have one or more distinct classes, got {list(classes)}")
        for c in classes:
            holders.setdefault(int(c), []).append(k)
    return holders


def _enough(n_samples: int, n_clients: int, each: int) -> None:
    if n_samples < n_clients * each:
        raise ValueError(
            f"{n_clients} clients with at least {each} samples each need {n_clients * each} samples, "
            f"got {n_samples}; use fewer clients or more data"
        )
