"""The bound of LTC, (10), beside the runs of Tables 6, 8 and 9: its constants as the runs have them, whether it covers them, and
whether it ranks the clusterings as they do.

L, G, eta, eps_ic and eps_cg are the largest of a run; eta is the root of the mean squared noise of mini-batches. The limit of the
learning rate that is looked at is 1 / (L (h_max + 5)), the widest of three. Gradients grow while a model learns its first, and so
do these constants: where the order of bounds is that of gradients, this may be all there is to it.
"""

import math

from fedloom.bounds import LtcConstants, gradient_bound, loss_gap
from fedloom.record.runs import Run
from fedloom.reproduce.ltc.measures import rows_of
from fedloom.reproduce.ltc.setups import METHODS
from fedloom.reproduce.paper import Outcome, Plot, Runs, Series, Table
from fedloom.reproduce.theory import bound_claims, last_loss, mean_square, most, squares
from fedloom.reproduce.verdicts import mean, spread


def judge_theory(runs: Runs) -> Outcome:
    """The bound of every clustering."""
    claims, rows, shown = [], [], []
    plots: list[Plot] = []
    for data in rows_of(runs):
        bounds = {m: [bound_of(run) for run in runs[data, m]] for m in METHODS}
        measured = {m: [mean_square(run) for run in runs[data, m]] for m in METHODS}
        lost = {m: [last_loss(run) for run in runs[data, m]] for m in METHODS}
        over = {m: [b / v for b, v in zip(bounds[m], measured[m])] for m in METHODS}
        steep = {m: [_of_limit(run) for run in runs[data, m]] for m in METHODS}
        by = {"mean squared gradient": measured, "training loss at the end": lost}
        claims += bound_claims(data, "the widest limit of the analysis", steep, over, bounds, by)
        for m in METHODS:
            found = [constants_of(run) for run in runs[data, m]]
            names = ("smoothness", "g_max", "eta", "eps_ic", "eps_cg")
            values = [mean([getattr(c, name) for c in found]) for name in names]
            more = [mean(bounds[m]), mean(measured[m])]
            rows.append((f"{data}, {m}", *(f"{v:.3g}" for v in (*values, *more)), spread(lost[m])))
        plots.append(_plot(data, runs))
        shown.append(f"{data}: bound {mean([v for m in METHODS for v in over[m]]):,.0f} times the measured")
    columns = ("", "L", "G", "eta", "eps_ic", "eps_cg", "bound (10)", "measured", "loss")
    table = Table(
        title="Constants, bound, mean squared gradient, last training loss", columns=columns, rows=tuple(rows)
    )
    return Outcome(claims=tuple(claims), tables=(table,), plots=tuple(plots), ours="; ".join(shown) + ".")


def constants_of(run: Run) -> LtcConstants:
    """As they were at most in a run."""
    return LtcConstants(
        lr=float(run.scenario["training"]["lr"]),
        smoothness=most(run, "smoothness"),
        g_max=most(run, "gradient_max"),
        eta=math.sqrt(most(run, "noise2")),
        eps_ic=most(run, "mismatch_client_max"),
        eps_cg=most(run, "mismatch_cluster_max"),
    )


def bound_of(run: Run) -> float:
    """(10) with them."""
    constants = constants_of(run)
    masses = constants.lr * run.metrics["step_mass"].drop_nulls().to_numpy()
    losses = run.metrics["train_loss"].to_numpy()
    return gradient_bound(constants, losses, masses, int(most(run, "rounds_max")), _h_max(run))


def _of_limit(run: Run) -> float:
    """The learning rate over 1 / (L (h_max + 5))."""
    constants = constants_of(run)
    return constants.lr * constants.smoothness * (_h_max(run) + 5)


def _h_max(run: Run) -> int:
    """Most local steps of an edge round: an epoch of the client with the most samples."""
    most_samples, batch_size = int(max(run.clients["n_samples"])), int(run.scenario["training"]["batch_size"])
    return -(-most_samples // batch_size)


def _plot(data: str, runs: Runs) -> Plot:
    """Of the first seed of each clustering: the loss-gap term, which falls, and the squared gradient of every cloud round."""
    series = []
    for i, m in enumerate(METHODS):
        run = runs[data, m][0]
        square, masses = squares(run), run.metrics["step_mass"].drop_nulls().to_numpy()
        lr, losses = constants_of(run).lr, run.metrics["train_loss"].to_numpy()
        floor = bound_of(run) - loss_gap(losses, lr * masses)
        limits = [floor + loss_gap(losses[: p + 2], lr * masses[: p + 1]) for p in range(len(masses))]
        x = tuple(float(p + 1) for p in range(len(square)))
        series += [
            Series(label=m, x=x, y=tuple(square), colour=i),
            Series(label=f"{m}, bound", x=x, y=tuple(float(v) for v in limits), colour=i, dashed=True),
        ]
    return Plot(
        key=f"theory-{data}".replace(",", "").replace(" ", "-"),
        caption=f"{data}: the bound on the mean squared gradient (dashed) and the squared gradient of cloud rounds; first seed.",
        x_label="cloud rounds",
        y_label="squared gradient",
        series=tuple(series),
        log=True,
    )
