"""What the runs of DDC say: accuracies, clusters, metres, and joules and seconds on the air."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.bounds import ddc_energy
from fedloom.bounds.ddc_energy import upload_j
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.published import CLUSTERED, FEDAVG, ROUNDS, TAU
from fedloom.reproduce.ddc.setups import BAND_HZ, POWER_W
from fedloom.reproduce.paper import Runs
from fedloom.reproduce.verdicts import Value, Verdict, ratios

Floats = NDArray[np.float64]
Values = list[Value]
HEADS = "edge_accuracy"  # mean accuracy of the models of heads on the whole test set, before they are averaged
DEVICES = "device_accuracy"  # the same of the last models of devices


def final(runs: Sequence[Run], column: str = "accuracy", rounds: int = ROUNDS) -> Values:
    """Accuracy in percent at the end, or at the last evaluation within so many local rounds, seed by seed; None where it was not
    measured."""
    found: Values = []
    for run in runs:
        within = run.metrics.filter(run.metrics["cloud_round"] * TAU[1] <= rounds)
        found.append(100 * float(within[column][-1]) if column in within.columns else None)
    return found


def over_all(runs: Sequence[Run]) -> Values:
    """Mean accuracy in percent over all evaluations of 200 local rounds but the first model's, seed by seed."""
    return [
        100
        * float(np.mean(run.metrics.filter(run.metrics["cloud_round"] * TAU[1] <= ROUNDS)["accuracy"].to_numpy()[1:]))
        for run in runs
    ]


def at_round(runs: Sequence[Run], t: int, tau2: int) -> Values:
    """Accuracy in percent after t rounds, of which tau2 make a cloud round, seed by seed."""
    return [100 * float(run.metrics["accuracy"][run.metrics["cloud_round"].to_list().index(t // tau2)]) for run in runs]


def note(runs: Sequence[Run], column: str) -> Values:
    """What the grouping noted, seed by seed; None where it did not."""
    return [float(run.metrics[column].drop_nulls()[-1]) if column in run.metrics.columns else None for run in runs]


def label_distances(runs: Sequence[Run]) -> Values:
    """Mean total variation between the labels of a cluster and all labels, seed by seed."""
    return [float((run.summary or {})["topologies"][0]["label_distance"]["mean"]) for run in runs]


def lengths(run: Run) -> tuple[Floats, Floats, Floats]:
    """Metres: from members (without heads) to their heads, from heads to the server, and from everybody to the server."""
    assert run.topology is not None
    first = run.topology.filter(run.topology["cloud_round"] == run.topology["cloud_round"].min()).sort("client")
    position = first.select("x_m", "y_m").to_numpy()
    to_server = np.linalg.norm(position - np.array(run.cells["server_m"][:2]), axis=1)
    if first["kind"][0] != "head":
        return np.zeros(0), np.zeros(0), to_server
    head, device = first["host"].to_numpy(), np.arange(len(position))
    member = head != device
    return np.linalg.norm(position - position[head], axis=1)[member], to_server[np.unique(head)], to_server


def joules(runs: Sequence[Run], reading: str) -> Values:
    """Joules of 200 rounds with the clusters of these runs, seed by seed."""
    found: Values = []
    for run in runs:
        member_m, head_m, everybody_m = lengths(run)
        settings: dict[str, Any] = {"rounds": ROUNDS, "n_devices": len(everybody_m), "reading": reading}
        energy = ddc_energy(member_m, head_m, tau1=TAU[0], tau2=TAU[1], **settings)
        found.append(energy.total_j)
    return found


def flat_joules(runs: Sequence[Run], reading: str, period: int) -> Values:
    """Joules of 200 rounds of FedAvg on the layouts of these runs, seed by seed. The band is shared by all devices."""
    found: Values = []
    for run in runs:
        _, _, everybody_m = lengths(run)
        settings: dict[str, Any] = {"rounds": ROUNDS, "n_devices": len(everybody_m), "reading": reading}
        found.append(ddc_energy([], everybody_m, tau1=period, tau2=period, **settings).total_j)
    return found


def seconds(runs: Sequence[Run], reading: str, period: int | None = None) -> Values:
    """Simulated seconds on the air in 200 rounds, seed by seed: of the slowest member in every round and of the slowest head in
    every second one. period: as FedAvg instead, everybody to the server in so many rounds."""
    found: Values = []
    for run in runs:
        member_m, head_m, everybody_m = lengths(run)
        band_hz = BAND_HZ / (1 if reading == "literal" else len(everybody_m))

        def slowest_s(metres: Floats, band_hz: float = band_hz) -> float:
            joule = upload_j(metres, power_w=POWER_W, bandwidth_hz=band_hz)
            return float(joule.max(initial=0.0)) / POWER_W

        if period is not None:
            found.append(ROUNDS // period * slowest_s(everybody_m))
        else:
            every = TAU[1] if reading == "per_global" else TAU[0]
            found.append(ROUNDS // every * slowest_s(member_m) + ROUNDS // TAU[1] * slowest_s(head_m))
    return found


def mean_member_m(runs: Sequence[Run]) -> Values:
    """Mean metres from a member to its head, seed by seed."""
    return [float(member_m.mean()) if len(member_m := lengths(run)[0]) else None for run in runs]


def n_heads(runs: Sequence[Run]) -> Values:
    """Number of heads, seed by seed."""
    return [float(len(lengths(run)[1])) for run in runs]


def is_less(a: Sequence[Value], b: Sequence[Value]) -> Verdict:
    """Is a below b? Judged and shown as the ratio a / b."""
    return verdicts.at_most(ratios(b, a), 1 - 1e-9)


def joules_of(name: str, runs: Runs, data: str, reading: str) -> Values:
    """Of a method by its name there: with clusters, or as FedAvg."""
    if name in CLUSTERED:
        return joules(runs[data, name], reading)
    return flat_joules(runs[data, name], reading, period=1 if name == FEDAVG else TAU[1])


def seconds_of(name: str, runs: Runs, data: str, reading: str) -> Values:
    """Of a method by its name there: with clusters, or as FedAvg."""
    period = None if name in CLUSTERED else 1 if name == FEDAVG else TAU[1]
    return seconds(runs[data, name], reading, period)
