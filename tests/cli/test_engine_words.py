"""Which engine trained and why: said by `run --verbose`, kept in the record, shown in the report; and who may go on with it."""

import json

import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app


@pytest.fixture
def typed(tmp_path, small, monkeypatch):
    (tmp_path / "small.yaml").write_text(json.dumps(small))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDLOOM_NATIVE", raising=False)

    def typed(*args):
        short = ["--set", "training.cloud_rounds=1", "--out", "there", "--workers", "1"]
        return CliRunner().invoke(app, ["run", "small.yaml", *args, *short])

    return typed


def test_a_run_says_why_torch_trains_and_its_record_and_report_do_too(typed, tmp_path):
    said = typed("--verbose", "--set", "training.optimiser.kind=RAdam")
    words = "torch, 1 processes (not native: it has no optimiser RAdam"
    assert said.exit_code == 0 and f"engine: {words}" in said.stderr
    assert json.loads((tmp_path / "there" / "run.json").read_text())["trained_by"].startswith(words)
    assert f"<b>Trained by</b>: {words}" in (tmp_path / "there" / "report.html").read_text()


def test_a_record_is_that_of_its_device_and_of_how_many_train_at_once(typed, tmp_path):
    said = typed("--together", "3", "--verbose")
    assert "engine: torch-cpu, 3 clients at once (not native: it trains client by client, not 3 at once)" in said.stderr
    about = json.loads((tmp_path / "there" / "run.json").read_text())
    assert about["engine"] == "torch-cpu, 3 clients at once"
    again = typed("--together", "3", "--resume")
    assert again.exit_code == 0
    for other in (["--engine", "torch"], ["--together", "4"]):
        refused = typed(*other, "--resume")
        assert "engine" in str(refused.exception) and "torch-cpu, 3 clients at once" in str(refused.exception)


def test_a_device_that_is_not_there_and_one_with_a_cluster_are_refused(typed, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "device cuda is not there" in str(typed("--device", "cuda").exception)
    assert "device must be one of auto, cpu, cuda, mps; got 'gpu'" in str(
        typed("--device", "gpu", "--dry-run").exception
    )
    both = typed("--device", "cuda", "--ray", "auto")
    assert "--device and --together are for one machine" in str(both.exception)


def test_a_dry_run_estimates_with_many_at_once(typed):
    said = typed("--together", "3", "--dry-run")
    assert said.exit_code == 0 and "the real run: about" in said.stdout
