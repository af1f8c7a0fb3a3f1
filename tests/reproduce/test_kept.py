"""Runs that are kept beside outcomes: what comes back, that outcomes are judged from them, and what damage is told."""

import gzip
import json
from dataclasses import replace

import polars as pl
import pytest

from fedloom.cli.reproduction import reproduce
from fedloom.record.files import FolderError
from fedloom.record.runs import read_run
from fedloom.reproduce import Claim, Item, Outcome, Paper, Setup
from fedloom.reproduce.kept import keep, kept_file, read_kept
from fedloom.reproduce.verdicts import HOLDS, Verdict
from fedloom.simulator import Simulation, make_method, scenario


def judge(runs):
    last = [run.metrics["accuracy"][-1] for run in runs["flat"]]
    return Outcome(claims=(Claim(text="learns", verdict=Verdict(HOLDS, str(last), len(last))),))


@pytest.fixture
def paper(small):
    item = Item(
        key="one",
        title="Fig. 1",
        published="It learns.",
        setups=lambda scale: {"flat": Setup(scenario=small, method="fedavg")},
        judge=judge,
    )
    return Paper(key="toy", name="TOY", title="A toy", authors=("Ape",), where="2026", notes="", items=(item,))


@pytest.fixture
def call(paper, tmp_path, monkeypatch):
    monkeypatch.setattr("fedloom.reproduce.find_items", lambda text: (paper, paper.items))
    settings = {"scale": "laptop", "folder": tmp_path / "out", "cache": tmp_path / "cache", "jobs": 1, "quiet": True}

    def run(**options):
        reproduce("toy:one", **(settings | {"data_folder": None, "as_json": True, "seeds": 1} | options))

    return run


def made(folder, content, method="hierfedavg"):
    """The run of a simulation, read back from its folder."""
    from fedloom.record.folder import record

    record(Simulation(scenario(content), make_method(method), 0), method, folder)
    return read_run(folder)


def test_what_judging_asks_of_a_run_comes_back(small, paper, tmp_path):
    run = made(tmp_path / "run", small | {"evaluation": small.get("evaluation", {}) | {"theory": True}})
    again_later = run.topology.with_columns(pl.col("cloud_round") + 1)
    run = replace(run, topology=pl.concat([run.topology, again_later]))
    file = kept_file(tmp_path, paper, Setup(scenario=run.scenario, method=run.method), run.seed)
    keep(run, file)
    once = file.read_bytes()
    again = read_kept(file)
    assert again.metrics.schema == run.metrics.schema and again.metrics.equals(run.metrics, null_equal=True)
    first = run.topology.filter(run.topology["cloud_round"] == run.topology["cloud_round"].min())
    assert again.topology.schema == first.schema and again.topology.equals(first)
    for name in ("scenario", "method", "seed", "clients", "cells", "origin", "summary"):
        assert getattr(again, name) == getattr(run, name), name
    keep(run, file)
    assert file.read_bytes() == once


def test_numbers_come_back_to_the_bit(small, paper, tmp_path):
    run = made(tmp_path / "run", small)
    odd = pl.DataFrame(
        {"a": [0.1 + 0.2, None, 1e-300], "b": [1, 2, 3], "c": [float("nan"), 5.0, 2**0.5]},
        schema_overrides={"b": pl.UInt32},
    )
    file = kept_file(tmp_path, paper, Setup(scenario=run.scenario, method=run.method), run.seed)
    keep(replace(run, metrics=odd, topology=None), file)
    again = read_kept(file)
    assert again.metrics.equals(odd, null_equal=True) and again.metrics.schema == odd.schema and again.topology is None


def test_a_kept_run_is_not_made_again_and_judges_the_same(call, tmp_path, capsys):
    call()
    before = json.loads(capsys.readouterr().out)
    assert before["reports"]
    [file] = (tmp_path / "out" / "toy" / "kept").iterdir()
    call(cache=tmp_path / "another")
    after = json.loads(capsys.readouterr().out)
    assert after["items"] == before["items"] and not after["reports"] and not (tmp_path / "another").exists()
    call(cache=tmp_path / "another", seeds=2, dry_run=True)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["cached"], row["to_make"], row["estimated"]) == (1, 1, 0)
    call(cache=tmp_path / "another", seeds=2)
    assert [path.name for path in (tmp_path / "another").glob("*/s[0-9]*")] == ["s1"]
    outcome = json.loads((tmp_path / "out" / "toy" / "one-laptop.json").read_text())
    assert outcome["seeds"] == outcome["claims"][0]["verdict"]["n"] == 2
    file.unlink()
    call()  # the cache has it still
    assert file.exists()


def test_what_is_finished_is_kept_when_the_rest_is_stopped(call, tmp_path, monkeypatch):
    call()
    [file] = (tmp_path / "out" / "toy" / "kept").iterdir()
    file.unlink()

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedloom.cli.reproduction.make_runs", stopped)
    with pytest.raises(KeyboardInterrupt):
        call(seeds=2)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:-20], "is damaged"),
        (lambda data: gzip.compress(b"{}"), "is damaged"),
        (lambda data: gzip.compress(b"[1]"), "is damaged"),
        (lambda data: gzip.compress(gzip.decompress(data).replace(b'"Float64"', b'"DataFrame"')), "is damaged"),
        (
            lambda data: gzip.compress(gzip.decompress(data).replace(b'"seed":0,"cl', b'"seed":7,"cl')),
            "holds the run .*-s7",
        ),
        (lambda data: gzip.compress(gzip.decompress(data).replace(b'"fedavg"', b'"fedprox"', 1)), "holds the run"),
    ],
)
def test_damage_is_told(call, tmp_path, spoil, words):
    call()
    [file] = (tmp_path / "out" / "toy" / "kept").iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(FolderError, match=f"{file.name} {words}.*; delete it"):
        call()
