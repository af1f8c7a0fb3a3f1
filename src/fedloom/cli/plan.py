"""`fedloom plan`: a fleet in a table, a plan of who reports to whom, and what it will take."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fedloom.cli.plan_output import say
from fedloom.cli.show import progress
from fedloom.gate.names import folder_name

K_MEANS = "k-means"
BUDGETS = {"camu": "camu_ungated"}  # methods that get the energy of another as their budget
STAGES = ("reading", "choosing heads and clusters", "comparing", "drawing")


def plan_fleet(
    file: Path,
    *,
    method: str,
    server: str | None,
    gradients: Path | None,
    model_bytes: int | None,
    model: str | None,
    local_steps: int,
    edge_rounds: int,
    alpha: float | None,
    capacity: int | None,
    candidates: int | None,
    exact: bool,
    bandwidth_hz: float,
    seed: int,
    folder: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Read, plan, compare, write, say."""
    with progress(quiet) as bar:
        task = bar.add_task(STAGES[0], total=len(STAGES), figures="")

        def stage(name: str) -> None:
            bar.update(task, description=name, completed=STAGES.index(name), figures="")

        def watch(figures: str) -> None:
            bar.update(task, figures=figures)

        from fedloom.record.plan_files import write_plan
        from fedloom.record.plan_tables import summary

        where = folder or Path("plans") / folder_name(f"{file.stem}-{method.partition(':')[0]}")
        if where.exists() and not where.is_dir():
            raise ValueError(f"{where} is a file; --out is the folder for the plan")
        size, model_words, fleet = _read(file, server, gradients, capacity, bandwidth_hz, model_bytes, model)
        stage(STAGES[1])
        chosen, own = _method(
            method,
            fleet.devices,
            alpha,
            candidates,
            exact,
            lambda k, objective: watch(f"{k} heads, objective {objective:.4f}"),
        )
        work = _work(size, local_steps, edge_rounds, chosen.coding)
        _check_reached(fleet, work)
        plan, sweep = _plan(fleet, chosen, work, seed, watch)
        stage(STAGES[2])
        model_words = "; ".join(filter(None, [model_words, _coded_words(work)]))
        said = _assumptions(fleet.table, server, model_words, chosen, own, fleet.devices.link.bandwidth_hz)
        planned = _compared(file.stem, fleet, chosen, work, seed, plan, sweep, said, exact)
        stage(STAGES[3])
        files = write_plan(planned, where)
        bar.update(task, description="planned", completed=len(STAGES))
    if as_json:
        typer.echo(json.dumps(summary(planned) | {"files": {name: str(path) for name, path in files.items()}}))
    else:
        say(planned, files, quiet)


class _Fleet(NamedTuple):
    """The table, the devices in it, and whether their gradients are known."""

    table: Any
    devices: Any
    with_gradients: bool


def _read(
    file: Path,
    server: str | None,
    gradients: Path | None,
    capacity: int | None,
    bandwidth_hz: float,
    model_bytes: int | None,
    model: str | None,
) -> tuple[int, str, _Fleet]:
    """Bytes of a model, where that comes from, and the fleet."""
    import numpy as np

    from fedloom.fleet.table import read_fleet, read_gradients
    from fedloom.planning import devices_of

    table = read_fleet(file)
    rows = None if gradients is None else read_gradients(gradients, table.n_devices)
    if capacity is not None and table.capacity is not None:
        raise ValueError(f"{file} has a column capacity already; leave out --capacity or the column")
    place = np.asarray(table.position_m.mean(axis=0)) if server is None else table.to_metres(_point(server))
    devices = devices_of(table, place, capacity=capacity, gradients=rows, bandwidth_hz=bandwidth_hz)
    size, model_words = _model_bytes(model_bytes, model, len(table.labels))
    return size, model_words, _Fleet(table, devices, rows is not None)


def _work(model_bytes: int, local_steps: int, edge_rounds: int, coding: Any) -> Any:
    from fedloom.planning import Work

    return Work(model_bytes=model_bytes, local_steps=local_steps, edge_rounds=edge_rounds).coded(coding)


def _largest(work: Any) -> int:
    """Bytes of what is sent of a model, in the direction in which these are more."""
    return int(max(work.up_bytes, work.down_bytes))


