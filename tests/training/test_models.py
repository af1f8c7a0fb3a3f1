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
from fedloom.training import layers, models, networks, rows
from fedloom.training.choose import make_engine
from fedloom.training.native import Unsupported, describe
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine


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
        ("cnn-small", (1, 28, 28), 6_930),
        ("cnn-bn", (1, 28, 28), 21_880),
        ("vgg", (3, 32, 32), 5_167_882),
        ("squeezenet", (3, 32, 32), 722_496 + 513 * 10),
        ("resnet18", (3, 32, 32), 11_173_962),
    ],
)
def test_models_have_as_many_parameters_as_in_the_papers(name, shape, wanted):
    with torch.device("meta"):  # no memory, no random numbers
        model = models.MODELS[name](shape, 10)
    assert n_parameters(model) == wanted


@pytest.mark.parametrize(
    ("name", "shape", "options", "wanted"),
    [
        ("cnn-small", (1, 28, 28), {"kernel": 5, "channels": (9, 18)}, 7_192),
        ("cnn-small", (3, 32, 32), {"channels": (8, 16)}, 7_162),
        ("mlp", (1, 28, 28), {"hidden": (9,)}, 7_165),
        ("mlp", (1, 28, 28), {"hidden": (34,), "pool": 2}, 7_048),
    ],
)
def test_the_networks_of_28_kb(name, shape, options, wanted):
    model = models.build(name, shape, 10, seed=0, **options)
    assert n_parameters(model) == wanted
    assert model(torch.zeros(2, *shape)).shape == (2, 10)
    assert describe(model, shape)  # the native engine takes them


def test_cnn_small_by_hand():
    # conv 3x3x1x10+10 = 100, conv 3x3x10x20+20 = 1820, dense 20x5x5x10+10 = 5010
    model = models.cnn_small((1, 28, 28), 10)
    assert [p.numel() + b.numel() for p, b in zip(*[iter(model.parameters())] * 2)] == [100, 1820, 5010]


def test_a_pooled_mlp_sees_means_of_squares():
    model = models.build("mlp", (1, 5, 5), 3, seed=0, hidden=(4,), pool=2)  # the last row and column are left out
    x = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    means = torch.stack([x[:, 0, i : i + 2, j : j + 2].mean(dim=(1, 2)) for i in (0, 2) for j in (0, 2)], dim=1)
    torch.testing.assert_close(model(x), model[2:](means))
    with pytest.raises(ValueError, match="model mlp with pool 2 needs square images of at least 2x2"):
        models.mlp((7,), 3, pool=2)


@pytest.mark.parametrize("options", [("cnn-small", {}), ("mlp", {"hidden": (5,), "pool": 2})])
def test_small_networks_train_alike_in_both_engines(options):
    name, rest = options
    model = models.build(name, (1, 12, 12), 4, seed=0, **rest)
    task = make_task(model, (1, 12, 12))
    assert errors(task, LocalRule(lr=0.05), some_rows(model, 1), make_jobs([0, 1], 1)).max() <= ONE_STEP


def test_lenet5_by_hand():
    # conv 5x5x1x6+6 = 156, conv 5x5x6x16+16 = 2416, dense 16x4x4x120+120 = 30840, 120x84+84 = 10164, 84x10+10 = 850
    model = models.lenet5((1, 28, 28), 10)
    assert [p.numel() + b.numel() for p, b in zip(*[iter(model.parameters())] * 2)] == [156, 2416, 30840, 10164, 850]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *[(name, shape) for name in ("softmax", "mlp") for shape in [(7,), (1, 8, 8), (2, 5, 3)]],
        *[
            (name, (c, s, s))
            for name in ("lenet5", "cnn", "cnn-bn", "cnn-small")
            for c, s in [(1, 16), (3, 17), (2, 19), (1, 28)]
        ],
        *[
            (name, (c, s, s))
            for name in ("vgg", "squeezenet", "resnet18")
            for c, s in [(1, 8), (3, 12), (2, 20), (1, 9)]
        ],
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
        ("cnn-small", 10, (1, 9, 9)),
        ("vgg", 8, (3, 7, 7)),
        ("lenet5", 16, (784,)),
        ("vgg", 8, (1, 3, 32, 32)),
        ("squeezenet", 8, (3, 7, 7)),
        ("resnet18", 8, (3, 32, 31)),
    ],
)
def test_a_shape_that_does_not_suit_is_refused_and_the_message_says_what_would(name, least, shape):
    wanted = f"model {name} needs square images of at least {least}x{least}"
    with pytest.raises(ValueError, match=re.escape(wanted)) as error:
        models.build(name, shape, 10, seed=0)
    assert f"got inputs of shape {shape}: choose softmax or mlp" in str(error.value)


