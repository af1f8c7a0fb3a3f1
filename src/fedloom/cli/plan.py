"""`fedloom plan`: a fleet in a table, a plan of who reports to whom, and what it will take."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from fedloom.cli.plan_output import say
from fedloom.cli.plan_rivals import K_MEANS
from fedloom.cli.show import progress
from fedloom.gate.names import folder_name

WORK_OPTIONS = r"(up|down|rule)[.=]|feedback="  # of methods, that change what is sent and computed
STAGES = ("reading", "choosing heads and clusters", "comparing", "drawing")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    figure: str | None
    method: str | None
    server: str | None
    gradients: Path | None
    model_bytes: int | None
    model: str | None
    local_steps: int
    edge_rounds: int
    alpha: float | None
    capacity: int | None
    candidates: int | None
    exact: bool
    bandwidth_hz: float
    sharing: str
    server_sharing: str | None
    compute_w: float
    leave_out: bool
    keep: Path | None
    moves: float
    rotate: bool
    seed: int

    def checked(self) -> "Asked":
        """With a figure or a method, one of the two."""
        from fedloom.planning.objectives import OBJECTIVES

        of_ddc = self.gradients is not None or self.alpha is not None or self.candidates is not None or self.exact
        if self.figure is not None and self.method is not None:
            raise ValueError(
                "--for searches the best plan for a figure and --method plans as a method does; leave out one of them"
            )
        if self.figure is not None and self.figure not in OBJECTIVES:
            raise ValueError(f"--for must be one of {', '.join(OBJECTIVES)}; got {self.figure!r}")
        if self.figure is not None and of_ddc:
            raise ValueError("--gradients, --alpha, --candidates and --exact are for --method ddc; leave out --for")
        if self.keep is not None and (self.method is not None or of_ddc):
            raise ValueError("--keep is for --for: methods plan as they do, whatever was before")
        if self.figure is None and self.method is None:
            return replace(self, method="ddc") if of_ddc else replace(self, figure="seconds")
        return self


def plan_fleet(file: Path, options: Asked, folder: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Read, plan, compare, write, say."""
    asked = options.checked()
    with progress(quiet) as bar:
        task = bar.add_task(STAGES[0], total=len(STAGES), figures="")

        def stage(name: str) -> None:
            bar.update(task, description=name, completed=STAGES.index(name), figures="")

        def watch(figures: str) -> None:
            bar.update(task, figures=figures)

        from fedloom.cli.plan_rivals import compared
        from fedloom.record.plan_files import write_plan
        from fedloom.record.plan_tables import summary

        where = folder or Path("plans") / folder_name(f"{file.stem}-{asked.figure or _name(asked.method)}")
        if where.exists() and not where.is_dir():
            raise ValueError(f"{where} is a file; --out is the folder for the plan")
        size, model_words, fleet = _read(file, asked)
        work = _work(size, asked.local_steps, asked.edge_rounds)
        stage(STAGES[1])
        if asked.method is not None:
            work = work.by(_without_work(asked.method)[1])
        made = (_optimised if asked.figure is not None else _by_method)(fleet, asked, work, watch)
        model_words = "; ".join(filter(None, [model_words, _coded_words(work)]))
        _refuse_endless(fleet, made.plan, work)
        stage(STAGES[2])
        said = _assumptions(fleet, asked, model_words, made)
        planned = compared(file.stem, fleet, made, work, asked.seed, said, asked.exact, asked.rotate, watch)
        stage(STAGES[3])
        files = write_plan(planned, where)
        bar.update(task, description="planned", completed=len(STAGES))
    if as_json:
        typer.echo(json.dumps(summary(planned) | {"files": {name: str(path) for name, path in files.items()}}))
    else:
        say(planned, files, quiet)


def _name(method: str | None) -> str:
    return (method or "").partition(":")[0]


class _Fleet(NamedTuple):
    """The table, the devices in it, whether their gradients are known, and who was left out, in words."""

    table: Any
    devices: Any
    with_gradients: bool
    without: tuple[str, ...] = ()


