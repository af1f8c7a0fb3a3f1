"""The bound of CAMU, (17), beside runs of schemes of Fig. 5: its constants as the runs have them, whether it covers them, and
whether it ranks schemes as they do.

An update is one step on all samples of a device, as the analysis counts it, without noise. Schemes differ only in how many
updates clusters do, of which the bound says that more are always better; what gates are good for is outside it. Constants are
those of all schemes with one seed: L the largest along the way, mu the least |g|^2 / (2 (F - F*)), F* 0.9 of the lowest loss,
delta and delta_c medians (delta_c of all clusters together), means by samples. Weights are contributions, as in the method.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.allocation.contraction import rate_limits, update_progress
from fedloom.allocation.estimates import LEAST_MU, LOWEST, RANGE
from fedloom.bounds import camu_bound
from fedloom.record.runs import Run
from fedloom.reproduce.camu.setups import THEORY_SCHEMES
from fedloom.reproduce.paper import Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.theory import bound_claims, last_loss, most, squares
from fedloom.reproduce.verdicts import mean, spread

Floats = NDArray[np.float64]


def judge_theory(runs: Runs) -> Outcome:
    """The bound of every scheme."""
    claims, rows, plots, shown = [], [], [], []
    for data in dict.fromkeys(d for d, _ in runs):
        of = {name: runs[data, name] for name in THEORY_SCHEMES}
        common = [constants_of(seed) for seed in zip(*of.values())]
        bounds = {m: [bound_of(run, c, rounds_of(run)) for run, c in zip(same, common)] for m, same in of.items()}
        error = {m: [last_loss(run) - c.least for run, c in zip(same, common)] for m, same in of.items()}
        over = {m: [b / e for b, e in zip(bounds[m], error[m])] for m in of}
        steep = {m: [max(steepness(run, c)) for run, c in zip(same, common)] for m, same in of.items()}
        left = {
            m: [1 - float(updates_of(run) @ progress_of(run, c)) for run, c in zip(same, common)]
            for m, same in of.items()
        }
        lost = {m: [last_loss(run) for run in same] for m, same in of.items()}
        by = {"training loss at the end": lost}
        claims += bound_claims(data, "(18) and (19)", steep, over, left, by, measured="error at the end")
        constants = [f"{mean([getattr(c, name) for c in common]):.3g}" for name in Constants._fields]
        for m, same in of.items():
            updates = mean([float(updates_of(run).mean()) for run in same])
            values = [f"{mean(v):.3g}" for v in (left[m], bounds[m], error[m])]
            rows.append((f"{data}, {m}", f"{updates:.2f}", *constants, *values, spread(lost[m])))
        plots.append(_plot(data, of, common))
        shown.append(f"{data}: bound {mean([v for m in of for v in over[m]]):.2g} times the measured error")
    columns = ("", "updates", "L", "mu", "delta", "delta_c", "F*", "A", "bound", "measured", "loss")
    table = Table(
        title="Constants, what a round leaves of the error (A), bound and error at the end, last training loss",
        columns=columns,
        rows=tuple(rows),
    )
    return Outcome(claims=tuple(claims), tables=(table,), plots=tuple(plots), ours="; ".join(shown) + ".")


class Constants(NamedTuple):
    """Of all schemes with one seed: L, mu, delta, delta_c and F*."""

    smooth: float
    mu: float
    delta: float
    delta_c: float
    least: float


def constants_of(runs: Sequence[Run]) -> Constants:
    """Of the runs of one seed. Gradients of a round are those at the model that it began with."""
    smooth = max(most(run, "smoothness") for run in runs)
    losses = [run.metrics["train_loss"].to_numpy() for run in runs]
    least = LOWEST * float(np.min(np.concatenate(losses)))
    curved = [np.min(np.array(squares(run)) / (2 * (loss[:-1] - least))) for run, loss in zip(runs, losses)]
    between, within = zip(*map(_dissimilarities, runs))
    return Constants(
        smooth=smooth,
        mu=float(np.clip(min(curved), LEAST_MU, smooth)),
        delta=float(np.clip(np.median(np.concatenate(between)), *RANGE)),
        delta_c=float(np.clip(np.median(np.concatenate(within)), *RANGE)),
        least=least,
    )


def _dissimilarities(run: Run) -> tuple[Floats, Floats]:
    """delta and delta_c of every cloud round: a mean of squares is the square of the mean and the mean squared distance to it."""
    names = ("gradient_norm", "mismatch2_cluster", "mismatch2_client")
    length, between, within = (run.metrics[name].drop_nulls().to_numpy() for name in names)
    clusters = length**2 + between
    return np.sqrt(clusters / length**2), np.sqrt(1 + within / clusters)


def rounds_of(run: Run) -> int:
    """T."""
    return int(run.metrics["cloud_round"][-1])


def _clusters(run: Run) -> tuple[Floats, Floats, Floats]:
    """G, s and N of the clusters, all (C,)."""
    assert run.topology is not None
    first = run.topology.sort("aggregator", "client")
    group, start = np.unique(first["aggregator"].to_numpy(), return_index=True)
    value, updates = (first[name].to_numpy()[start] for name in ("contribution", "cluster_updates"))
    size = np.array(run.clients["n_samples"], dtype=np.float64)[first["client"].to_numpy()]
    inside = (group[:, None] == first["aggregator"].to_numpy()) * size
    share = inside / inside.sum(axis=1, keepdims=True)
    return value / value.sum(), (share**2).sum(axis=1), updates


def updates_of(run: Run) -> Floats:
    """N (C,)."""
    return _clusters(run)[2]


def progress_of(run: Run, constants: Constants) -> Floats:
    """b (C,)."""
    weight, concentration, _ = _clusters(run)
    lr = float(run.scenario["training"]["lr"])
    return update_progress(
        weight=weight,
        concentration=concentration,
        lr=lr,
        smooth=constants.smooth,
        mu=constants.mu,
        delta=constants.delta,
        delta_c=constants.delta_c,
    )


def bound_of(run: Run, constants: Constants, rounds: int) -> float:
    """(17) after so many rounds."""
    first = float(run.metrics["train_loss"][0]) - constants.least
    return camu_bound(first, progress_of(run, constants), updates_of(run), rounds=rounds)


def steepness(run: Run, constants: Constants) -> list[float]:
    """What must be below 1, the most of all clusters: the learning rate over (18), and both conditions of (19)."""
    weight, concentration, _ = _clusters(run)
    lr, c = float(run.scenario["training"]["lr"]), constants
    limit, _ = rate_limits(
        weight=weight, concentration=concentration, delta=c.delta, delta_c=c.delta_c, smooth=c.smooth
    )
    share = c.delta * weight
    return [float(np.max(lr / limit)), float(np.max(lr / (limit * share))), float(share.max())]


def _plot(data: str, of: Runs, common: Sequence[Constants]) -> Plot:
    """Of the first seed of each scheme: the error, and its bound."""
    series = []
    for i, (m, same) in enumerate(of.items()):
        run, x = same[0], same[0].metrics["cloud_round"].to_numpy()
        error = run.metrics["train_loss"].to_numpy() - common[0].least
        limit = [error[0], *(bound_of(run, common[0], t) for t in range(1, len(x)))]
        at = tuple(float(t) for t in x)
        series += [
            Series(label=m, x=at, y=tuple(error.tolist()), colour=i),
            Series(label=f"{m}, bound", x=at, y=tuple(limit), colour=i, dashed=True),
        ]
    return Plot(
        key=f"theory-{data.lower()}",
        caption=f"{data}: the error of the training loss, and its bound (dashed); first seed.",
        x_label="cloud rounds",
        y_label="error of the training loss",
        series=tuple(series),
        log=True,
    )