def test_an_unknown_model_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"model must be one of softmax, mlp, .*, transformer; got 'resnet'"):
        models.build("resnet", (1, 28, 28), 10, seed=0)


@pytest.mark.parametrize("name", networks.NETWORKS)
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


@pytest.mark.parametrize("name", networks.NETWORKS)
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


@pytest.mark.parametrize("width", np.geomspace(0.01, 3, 10).round(3))
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
        ("resnet18", {"width": 0.5}, "width is for kind vgg, not for resnet18; leave it out"),
        ("cnn", {"channels": [3, 4]}, "channels is for kind cnn-small, not for cnn; leave it out"),
        ("vgg", {"pool": 2}, "pool is for kind mlp, not for vgg; leave it out"),
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
        ({"kind": "mlp", "hidden": [5], "pool": 2}, models.mlp((1, 8, 8), 10, hidden=(5,), pool=2)),
        (
            {"kind": "cnn-small", "kernel": 2, "channels": [3, 4]},
            models.cnn_small((1, 8, 8), 10, kernel=2, channels=(3, 4)),
        ),
        ({"kind": "softmax"}, models.softmax((1, 8, 8), 10)),
        ({"kind": "squeezenet"}, models.squeezenet((1, 8, 8), 10)),
    ],
)
def test_a_scenario_passes_the_options_on(settings, wanted):
    chosen = scenario({"fleet": {"n_devices": 2}, "task": {"dataset": "digits", "model": settings}})
    simulation = Simulation(chosen, make_method("fedavg"), dry_run=True)
    assert simulation.n_params == n_parameters(wanted)


def test_the_networks_of_ltc_have_as_many_parameters_as_published():
    # 48-2048-2048-2048-6
    assert n_parameters(models.mlp((48,), 6, hidden=(2048, 2048, 2048))) == 8_505_350
    with torch.device("meta"):
        assert n_parameters(models.squeezenet((3, 32, 32), 1000)) == 1_235_496  # as SqueezeNet 1.1 on ImageNet
        assert n_parameters(models.squeezenet((3, 32, 32), 100)) == 773_796
        assert n_parameters(models.resnet18((3, 32, 32), 100)) == 11_220_132


def test_squeezenet_by_hand():
    def fire(channels, squeezed, expanded):
        return (channels + 1) * squeezed + (squeezed + 1) * expanded + (9 * squeezed + 1) * expanded

    fires = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]
    fires += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
    with torch.device("meta"):
        model = models.squeezenet((3, 32, 32), 7)
        blocks = [layer for layer in model if isinstance(layer, models.Fire)]
        assert [n_parameters(block) for block in blocks] == [fire(*sizes) for sizes in fires]
        assert n_parameters(model) == (9 * 3 + 1) * 64 + sum(fire(*sizes) for sizes in fires) + (512 + 1) * 7
        assert model[:-5](torch.zeros(2, 3, 32, 32)).shape == (2, 512, 8, 8)


