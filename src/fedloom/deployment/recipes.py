"""How rows are mixed where they are: the same sums in the same order as in the simulator, to the bit.

A recipe is plain JSON, made by the cloud and carried out by a station or a device:

    {"n": name, "at": node}          a value, and who has it
    {"mix": [[recipe, weight], ...]}  the weighted sum of rows
    {"between": [recipe, recipe]}     between an aggregator's model and the client's own last one, as the method says
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom._sums import weighted_sum
from fedloom.deployment import naming
from fedloom.methods import Method
from fedloom.mixing import Arrivals, ByRows
from fedloom.simulator.held import merge_by_rows

Row = NDArray[np.float32]
Recipe = dict[str, Any]


def leaves(recipe: Recipe) -> Iterable[tuple[str, str]]:
    """(name, node) of every value that a recipe is made of."""
    if "n" in recipe:
        yield recipe["n"], recipe["at"]
    for part, _ in recipe.get("mix", []):
        yield from leaves(part)
    for part in recipe.get("between", []):
        yield from leaves(part)


def mixed(recipe: Recipe, rows: Mapping[str, Row], method: Method) -> Row:
    """The row that a recipe gives, from the rows of its leaves."""
    if "n" in recipe:
        return rows[recipe["n"]]
    if "between" in recipe:
        edge, last = (mixed(part, rows, method) for part in recipe["between"])
        share_of = method.start.share
        if share_of is None:
            raise ValueError(f"{method.name} lets clients begin with the models of their aggregators alone")
        share, wide = share_of(edge, last), edge.astype(np.float64)
        return (wide if share == 1.0 else share * wide + (1 - share) * last).astype(np.float32)
    return _plus(np.zeros(()), [(mixed(part, rows, method), weight) for part, weight in recipe["mix"]])


def merged(order: Mapping[str, Any], rows: Mapping[str, Row], method: Method) -> Row:
    """A station's merge: sums of updates wave by wave, then models; or what the method makes of the rows."""
    if "arrivals" in order:
        rule = method.merge_edge
        if not isinstance(rule, ByRows):
            raise ValueError(f"{method.name} merges by weights, not by rows")
        fields = order["arrivals"]
        arrivals = Arrivals(
            client=np.array(fields["client"], dtype=np.int64),
            n_samples=np.array(fields["n_samples"], dtype=np.int64),
            n_reached=np.array(fields["n_reached"], dtype=np.int64),
            staleness=np.array(fields["staleness"], dtype=np.int64),
            total=float(fields["total"]),
            steps=np.array(fields["steps"], dtype=np.int64),
        )
        updates = order["updates"]
        used = [rows[order["old"]["n"]], *(rows[n] for n in updates), *(rows[naming.begun(n)] for n in updates)]
        return merge_by_rows(rule, arrivals, len(updates))(used).astype(np.float32)
    total: NDArray[np.float64] = np.zeros(())
    for number, wave in enumerate(order["waves"]):
        summed = weighted_sum([rows[name] for name, _ in wave], [weight for _, weight in wave])
        total = total + summed if number else summed
    return _plus(total, [(mixed(part, rows, method), weight) for part, weight in order["models"]])


def _plus(total: NDArray[np.float64], parts: list[tuple[Row, float]]) -> Row:
    for row, weight in parts:
        total = total + weight * row.astype(np.float64)
    return total.astype(np.float32)
