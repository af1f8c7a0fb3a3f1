"""The command that checks records: what fits in short, what does not fit in full."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from fedloom.cli.show import out
from fedloom.record.verify import Verdict, find_records, verify


def verify_records(folders: Sequence[Path], *, as_json: bool, quiet: bool) -> int:
    """Check the run folders that these are or hold, print what was found; the exit code, 1 if something does not fit."""
    verdicts = [verify(folder) for folder in find_records(folders)]
    if as_json:
        typer.echo(json.dumps([verdict.to_dict() for verdict in verdicts]))
    else:
        for verdict in verdicts:
            for line in _lines(verdict, quiet):
                out.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0 if all(verdict.sound for verdict in verdicts) else 1


def _lines(verdict: Verdict, quiet: bool) -> list[str]:
    if verdict.sound:
        state = "finished" if verdict.finished else "unfinished"
        return [] if quiet else [f"{verdict.folder}: sound, {state}, {verdict.files} files"]
    n = len(verdict.misfits)
    return [f"{verdict.folder}: {n} {'does' if n == 1 else 'do'} not fit", *(f"  {m}" for m in verdict.misfits)]
