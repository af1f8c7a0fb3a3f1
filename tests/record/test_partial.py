"""Checkpoints inside a cloud round: a run that goes on from any of them ends with the same bits."""

from types import SimpleNamespace

import pytest

import fedloom.record.folder as folder_module
from fedloom.record.folder import load_checkpoint, record
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

RESULTS = ("metrics.parquet", "topology.parquet", "timeline.parquet", "costs.parquet", "model.safetensors")


class Stopped(Exception):
    pass


CASES = {
    "hierfedavg": [],
    "csahfl": [],  # late updates
    "fedavg": ["evaluation.theory=true"],  # bounds look at the model measured last
    "fedat:n_tiers=3": ["evaluation.every={edge_rounds: 1}"],  # an immediate cloud, looked at between its rounds
    "ltc:n_clusters=2:box_s=6": [],  # grouping by updates, which are starts too; rounds of each cluster
    "geographic": [  # a fast cluster is rounds ahead of what is looked at, and its devices of both
        *("evaluation={every: {edge_rounds: 1}, models: devices}", "training.edge_rounds=6"),
        *("fleet.compute.law.high=9", "fleet.device_device={kind: rate, bit_s: 1.0e+6}"),
    ],
    "hiflash_r:every=2": ["task.partition={kind: drawn, samples_per_client: 20}"],  # training for a bound on staleness
}


@pytest.mark.parametrize("text", CASES)
def test_from_every_wave_of_training_to_the_same_bits(text, tmp_path, monkeypatch):
    made, _ = for_method("hierfedavg", cloud_rounds=2, edge_rounds=3)

    def run(name, **options):
        simulation = Simulation(scenario(made, CASES[text]), make_method(text), 1, n_workers=1)
        return record(simulation, text, tmp_path / name, checkpoint_every_s=0, **options)

    moments = []
    real = folder_module.save_checkpoint

    def save(folder, checkpoint, identity, flush=True):
        real(folder, checkpoint, identity)
        moments.append(checkpoint.moment)

    monkeypatch.setattr(folder_module, "save_checkpoint", save)
    run("whole")
    whole, total = list(moments), len(moments)
    assert moments == sorted(moments) and sum(waves > 0 for *_, waves in moments) >= 4
    if CASES[text] and "every" in CASES[text][0]:
        assert any(looks > 0 for _, looks, *_ in moments)
    for stop in range(1, total, max(1, total // 8)):
        moments.clear()

        def save_and_stop(folder, checkpoint, identity, stop=stop):
            save(folder, checkpoint, identity)
            if len(moments) == stop:
                raise Stopped

        monkeypatch.setattr(folder_module, "save_checkpoint", save_and_stop)
        with pytest.raises(Stopped):
            run(f"{stop}")
        monkeypatch.setattr(folder_module, "save_checkpoint", save)
        assert load_checkpoint(tmp_path / f"{stop}").moment == moments[-1]
        assert set(moments[stop:]) <= {moments[-1]}  # stopped while it writes after a round, it writes that once more
        del moments[stop:]
        run(f"{stop}", resume=True)
        assert moments == whole  # nothing was trained twice
        for file in RESULTS:
            assert (tmp_path / f"{stop}" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), (stop, file)


def test_short_cloud_rounds_have_no_checkpoint_inside_and_writing_takes_half_a_hundredth_of_the_time(
    small, tmp_path, monkeypatch
):
    """Rounds of 1 s, writing takes 12.5 ms: at most every 2.5 s, from 2 s on and, what is left, after the last one. What
    the first table takes, 0.3 s to load the library, does not count: it would be a minute without a checkpoint."""
    now_s, seen, n_tables = 0.0, [], 0

    def pass_time(seconds):
        nonlocal now_s
        now_s += seconds

    def save(folder, checkpoint, identity, flush=True):
        seen.append((checkpoint.cloud_round, checkpoint.waves))
        pass_time(0.0125)

    def table(measures, real=folder_module.metrics_bytes):
        nonlocal n_tables
        n_tables += 1
        pass_time(0.3 if n_tables == 1 else 0.0)
        return real(measures)

    monkeypatch.setattr(folder_module, "metrics_bytes", table)
    monkeypatch.setattr(folder_module, "time", SimpleNamespace(perf_counter=lambda: now_s))
    monkeypatch.setattr(folder_module, "save_checkpoint", save)
    simulation = Simulation(scenario(small, ["training.cloud_rounds=9"]), make_method("hierfedavg"), 0, n_workers=1)
    record(simulation, "hierfedavg", tmp_path / "a", on_round=lambda done, measures: pass_time(1.0))
    assert seen == [(2, 0), (5, 0), (8, 0), (9, 0)]
