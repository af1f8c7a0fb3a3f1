"""Watching one run: a progress bar, a live panel in the terminal, TensorBoard."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.cli.show import amount, figures, notes, progress, seconds

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from fedloom.simulator import Simulation

Measures = dict[str, float | int]
OnRound = Callable[[int, Measures | None], None]
BLOCKS = "▁▂▃▄▅▆▇█"
MOST_CLUSTERS = 12  # lines of the panel
COUNTS = ("cloud_round", "edge_round", "local_steps")  # axes rather than measures


@contextmanager
def watching(
    simulation: "Simulation", name: str, *, live: bool = False, quiet: bool = False, tensorboard: Path | None = None
) -> Iterator[OnRound]:
    """What to call after every cloud round, with the number of rounds done and what was measured, if anything."""
    with ExitStack() as stack:
        watchers: list[OnRound] = []
        if tensorboard is not None:
            watchers.append(stack.enter_context(_logging(simulation, tensorboard)))
        if live and not quiet:
            watchers.append(stack.enter_context(_panel(simulation, name)))
        else:
            watchers.append(stack.enter_context(_bar(simulation, name, quiet)))

        def on_round(done: int, measures: Measures | None) -> None:
            for watcher in watchers:
                watcher(done, measures)

        yield on_round


@contextmanager
def _bar(simulation: "Simulation", name: str, quiet: bool) -> Iterator[OnRound]:
    with progress(quiet) as bar:
        task = bar.add_task(name, total=simulation.scenario.training.cloud_rounds, figures="")

        def on_round(done: int, measures: Measures | None) -> None:
            shown: dict[str, Any] = {} if measures is None else {"figures": figures(measures)}
            bar.update(task, completed=done, **shown)

        yield on_round


@contextmanager
def _panel(simulation: "Simulation", name: str) -> Iterator[OnRound]:
    from rich.live import Live

    started = time.monotonic()

    def now(done: int) -> "Group":
        return panel(simulation, name, done, time.monotonic() - started)

    with Live(now(0), console=notes, refresh_per_second=4) as view:
        yield lambda done, measures: view.update(now(done))


def panel(simulation: "Simulation", name: str, done: int, wall_s: float) -> "Group":
    """How good, after how long, at what cost, and what every cluster did in cloud round `done`."""
    from rich.console import Group
    from rich.markup import escape
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    total = simulation.scenario.training.cloud_rounds
    measures = simulation.measures
    head = Table.grid(padding=(0, 2))
    left = f", about {seconds(wall_s / done * (total - done))} left" if 0 < done < total else ""
    head.add_row("cloud round", ProgressBar(total=total, completed=done, width=30), f"{done} of {total}")
    head.add_row("wall time", Text(f"{seconds(wall_s)}{left}"))
    if measures:
        last = measures[-1]
        measure = next((m for m in ("accuracy", "rmse") if m in last), None)
        if measure is not None:
            values = [float(m[measure]) for m in measures if measure in m]
            best = max(values) if measure == "accuracy" else min(values)
            form = ".1%" if measure == "accuracy" else ".4g"
            head.add_row(measure, Text(sparkline(values, 30), style="cyan"), f"{values[-1]:{form}}, best {best:{form}}")
        head.add_row("clock", f"{seconds(last['time_s'])} simulated")
        head.add_row("energy", amount(last["energy_j"], "J"))
        head.add_row("traffic", amount(last["bytes"], "B"))
        rejected = f", {last['rejected']:,} rejected" if "rejected" in last else ""
        head.add_row("updates", f"{last['updates']:,} merged, {last['late']:,} late{rejected}")
    parts: list[Any] = [head]
    rows = cluster_rows(simulation, done)
    if rows:
        parts += [Text(), _clusters(rows)]
    return Group(Panel(Group(*parts), title=escape(name), title_align="left", expand=False))


def _clusters(rows: Sequence[dict[str, Any]]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, title in enumerate(("cluster", "devices", "updates", "late", "time at work", "")):
        table.add_column(title, justify="left" if i in (0, 4) else "right")
    for row in rows[:MOST_CLUSTERS]:
        bar = ProgressBar(total=1.0, completed=row["busy"], width=16)
        table.add_row(
            row["name"], str(row["devices"]), str(row["updates"]), str(row["late"]), bar, f"{row['busy']:.0%}"
        )
    if len(rows) > MOST_CLUSTERS:
        table.add_row(f"and {len(rows) - MOST_CLUSTERS} more")
    return table


def cluster_rows(simulation: "Simulation", cloud_round: int) -> list[dict[str, Any]]:
    """Of every cluster in `cloud_round`: name, devices sent to work, their updates, those late, and the share of its
    devices' time, from the first start to the last arrival of all clusters, that they computed or were on the air. Devices
    that report to several aggregators are a row of their own, such as "edges 0 + 1"."""
    import numpy as np

    from fedloom.record.groupings import group_name

    sent = simulation.federation.timeline.of_round(cloud_round)
    if sent is None:
        return []
    aggregator, client, late = sent["aggregator"], sent["client"], sent["late"]
    start, worked = sent["start_s"], sent["fetch_s"] + sent["compute_s"] + sent["upload_s"]
    arrival = np.where(np.isnan(sent["arrival_s"]), simulation.federation.clock.now_s, sent["arrival_s"])  # under way
    arrival = np.where(np.isfinite(arrival), arrival, start + worked)  # who fails never arrives
    span = max(float(arrival.max() - start.min()), 1e-12)
    topology = simulation.places[-1].topology if simulation.places else None
    names = {}
    if topology is not None:
        hosts = enumerate(topology.host.tolist())
        names = {n: "cloud" if topology.kind == "cloud" else f"{topology.kind} {host}" for n, host in hosts}

    def group(k: int, n: int) -> tuple[int, ...]:
        """Of client k that was sent from aggregator n: all it reports to, if it is still there."""
        if topology is None or not 0 <= n < topology.n_aggregators or not topology.cover[n, k]:
            return (n,)
        return tuple(np.flatnonzero(topology.cover[:, k]).tolist())

    groups = [group(k, n) for k, n in zip(client.tolist(), aggregator.tolist())]
    rows = []
    for one in sorted(set(groups)):
        mine = np.array([g == one for g in groups])
        devices = len(np.unique(client[mine]))
        busy = float((arrival - start)[mine].sum() / (devices * span))
        rows.append(
            {
                "name": group_name(one, names),
                "devices": devices,
                "updates": int(mine.sum()),
                "late": int(late[mine].sum()),
                "busy": min(busy, 1.0),
            }
        )
    return rows


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as blocks of different heights; what is not finite is a blank.

    >>> sparkline([0.0, 0.5, 1.0], 10)
    '▁▄█'
    """
    import math

    shown = list(values)[-width:]
    finite = [v for v in shown if math.isfinite(v)]
    if not finite:
        return " " * len(shown)
    low, high = min(finite), max(finite)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[int((v - low) * scale)] if math.isfinite(v) else " " for v in shown)


@contextmanager
def _logging(simulation: "Simulation", folder: Path) -> Iterator[OnRound]:
    """Measures as scalars against local steps; TensorBoard's "relative" time is the simulated one."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "--tensorboard needs the package tensorboard: pip install 'fedloom[tensorboard]', or leave the option out"
        ) from None
    writer = SummaryWriter(str(folder))
    n_logged = 0

    def on_round(done: int, measures: Measures | None) -> None:
        nonlocal n_logged
        for line in simulation.measures[n_logged:]:
            for key, value in line.items():
                if key not in COUNTS:
                    tag = f"cost/{key}" if key in ("time_s", "energy_j", "bytes") else key
                    writer.add_scalar(tag, value, int(line["local_steps"]), walltime=float(line["time_s"]))
        n_logged = len(simulation.measures)

    try:
        yield on_round
    finally:
        writer.close()
