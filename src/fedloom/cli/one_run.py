"""`fedloom run`: one method on one scenario with one seed."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from fedloom.cli.method_text import with_settings
from fedloom.cli.show import amount, notes, out, seconds


def run_once(
    scenario: str | None,
    method: str | None,
    plan: Path | None,
    seed: int,
    changes: list[str],
    folder: Path | None,
    *,
    resume: bool,
    dry_run: bool,
    workers: int | None,
    engine: str,
    device: str,
    together: int | None,
    ray: str | None,
    data_folder: Path | None,
    max_time: str | None,
    max_memory: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    live: bool,
    tensorboard: Path | None,
) -> None:
    """Set up, run, record, report, say."""
    from fedloom.cli.limits import guarded
    from fedloom.cli.live import watching
    from fedloom.gate.names import folder_name
    from fedloom.simulator.estimate import estimate
    from fedloom.simulator.refusing import refuse_full_disk
    from fedloom.simulator.speed import real_run

    chosen, made, method = _asked(scenario, method, plan, changes)
    on = {"device": device, "together": together}
    simulation = _set_up(chosen, made, seed, data_folder, workers, engine, on, ray, dry_run)
    where = folder or Path("runs") / f"{folder_name(chosen.name)}-{folder_name(method)}-s{seed}"
    if not dry_run:
        refuse_full_disk(estimate(chosen, simulation.method, model=simulation.setting.model), where)
    if verbose:
        _describe(simulation, method)
    if not quiet:
        _note(_known_before(simulation, dry_run))
    began = time.monotonic()
    with (
        guarded(max_time, max_memory) as guard,
        watching(simulation, f"{chosen.name} · {method}", live=live, quiet=quiet, tensorboard=tensorboard) as show,
    ):
        summary = _carried_out(simulation, method, None if dry_run else where, resume, show, guard)
    left: dict[str, Any]
    if dry_run:
        expected = real_run(simulation, time.monotonic() - began, workers, engine, **on)
        warnings, left = simulation.warnings, {"estimate": expected}
        words = _figures(summary) + [_expected(expected)]
    else:
        report, warnings = _report_of(where)
        left = {"folder": str(where), "report": str(report)}
        words = _figures(summary) + [f"record: {where}\nreport: {report}"]
    if as_json:
        typer.echo(json.dumps(summary | {"warnings": warnings} | left))
        return
    for line in words:
        out.print(line, highlight=False, soft_wrap=True)
    if not quiet:
        _note(warnings)


def _asked(scenario: str | None, method: str | None, plan: Path | None, changes: list[str]) -> tuple[Any, Any, str]:
    """Scenario, method, and how that is called in the record."""
    from fedloom.simulator import make_method
    from fedloom.simulator import scenario as read_scenario

    if plan is not None:
        from fedloom.cli.run_plan import plan_to_run

        return plan_to_run(plan, scenario, method, changes)
    if scenario is None:
        raise ValueError("give a scenario (see `fedloom list scenarios`), or a plan with --plan plan.json, or both")
    name, changes = with_settings(method or "hierfedavg", changes)
    return read_scenario(scenario, changes), make_method(name), name


def _set_up(
    scenario: Any,
    method: Any,
    seed: int,
    data_folder: Path | None,
    workers: int | None,
    engine: str,
    on: dict[str, Any],
    ray: str | None,
    dry_run: bool,
) -> Any:
    """The simulation, with an engine on this machine or on a Ray cluster. on: device and together of the torch engine."""
    from fedloom.simulator import Simulation

    if ray is not None and on != {"device": "cpu", "together": None}:
        raise ValueError(
            "--device and --together are for one machine: with --ray clients train on processors; leave them out"
        )
    trained_by: Any = engine
    if ray is not None and not dry_run:
        from fedloom.scale.engine import on_ray

        trained_by = on_ray(ray, workers, engine)
    return Simulation(
        scenario,
        method,
        seed,
        directory=None if data_folder is None else str(data_folder),
        n_workers=workers,
        engine=trained_by,
        **on,
        dry_run=dry_run,
    )


def _note(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        notes.print(f"note: {sentence}", highlight=False, soft_wrap=True)


def _known_before(simulation: Any, dry_run: bool) -> Iterator[str]:
    """What is worth knowing before a run begins."""
    from fedloom.grouping import Need

    if dry_run and simulation.method.needs & {Need.GRADIENTS, Need.UPDATES, Need.PREDICTIONS}:
        yield (
            f"nothing is learnt in a dry run, so {simulation.method.name} groups by the rest it knows; clusters and costs of "
            "the real run may differ a little"
        )
    nobody = [c for c, n in enumerate(simulation.label_counts.sum(axis=0)) if n == 0]
    if nobody:
        yield f"no client has samples of class {', '.join(map(str, nobody))}; nobody can learn to tell it"


def _carried_out(
    simulation: Any, method: str, where: Path | None, resume: bool, show: Any, guard: Any
) -> dict[str, Any]:
    """All rounds, recorded in a folder or, in a dry run, nowhere: the summary."""
    from fedloom.cli.ends import Ended, Said, exit_code
    from fedloom.record.folder import record, summarise

    total = simulation.scenario.training.cloud_rounds

    def on_round(done: int, measures: dict[str, float | int] | None) -> None:
        show(done, measures)
        guard.round_over(more=done < total)

    try:
        if where is not None:
            return record(simulation, method, where, resume=resume, on_round=on_round)
        for measures in simulation.rounds():
            on_round(simulation.cloud_rounds_done, measures)
        return summarise(simulation, wall_s=0.0, resumed=False)
    except (KeyboardInterrupt, Ended) as end:
        said = _stopped(end, simulation.cloud_rounds_done, total, dry_run=where is None)
        notes.print(said, soft_wrap=True, highlight=False)
        raise Said(exit_code(end)) from None


def _describe(simulation: Any, method: str) -> None:
    scenario, world = simulation.scenario, simulation.world
    on_air = f"{amount(world.model_bits / 8, 'B')} on air"
    if world.coded_bits is not None:
        on_air += f", coded {amount(world.up_bits / 8, 'B')} up and {amount(world.down_bits / 8, 'B')} down"
    notes.print(
        f"method {method}: {simulation.method.summary}; reveals {', '.join(sorted(simulation.method.needs))}\n"
        f"engine: {simulation.engine_name}\n"
        f"model: {scenario.task.model.kind}, {simulation.n_params:,} values, {on_air}\n"
        f"data: {simulation.dataset.name}, {world.n_samples.min()} to {world.n_samples.max()} samples a client\n"
        f"fleet: {world.fleet.n_devices} devices, {world.fleet.n_cells} cells",
        highlight=False,
        soft_wrap=True,
    )


def _expected(found: dict[str, Any]) -> str:
    """What the real run will take, in words."""
    work, speed = found["work"], found["speed"]
    source = "as measured just now" if speed["measured"] else "assumed"
    largest = max(found["memory"], key=lambda term: term["n_bytes"])
    short = ""
    if found["memory_bytes"] > found["free_memory_bytes"]:
        short = f", more than the {amount(found['free_memory_bytes'], 'B')} that are free"
    return (
        f"the real run: about {seconds(found['seconds'])} on this machine ({work['samples']:,.0f} samples to train on, "
        f"{speed['trained_s']:,.0f} a second, {source}), {amount(found['memory_bytes'], 'B')} of memory{short} (most of it for "
        f"{largest['what']}), {amount(found['disk_bytes'], 'B')} of disk"
    )


def _stopped(end: BaseException, done: int, total: int, dry_run: bool) -> str:
    """What to say when a run was stopped from outside."""
    from fedloom.cli.ends import by_what

    if dry_run:
        then = "a dry run keeps nothing"
    elif done:
        then = "the same command with --resume goes on from there"
    else:
        then = "the same command with --resume begins again, as no cloud round was over"
    return f"[yellow]stopped{by_what(end)} after cloud round {done} of {total}; {then}[/]"


def _report_of(folder: Path) -> tuple[Path, list[str]]:
    """Of one run: its report, and whether its curve can be believed."""
    from fedloom.record.files import FolderError, refusal
    from fedloom.record.report import write_report
    from fedloom.record.run_warnings import run_warnings
    from fedloom.record.runs import read_run

    run = read_run(folder)
    try:
        return write_report([run], folder / "report.html"), run_warnings(run)
    except (OSError, FolderError) as error:
        if (reason := refusal(error)) is None:
            raise
        raise RuntimeError(
            f"the run is finished and recorded in {folder}, but its report could not be written ({reason}); "
            f"make it elsewhere with: fedloom report {folder} --out FILE"
        ) from error


def _figures(summary: dict[str, Any]) -> list[str]:
    """What a run came to, in lines."""
    final, best, last = summary["final"], summary["best"], summary["topologies"][-1]
    lines = []
    if "accuracy" in final:
        lines.append(f"accuracy {final['accuracy']:.2%} (best {best['accuracy']:.2%} {_chosen(best)})")
    elif "rmse" in final:
        lines.append(f"rmse {final['rmse']:.4g} (best {best['rmse']:.4g} {_chosen(best)})")
    lines.append(
        f"{final['local_steps']} local steps, {final['edge_round']} edge rounds, {final['cloud_round']} cloud rounds: "
        f"{seconds(final['time_s'])} of simulated time, {amount(final['energy_j'], 'J')}, {amount(final['bytes'], 'B')}"
    )
    if last["resource_factor"] > 1:
        lines.append(
            f"{last['links']} links to {last['aggregators']} aggregators ({last['resource_factor']:.2f} a client), "
            f"mixing factor {last['mixing_factor']:.3f}"
        )
    return lines


def _chosen(best: dict[str, Any]) -> str:
    """When the best value came: there may be several evaluations in a cloud round, so by steps."""
    return f"after {best['local_steps']} local steps, chosen on test data"