def _read(file: Path, asked: Asked) -> tuple[int, str, _Fleet]:
    """Bytes of a model, where that comes from, and the fleet; a device that hears nobody is refused, or left out."""
    from fedloom.fleet.gradients import read_gradients
    from fedloom.fleet.table import read_fleet
    from fedloom.planning.link_budget import DAY_S, lonely_devices
    from fedloom.record import plan_words

    table = read_fleet(file)
    rows = None if asked.gradients is None else read_gradients(asked.gradients, table.n_devices)
    if asked.capacity is not None and table.capacity is not None:
        raise ValueError(f"{file} has a column capacity already; leave out --capacity or the column")
    size, model_words = _model_bytes(asked.model_bytes, asked.model, len(table.labels))
    without: list[str] = []
    while True:
        devices = _devices(table, asked, rows)
        lonely = lonely_devices(devices, 8.0 * size, DAY_S)
        if not lonely:
            break
        if not asked.leave_out or len(lonely) == devices.n:
            raise ValueError(plan_words.lonely_words(table.ids, lonely, devices, size))
        without += plan_words.left_out_words(table.ids, lonely)
        keep = ~np.isin(np.arange(devices.n), [link.device for link in lonely])
        table, rows = table.only(keep), None if rows is None else rows[keep]
    return size, model_words, _Fleet(table, devices, rows is not None, tuple(without))


def _devices(table: Any, asked: Asked, rows: Any) -> Any:
    from fedloom.planning import devices_of

    middle = np.asarray(table.position_m.mean(axis=0))
    place = middle if asked.server is None else table.to_metres(_point(asked.server))
    return devices_of(
        table,
        place,
        capacity=asked.capacity,
        gradients=rows,
        bandwidth_hz=asked.bandwidth_hz,
        sharing=asked.sharing,
        server_sharing=asked.server_sharing,
        compute_w=asked.compute_w,
    )


def _work(model_bytes: int, local_steps: int, edge_rounds: int) -> Any:
    from fedloom.planning import Work

    return Work(model_bytes=model_bytes, local_steps=local_steps, edge_rounds=edge_rounds)


class Made(NamedTuple):
    """The plan, by which method (own: it goes by the fleet's capacities and candidates), the plans of k-means, what was asked
    for (None: a method), the best plan for single numbers of clusters, and of which of these k-means found it. run_as: the method
    that a run of the plan has. kept: what is left of an earlier plan, in words."""

    plan: Any
    method: Any
    own: bool
    sweep: Any
    objective: Any = None
    by_number: Any = ()
    by_k_means: frozenset[int] = frozenset()
    run_as: str = "geographic"
    kept: tuple[str, ...] = ()


def _optimised(fleet: _Fleet, asked: Asked, work: Any, watch: Callable[[str], None]) -> Made:
    """The best plan for what is asked for, near an earlier one if that is to be kept."""
    from fedloom._random import stream
    from fedloom.planning import Prices, can_stay, kept_plan, optimise, predict, topology_of
    from fedloom.simulator import make_method

    devices, words = fleet.devices, tuple[str, ...]()
    prices = Prices(devices=devices, work=work)
    old = None if asked.keep is None else _kept(asked.keep, fleet.table)
    found = optimise(prices, asked.figure or "", stream(asked.seed, "plan"), watch)
    if old is not None:
        watch("as much as asked for of the earlier plan")
        best = kept_plan(prices, found, old, round(asked.moves * devices.n), stream(asked.seed, "keep"))
        found = replace(found, best=best, by_number=[])
        words = _kept_words(old, can_stay(prices, old), best.head)
    method = make_method("geographic").with_(name=f"for {asked.figure}")
    plan = predict(devices, method, topology_of(found.best.head, devices), work)
    by_number = tuple(g.figures for g in found.by_number)
    return Made(plan, method, True, found.sweep, found.objective, by_number, found.by_k_means, kept=words)


def _kept(file: Path, table: Any) -> Any:
    """(K,) the head of each device in an earlier plan; -1 if it was not there, had none, or its head is gone."""
    from fedloom.deployment.plans import read_plan

    planned = read_plan(file)
    number = {name: k for k, name in enumerate(table.ids)}
    before = dict(zip(planned.ids, planned.clusters.head))
    heads = [before.get(name, -1) for name in table.ids]
    return np.array([number.get(planned.ids[head], -1) if head >= 0 else -1 for head in heads], dtype=np.int64)