def _check_reached(fleet: _Fleet, work: Any) -> None:
    """Refuse a fleet with a device that hears nobody."""
    from fedloom.planning import lonely_devices
    from fedloom.planning.link_budget import DAY_S
    from fedloom.record import plan_words

    if lonely := lonely_devices(fleet.devices, 8.0 * _largest(work), DAY_S):
        raise ValueError(plan_words.lonely_words(fleet.table.ids, lonely, fleet.devices, _largest(work)))


def _plan(fleet: _Fleet, chosen: Any, work: Any, seed: int, watch: Callable[[str], None]) -> tuple[Any, Any]:
    """The plan, refused if one of its links never ends, and those of k-means."""
    from fedloom._random import stream
    from fedloom.planning import k_means_plans, make_plan, weak_links
    from fedloom.planning.link_budget import DAY_S
    from fedloom.record import plan_words
    from fedloom.simulator import make_method

    devices, near = fleet.devices, make_method("geographic").with_(name=K_MEANS)
    sweep = k_means_plans(devices, near, work, stream(seed, "plan"), lambda k: watch(f"k-means, {k} clusters"))
    plan = sweep.plans[K_MEANS] if chosen.name == K_MEANS else make_plan(devices, chosen, work, stream(seed, "plan"))
    if weak := weak_links(devices, plan, 8.0 * _largest(work), DAY_S):
        raise ValueError(plan_words.refusal_words(fleet.table.ids, weak, plan, _largest(work)))
    return plan, sweep


def _compared(
    title: str, fleet: _Fleet, chosen: Any, work: Any, seed: int, plan: Any, sweep: Any, said: list[str], exact: bool
) -> Any:
    """The plan beside simple ones, with what a reader should know. said: what was assumed."""
    from fedloom._random import stream
    from fedloom.planning import make_plan, missing_columns
    from fedloom.record import plan_words
    from fedloom.record.plan_tables import Planned
    from fedloom.simulator import make_method

    table, devices, with_gradients = fleet
    others = _simple_plans(devices, chosen, plan, work, sweep, seed)
    simple = tuple(others)
    if chosen.name in BUDGETS:
        comparable = make_plan(devices, make_method(BUDGETS[chosen.name]), work, stream(seed, "plan"))
        others[comparable.name] = comparable
    proof = [plan_words.proof_words(plan, int(devices.candidate.sum()))] if exact else []
    return Planned(
        title=title,
        table=table,
        devices=devices,
        work=work,
        seed=seed,
        plan=plan,
        others=others,
        missing=missing_columns(table, chosen.needs, with_gradients),
        notes=[*proof, *said, *_remarks(table, devices, chosen, plan, others, sweep)],
        simple=simple,
        warnings=_slow_links(table.ids, devices, plan, others, 8.0 * _largest(work)),
    )


def _simple_plans(devices: Any, chosen: Any, plan: Any, work: Any, sweep: Any, seed: int) -> dict[str, Any]:
    """What anybody would try first: everybody to the server, the nearest heads, k-means over all k."""
    from fedloom._random import stream
    from fedloom.planning import heads_in_the_middle, make_plan
    from fedloom.simulator import make_method

    others = {}
    if plan.topology.kind == "head":
        flat, near = make_method("fedavg").with_(name="flat"), make_method("geographic")
        others["flat"] = make_plan(devices, flat, work, stream(seed, "plan"))
        if chosen.name != near.name:
            near = near.with_(group=heads_in_the_middle(devices, plan.n_clusters))
            others[near.name] = make_plan(devices, near, work, stream(seed, "plan"))
    return others | {name: one for name, one in sweep.plans.items() if name != chosen.name}


def _remarks(table: Any, devices: Any, chosen: Any, plan: Any, others: dict[str, Any], sweep: Any) -> list[str]:
    """What a reader of the plan should know of it."""
    from fedloom.record import plan_words

    said = [_tried(sweep)]
    if chosen.cloud.uplink is not None:
        said.append(plan_words.in_turn_words(plan))
    said += _warnings_of_heads(table, devices, plan, others.get(BUDGETS.get(chosen.name, "")))
    for one in (plan, *others.values()):
        if over := int(one.topology.notes.get("over_capacity", 0)):
            said.append(
                f"{one.name}: {over} of {one.n_clusters} heads get more devices than their capacity; all candidates "
                "together have no room for everybody"
            )
    if plan.topology.notes.get("candidates") == plan.n_clusters < devices.candidate.sum():
        said.append(f"all {plan.n_clusters} devices considered became heads; --candidates lets it look at more")
    if table.label_counts is not None and not devices.labels_tell and devices.gradients is None:
        said.append("the labels are alike for all classes everywhere, or there are none, so they play no part")
    return said


