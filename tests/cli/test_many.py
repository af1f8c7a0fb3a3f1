"""Runs in worker processes, and a small made-up paper from runs to page."""

import io
import json

import pytest

import fedloom.reproduce
from fedloom.cli.jobs import Job
from fedloom.cli.many import make_runs
from fedloom.cli.reproduction import reproduce
from fedloom.record.files import load_manifest
from fedloom.record.runs import read_run
from fedloom.reproduce import Claim, Item, Outcome, Paper, Plot, Series, Setup, Table
from fedloom.reproduce.verdicts import at_least


@pytest.fixture
def file(tmp_path, small):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small))
    return path


def jobs(file, folder, methods, seeds=1):
    return [
        Job(name=f"{m} seed {s}", scenario=file, method=m, seed=s, folder=folder / f"{m}-{s}", cloud_rounds=4)
        for m in methods
        for s in range(seeds)
    ]


@pytest.mark.slow
def test_more_runs_than_workers_and_what_is_finished_is_left_alone(file, tmp_path):
    all_jobs = jobs(file, tmp_path / "runs", ["fedavg", "hhfl"], seeds=2)
    make_runs(all_jobs[:1], quiet=True)
    before = (all_jobs[0].folder / "summary.json").stat().st_mtime_ns
    make_runs(all_jobs, n_jobs=2, quiet=True)
    assert all(read_run(job.folder).finished for job in all_jobs)
    assert (all_jobs[0].folder / "summary.json").stat().st_mtime_ns == before
    # runs of one worker after the other are the same as runs alone
    alone = jobs(file, tmp_path / "alone", ["hhfl"], seeds=2)[1:]
    make_runs(alone, n_jobs=1, quiet=True)
    assert read_run(alone[0].folder).metrics.equals(read_run(all_jobs[3].folder).metrics)


@pytest.mark.slow
def test_files_of_a_finished_run_that_do_not_fit_are_made_again(file, tmp_path):
    """The same command heals what `read_run` would refuse for ever; a record of an earlier version is told apart."""
    all_jobs = jobs(file, tmp_path / "runs", ["fedavg", "hhfl"])
    make_runs(all_jobs, n_jobs=1, quiet=True)
    metrics = all_jobs[0].folder / "metrics.parquet"
    kept = metrics.read_bytes()
    metrics.write_bytes((all_jobs[1].folder / "metrics.parquet").read_bytes())
    assert [job.sound for job in all_jobs] == [False, True]
    make_runs(all_jobs, n_jobs=1, quiet=True)
    assert metrics.read_bytes() == kept and all(job.sound for job in all_jobs)
    (all_jobs[0].folder / "manifest.json").unlink()
    about = json.loads((all_jobs[0].folder / "run.json").read_text())
    (all_jobs[0].folder / "run.json").write_text(json.dumps(about | {"numbers": 2}))
    with pytest.raises(ValueError, match=r"holds another run \(numbers is 2 there"):
        make_runs(all_jobs, n_jobs=1, quiet=True)


@pytest.mark.slow
def test_a_run_that_fails_says_so_and_keeps_the_rest(file, tmp_path):
    bad = Job(
        name="bad one", scenario=tmp_path / "none.json", method="fedavg", seed=0, folder=tmp_path / "x", cloud_rounds=4
    )
    with pytest.raises(ValueError, match=r"bad one failed: there is no scenario file .*\n?.*what was done is kept"):
        make_runs([bad], quiet=True)
    wild = tmp_path / "wild.json"
    content = json.loads(file.read_text())
    content["training"]["lr"] = 1e30
    wild.write_text(json.dumps(content))
    [job] = jobs(wild, tmp_path / "runs", ["fedavg"])
    with pytest.raises(RuntimeError, match="no longer finite"):
        make_runs([job], quiet=True)


def test_a_worker_that_dies_is_noticed(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(RuntimeError, match="ended by signal 9"):
        make_runs(jobs(file, tmp_path / "runs", ["fedavg"]), quiet=True)


@pytest.fixture
def paper(small, monkeypatch):
    def judge(runs):
        final = [run.metrics["accuracy"][-1] for run in runs["flat"]]
        x = tuple(float(v) for v in runs["flat"][0].metrics["local_steps"])
        line = Series(label="flat", x=x, y=tuple(runs["flat"][0].metrics["accuracy"]))
        return Outcome(
            claims=(Claim(text="learns a|something", verdict=at_least(final, 0.01)),),
            tables=(Table(title="Final", columns=("", "accuracy"), rows=(("flat", "x"),)),),
            plots=(Plot(key="curve", caption="A curve.", x_label="steps", y_label="accuracy", series=(line,)),),
        )

    item = Item(
        key="one",
        title="Fig. 1: a curve",
        published="It learns.",
        setups=lambda scale: {"flat": Setup(scenario=small, method="fedavg")},
        judge=judge,
        seeds={"laptop": 3},
    )
    made_up = Paper(
        key="toy", name="TOY", title="A toy paper", authors=("Ape",), where="2026", notes="Notes.", items=(item,)
    )
    monkeypatch.setattr(fedloom.reproduce, "find_items", lambda text: (made_up, made_up.items))
    return made_up


@pytest.mark.slow
def test_from_runs_to_page(paper, tmp_path, capsys):
    options = {"seeds": None, "folder": tmp_path / "out", "cache": tmp_path / "cache", "jobs": 2}
    options |= {"data_folder": None, "quiet": True}
    reproduce("toy", scale="laptop", as_json=True, **options)
    answer = json.loads(capsys.readouterr().out)
    assert answer["items"]["one"]["claims"][0]["verdict"]["state"] == "holds"
    page = (tmp_path / "out" / "toy.md").read_text()
    for text in ("# TOY", "A toy paper", "learns a\\|something", "✔ holds", "(toy/curve-laptop.svg)", "It learns."):
        assert text in page
    picture = tmp_path / "out" / "toy" / "curve-laptop.svg"
    first = picture.read_bytes()
    runs = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("summary.json")}
    assert len(runs) == 3

    reproduce("toy", scale="paper", as_json=False, **options)  # the other scale is added to the page
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("summary.json")} == runs
    assert picture.read_bytes() == first
    assert (tmp_path / "out" / "toy.md").read_text().count("## Fig. 1") == 2
    assert "holds" in capsys.readouterr().out


