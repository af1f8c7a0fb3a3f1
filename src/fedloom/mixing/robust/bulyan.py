"""First the models that Krum chooses one after the other, then of every coordinate the values around their median.

    S    = theta = m - 2 f models: each time Krum's choice among those that are left
    w_p  = the mean of the beta = theta - 2 f values v_ip, i in S, closest to the median of v_ip over S

E. M. El Mhamdi, R. Guerraoui, S. Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium", 2018 (ICML), with
Krum. f of the models may be hostile, m >= 4 f + 3. The first step stops models far away, the second single coordinates that
Krum does not see. The mean is by weights; f = 0 is the plain mean.

Ours, where the last choices have few left: a choice among n looks at n - f - 2 neighbours, at least at one. Of two values at
the same distance on either side of the median the larger one goes first.

Models that are not finite were some of the f. Fewer models than 4 f + 3: `around_median` refuses; a rule must go on, and
withstands as many as so few can, (m - 3) // 4; where that is none (m < 7), it takes the median of every coordinate. m models,
P values.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.mixing.order import Rows, column_median, sorted_columns
from fedloom.mixing.robust.krum import ranked, squared_distances, withstood
from fedloom.mixing.robust.trimmed_mean import mean_between
from fedloom.mixing.robust.votes import Rule, Votes
from fedloom.mixing.weights import Floats


def bulyan(f: int = 1) -> Rule:
    """f: hostile models at most."""
    _check.whole("f", f, least=0)

    def rule(votes: Votes) -> NDArray[np.floating]:
        hostile = max(0, f - votes.n_sick)
        if hostile == 0:
            return votes.mean()
        bearable = withstood(len(votes.rows), hostile, each=4)
        return around_median(votes.rows, votes.weights, bearable) if bearable else column_median(votes.rows)

    return rule


def around_median(rows: Rows, weights: Floats, f: int) -> Floats:
    """(P,) of rows (m, P) with weights (m,), m >= 4 f + 3."""
    if len(rows) < 4 * f + 3:
        raise ValueError(
            f"Bulyan withstands {f} hostile models among at least {4 * f + 3}, got {len(rows)}; use a smaller f, let more "
            f"clients take part, or take coordinate_median, which does with any number"
        )
    chosen = np.sort(choices(squared_distances(rows), f))
    rows, weights = rows[chosen], weights[chosen]
    ordered, middle = sorted_columns(rows), column_median(rows).astype(np.float64)
    column = np.arange(rows.shape[1])
    first = np.zeros(rows.shape[1], dtype=np.int64)
    size = len(rows)
    for _ in range(2 * f):  # the farther of the two ends goes; what is left is a run of ordered values
        low, high = ordered[first, column], ordered[first + size - 1, column]
        first += middle - low > high - middle
        size -= 1
    return mean_between(rows, weights, ordered[first, column], ordered[first + size - 1, column], first, size)


def choices(squares: Floats, f: int) -> NDArray[np.int64]:
    """m - 2 f models in the order in which Krum chooses them among those that are left; squares (m, m): distances squared."""
    left = np.arange(len(squares))
    found = []
    for _ in range(len(squares) - 2 * f):
        best = int(ranked(squares[np.ix_(left, left)], max(len(left) - f - 2, 1))[0])
        found.append(left[best])
        left = np.delete(left, best)
    return np.array(found)