def _method(
    text: str,
    devices: Any,
    alpha: float | None,
    candidates: int | None,
    exact: bool,
    watch: Callable[[int, float], None],
) -> tuple[Any, bool]:
    """The method, and whether it goes by the fleet's capacities and candidates."""
    text, coding = _without_coding(text)
    chosen, own = _uncoded(text, devices, alpha, candidates, exact, watch)
    return chosen.with_(coding=coding), own


def _without_coding(text: str) -> tuple[str, Any]:
    """A method by name without the options of its coding, and the coding."""
    from fedloom.simulator import make_method

    name, *given = text.split(":")
    coded = [option for option in given if re.match(r"(up|down)[.=]|feedback=", option)]
    coding = make_method(":".join(["geographic" if name == K_MEANS else name, *coded])).coding
    return ":".join([name, *(option for option in given if option not in coded)]), coding


def _uncoded(
    text: str,
    devices: Any,
    alpha: float | None,
    candidates: int | None,
    exact: bool,
    watch: Callable[[int, float], None],
) -> tuple[Any, bool]:
    from fedloom.methods import ddc
    from fedloom.methods.ddc import heads_for
    from fedloom.planning import heads_by_data_and_distance, heads_in_the_middle
    from fedloom.planning.head_search import DATA_WEIGHT
    from fedloom.simulator import make_method

    name, _, options = text.partition(":")
    if name == K_MEANS and options:
        raise ValueError(f"k-means in a plan tries all numbers of clusters and has no options; got {options!r}")
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


def _coded_words(work: Any) -> str:
    from fedloom.record.plan_words import si

    if work.coded_bytes is None:
        return ""
    return f"of a model {si(work.up_bytes, 'B')} go up and {si(work.down_bytes, 'B')} down, coded, in all plans"


def _assumptions(
    table: Any, server: str | None, model_words: str, method: Any, own: bool, bandwidth_hz: float
) -> list[str]:
    said = []
    if server is None:
        said.append("the server stands in the middle of the fleet, the mean of all positions (--server)")
    said.append(
        f"links: Shannon rate in {bandwidth_hz / 1e6:g} MHz (--bandwidth-hz) over a path loss of 128.1 + 37.6 log10(km) dB; "
        "the server sends at 1 W and its energy is not counted; nor is that of computing"
    )
    if model_words:
        said.append(model_words)
    unused = [c for c, value in (("capacity", table.capacity), ("candidate", table.candidate)) if value is not None]
    if unused and not own:
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


def _tried(sweep: Any) -> str:
    """Which numbers of clusters k-means was tried with, and what it would take with devices by themselves."""
    from fedloom.planning.simple_plans import STARTS
    from fedloom.record.plan_words import si

    all_k = len(sweep.tried) == sweep.tried[-1] - sweep.tried[0] + 1
    text = f"{sweep.tried[0]} to {sweep.tried[-1]}" if all_k else ", ".join(map(str, sweep.tried))
    said = (
        f"k-means was tried with k = {text} clusters, {STARTS} starts each; the fastest plan and the one of least energy "
        "(by J) are compared"
    )
    if sweep.alone is not None:
        said += (
            f". With {sweep.alone.n_clusters} it would take {si(sweep.alone.time_s, 's')}, but then most devices are by "
            "themselves and average nothing between cloud rounds, so it is left out"
        )
    return said


def _warnings_of_heads(table: Any, devices: Any, plan: Any, comparable: Any) -> list[str]:
    """What a method asks of heads beyond what they have, and of its own budget."""
    from fedloom.record.plan_words import budget_words, power_words

    found = [power_words(table.ids, plan, devices), None if comparable is None else budget_words(plan, comparable)]
    return [line for line in found if line is not None]


def _slow_links(ids: Any, devices: Any, plan: Any, others: dict[str, Any], bits: float) -> tuple[str, ...]:
    """Links of the plan that take long, and of those it is compared with that never end."""
    from fedloom.planning import weak_links
    from fedloom.planning.link_budget import DAY_S, SLOW_S
    from fedloom.record.plan_words import slow_words

    found = [(plan, SLOW_S), *((other, DAY_S) for other in others.values())]
    return tuple(
        slow_words(ids, weak, one, bits, within_s)
        for one, within_s in found
        if (weak := weak_links(devices, one, bits, within_s))
    )