def _kept_words(old: Any, stays: Any, head: Any) -> tuple[str, ...]:
    """How many keep their heads of an earlier plan, old (K,), and how many of them cannot."""
    before = int((old >= 0).sum())
    cannot = before - int((stays >= 0).sum())
    why = f"; {cannot} cannot: their heads may lead no more, or have room for fewer" if cannot else ""
    return (f"{int(((old >= 0) & (head == old)).sum())} of {before} devices keep the head of the earlier plan{why}",)


def _by_method(fleet: _Fleet, asked: Asked, work: Any, watch: Callable[[str], None]) -> Made:
    """The plan as a method has it."""
    from fedloom._random import stream
    from fedloom.planning import Prices, k_means_sweep, make_plan, predict, topology_of

    devices, seed = fleet.devices, asked.seed
    chosen, own = _method(asked, devices, lambda k, objective: watch(f"{k} heads, objective {objective:.4f}"))
    sweep = k_means_sweep(
        Prices(devices=devices, work=work), stream(seed, "plan"), lambda k: watch(f"k-means, {k} clusters")
    )
    run_as = _run_as(asked.method or "")
    if chosen.name == K_MEANS:
        best = min(sweep, key=lambda g: (g.figures.seconds, g.figures.joules))
        plan = predict(devices, chosen, topology_of(best.head, devices), work)
    else:
        plan = make_plan(devices, chosen, work, stream(seed, "plan"))
    return Made(plan, chosen, own, sweep, run_as=run_as)


def _refuse_endless(fleet: _Fleet, plan: Any, work: Any) -> None:
    """Refuse a plan if one of its links never ends."""
    from fedloom.planning import weak_links
    from fedloom.planning.link_budget import DAY_S
    from fedloom.record import plan_words

    largest = max(work.up_bytes, work.down_bytes)
    if weak := weak_links(fleet.devices, plan, 8.0 * largest, DAY_S):
        raise ValueError(plan_words.refusal_words(fleet.table.ids, weak, plan, largest))


def _method(asked: Asked, devices: Any, watch: Callable[[int, float], None]) -> tuple[Any, bool]:
    """The method, and whether it goes by the fleet's capacities and candidates."""
    text, working = _without_work(asked.method or "")
    chosen, own = _by_name(replace(asked, method=text), devices, watch)
    return chosen.with_(coding=working.coding, rule=working.local.rule), own


def _without_work(text: str) -> tuple[str, Any]:
    """A method by name without the options that change what is sent and computed, and one with them: its coding and the rule of
    its clients."""
    from fedloom.simulator import make_method

    name, *given = text.split(":")
    ours = [option for option in given if re.match(WORK_OPTIONS, option)]
    working = make_method(":".join(["geographic" if name == K_MEANS else name, *ours]))
    return ":".join([name, *(option for option in given if option not in ours)]), working


def _with_limits(text: str) -> str:
    """CAMU that keeps to what there is unless its options say no: a real radio has its power, and all joules count."""
    said = {option.partition("=")[0] for option in text.split(":")}
    return ":".join([text, *(f"{option}=true" for option in ("own_power", "link_energy") if option not in said)])


def _run_as(text: str) -> str:
    """The method of a run whose clusters are those of the plan of a method: that itself if it is no grouping of ours, with what
    it sends and computes."""
    name, *given = text.split(":")
    if name == K_MEANS:
        name = "geographic"
    if name in ("geographic", "ddc"):
        given = [option for option in given if re.match(WORK_OPTIONS, option)]
    return ":".join([name, *given]) if name != "camu" else _with_limits(text)


