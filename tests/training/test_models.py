"""The published networks: sizes, refused shapes, seeded weights."""

import re

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from test_native_equality import ONE_STEP, errors, make_jobs, make_task, some_rows
from torch import nn

from fedloom.simulator.scenarios import ModelSettings, ScenarioError, scenario
from fedloom.simulator.simulation import Simulation, make_method
from fedloom.training import models, rows
from fedloom.training.native import describe
from fedloom.training.rule import LocalRule


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


def widths(model):
    """Channels of the convolutions, groups of their norms, and hidden units."""
    of_kind = {kind: [m for m in model if isinstance(m, kind)] for kind in (nn.Conv2d, nn.GroupNorm, nn.Linear)}
    channels = [m.out_channels for m in of_kind[nn.Conv2d]]
    return channels, [m.num_groups for m in of_kind[nn.GroupNorm]], of_kind[nn.Linear][0].out_features


@pytest.mark.parametrize(
    ("width", "channels", "groups", "hidden"),
    [
        (1.0, [64, 128, 256, 256], [32] * 4, 1024),
        (2, [128, 256, 512, 512], [32] * 4, 2048),
        (0.5, [32, 64, 128, 128], [32] * 4, 512),
        (0.25, [16, 32, 64, 64], [16, 32, 32, 32], 256),
        (0.75, [64, 96, 192, 192], [32] * 4, 768),  # 48 is no multiple of 32
        (0.3, [19, 32, 64, 64], [19, 32, 32, 32], 307),  # 38.4 and 76.8 are none either
        (1e-6, [1, 1, 1, 1], [1] * 4, 1),
    ],
)
def test_the_width_of_vgg_is_a_factor_that_leaves_channels_in_whole_groups(width, channels, groups, hidden):
    with torch.device("meta"):
        model = models.vgg((3, 32, 32), 10, width=width)
    assert widths(model) == (channels, groups, hidden)
    assert model[-1].out_features == 10


@pytest.mark.parametrize("width", np.geomspace(0.01, 3, 40).round(3))
def test_vgg_of_any_width_maps_images_to_outputs(width):
    with torch.device("meta"):
        model = models.vgg((1, 8, 8), 4, width=float(width))
        assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 4)
    channels, groups, _ = widths(model)
    assert groups == [min(32, c) for c in channels] and all(c % g == 0 for c, g in zip(channels, groups))
    # 32 apart at most: half a step of rounding
    assert all(abs(c - wide * width) <= 16 or c == 1 for c, wide in zip(channels, (64, 128, 256, 256)))


def test_a_quarter_of_vgg_by_hand():
    conv = (9 * 3 + 1) * 16 + (9 * 16 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 64
    norm = 2 * (16 + 32 + 64 + 64)
    dense = (64 * 4 * 4 + 1) * 256 + (256 + 1) * 10
    model = models.build("vgg", (3, 32, 32), 10, seed=0, width=0.25)
    assert n_parameters(model) == conv + norm + dense == 325_834
    assert torch.isfinite(model(torch.rand(2, 3, 32, 32))).all()
    assert len(describe(model, (3, 32, 32))) == len(model)  # the native engine takes all of its layers


def test_a_narrow_vgg_trains_alike_in_both_engines():
    model = models.build("vgg", (1, 8, 8), 4, seed=0, width=0.25)
    task = make_task(model, (1, 8, 8))
    assert errors(task, LocalRule(lr=0.05), some_rows(model, 1), make_jobs([0, 1], 1)).max() <= ONE_STEP


def test_a_width_of_one_draws_the_same_weights_as_no_width():
    plain, one = (rows.to_row(models.build("vgg", (1, 8, 8), 3, seed=4, **o)) for o in ({}, {"width": 1.0}))
    np.testing.assert_array_equal(plain, one)


@pytest.mark.parametrize("width", [0, -1.0, float("inf"), float("nan")])
def test_a_width_that_is_none_is_refused(width):
    with pytest.raises(ValueError, match=rf"width of model vgg must be a finite number above 0, got {width}; 1 is"):
        models.vgg((1, 8, 8), 3, width=width)
    with pytest.raises(ValidationError):
        ModelSettings(kind="vgg", width=width)


@pytest.mark.parametrize(
    ("kind", "option", "message"),
    [
        ("lenet5", {"width": 0.5}, "width is for kind vgg, not for lenet5; leave it out"),
        ("mlp", {"width": 0.5}, "width is for kind vgg, not for mlp; leave it out"),
        ("vgg", {"hidden": [3]}, "hidden is for kind mlp, not for vgg; leave it out"),
    ],
)
def test_an_option_of_another_model_is_refused_in_a_scenario(kind, option, message):
    with pytest.raises(ScenarioError, match=message):
        scenario({"fleet": {"n_devices": 2}, "task": {"model": {"kind": kind, **option}}})


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"kind": "vgg", "width": 0.125}, models.vgg((1, 8, 8), 10, width=0.125)),
        ({"kind": "mlp", "hidden": [5]}, models.mlp((1, 8, 8), 10, hidden=(5,))),
        ({"kind": "softmax"}, models.softmax((1, 8, 8), 10)),
    ],
)
def test_a_scenario_passes_the_options_on(settings, wanted):
    chosen = scenario({"fleet": {"n_devices": 2}, "task": {"dataset": "digits", "model": settings}})
    simulation = Simulation(chosen, make_method("fedavg"), dry_run=True)
    assert simulation.n_params == n_parameters(wanted)
