"""Models count by how well their senders agreed with the others in all merges so far.

    d_i  = v_i - w                                               what a model would change; w the old one
    c_i  = sum_{j != i} d_j / max(nu, ||d_j - g||)               where its fellows want to go; g: geometric median of all d
    q_i  = max(0, cos(d_i, c_i)) min(1, L / ||d_i||)             agreement, 0 to 1;  L = median(||d_1||, ..., ||d_m||)
    s_i <- decay s_i + (1 - decay) q_i                           the score of a sender, 1 in the beginning
    w   <- sum_i a_i s_i^power v_i / sum_i a_i s_i^power

In the manner of X. Xu, L. Lyu, "A Reputation Mechanism Is All You Need: Collaborative Fairness and Adversarial Robustness in
Federated Learning", 2021, in which the cosine is that to the weighted sum of all, which long models move and to which every model
agrees with itself; the centre, the lengths and the power are ours. c_i is the last step towards the geometric median
(`geometric_median`) without the sender's own part: a median of every coordinate is no direction where clients have few labels.

A rule for one merge forgets who has lied; this one counts a sender less and less, by decay^power in every merge in which it is of
no use, and takes it back if it mends its ways. It does not stop the first blow: what is absurdly long is a matter of `screen`.

Scores are of whoever sent a model: of clients, at an aggregator, which remembers all that it has met, whether or not they still
report to it; of aggregators, by their hosts, at the cloud. Of fewer than three models there is no telling who is right: scores
stay. Who sends what is not finite is left out and keeps its score. decay = 1, power = 0, and scores that are all the same are the
plain mean, to the bit; if all scores are 0 (decay = 0), the old model stays. m models, P values.
"""

import numpy as np

from fedloom._sums import weighted_sum
from fedloom.mixing.order import Rows
from fedloom.mixing.robust.geometric_median import weiszfeld
from fedloom.mixing.robust.votes import Remembering, Sum, Votes
from fedloom.mixing.weights import Floats

LEAST = 3  # models that can judge each other
MOST_POWER = 100
CLOSE = 1e-6  # nu


def reputation(decay: float = 0.8, power: float = 2.0) -> Remembering:
    """decay: how much of a score is left after a merge, 0 to 1; power: how much scores tell, from 0."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must be from 0 to 1, got {decay:g}")
    if not 0 <= power <= MOST_POWER:
        raise ValueError(f"power must be from 0 to {MOST_POWER}, got {power:g}")

    def rule(votes: Votes) -> Floats:
        scores = votes.scores
        assert scores is not None
        if power == 0.0 or (scores == scores[0]).all():
            return votes.mean()
        part = votes.weights * scores**power
        total = float(part.sum())
        return votes.add(votes.rows, part / total) if total else votes.old.astype(np.float64)

    def judge(votes: Votes) -> Floats:
        assert votes.scores is not None
        if len(votes.rows) < LEAST or decay == 1.0:
            return votes.scores
        return decay * votes.scores + (1 - decay) * agreement(votes.rows, votes.old, votes.add)

    return Remembering(rule, judge)


def agreement(rows: Rows, old: Rows, add: Sum = weighted_sum) -> Floats:
    """q (m,) of rows (m, P), m >= 2; old (P,).

    >>> rows = np.array([[2, 0], [1, 0], [10, 0], [1, 0], [-1, 0]], dtype=np.float32)  # lengths 2, 1, 10, 1, 1: median 1
    >>> agreement(rows, np.zeros(2, dtype=np.float32)).round(3).tolist()  # all others but the last point ahead
    [0.5, 1.0, 0.1, 1.0, 0.0]
    """
    changes = rows - old.astype(np.float64)
    middle = weiszfeld(rows, np.full(len(rows), 1 / len(rows)), add=add) - old
    nearness = 1 / np.maximum(CLOSE, np.array([np.linalg.norm(change - middle) for change in changes]))
    total = nearness @ changes
    length = np.array([np.linalg.norm(change) for change in changes])
    usual, found = float(np.median(length)), np.zeros(len(rows))
    for i in np.flatnonzero(length > 0).tolist():
        fellows = total - nearness[i] * changes[i]
        if (own := float(np.linalg.norm(fellows))) > 0:
            cosine = float(changes[i] @ fellows) / (length[i] * own)
            found[i] = max(0.0, cosine) * min(1.0, usual / length[i])
    return found
