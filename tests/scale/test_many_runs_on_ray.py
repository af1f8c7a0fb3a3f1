"""Many runs as Ray tasks: the records of local runs, another try for what fails, and the rest goes on."""

import json

import pytest

from fedloom.cli.jobs import Job
from fedloom.cli.many import make_runs
from fedloom.cli.worker import read_files, run_elsewhere, write_files
from fedloom.record.runs import read_run
from fedloom.scale.tasks import State, run_tasks

pytestmark = pytest.mark.slow  # starts Ray


def jobs(file, folder, methods, seeds=1):
    return [
        Job(name=f"{m} seed {s}", scenario=file, method=m, seed=s, folder=folder / f"{m}-{s}", cloud_rounds=4)
        for m in methods
        for s in range(seeds)
    ]


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_records_are_those_of_local_runs_and_a_failure_does_not_stop_the_rest(two_cpus, small, tmp_path):
    good = write(tmp_path / "good.json", small)
    bad = write(tmp_path / "bad.json", small | {"training": small["training"] | {"lr": 1e30}})
    there = jobs(good, tmp_path / "there", ["fedavg", "hhfl"], seeds=2)
    [broken] = jobs(bad, tmp_path / "broken", ["fedavg"])
    with pytest.raises(
        RuntimeError, match=r"1 of 5 runs failed twice, the others are finished:\n  fedavg seed 0: the models of"
    ):
        make_runs([broken, *there], ray="auto", quiet=True)
    here = jobs(good, tmp_path / "here", ["fedavg", "hhfl"], seeds=2)
    make_runs(here, quiet=True)
    for one, other in zip(there, here):
        assert read_run(one.folder).metrics.equals(read_run(other.folder).metrics)
        assert set(read_files(one.folder)) == set(read_files(other.folder))
    before = (there[0].folder / "summary.json").stat().st_mtime_ns
    make_runs(there, ray="auto", quiet=True)  # nothing left to do
    assert (there[0].folder / "summary.json").stat().st_mtime_ns == before


def test_a_run_goes_on_elsewhere_from_the_record_so_far(small, tmp_path, monkeypatch):
    import fedloom.cli.worker as worker
    from fedloom.simulator import scenario

    monkeypatch.setattr(worker, "SEND_S", 0.0)
    monkeypatch.setattr("fedloom.record.folder.SHARE", 1000.0)  # a checkpoint after every round, however quick
    job = {"scenario": small, "method": "hhfl", "seed": 1, "workers": 1, "folder": "runs/x"}
    dataset = worker.load_dataset(scenario(small), None)
    news = []

    def stop_after_two(told):
        news.append(told)
        if told["done"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_elsewhere(stop_after_two, job, {}, dataset)
    assert "checkpoint/state.safetensors" in news[-1]["files"] and "summary.json" not in news[-1]["files"]
    files = run_elsewhere(lambda told: None, job, news[-1]["files"], dataset)
    write_files(tmp_path / "run", files)
    write_files(tmp_path / "whole", run_elsewhere(lambda told: None, job, {}, dataset))
    assert read_run(tmp_path / "run").metrics.equals(read_run(tmp_path / "whole").metrics)
    assert json.loads(files["summary.json"])["resumed"]
    with pytest.raises(ValueError, match=r"^runs/x holds another run \(seed is 1 there and 2 here\)"):
        run_elsewhere(lambda told: None, job | {"seed": 2}, files, dataset)


def test_a_failed_task_gets_one_more_try(two_cpus, tmp_path):
    def work(tell, number, fails, folder):
        """Fails the first `fails` times it is run."""
        tell(f"{number} began")
        marks = len(list(folder.glob(f"{number}-*")))
        (folder / f"{number}-{marks}").touch()
        if marks < fails:
            raise OSError(f"disk {number} is full")
        return 10 * number

    results, news, states = {}, [], []
    fails = [0, 1, 2, 0]
    state = run_tasks(
        two_cpus,
        work,
        lambda i: (i, fails[i], tmp_path),
        4,
        n_at_once=2,
        on_result=results.__setitem__,
        on_news=lambda i, text: news.append((i, text)),
        on_change=lambda state: states.append(str(state)),
    )
    assert results == {0: 0, 1: 10, 3: 30} and state.done == {0, 1, 3}
    assert state.failed == {2: "disk 2 is full"} and not state.running
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0-0", "1-0", "1-1", "2-0", "2-1", "3-0"]
    assert set(news) <= {(i, f"{i} began") for i in range(4)} and news
    assert states[0] == "0 of 4 runs done, 1 running" and states[-1] == "3 of 4 runs done, 0 running, 1 failed"
    assert str(State(n_tasks=2)) == "0 of 2 runs done, 0 running"
