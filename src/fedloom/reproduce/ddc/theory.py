"""The bound of DDC, (13), beside runs: its constants as the runs have them, whether it covers them, and whether it ranks
clusterings as they do.

Rounds are single mini-batches, as the analysis counts them. L, sigma^2 and eps^2 + mean eps_n^2, which clusters do not change,
are the largest of all clusterings with the same seed: a run that has learnt more has larger ones, and its bound would be larger
for that. What is between clusters is its mean share in a run of its own. F* is put at 0, below which no loss is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.bounds import DdcBound, ddc_bound
from fedloom.record.runs import Run
from fedloom.reproduce.ddc.published import CLUSTERED
from fedloom.reproduce.ddc.setups import THEORY, THEORY_LR
from fedloom.reproduce.paper import Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.theory import bound_claims, last_loss, mean_square, most, squares
from fedloom.reproduce.verdicts import Values, mean, spread

POINTS = 40  # of a line


def judge_theory(runs: Runs) -> Outcome:
    """The bound of every clustering in both settings."""
    claims, rows, series, shown = [], [], [], []
    for setting, settings in THEORY.items():
        tau = settings["tau"]
        common = [common_of(seed) for seed in zip(*(runs[setting, m] for m in CLUSTERED))]
        bounds = {
            m: [bound_of(run, c, tau, rounds_of(run, tau)) for run, c in zip(runs[setting, m], common)]
            for m in CLUSTERED
        }
        measured = {m: [mean_square(run) for run in runs[setting, m]] for m in CLUSTERED}
        lost = {m: [last_loss(run) for run in runs[setting, m]] for m in CLUSTERED}
        totals = {m: [b.total for b in bounds[m]] for m in CLUSTERED}
        over = {m: [b / v for b, v in zip(totals[m], measured[m])] for m in CLUSTERED}
        steep = {m: [THEORY_LR / b.lr_max for b in bounds[m]] for m in CLUSTERED}
        by = {"mean squared gradient": measured, "training loss at the end": lost}
        claims += bound_claims(setting, "the limit of the analysis", steep, over, totals, by)
        for i, m in enumerate(CLUSTERED):
            rows.append(_row(f"{setting}, {m}", runs[setting, m], common, bounds[m], measured[m], lost[m]))
            if setting == next(iter(THEORY)):
                series += _lines(m, runs[setting, m], common, tau, i)
        shown.append(f"{setting}: bound {mean([v for m in CLUSTERED for v in over[m]]):,.0f} times the measured")
    columns = (
        "",
        "L",
        "sigma²",
        "eps²",
        "mean eps_n²",
        "B1",
        "B2",
        "B3",
        "B4",
        "B5",
        "B6",
        "bound",
        "measured",
        "loss",
    )
    table = Table(
        title="Constants and terms of (13), mean squared gradient and last training loss",
        columns=columns,
        rows=tuple(rows),
    )
    plot = Plot(
        key="theory",
        caption=f"{next(iter(THEORY))}: the bound (dashed) and the mean squared gradient so far against steps; means over seeds.",
        x_label="local steps",
        y_label="mean squared gradient",
        series=tuple(series),
        log=True,
    )
    return Outcome(claims=tuple(claims), tables=(table,), plots=(plot,), ours="; ".join(shown) + ".")


class Common(NamedTuple):
    """Of all clusterings with one seed: L, sigma^2 and eps^2 + mean eps_n^2, at most."""

    smoothness: float
    noise2: float
    apart2: float


def common_of(runs: Sequence[Run]) -> Common:
    """Of the runs of one seed."""
    smoothness, noise2 = (max(most(run, column) for run in runs) for column in ("smoothness", "noise2"))
    return Common(smoothness, noise2, max(float(np.max(np.sum(_apart2(run), axis=0))) for run in runs))


def _apart2(run: Run) -> NDArray[np.float64]:
    """(2, P): between clusters and inside them, in every cloud round."""
    names = ("mismatch2_cluster", "mismatch2_client")
    return np.stack([run.metrics[name].drop_nulls().to_numpy() for name in names])


def between(run: Run) -> float:
    """Mean share of what is between clusters."""
    of_clusters, inside = _apart2(run)
    return float(np.mean(of_clusters / (of_clusters + inside)))


def rounds_of(run: Run, tau: tuple[int, int]) -> int:
    """T, local steps of the run."""
    return int(run.metrics["cloud_round"][-1]) * tau[1]


def bound_of(run: Run, common: Common, tau: tuple[int, int], rounds: int) -> DdcBound:
    """(13) with what was measured in a run, for its first so many rounds."""
    assert run.topology is not None
    first = run.topology.filter(run.topology["cloud_round"] == run.topology["cloud_round"].min()).sort("client")
    group = first["aggregator"].to_numpy()
    cover = np.unique(group)[:, None] == group
    share = between(run)
    return ddc_bound(
        gap=float(run.metrics["train_loss"][0]),
        lr=THEORY_LR,
        smoothness=common.smoothness,
        tau1=tau[0],
        tau2=tau[1],
        rounds=rounds,
        eps2=share * common.apart2,
        eps2_local=np.full(len(cover), (1 - share) * common.apart2),
        sigma2=common.noise2,
        cover=cover,
        n_samples=np.array(run.clients["n_samples"])[first["client"].to_numpy()],
    )


def _row(
    name: str,
    runs: Sequence[Run],
    common: Sequence[Common],
    bounds: Sequence[DdcBound],
    measured: Values,
    lost: Values,
) -> tuple[str, ...]:
    constants = [[c.smoothness for c in common], [c.noise2 for c in common], [c.apart2 for c in common]]
    terms = [[getattr(b, term) for b in bounds] for term in ("b1", "b2", "b3", "b4", "b5", "b6", "total")]
    shares = [between(run) for run in runs]
    return (name, *(f"{mean(list(values)):.3g}" for values in (*constants, shares, *terms, measured)), spread(lost))


def _lines(
    method: str, runs: Sequence[Run], common: Sequence[Common], tau: tuple[int, int], colour: int
) -> list[Series]:
    """What is measured, and the bound for the same number of steps."""
    mean_of_seeds = np.mean([squares(run) for run in runs], axis=0)
    done = np.arange(1, len(mean_of_seeds) + 1)
    at = np.unique(np.geomspace(1, len(done), POINTS).round().astype(int)) - 1
    so_far = np.cumsum(mean_of_seeds) / done
    limits = [
        float(np.mean([bound_of(run, c, tau, int(done[i]) * tau[1]).total for run, c in zip(runs, common)])) for i in at
    ]
    x = tuple(float(done[i] * tau[1]) for i in at)
    return [
        Series(label=method, x=x, y=tuple(so_far[at].tolist()), colour=colour),
        Series(label=f"{method}, bound", x=x, y=tuple(limits), colour=colour, dashed=True),
    ]
