"""How rows are mixed where they are: the same sums in the same order as in the simulator, to the bit.

A recipe is plain JSON, made by the cloud and carried out by a station or a device:

    {"n": name, "at": node}          a value, and who has it; with a "key", as it arrives when it is sent down coded
    {"up": recipe, "ref": recipe, "key": key}  what arrives of a message that goes up, and of what it tells the difference to
    {"mix": [[recipe, weight], ...]}  the weighted sum of rows
    {"between": [recipe, recipe]}     between an aggregator's model and the client's own last one, as the method says
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom._sums import weighted_sum
from fedloom.deployment.coded import Wire
from fedloom.methods import Method
from fedloom.mixing import Arrivals, ByRows
from fedloom.simulator.edge_merge import judge_by_rows, merge_by_rows
from fedloom.simulator.moments import Moved, moments_after
from fedloom.training.state import Slowed

Row = NDArray[np.float32]
Recipe = dict[str, Any]


class Leaf(NamedTuple):
    """A value, who has it (None: whoever needs it), and the key of the message if it is sent down coded."""

    name: str
    at: str | None
    key: int | None = None

    @property
    def id(self) -> str:
        """By which its row is found."""
        return self.name if self.key is None else f"{self.name}/{self.key}"


def leaves(recipe: Recipe) -> Iterable[Leaf]:
    """Every value that a recipe is made of."""
    if "n" in recipe:
        yield Leaf(recipe["n"], recipe["at"], recipe.get("key"))
    if "up" in recipe:
        yield from leaves(recipe["up"])
        yield from leaves(recipe["ref"])
    for part, _ in recipe.get("mix", []):
        yield from leaves(part)
    for part in recipe.get("between", []):
        yield from leaves(part)


def needed(order: Mapping[str, Any]) -> Iterable[Leaf]:
    """Every value that a merge is made of."""
    for wave in order.get("waves", []):
        yield from (Leaf(name, None) for name, _ in wave)
    for recipe, _ in order.get("models", []):
        yield from leaves(recipe)
    for with_old in (order, order.get("slow", {}), order.get("step", {})):
        if "old" in with_old:
            yield from leaves(with_old["old"])
    for pair in order.get("updates", []):
        yield from (leaf for recipe in pair for leaf in leaves(recipe))


def mixed(recipe: Recipe, rows: Mapping[str, NDArray[Any]], method: Method, wire: Wire) -> Row:
    """The row that a recipe gives, from those of its leaves, which are by their ids, and messages."""
    if "n" in recipe:
        (leaf,) = leaves(recipe)
        return rows[leaf.id]
    if "up" in recipe:
        reference = mixed(recipe["ref"], rows, method, wire)
        return wire.got_up(rows[recipe["up"]["n"]], reference, recipe["key"])
    if "between" in recipe:
        edge, last = (mixed(part, rows, method, wire) for part in recipe["between"])
        share_of = method.start.share
        if share_of is None:
            raise ValueError(f"{method.name} lets clients begin with the models of their aggregators alone")
        share, wide = share_of(edge, last), edge.astype(np.float64)
        return (wide if share == 1.0 else share * wide + (1 - share) * last).astype(np.float32)
    return _plus(np.zeros(()), ((mixed(part, rows, method, wire), weight) for part, weight in recipe["mix"]))


def merged(
    order: Mapping[str, Any],
    rows: Mapping[str, NDArray[Any]],
    method: Method,
    wire: Wire,
    scores: Row | None = None,
) -> Row:
    """A station's merge; scores: what it thinks of clients with it, if it remembers. "slow": shared states of a client rule have
    moved by a share only."""
    row = _merged(order, rows, method, wire, scores)
    if "slow" not in order:
        return row
    old = mixed(order["slow"]["old"], rows, method, wire)
    places = tuple((int(a), int(b)) for a, b in order["slow"]["places"])
    return Slowed(float(order["slow"]["share"]), places)([old, row]).astype(np.float32)


def stepped(
    order: Mapping[str, Any],
    rows: Mapping[str, NDArray[Any]],
    merged_row: Row,
    method: Method,
    wire: Wire,
    before: Sequence[Row] | None,
) -> list[Row]:
    """A server optimiser's step after a station's merge: the new model, and the moments after it. before: those before it, if
    there was a step."""
    then = method.merge_edge.then
    if then is None:
        raise ValueError(f"{method.name} has no server optimiser where clients are averaged")
    old = mixed(order["step"]["old"], rows, method, wire)
    before = before or [np.full(len(old), value, dtype=np.float32) for value in then.begins]
    trainable = np.ones(len(old), dtype=np.bool_)
    for a, b in order["step"]["fixed"]:
        trainable[a:b] = False
    new = Moved(then, trainable)([merged_row, old, *before])
    return [row.astype(np.float32) for row in (new, *moments_after(then, old, merged_row, before))]


def judged(order: Mapping[str, Any], rows: Mapping[str, NDArray[Any]], method: Method, wire: Wire, before: Row) -> Row:
    """What a station thinks of clients (K,) after a merge, from what it thought before."""
    rule, arrivals, used = _looked_at(order, rows, method, wire)
    return judge_by_rows(rule, arrivals, len(order["updates"]))([*used, before]).astype(np.float32)


def _looked_at(
    order: Mapping[str, Any], rows: Mapping[str, NDArray[Any]], method: Method, wire: Wire
) -> tuple[ByRows, Arrivals, list[Row]]:
    """Of a merge by the rows: the rule, what has arrived, and the old model, the updates, and what they started from."""
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
        occasion=tuple(int(number) for number in fields["occasion"]),
    )
    updates, starts = zip(*order["updates"])
    return rule, arrivals, [mixed(recipe, rows, method, wire) for recipe in (order["old"], *updates, *starts)]


def _merged(
    order: Mapping[str, Any], rows: Mapping[str, NDArray[Any]], method: Method, wire: Wire, scores: Row | None
) -> Row:
    """Sums of updates wave by wave, then models; or what the method makes of the rows."""
    if "arrivals" in order:
        rule, arrivals, used = _looked_at(order, rows, method, wire)
        used += [] if scores is None else [scores]
        return merge_by_rows(rule, arrivals, len(order["updates"]))(used).astype(np.float32)
    if not order["waves"] and [weight for _, weight in order["models"]] == [1.0]:
        return mixed(order["models"][0][0], rows, method, wire)  # as the simulator does, to the sign of a zero
    total: NDArray[np.float64] = np.zeros(())
    for number, wave in enumerate(order["waves"]):
        models, weights = [rows[name] for name, _ in wave], [weight for _, weight in wave]
        summed = weighted_sum(models, weights, order.get("n_params"))
        total = total + summed if number else summed
    return _plus(total, ((mixed(part, rows, method, wire), weight) for part, weight in order["models"]))


def _plus(total: NDArray[np.float64], parts: Iterable[tuple[Row, float]]) -> Row:
    for row, weight in parts:
        total = total + weight * row.astype(np.float64)
    return total.astype(np.float32)
