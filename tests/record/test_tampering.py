"""A damaged, misplaced, swapped or missing file of a record is refused, healed or harmless, never believed."""

import copy
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from fedloom import data
from fedloom.record import checkpoints
from fedloom.record.files import FolderError, json_bytes
from fedloom.record.folder import record
from fedloom.record.runs import read_run
from fedloom.record.verify import verify
from fedloom.simulator import Simulation, make_method, scenario
from small import SMALL

RESULTS = ("metrics.parquet", "topology.parquet", "timeline.parquet", "costs.parquet", "model.safetensors")


class Stopped(Exception):
    pass


def run(folder, method="hierfedavg", seed=1, stop=None, changes=(), **options):
    def on_round(done, measures):
        if done == stop:
            raise Stopped

    dataset = options.pop("dataset", None)
    chosen = scenario(copy.deepcopy(SMALL), ["training.cloud_rounds=6", *changes])
    simulation = Simulation(chosen, make_method(method), seed, n_workers=1, dataset=dataset)
    return record(simulation, method, folder, on_round=on_round, **options)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Finished: whole, and others of another seed, method and scenario. Unfinished, after 3 of 6 rounds: half, with a
    checkpoint after round 3 and the one before it, in round 3."""
    root = tmp_path_factory.mktemp("records")
    run(root / "whole")
    run(root / "seed", seed=2)
    run(root / "method", method="fedprox:mu=0.5")
    run(root / "scenario", changes=["training.lr=0.2"])
    with pytest.raises(Stopped):
        run(root / "half", stop=3, checkpoint_every_s=0)
    return root


def edit(path, change, reseal=False):
    """Change the state in a checkpoint; the digest in it stays, or is made anew."""
    with safe_open(path, framework="numpy") as file:
        sealed = json.loads(file.metadata()["state"])
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    state = json.loads(sealed["state"])
    change(state, arrays)
    sealed["state"] = json.dumps(state)
    if reseal:
        sealed["sha256"] = checkpoints._digest(sealed["state"], arrays)
    save_file(arrays, path, metadata={"state": json.dumps(sealed)})


def flip(path, at=-5, bit=1):
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def flip_bit(models):
    """In the first model, which is the global one, of its tenth value."""
    models.view(np.uint32)[0, 9] ^= 1 << 21


def cut(path, n_bytes):
    path.write_bytes(path.read_bytes()[:n_bytes])


def put(key, value):
    return lambda path, records: edit(path, lambda state, arrays: state.update({key: value}))


DECISION = {"asked": [], "kind": "edge", "host": [0], "clients": [[77]], "n_clients": 6, "notes": {}}
DECISION |= {"cluster": None, "squad": None, "follow": False}

TO_CHECKPOINT = {
    "of another seed": lambda path, records: shutil.copy(records / "seed/checkpoint/state.safetensors", path),
    "of another method": lambda path, records: shutil.copy(records / "method/checkpoint/state.safetensors", path),
    "of another scenario": lambda path, records: shutil.copy(records / "scenario/checkpoint/state.safetensors", path),
    "a bit of a model": lambda path, records: flip(path),
    "a bit of the global model": lambda path, records: edit(path, lambda s, a: flip_bit(a["models"])),
    "a bit of the state": lambda path, records: flip(path, 200),
    "a bit of the header's length": lambda path, records: flip(path, 1),
    "round 9 of 6": put("cloud_round", 9),
    "round 2, not 3": put("cloud_round", 2),
    "round -3": put("cloud_round", -3),
    "round in words": put("cloud_round", "three"),
    "no round": put("cloud_round", None),
    "measures emptied": put("measures", []),
    "measures that are numbers": put("measures", [1, 2]),
    "a client that is not there": put("decisions", {"0": DECISION}),
    "a million million clients": put("decisions", {"0": DECISION | {"n_clients": 10**12}}),
    "scores": put("scores", {"1": 0.5}),
    "waves of training": put("waves", 1),
    "identity": put("identity", "0" * 32),
    "values that are no numbers": lambda path, records: edit(path, lambda s, a: a["models"].fill(np.nan)),
    "fewer models": lambda path, records: edit(path, lambda s, a: a.update(models=a["models"][:1])),
    "no models": lambda path, records: edit(path, lambda s, a: a.update(models=a["models"][:0])),
    "another type": lambda path, records: edit(path, lambda s, a: a.update(models=a["models"].astype(np.float64))),
    "one array more": lambda path, records: edit(path, lambda s, a: a.update(last_row=np.zeros(3, np.float32))),
    "40 bytes left": lambda path, records: cut(path, 40),
    "half left": lambda path, records: cut(path, path.stat().st_size // 2),
    "the last byte gone": lambda path, records: cut(path, -1),
    "empty": lambda path, records: cut(path, 0),
    "text": lambda path, records: path.write_text("not a checkpoint"),
    "no state": lambda path, records: save_file({"models": np.zeros((1, 3), np.float32)}, path),
}


def same_results(folder, whole):
    return all((folder / name).read_bytes() == (whole / name).read_bytes() for name in RESULTS)


@pytest.mark.parametrize("tampering", TO_CHECKPOINT)
def test_of_two_checkpoints_the_older_is_used_with_a_word_and_one_alone_is_refused(tampering, records, tmp_path):
    two, one = tmp_path / "two", tmp_path / "one"
    for folder in (two, one):
        shutil.copytree(records / "half", folder)
        TO_CHECKPOINT[tampering](folder / "checkpoint/state.safetensors", records)
        [misfit] = verify(folder).misfits
        assert misfit.file == "checkpoint/state.safetensors" and "delete it" in misfit.todo
    summary = run(two, resume=True)
    assert same_results(two, records / "whole") and summary["resumed"]
    [note] = [w for w in summary["warnings"] if "could not be used" in w]
    assert "state.safetensors" in note and "went on from the other checkpoint, after cloud round 2" in note
    assert verify(two).sound
    (one / "checkpoint/before.safetensors").unlink()
    with pytest.raises(FolderError, match=r"state.safetensors cannot be used: .*; delete .*checkpoint to start"):
        run(one, resume=True)
    assert not (one / "summary.json").exists()
    shutil.rmtree(one / "checkpoint")  # what the message advises
    run(one, resume=True)
    assert same_results(one, records / "whole") and verify(one).sound


def test_a_checkpoint_of_a_round_beyond_the_run_is_refused_even_with_a_digest_that_fits(records, tmp_path):
    shutil.copytree(records / "half", tmp_path / "a")
    path = tmp_path / "a/checkpoint/state.safetensors"
    edit(path, lambda state, arrays: state.update(cloud_round=9), reseal=True)
    [misfit] = verify(tmp_path / "a").misfits
    assert misfit.expected == "a checkpoint of a run of 6" and misfit.found == "one after cloud round 9"
    with pytest.raises(ValueError, match=r"is of cloud round 9, and this run is over after 6: .* delete it"):
        run(tmp_path / "a", resume=True)
    assert not (tmp_path / "a/summary.json").exists()


def test_checkpoints_that_are_gone_or_have_changed_places_are_harmless(records, tmp_path):
    for name in ("swapped", "newer gone", "older gone", "both gone"):
        shutil.copytree(records / "half", tmp_path / name)
        newer, older = (tmp_path / name / "checkpoint" / f"{n}.safetensors" for n in ("state", "before"))
        if name == "swapped":
            kept = newer.read_bytes()
            shutil.copy(older, newer)
            older.write_bytes(kept)
        for path in {"newer gone": [newer], "older gone": [older], "both gone": [newer, older]}.get(name, []):
            path.unlink()
        assert verify(tmp_path / name).sound
        run(tmp_path / name, resume=True)
        assert same_results(tmp_path / name, records / "whole"), name


def swap(name, of="seed"):
    return lambda folder, records: shutil.copy(records / of / name, folder / name)


def rewrite(name, **changes):
    def write(folder, records):
        content = json.loads((folder / name).read_text())
        (folder / name).write_bytes(json_bytes(content | changes))

    return write


TO_FINISHED = {
    **{f"swapped {name}": (name, swap(name)) for name in (*RESULTS, "summary.json")},
    **{f"of another method {name}": (name, swap(name, "method")) for name in ("metrics.parquet", "model.safetensors")},
    **{f"a bit of {name}": (name, lambda folder, records, name=name: flip(folder / name, 30)) for name in RESULTS},
    **{f"short {name}": (name, lambda folder, records, name=name: cut(folder / name, -9)) for name in RESULTS},
    **{f"empty {name}": (name, lambda folder, records, name=name: cut(folder / name, 0)) for name in RESULTS},
    **{f"missing {name}": (name, lambda folder, records, name=name: (folder / name).unlink()) for name in RESULTS},
    "of an earlier round metrics.parquet": ("metrics.parquet", swap("metrics.parquet", "half")),
    "summary without figures": ("summary.json", lambda folder, records: (folder / "summary.json").write_text("{}")),
    "a better summary": ("summary.json", rewrite("summary.json", final={"accuracy": 1.0})),
    "other clients": ("run.json", rewrite("run.json", clients={"n_samples": [1], "label_counts": [[1]]})),
    "missing run.json": ("run.json", lambda folder, records: (folder / "run.json").unlink()),
    "missing manifest": ("manifest.json", lambda folder, records: (folder / "manifest.json").unlink()),
    "damaged manifest": ("manifest.json", lambda folder, records: flip(folder / "manifest.json", 40)),
    "manifest of another run": ("manifest.json", swap("manifest.json")),
    "empty manifest": ("manifest.json", lambda folder, records: cut(folder / "manifest.json", 0)),
}


@pytest.mark.parametrize("tampering", TO_FINISHED)
def test_a_file_of_a_finished_run_that_does_not_fit_is_named_not_read_and_made_again(tampering, records, tmp_path):
    name, tamper = TO_FINISHED[tampering]
    shutil.copytree(records / "whole", tmp_path / "a")
    assert verify(tmp_path / "a").sound
    tamper(tmp_path / "a", records)
    verdict = verify(tmp_path / "a")
    assert name in {misfit.file for misfit in verdict.misfits} and not verdict.sound
    if name not in ("manifest.json", "model.safetensors"):
        with pytest.raises(FolderError, match=name):
            read_run(tmp_path / "a")
    summary = run(tmp_path / "a", resume=True)
    assert any("did not fit and were made again" in w and name in w for w in summary["warnings"])
    assert same_results(tmp_path / "a", records / "whole") and verify(tmp_path / "a").sound
    assert read_run(tmp_path / "a").summary["final"] == read_run(records / "whole").summary["final"]


@pytest.mark.parametrize("settings", [{"seed": 2}, {"method": "fedprox:mu=0.5"}, {"inputs": "0" * 16}])
def test_settings_that_were_changed_are_named_and_refused(settings, records, tmp_path):
    shutil.copytree(records / "half", tmp_path / "a")
    rewrite("run.json", **settings)(tmp_path / "a", records)
    verdict = verify(tmp_path / "a")
    assert {"run.json", "checkpoint/state.safetensors"} <= {misfit.file for misfit in verdict.misfits}
    [key] = settings
    with pytest.raises(FolderError, match=f"holds another run \\({key} is .* there and"):
        run(tmp_path / "a", resume=True)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "[" * 100_000])
def test_a_run_json_that_is_none_is_refused(content, records, tmp_path):
    shutil.copytree(records / "half", tmp_path / "a")
    (tmp_path / "a/run.json").write_text(content)
    assert "run.json" in {misfit.file for misfit in verify(tmp_path / "a").misfits}
    with pytest.raises(FolderError, match=r"run.json is damaged|holds another run"):
        run(tmp_path / "a", resume=True)


def test_inputs_that_have_changed_since_are_another_run(tmp_path):
    """One value of one training sample, or of one test sample: labels and partition stay what they are."""
    task = scenario(SMALL).task
    whole = data.load(task.dataset, None, task.data_limit, gaussian=task.gaussian, magnet=task.magnet)
    with pytest.raises(Stopped):
        run(tmp_path / "a", stop=2, dataset=whole)
    for split in ("x_train", "x_test"):
        x = getattr(whole, split).copy()
        x[0, 0] += 1
        with pytest.raises(FolderError, match=r"holds another run \(inputs is \w+ there and \w+ here\)"):
            run(tmp_path / "a", resume=True, dataset=replace(whole, **{split: x}))
    run(tmp_path / "a", resume=True, dataset=whole)


@pytest.mark.parametrize("name", ["half", "whole"])
def test_a_record_of_other_numbers_is_not_gone_on_with(name, records, tmp_path, monkeypatch):
    shutil.copytree(records / name, tmp_path / "a")
    monkeypatch.setattr("fedloom.record.identity.NUMBERS", 10**6)
    with pytest.raises(FolderError, match=r"numbers.fedloom is \d+ there and 1000000 here"):
        run(tmp_path / "a", resume=True)
