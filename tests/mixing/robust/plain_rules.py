"""The rules as they were published, one model, one coordinate and one pair at a time; weights are all equal."""

import math
import statistics


def coordinate_median(rows, old):
    return [statistics.median(column) for column in zip(*rows)]


def trimmed_mean(rows, old, share):
    b = math.floor(share * len(rows))
    return [statistics.fmean(sorted(column)[b : len(rows) - b]) for column in zip(*rows)]


def distance(a, b):
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b)))


def mean(rows):
    return [statistics.fmean(column) for column in zip(*rows)]


def geometric_median(rows, old, n_steps=40):
    """Weiszfeld's steps."""
    z = mean(rows)
    for _ in range(n_steps):
        b = [1 / max(1e-9, distance(row, z)) for row in rows]
        z = [math.fsum(w * x for w, x in zip(b, column)) / sum(b) for column in zip(*rows)]
    return z


def krum_scores(rows, f):
    """Over the closest others; two that are each other's only neighbour have the same score, and all others decide."""
    n_neighbours = len(rows) - f - 2
    found = []
    for i, row in enumerate(rows):
        squares = sorted(distance(row, other) ** 2 for j, other in enumerate(rows) if j != i)
        found.append((sum(squares[: max(n_neighbours, 1)]), sum(squares)))
    return found


def multi_krum(rows, old, f, keep):
    scores = krum_scores(rows, f)
    best = sorted(range(len(rows)), key=scores.__getitem__)[:keep]
    return mean([rows[i] for i in best])


def bulyan(rows, old, f):
    left, chosen = list(rows), []
    while len(chosen) < len(rows) - 2 * f:
        scores = krum_scores(left, f)
        chosen.append(left.pop(scores.index(min(scores))))
    found = []
    for column in zip(*chosen):
        middle = statistics.median(column)
        found.append(statistics.fmean(sorted(column, key=lambda x: abs(x - middle))[: len(chosen) - 2 * f]))
    return found


def centred_clipping(rows, old, radius, steps):
    centre = list(old)
    for _ in range(steps):
        moves = []
        for row in rows:
            part = min(1, radius / distance(row, centre))
            moves.append([part * (x - c) for x, c in zip(row, centre)])
        centre = [c + d for c, d in zip(centre, mean(moves))]
    return centre


def norm_clipping(rows, old, norm):
    changes = [[x - o for x, o in zip(row, old)] for row in rows]
    lengths = [math.hypot(*change) for change in changes]
    return [o + d for o, d in zip(old, mean([[x / max(1, n / norm) for x in c] for c, n in zip(changes, lengths)]))]
