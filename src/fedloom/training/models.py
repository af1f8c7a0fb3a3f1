"""The networks of the published experiments, as `nn.Sequential`s: of plain layers, or of blocks with branches.

Every builder takes the shape of one input, (channels, height, width) or (features,), and the number of outputs, and
raises if the shape does not suit it. Numbers of parameters are those of the papers; the tests count them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from fedloom import _check

Shape = tuple[int, ...]


def softmax(shape: Shape, n_outputs: int) -> nn.Sequential:
    """Softmax (or linear) regression with bias, from zeros: 7,850 parameters on 28x28x1 with 10 classes."""
    linear = nn.Linear(_size(shape), n_outputs)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.Flatten(), linear)


def mlp(shape: Shape, n_outputs: int, hidden: Sequence[int] = (64,), pool: int = 1) -> nn.Sequential:
    """Fully connected layers with ReLU between them; `hidden` holds the widths.

    With `pool` above 1, images are first averaged over squares of that side: hidden (34,) with pool 2 has 7,048 parameters
    on 28x28x1 with 10 classes: the 28 kB of DDC, section 5, which does not say what network they are.
    """
    layers: list[nn.Module] = [nn.Flatten()]
    width = _size(shape)
    if pool > 1:
        channels, side = _image(shape, f"mlp with pool {pool}", least=pool)
        layers.insert(0, nn.AvgPool2d(pool))
        width = channels * (side // pool) ** 2
    for n in hidden:
        layers += [nn.Linear(width, n), nn.ReLU()]
        width = n
    return nn.Sequential(*layers, nn.Linear(width, n_outputs))


def lenet5(shape: Shape, n_outputs: int) -> nn.Sequential:
    """LeNet-5 with ReLU and max-pooling: 44,426 parameters on 28x28x1, 62,006 on 32x32x3 (LTC, Table 13)."""
    channels, side = _image(shape, "lenet5", least=16)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * _after_two_convolutions(side) ** 2, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, n_outputs),
    )


def cnn(shape: Shape, n_outputs: int) -> nn.Sequential:
    """A small network for MNIST: pooling before ReLU, 21,840 parameters on 28x28x1. HHFL (section V-A) names no layers for its
    CNN; these, customary in work on hierarchical averaging, are ours."""
    channels, side = _image(shape, "cnn", least=16)
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(20 * _after_two_convolutions(side) ** 2, 50),
        nn.ReLU(),
        nn.Linear(50, n_outputs),
    )


def cnn_small(shape: Shape, n_outputs: int, kernel: int = 3, channels: Sequence[int] = (10, 20)) -> nn.Sequential:
    """Two convolutions and one dense layer: 6,930 parameters on 28x28x1 with 10 classes, the 28 kB of DDC (section 5), which does
    not say what network they are: the layers are ours.

    `kernel` is the side of both convolutions, `channels` their widths: 5 and (9, 18) has 7,192 parameters on 28x28x1, 3 and
    (8, 16) has 7,162 on 32x32x3.
    """
    least = 3 * kernel + 1  # one value is left of each channel
    depth, side = _image(shape, "cnn-small", least)
    first, second = channels
    return nn.Sequential(
        nn.Conv2d(depth, first, kernel),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, kernel),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * _after_two_convolutions(side, kernel) ** 2, n_outputs),
    )


class PooledBatchNorm2d(nn.Module):
    """BatchNorm2d that keeps its running variance as a second moment, variance + mean^2: the mean of such models has the
    variance of the pooled samples, sum_k w_k (var_k + mean_k^2) - (sum_k w_k mean_k)^2 (ours), not the mean of the variances."""

    running_mean: torch.Tensor
    running_square: torch.Tensor

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_square", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.running_mean.clone()
        variance = (self.running_square - mean**2).clamp(min=0)
        y = functional.batch_norm(x, mean, variance, self.weight, self.bias, self.training, self.momentum, self.eps)
        if self.training:
            with torch.no_grad():
                self.running_mean.copy_(mean)
                self.running_square.copy_(variance + mean**2)
        return y


def cnn_bn(shape: Shape, n_outputs: int, conv_relu: bool = False, bn_var: str = "mean") -> nn.Sequential:
    """The network of CAMU (section V-A), its channels ours: BatchNorm before the dense layers, one ReLU; 21,880 parameters on
    28x28x1. conv_relu: one after each convolution too, where the printed network has only pooling. bn_var: what averaging
    models makes of running variances, their "mean" or that of the "pooled" samples; the paper is silent on it."""
    _check.one_of("bn_var", bn_var, ("mean", "pooled"))
    channels, side = _image(shape, "cnn-bn", least=16)
    relu = [nn.ReLU] if conv_relu else []
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5),
        *(layer() for layer in relu),
        nn.MaxPool2d(2),
        nn.Conv2d(10, 20, 5),
        *(layer() for layer in relu),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(20) if bn_var == "mean" else PooledBatchNorm2d(20),
        nn.Flatten(),
        nn.Linear(20 * _after_two_convolutions(side) ** 2, 50),
        nn.ReLU(),
        nn.Linear(50, n_outputs),
    )


def vgg(shape: Shape, n_outputs: int, width: float = 1.0) -> nn.Sequential:
    """The VGG-11-style network of HHFL (section V-C): GroupNorm and dropout; 5,167,882 parameters on 32x32x3. Convolutions of a
    block, groups and the rate of dropout are ours.

    `width` (above 0) multiplies the channels, 64, 128 and 256, and the 1024 hidden units; 0.25 is 16, 32, 64 and 256,
    325,834 parameters. There are min(32, channels) groups, so more than 32 channels are rounded to a multiple of 32.
    """
    if not 0 < width < math.inf:
        raise ValueError(f"width of model vgg must be a finite number above 0, got {width}; 1 is the published network")
    channels, side = _image(shape, "vgg", least=8)
    layers: list[nn.Module] = []
    for block in ((64,), (128,), (256, 256)):
        for wide in block:
            n = _grouped(wide * width)
            layers += [nn.Conv2d(channels, n, 3, padding=1), nn.GroupNorm(min(32, n), n), nn.ReLU()]
            channels = n
        layers.append(nn.MaxPool2d(2))
    flat, hidden = channels * (side // 8) ** 2, max(1, round(1024 * width))
    head = [nn.Dropout(0.5), nn.Linear(flat, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, n_outputs)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


class Fire(nn.Module):
    """SqueezeNet's block: few 1x1 filters, then 1x1 and 3x3 filters side by side, their channels one after the other."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, side, side) -> (batch, 2 expanded, side, side)."""
        x = self.squeeze(x).relu()
        return torch.cat([self.expand1(x), self.expand3(x)], dim=1).relu()