def test_resnet18_by_hand():
    def block(channels, wide, changes):
        plain = 9 * channels * wide + 9 * wide * wide + 4 * wide
        return plain + (channels * wide + 2 * wide if changes else 0)

    with torch.device("meta"):
        model = models.resnet18((3, 32, 32), 7)
        wanted = [block(64, 64, False), block(64, 64, False)]
        for c in (64, 128, 256):
            wanted += [block(c, 2 * c, True), block(2 * c, 2 * c, False)]
        assert [n_parameters(layer) for layer in model if isinstance(layer, models.Residual)] == wanted
        assert n_parameters(model) == 9 * 3 * 64 + 2 * 64 + sum(wanted) + (512 + 1) * 7
        sides = [model[: 3 + n](torch.zeros(2, 3, 32, 32)).shape[1:] for n in (0, 2, 4, 6, 8)]
    assert sides == [(64, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]


def test_a_fire_block_puts_both_filters_side_by_side():
    block = models.Fire(3, 2, 4).eval()
    x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    inner = block.squeeze(x).clamp(min=0)
    out = block(x)
    assert out.shape == (2, 8, 5, 5)
    torch.testing.assert_close(out[:, :4], block.expand1(inner).clamp(min=0))
    torch.testing.assert_close(out[:, 4:], block.expand3(inner).clamp(min=0))


@pytest.mark.parametrize(("wide", "stride"), [(3, 1), (5, 1), (3, 2), (6, 2)])
def test_a_residual_block_adds_its_input(wide, stride):
    block = models.Residual(layers.Residual(3, wide, stride)).eval()
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(block.body[3].weight)  # nothing is added then
    assert block(x).shape == (2, wide, 8 // stride, 8 // stride)
    torch.testing.assert_close(block(x), block.shortcut(x).clamp(min=0))
    assert bool(list(block.shortcut)) == ((wide, stride) != (3, 1))  # else the input itself


@pytest.mark.parametrize("name", ["squeezenet", "resnet18"])
def test_networks_with_branches_go_to_torch(name):
    model = models.build(name, (1, 8, 8), 4, seed=0)
    task = make_task(model, (1, 8, 8))
    engine, words = make_engine(task, LocalRule(lr=0.01), 0, n_workers=1)
    assert isinstance(engine, TorchEngine) and "not native" in words
    with pytest.raises(Unsupported, match=r"(Fire|Residual) is not an nn\.Sequential"):
        describe(model, (1, 8, 8))
    with pytest.raises(ValueError, match="the native engine cannot train this model: "):
        make_engine(task, LocalRule(lr=0.01), 0, engine="native")
    if name == "squeezenet":  # small enough for it
        assert "Fire is not an nn.Sequential" in words


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lr"), [("squeezenet", 0.003), ("resnet18", 0.02)])
def test_networks_with_branches_learn(name, lr):
    model = models.build(name, (1, 8, 8), 4, seed=0)
    task = make_task(model, (1, 8, 8), sizes=(8, 8), batch_size=8)
    engine = TorchEngine(task, LocalRule(lr=lr, momentum=0.9), 0, n_workers=1)
    start = rows.to_row(model)[None]
    end = engine.train(start, make_jobs([0], 30))
    assert np.isfinite(end).all()
    moved = {name: (end != start)[0, rows.columns(model, [name])].any() for name, _ in rows.tensors(model)}
    assert all(moved.values())  # every layer of both branches, and the statistics of BatchNorm
    own = task.parts[0]
    for layer in model.modules():  # few steps on few samples: the statistics of BatchNorm lag behind
        layer.train(isinstance(layer, nn.BatchNorm2d))
    losses = []
    for row in (start[0], end[0]):
        rows.load_row(model, row)
        with torch.inference_mode():
            outputs = model(torch.from_numpy(task.x_train[own]))
            losses.append(nn.functional.cross_entropy(outputs, torch.from_numpy(task.y_train[own])).item())
    assert losses[1] < 0.8 * losses[0]


def sample():
    """Tensors of 4, 2 (layer 0), 3, 3 (BatchNorm's parameters), 6, 1; then its statistics, 3 and 3."""
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(3), nn.Sequential(nn.Linear(6, 1)))


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["0.weight"], range(4)),
        (["0.bias", "1.bias"], [4, 5, 9, 10, 11]),
        (["1.bias", "0.bias"], [4, 5, 9, 10, 11]),  # in the order of the row
        (["0"], range(6)),
        (["1"], range(6, 12)),  # without statistics
        (["1.running_var"], range(22, 25)),
        (["2"], range(12, 19)),
        (["2.0", "2.0.weight"], range(12, 19)),  # once
        ([""], range(19)),
    ],
)
def test_columns_are_where_the_named_tensors_and_layers_stand(names, wanted):
    assert rows.columns(sample(), names).tolist() == list(wanted)


def test_columns_pick_the_values_of_the_tensor():
    model = models.build("resnet18", (1, 8, 8), 3, seed=1)
    name, tensor = "5.shortcut.0.weight", model.get_submodule("5.shortcut.0").weight
    found = rows.columns(model, (name,))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(rows.to_row(model)[found], tensor.detach().numpy().ravel())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["0", "3.weight"], r"no tensor or layer '3.weight' with values; tensors: 0.weight, 0.bias, 1.weight"),
        (["0.wei"], "no tensor or layer '0.wei'"),
        ([], "of at least one tensor or layer, got no names"),
    ],
)
def test_columns_of_what_is_not_there_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        rows.columns(sample(), names)