def test_an_unknown_scale_is_refused(paper, tmp_path):
    with pytest.raises(ValueError, match="laptop"):
        reproduce(
            "toy",
            scale="planet",
            seeds=None,
            folder=None,
            cache=tmp_path,
            jobs=None,
            data_folder=None,
            quiet=True,
            as_json=True,
        )


def test_a_folder_of_an_older_version_is_recognised_by_what_it_means(tmp_path, small):
    from fedloom.cli.many import scenario_file
    from fedloom.record.folder import FolderError
    from fedloom.simulator import scenario

    content = scenario(small).model_dump_json()
    older = json.loads(content)
    del older["evaluation"], older["fleet"]["uncovered"]  # settings that did not exist then
    (tmp_path / "scenario.json").write_text(json.dumps(older))
    assert scenario_file(tmp_path, content) == tmp_path / "scenario.json"
    older["fleet"]["uncovered"] = "drop"
    (tmp_path / "scenario.json").write_text(json.dumps(older))
    with pytest.raises(FolderError, match="holds runs of another scenario"):
        scenario_file(tmp_path, content)


def test_the_last_line_of_progress_says_what_is_finished_and_nothing_is_left(file, tmp_path, monkeypatch):
    from rich.console import Console

    import fedloom.cli.show

    console = Console(width=160, record=True, force_terminal=True, file=io.StringIO())
    monkeypatch.setattr(fedloom.cli.show, "notes", console)
    make_runs(jobs(file, tmp_path / "runs", ["fedavg"], seeds=2), n_jobs=1)
    last = console.export_text().strip().split("all runs")[-1]
    assert "8/8" in last and last.endswith("2 of 2 runs finished") and "left" not in last


def test_a_run_whose_curve_oscillates_says_so_at_its_end(file, tmp_path):
    import polars
    from typer.testing import CliRunner

    from fedloom.cli.app import app

    args = ["run", str(file), "--method", "fedavg", "--set", "training.cloud_rounds=10", "--out", str(tmp_path / "run")]
    first = CliRunner().invoke(app, [*args, "--json", "--quiet"])
    assert "its curve oscillates" not in first.output and first.exit_code == 0
    zigzag = polars.Series([0.1] + [0.5 + 0.05 * (-1) ** k for k in range(10)])
    content = io.BytesIO()
    polars.read_parquet(tmp_path / "run/metrics.parquet").with_columns(accuracy=zigzag).write_parquet(content)
    load_manifest(tmp_path / "run").write({"metrics.parquet": content.getvalue()})  # as if the run had been like that
    again = CliRunner().invoke(app, [*args, "--resume"])  # finished: it is only reported again
    assert "chosen on test data" in again.stdout and "note: its curve oscillates" in again.stderr
    answer = json.loads(CliRunner().invoke(app, [*args, "--resume", "--json", "--quiet"]).stdout)
    assert answer["warnings"][0].startswith("its curve oscillates")


def test_compare_explains_what_it_prints(file, tmp_path):
    from typer.testing import CliRunner

    from fedloom.cli.app import app

    args = [
        "compare",
        str(file),
        "--methods",
        "fedavg,pacfl",
        "--seeds",
        "2",
        "--out",
        str(tmp_path / "runs"),
        "--jobs",
        "1",
    ]
    done = CliRunner().invoke(app, [*args, "--quiet"])
    text = " ".join(done.stdout.split())
    for words in (
        "On a client's own labels, final accuracy by",
        "best of all rounds, chosen",
        "± half of its 95 % interval",
        "its cluster's model (local_by_cluster): share of the test samples",
    ):
        assert words in text
    assert "nobody is called better below 3 (for instance --seeds 5)" in " ".join(done.stderr.split())
    answer = json.loads(CliRunner().invoke(app, [*args, "--json", "--quiet"]).stdout)
    assert set(answer["winners"].values()) == {None} and "local_by_edge" in answer["rows"][1]["others"]