class Residual(nn.Module):
    """ResNet's basic block: two 3x3 convolutions with BatchNorm, added to the input.

    Where the shape changes, the input goes through a 1x1 convolution with BatchNorm.
    """

    def __init__(self, channels: int, wide: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, wide, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != wide:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, side, side) -> (batch, wide, side / stride, side / stride), rounded up."""
        added: torch.Tensor = self.body(x) + self.shortcut(x)
        return added.relu()


def squeezenet(shape: Shape, n_outputs: int) -> nn.Sequential:
    """SqueezeNet 1.1 for small images (LTC, section 5.1): 773,796 parameters on 32x32x3 with 100 classes.

    As published but for the stem: 3x3 with stride 1 and padding, and no first pooling, so that 32x32 images are 8x8 at the
    end. Stride and pooling do not change the number of parameters. Weights start as in He et al. (uniform), those of the
    last convolution from N(0, 0.01^2), biases from 0.
    """
    channels, _ = _image(shape, "squeezenet", least=8)
    pool = partial(nn.MaxPool2d, 3, stride=2, ceil_mode=True)
    last = nn.Conv2d(512, n_outputs, 1)
    model = nn.Sequential(
        nn.Conv2d(channels, 64, 3, padding=1),
        nn.ReLU(),
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        pool(),
        Fire(128, 32, 128),
        Fire(256, 32, 128),
        pool(),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        Fire(512, 64, 256),
        nn.Dropout(0.5),
        last,
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    for layer in _convolutions(model):
        if layer is last:
            nn.init.normal_(layer.weight, std=0.01)
        else:
            nn.init.kaiming_uniform_(layer.weight)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    return model


def resnet18(shape: Shape, n_outputs: int) -> nn.Sequential:
    """ResNet-18 for small images (LTC, section 5.1): 11,220,132 parameters on 32x32x3 with 100 classes.

    The stem is 3x3 with stride 1 without pooling, instead of 7x7 with stride 2 and pooling. Convolutions have no bias and
    start as in He et al. (normal, fan out).
    """
    channels, _ = _image(shape, "resnet18", least=8)
    layers: list[nn.Module] = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    here = 64
    for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(here, wide, stride), Residual(wide, wide, 1)]
        here = wide
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(here, n_outputs))
    for layer in _convolutions(model):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return model


MODELS: dict[str, Callable[..., nn.Module]] = {
    "softmax": softmax,
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn": cnn,
    "cnn-small": cnn_small,
    "cnn-bn": cnn_bn,
    "vgg": vgg,
    "squeezenet": squeezenet,
    "resnet18": resnet18,
}


def build(name: str, shape: Shape, n_outputs: int, seed: int, **options: object) -> nn.Module:
    """The named network with weights drawn from `seed`; the global generator of torch is left as it was."""
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {name!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](shape, n_outputs, **options)


def _size(shape: Shape) -> int:
    return int(torch.Size(shape).numel())


def _image(shape: Shape, name: str, least: int) -> tuple[int, int]:
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < least:
        raise ValueError(
            f"model {name} needs square images of at least {least}x{least}, as (channels, height, width); "
            f"got inputs of shape {shape}: choose softmax or mlp, or another dataset"
        )
    return shape[0], shape[1]


def _convolutions(model: nn.Module) -> Iterator[nn.Conv2d]:
    return (layer for layer in model.modules() if isinstance(layer, nn.Conv2d))


def _after_two_convolutions(side: int, kernel: int = 5) -> int:
    """Side of the image after a convolution with a square of side `kernel` and pooling by 2, twice."""
    return ((side - kernel + 1) // 2 - kernel + 1) // 2


def _grouped(channels: float) -> int:
    """A number of channels near `channels`, at least 1, that min(32, channels) groups divide."""
    return max(1, round(channels)) if channels <= 32 else 32 * math.floor(channels / 32 + 0.5)