def test_the_first_convolution_of_lenet5_is_less_than_a_percent():
    model = models.lenet5((3, 32, 32), 10)
    first = rows.first_convolution(model)
    assert first == ("0",)
    assert rows.columns(model, first).tolist() == list(range(456))
    assert 456 / rows.n_values(model) == pytest.approx(0.00735, abs=5e-6)


@pytest.mark.parametrize(
    ("name", "sizes", "share"),
    [
        # stem, the first of the 64-channel convolutions, the shortcuts to 128 and 256
        ("resnet18", {"0": 1728, "3.body.0": 36_864, "5.shortcut.0": 8192, "7.shortcut.0": 32_768}, 0.0071),
        ("squeezenet", {"0": 1792, "2.squeeze": 1040, "2.expand1": 1088, "3.expand1": 1088}, 0.0065),
    ],
)
def test_the_four_smallest_convolutions_of_large_networks(name, sizes, share):
    model = models.build(name, (3, 32, 32), 100, seed=0)
    chosen = rows.smallest_convolutions(model)
    assert chosen == tuple(sizes)
    assert [len(rows.columns(model, [layer])) for layer in chosen] == list(sizes.values())
    assert len(rows.columns(model, chosen)) / n_parameters(model) == pytest.approx(share, abs=5e-5)


def test_numbers_of_convolutions_that_are_not_there_are_refused():
    model = models.lenet5((1, 16, 16), 3)
    assert rows.smallest_convolutions(model, 1) == ("0",) and rows.smallest_convolutions(model, 2) == ("0", "3")
    for n in (0, 3):
        with pytest.raises(ValueError, match=rf"n must be in 1..2, the number of the model's convolutions, got {n}"):
            rows.smallest_convolutions(model, n)
    for choose in (rows.smallest_convolutions, rows.first_convolution):
        with pytest.raises(ValueError, match="the model has no convolutions; choose layers by name"):
            choose(models.mlp((3,), 2))


def test_the_network_of_camu_may_have_a_relu_after_each_convolution():
    plain, more = (models.build("cnn-bn", (1, 28, 28), 10, 0, conv_relu=on) for on in (False, True))
    kinds = [type(layer).__name__ for layer in more]
    assert kinds.count("ReLU") == 3 and [type(layer).__name__ for layer in plain].count("ReLU") == 1
    assert rows.n_values(plain) == rows.n_values(more) and kinds[:3] == ["Conv2d", "ReLU", "MaxPool2d"]


def test_running_variances_may_be_those_of_the_pooled_samples():
    plain, pooled = (models.build("cnn-bn", (1, 16, 16), 3, 0, bn_var=how) for how in ("mean", "pooled"))
    x, y = torch.randn(2, 12, 1, 16, 16, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
    ends = {}
    for how, model in (("mean", plain), ("pooled", pooled)):
        start, ends[how] = rows.to_row(model), []
        for k in range(2):  # two clients from one start
            rows.load_row(model, start)
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[k] * (k + 1)), y).backward()
                optimizer.step()
            model.eval()
            ends[how].append((rows.to_row(model), model(x[k]).detach()))
    for one, other in zip(ends["mean"], ends["pooled"]):  # as one model they are the same
        torch.testing.assert_close(one[1], other[1], rtol=1e-4, atol=1e-5)
    means, variances = [], []
    for row, _ in ends["mean"]:
        rows.load_row(plain, row)
        means.append(plain[4].running_mean.clone())
        variances.append(plain[4].running_var.clone())
    rows.load_row(pooled, np.mean([row for row, _ in ends["pooled"]], axis=0))
    layer, mean = pooled[4], (means[0] + means[1]) / 2
    wanted = sum(v + m**2 for v, m in zip(variances, means)) / 2 - mean**2
    torch.testing.assert_close(layer.running_square - layer.running_mean**2, wanted, rtol=1e-4, atol=1e-6)
    assert (wanted > (variances[0] + variances[1]) / 2 + 1e-6).any()
    assert (
        rows.trainable_mask(pooled).sum() == rows.trainable_mask(plain).sum()
    )  # statistics are no parameters: without noise
    with pytest.raises(Unsupported):
        describe(pooled, (1, 16, 16))
