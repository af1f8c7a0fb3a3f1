"""The final model as a file of its own, and the module that comes back."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fedloom as fl
from fedloom.record.files import FolderError
from fedloom.record.folder import record
from fedloom.training import rows


class Own(nn.Module):
    """With a buffer that is averaged and one that is counted."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, width), nn.BatchNorm1d(width), nn.Linear(width, 4)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def run(small, folder, **options):
    simulation = fl.Simulation(fl.scenario(small), fl.make_method("hierfedavg"), 3, n_workers=1, **options)
    record(simulation, "hierfedavg", folder)
    return simulation


def test_the_module_of_the_scenario_comes_back_with_the_final_values(small, tmp_path):
    simulation = run(small, tmp_path / "a")
    module = fl.load_model(tmp_path / "a")
    assert not module.training
    assert np.array_equal(rows.to_row(module), simulation.result().row)
    x, y = simulation.dataset.inputs("test"), simulation.dataset.y_test
    right = module(torch.from_numpy(x)).argmax(dim=1).numpy() == y
    assert right.mean() == simulation.measures[-1]["accuracy"]
    names = load_file(tmp_path / "a/model.safetensors")
    assert set(names) == set(module.state_dict())


def test_an_own_module_must_be_given(small, tmp_path):
    torch.manual_seed(0)
    simulation = run(small, tmp_path / "a", model=Own())
    with pytest.raises(FolderError, match=r"a module of your own \(test_model.Own\).*model=\.\.\."):
        fl.load_model(tmp_path / "a")
    own = fl.load_model(tmp_path / "a", model=Own())
    assert np.array_equal(rows.to_row(own), simulation.result().row)
    again = Own()
    again.load_state_dict(load_file(tmp_path / "a/model.safetensors"))  # strictly: all names, no others
    assert np.array_equal(rows.to_row(again), simulation.result().row)
    with pytest.raises(FolderError, match=r"does not fit the module Own: size mismatch for first.weight.*; give one"):
        fl.load_model(tmp_path / "a", model=Own(width=9))


def test_another_first_model_is_another_run(small, tmp_path):
    torch.manual_seed(0)
    run(small, tmp_path / "a", model=Own())
    with pytest.raises(FolderError, match=r"holds another run \(first_model is"):
        run(small, tmp_path / "a", model=Own())


def test_a_model_that_is_missing_damaged_or_of_another_run_is_refused(small, tmp_path):
    with pytest.raises(FolderError, match="is not the folder of a run"):
        fl.load_model(tmp_path)
    run(small, tmp_path / "a")
    small["training"]["lr"] = 0.2
    run(small, tmp_path / "b")
    path = tmp_path / "a/model.safetensors"
    kept = path.read_bytes()
    path.write_bytes(kept[:-4])
    with pytest.raises(FolderError, match=r"model.safetensors: expected \d+ bytes .* found \d+ bytes .*shorter"):
        fl.load_model(tmp_path / "a")
    shutil.copy(tmp_path / "b/model.safetensors", path)
    with pytest.raises(FolderError, match=r"model.safetensors: expected"):
        fl.load_model(tmp_path / "a")
    (tmp_path / "a/manifest.json").unlink()
    with pytest.raises(FolderError, match="is the model of another run"):
        fl.load_model(tmp_path / "a")
    path.write_bytes(kept[:-4])
    with pytest.raises(FolderError, match="is damaged"):
        fl.load_model(tmp_path / "a")
    path.unlink()
    with pytest.raises(FolderError, match="not finished; go on with --resume"):
        fl.load_model(tmp_path / "a")
