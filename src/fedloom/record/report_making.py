"""The section of the report that says how it was made, and how to make it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from fedloom.record.axes import AXES
from fedloom.record.report_elements import MOST_MAPS, escape
from fedloom.record.runs import Run, by_method


def scenario_files(runs: Sequence[Run]) -> dict[str, str]:
    """The different scenarios of the runs, as YAML by the name of a file."""
    return _files(_texts(runs))


def _texts(runs: Sequence[Run]) -> list[str]:
    """The scenario of each run as YAML; runs of one scenario, the usual case, are written once."""
    import yaml

    written: dict[str, str] = {}
    keys = [json.dumps(run.scenario) for run in runs]
    for key, run in zip(keys, runs):
        if key not in written:
            written[key] = yaml.safe_dump(run.scenario, sort_keys=False, allow_unicode=True)
    return [written[key] for key in keys]


def _files(texts: Sequence[str]) -> dict[str, str]:
    different = dict.fromkeys(texts)
    if len(different) == 1:
        return {"scenario.yaml": next(iter(different))}
    return {f"scenario-{i + 1}.yaml": text for i, text in enumerate(different)}


def commands(runs: Sequence[Run]) -> list[str]:
    """What to type to make these runs again, given the files of their scenarios."""
    texts = _texts(runs)
    files = {text: name for name, text in _files(texts).items()}
    same: dict[str, list[Run]] = {}
    for run, text in zip(runs, texts):
        same.setdefault(files[text], []).append(run)
    found = []
    for file, those in same.items():
        seeds = {method: sorted(run.seed for run in group) for method, group in by_method(those).items()}
        n = len(next(iter(seeds.values())))
        simulated = all(run.measured is None for run in those)
        if simulated and all(s == list(range(n)) for s in seeds.values()) and len(those) > 1:
            methods = shlex.quote(",".join(seeds))
            found.append(f"fedloom compare {file} --methods {methods} --seeds {n}")
        else:
            found += [
                f"fedloom {'run' if simulated else 'deploy local'} {file} --method {shlex.quote(method)} --seed {seed}"
                for method, every in seeds.items()
                for seed in every
            ]
    return found


def making_section(runs: Sequence[Run]) -> str:
    """Commands, scenarios, runs, versions and machines."""
    lines = []
    for run in runs:
        wall = AXES["seconds"].text(run.summary["wall_s"]) if run.summary else "unfinished"
        lines.append(
            f"<tr><th>{escape(run.method)}</th><td>{run.seed}</td><td>{escape(wall)}</td>"
            f'<td class="text">{escape(run.origin.get("started", ""))}</td>'
            f'<td class="text">{escape(run.path.name)}</td></tr>'
        )
    facts = "".join(
        f'<p class="note"><b>{name}</b>: {escape("; or ".join(_distinct(runs, key)))}</p>'
        for key, name in (("trained_by", "Trained by"), ("versions", "Versions"), ("machine", "Machine"))
    )
    scenarios = scenario_files(runs)
    buttons = " ".join(
        f'<button type="button" data-scenario="{name}">{name}</button>' for name in list(scenarios)[:MOST_MAPS]
    )
    typed = "\n".join(commands(runs))
    details = "".join(
        f"<details><summary>{escape(name)}: all settings</summary><div class='card'><pre>{escape(text)}</pre></div>"
        "</details>"
        for name, text in list(scenarios.items())[:MOST_MAPS]
    )
    return (
        '<section id="making"><h2>How it was made</h2>'
        f'<p class="note">To make it again, with the same version of fedloom: save <span class="save">{buttons}</span> and '
        f"type</p><div class='card'><pre id='command'>{escape(typed)}</pre></div>"
        f"<details><summary>The {len(runs)} runs</summary>"
        '<div class="card scroll" tabindex="0"><table><thead><tr><th>method</th><th>seed</th><th>wall time</th>'
        '<th class="text">started</th><th class="text">folder</th></tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div></details>{details}"
        f"<div class='gap'></div>{facts}</section>"
        f"<footer>Made with FedLoom. {_what_is_measured(runs)}</footer>"
    )


def _what_is_measured(runs: Sequence[Run]) -> str:
    deployed = [run for run in runs if run.measured is not None]
    if not deployed:
        return "Time, energy and traffic are simulated."
    which = "" if len(deployed) == len(runs) else f" of {len(deployed)} of {len(runs)} runs"
    return (
        f"Time and traffic{which} are measured; energy is that of the fleet’s model for the measured seconds, or of devices’ "
        "own meters."
    )


def _distinct(runs: Sequence[Run], key: str) -> list[str]:
    """The different values of `origin[key]`, each as text or "name value, name value"."""
    values = [run.origin.get(key) or "not recorded" for run in runs]
    texts = [v if isinstance(v, str) else ", ".join(f"{k} {x}" for k, x in v.items()) for v in values]
    return list(dict.fromkeys(texts))