def _by_name(asked: Asked, devices: Any, watch: Callable[[int, float], None]) -> tuple[Any, bool]:
    from fedloom.methods import ddc
    from fedloom.methods.ddc import heads_for
    from fedloom.planning import heads_by_data_and_distance, heads_in_the_middle
    from fedloom.planning.head_search import DATA_WEIGHT
    from fedloom.simulator import make_method

    text, alpha, candidates, exact = asked.method or "", asked.alpha, asked.candidates, asked.exact
    name, _, options = text.partition(":")
    if name == K_MEANS and options:
        raise ValueError(f"k-means in a plan tries all numbers of clusters and has no options; got {options!r}")
    if name == "camu":
        text = _with_limits(text)
    chosen = make_method("geographic" if name == K_MEANS else text)
    if name == "ddc":
        if options:
            raise ValueError(
                f"options of ddc in a plan are --alpha, --capacity, --candidates and --exact; got {options!r}"
            )
        group = heads_by_data_and_distance(devices, alpha=alpha, n_candidates=candidates, exact=exact, watch=watch)
        return ddc.method(alpha=DATA_WEIGHT if alpha is None else alpha).with_(group=group), True
    given = {"--alpha": alpha is not None, "--candidates": candidates is not None, "--exact": exact}
    if any(given.values()):
        raise ValueError(
            f"{', '.join(o for o, there in given.items() if there)} is for method ddc, and has no effect on {name}"
        )
    if name == K_MEANS:
        return chosen.with_(name=K_MEANS), True
    if name == "geographic" and not options:
        n_clusters = heads_for(devices.n, None, int(devices.capacity[devices.candidate].max()))
        return chosen.with_(group=heads_in_the_middle(devices, n_clusters)), True
    return chosen, False


def _coded_words(work: Any) -> str:
    from fedloom.record.plan_words import si

    if work.coded_bytes is None:
        return ""
    return f"of a model {si(work.up_bytes, 'B')} go up and {si(work.down_bytes, 'B')} down, coded, in all plans"


def _point(text: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"--server must be x,y in metres or latitude,longitude, as the table is; got {text!r}"
        ) from None
    if not (abs(first) < float("inf") and abs(second) < float("inf")):
        raise ValueError(f"--server must be finite, got {text!r}")
    return first, second


def _model_bytes(n_bytes: int | None, name: str | None, n_classes: int) -> tuple[int, str]:
    """Size of a model on air, and where it comes from."""
    if n_bytes is not None and name is not None:
        raise ValueError("--model and --model-bytes both say how large a model is; leave out one of them")
    if n_bytes is not None:
        return n_bytes, ""
    if name is None:
        return 1_000_000, "models have 1 MB (--model-bytes or --model)"
    from fedloom.training import networks, rows

    outputs = n_classes or 10
    shape = (3, 32, 32) if name in ("vgg", "squeezenet", "resnet18") else (1, 28, 28)
    found = 4 * rows.n_values(networks.network(name, shape, outputs, 0))
    return (
        found,
        f"models have {found:,} bytes, as {name} for inputs of {'x'.join(map(str, shape))} and {outputs} classes has",
    )


def _assumptions(fleet: _Fleet, asked: Asked, model_words: str, made: Made) -> list[str]:
    from fedloom.record.plan_words import bands_words

    said, method, table = [], made.method, fleet.table
    if asked.server is None:
        said.append("the server stands in the middle of the fleet, the mean of all positions (--server)")
    computing = (
        f"computing takes {asked.compute_w:g} W" if asked.compute_w else "nor is that of computing (--compute-w)"
    )
    said.append(
        f"links: Shannon rate in {asked.bandwidth_hz / 1e6:g} MHz (--bandwidth-hz) over a path loss of 128.1 + 37.6 log10(km) "
        f"dB; the server sends at 1 W and its energy is not counted; {computing}"
    )
    said.append(bands_words(fleet.devices.air))
    if model_words:
        said.append(model_words)
    said += made.kept
    unused = [c for c, value in (("capacity", table.capacity), ("candidate", table.candidate)) if value is not None]
    if unused and not made.own:
        said.append(f"{method.name} takes no account of {' and '.join(unused)}")
    if method.edge.box_s is not None:
        said.append(
            f"a cloud round of {method.name} is a time box of {method.edge.box_s:g} s: clusters run the edge rounds that fit, "
            "more or fewer than the plans it is compared with; see clusters.csv"
        )
    if method.allots_rounds:
        said.append(
            f"{method.name} decides itself how many edge rounds each cluster runs; --edge-rounds is for the others"
        )
    if table.ignored:
        said.append(f"columns that mean nothing here were ignored: {', '.join(table.ignored)}")
    return said
