"""The published networks: sizes, refused shapes, seeded weights."""

import re

import numpy as np
import pytest
import torch

from fedloom.training import models, rows


def n_parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "wanted"),
    [
        ("softmax", (1, 28, 28), 28 * 28 * 10 + 10),
        ("softmax", (1, 28, 28), 7_850),
        ("mlp", (1, 28, 28), (784 + 1) * 64 + (64 + 1) * 10),
        ("lenet5", (1, 28, 28), 44_426),
        ("lenet5", (3, 32, 32), 62_006),
        ("cnn", (1, 28, 28), 21_840),
        ("cnn-bn", (1, 28, 28), 21_880),
        ("vgg", (3, 32, 32), 5_167_882),
    ],
)
def test_models_have_as_many_parameters_as_in_the_papers(name, shape, wanted):
    with torch.device("meta"):  # no memory, no random numbers
        model = models.MODELS[name](shape, 10)
    assert n_parameters(model) == wanted


def test_lenet5_by_hand():
    # conv 5x5x1x6+6 = 156, conv 5x5x6x16+16 = 2416, dense 16x4x4x120+120 = 30840, 120x84+84 = 10164, 84x10+10 = 850
    model = models.lenet5((1, 28, 28), 10)
    assert [p.numel() + b.numel() for p, b in zip(*[iter(model.parameters())] * 2)] == [156, 2416, 30840, 10164, 850]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *[(name, shape) for name in ("softmax", "mlp") for shape in [(7,), (1, 8, 8), (2, 5, 3)]],
        *[(name, (c, s, s)) for name in ("lenet5", "cnn", "cnn-bn") for c, s in [(1, 16), (3, 17), (2, 19), (1, 28)]],
        *[("vgg", (c, s, s)) for c, s in [(1, 8), (3, 12), (2, 20)]],
    ],
)
def test_every_model_maps_images_of_an_accepted_shape_to_outputs(name, shape):
    model = models.build(name, shape, 4, seed=0).eval()
    assert model(torch.zeros(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "least", "shape"),
    [
        ("lenet5", 16, (1, 15, 15)),
        ("cnn", 16, (1, 28, 27)),
        ("cnn-bn", 16, (28, 28)),
        ("vgg", 8, (3, 7, 7)),
        ("lenet5", 16, (784,)),
        ("vgg", 8, (1, 3, 32, 32)),
    ],
)
def test_a_shape_that_does_not_suit_is_refused_and_the_message_says_what_would(name, least, shape):
    wanted = f"model {name} needs square images of at least {least}x{least}"
    with pytest.raises(ValueError, match=re.escape(wanted)) as error:
        models.build(name, shape, 10, seed=0)
    assert f"got inputs of shape {shape}: choose softmax or mlp" in str(error.value)


def test_an_unknown_model_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"model must be one of softmax, mlp, .*, vgg; got 'resnet'"):
        models.build("resnet", (1, 28, 28), 10, seed=0)


@pytest.mark.parametrize("name", models.MODELS)
def test_weights_depend_on_the_seed_and_on_nothing_else(name):
    shape = (1, 8, 8) if name == "vgg" else (1, 16, 16)
    torch.manual_seed(3)
    first = rows.to_row(models.build(name, shape, 3, seed=11))
    torch.manual_seed(4)
    np.testing.assert_array_equal(first, rows.to_row(models.build(name, shape, 3, seed=11)))
    if name == "softmax":
        np.testing.assert_array_equal(first, 0)  # starts from zeros
    else:
        assert (first != rows.to_row(models.build(name, shape, 3, seed=12))).mean() > 0.5


@pytest.mark.parametrize("name", models.MODELS)
def test_building_a_model_leaves_the_global_generator_alone(name):
    torch.manual_seed(99)
    before = torch.get_rng_state()
    models.build(name, (1, 16, 16), 3, seed=5)
    assert torch.equal(before, torch.get_rng_state())


def test_hidden_widths_of_the_mlp_are_an_option():
    model = models.build("mlp", (5,), 2, seed=0, hidden=(4, 3))
    assert n_parameters(model) == (5 + 1) * 4 + (4 + 1) * 3 + (3 + 1) * 2
    assert n_parameters(models.build("mlp", (5,), 2, seed=0, hidden=())) == (5 + 1) * 2
