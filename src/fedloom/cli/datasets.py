"""`fedloom data`: look for a dataset's files, fetch them if there are none, and say what was found."""

import json
from collections.abc import Iterator
from pathlib import Path

from rich.progress import Progress

from fedloom.cli.show import notes, progress


def fetch_or_check(name: str, folder: Path | None, as_json: bool, quiet: bool) -> Iterator[str]:
    """Lines to print. With a folder only that one is checked; without, missing files are downloaded."""
    from fedloom import data

    if name not in data.DATASETS:
        data.load(name)  # says which names there are
    embedded = data.DATASETS[name].needs.startswith("nothing")
    if not embedded and folder is None:
        try:
            data.find(name)
        except FileNotFoundError:
            if not quiet:
                notes.print(f"no local copy of {name}; downloading from its public home", highlight=False)
            with progress(quiet) as bar:
                data.fetch(name, progressbar=_Bar(bar, name))
    dataset = data.load(name, folder)
    checks = [] if embedded else data.check(name, folder)
    if as_json:
        files = [{"file": c.file, "path": str(c.found), "md5": c.md5, "published": c.published} for c in checks]
        yield json.dumps({"dataset": name, "train": dataset.n_train, "test": dataset.n_test, "files": files})
        return
    yield f"{name}: {dataset.n_train} training and {dataset.n_test} test samples of shape {dataset.shape}"
    verdict = {
        True: "the published file",
        False: "NOT the published file",
        None: "no published hash is known",
    }
    for check in checks:
        yield f"  {check.found}: {check.n_bytes:,} bytes, md5 {check.md5}, {verdict[check.published]}"


class _Bar:
    """What pooch wants of a progress bar, drawn with ours: bytes of one file after the other."""

    def __init__(self, bar: Progress, name: str) -> None:
        self._bar, self._task = bar, bar.add_task(f"downloading {name}", figures="bytes")
        self.total = 0

    def update(self, n: int) -> None:
        self._bar.update(self._task, total=self.total, advance=n)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        self._bar.refresh()
