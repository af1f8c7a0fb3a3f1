"""A model as a row and back."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fedloom.training import models, networks, rows

SHAPES = {name: (1, 8, 8) if name == "vgg" else (1, 16, 16) for name in networks.NETWORKS}


class Scaled(nn.Module):
    """A frozen weight, a float buffer between parameters, an integer buffer, a tied weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.tensor([7.0, 8.0]))
        self.register_buffer("calls", torch.tensor([3]))
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_row_loaded_into_another_model_makes_it_equal(name):
    a, b = (models.build(name, SHAPES[name], 3, seed=seed) for seed in (1, 2))
    row = rows.to_row(a) + np.float32(0.25)
    assert row.shape == (rows.n_values(a),) and row.dtype == np.float32
    rows.load_row(b, row)
    np.testing.assert_array_equal(rows.to_row(b), row)
    by_hand = [v.numpy().reshape(-1) for k, v in a.state_dict().items() if v.is_floating_point() and "running" not in k]
    np.testing.assert_array_equal(rows.to_row(a)[rows.trainable_mask(a)], np.concatenate(by_hand))


def test_a_row_is_a_copy():
    model = nn.Linear(2, 1)
    row = rows.to_row(model)
    before = row.copy()
    rows.load_row(model, np.zeros(3, dtype=np.float32))
    np.testing.assert_array_equal(row, before)


def test_parameters_come_first_then_buffers_and_the_mask_says_which():
    model = Scaled()
    with torch.no_grad():
        model.first.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        model.first.bias.copy_(torch.tensor([5.0, 6.0]))
        model.second.bias.copy_(torch.tensor([9.0, 10.0]))
    # named_parameters: first.weight, first.bias, second.bias (second.weight is first.weight); then shift; no `calls`
    np.testing.assert_array_equal(rows.to_row(model), [1, 2, 3, 4, 5, 6, 9, 10, 7, 8])
    np.testing.assert_array_equal(rows.trainable_mask(model), [1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
    assert rows.n_values(model) == 10
    assert [name for name, _ in rows.tensors(model)] == ["first.weight", "first.bias", "second.bias", "shift"]


def test_batch_norm_statistics_stand_at_the_end_without_the_counter():
    model = models.build("cnn-bn", (1, 28, 28), 10, seed=0)
    mask = rows.trainable_mask(model)
    assert len(mask) == rows.n_values(model) == 21_880 + 2 * 20
    assert mask[:21_880].all() and not mask[21_880:].any()
    np.testing.assert_array_equal(rows.to_row(model)[21_880:], [0.0] * 20 + [1.0] * 20)  # mean 0, variance 1


def test_a_bound_vector_is_the_model_both_ways():
    model = models.build("cnn-bn", (1, 16, 16), 3, seed=0)
    plain = copy.deepcopy(model)
    before = rows.to_row(model)
    flat = rows.bind(model)
    np.testing.assert_array_equal(flat.numpy(), before)

    flat.mul_(2.0)  # writing the vector sets the model ...
    np.testing.assert_array_equal(rows.to_row(model), 2 * before)
    with torch.no_grad():
        model[0].weight.fill_(3.0)  # ... and the other way round
    assert (flat[: model[0].weight.numel()] == 3.0).all()

    rows.load_row(model, before)
    x = torch.randn(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x), plain(x))  # forward also writes the running statistics ...
    np.testing.assert_allclose(flat.numpy(), rows.to_row(plain), rtol=1e-6)  # ... into the vector
    assert (flat.numpy() != before).sum() == 2 * 20


def test_binding_keeps_tied_weights_tied():
    model = Scaled()
    flat = rows.bind(model)
    flat.zero_()
    assert model.second.weight is model.first.weight
    assert float(model.second.weight.detach().abs().sum()) == 0.0


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 3)])
def test_a_row_of_the_wrong_length_is_refused(shape):
    with pytest.raises(ValueError, match=r"the row must have shape \(3,\) for this model, got "):
        rows.load_row(nn.Linear(2, 1), np.zeros(shape, dtype=np.float32))


def test_batch_norm_without_momentum_is_refused_and_the_layer_named():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=None))
    with pytest.raises(ValueError, match=r"layer 1 is a BatchNorm with momentum=None.*such as 0\.1"):
        rows.to_row(model)
    with pytest.raises(ValueError, match=r"layer of the model is a BatchNorm"):
        rows.to_row(nn.BatchNorm1d(3, momentum=None))
    untracked = nn.BatchNorm1d(3, momentum=None, track_running_stats=False)
    assert rows.n_values(untracked) == 6


def test_other_precisions_are_refused_and_the_tensor_named():
    with pytest.raises(ValueError, match=r"weight must be float32, got torch\.float64; convert the model with"):
        rows.to_row(nn.Linear(2, 1).double())
    model = nn.BatchNorm1d(3)
    model.running_var = model.running_var.double()
    with pytest.raises(ValueError, match="running_var must be float32"):
        rows.bind(model)
