"""The networks of the published experiments, as records of their layers: of plain layers, or of blocks with branches.

Every builder takes the shape of one input, (channels, height, width) or (features,), and the number of outputs, and
raises if the shape does not suit it. Numbers of parameters are those of the papers; the tests count them.
`fedloom.training.models` makes torch modules of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from fedloom import _check
from fedloom.training.layers import (
    LSTM,
    Attention,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Embedding,
    Fire,
    Flatten,
    GlobalAvgPool2d,
    GroupNorm,
    LastPlace,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
    Network,
    PooledBatchNorm2d,
    Positions,
    ReLU,
    Residual,
)

Shape = tuple[int, ...]


def softmax(shape: Shape, n_outputs: int) -> Network:
    """Softmax (or linear) regression with bias, from zeros: 7,850 parameters on 28x28x1 with 10 classes."""
    return Network((Flatten(), Linear(math.prod(shape), n_outputs, zero=True)))


def mlp(shape: Shape, n_outputs: int, hidden: Sequence[int] = (64,), pool: int = 1) -> Network:
    """Fully connected layers with ReLU between them; `hidden` holds the widths.

    With `pool` above 1, images are first averaged over squares of that side: hidden (34,) with pool 2 has 7,048 parameters
    on 28x28x1 with 10 classes: the 28 kB of DDC, section 5, which does not say what network they are.
    """
    layers: list[Layer] = [Flatten()]
    width = math.prod(shape)
    if pool > 1:
        channels, side = _image(shape, f"mlp with pool {pool}", least=pool)
        layers.insert(0, AvgPool2d(pool))
        width = channels * (side // pool) ** 2
    for n in hidden:
        layers += [Linear(width, n), ReLU()]
        width = n
    return Network((*layers, Linear(width, n_outputs)))


def lenet5(shape: Shape, n_outputs: int) -> Network:
    """LeNet-5 with ReLU and max-pooling: 44,426 parameters on 28x28x1, 62,006 on 32x32x3 (LTC, Table 13)."""
    channels, side = _image(shape, "lenet5", least=16)
    return Network(
        (
            _conv(channels, 6, 5),
            ReLU(),
            MaxPool2d(),
            _conv(6, 16, 5),
            ReLU(),
            MaxPool2d(),
            Flatten(),
            Linear(16 * _after_two_convolutions(side) ** 2, 120),
            ReLU(),
            Linear(120, 84),
            ReLU(),
            Linear(84, n_outputs),
        )
    )


def cnn(shape: Shape, n_outputs: int) -> Network:
    """A small network for MNIST: pooling before ReLU, 21,840 parameters on 28x28x1. HHFL (section V-A) names no layers for its
    CNN; these, customary in work on hierarchical averaging, are ours."""
    channels, side = _image(shape, "cnn", least=16)
    return Network(
        (
            _conv(channels, 10, 5),
            MaxPool2d(),
            ReLU(),
            _conv(10, 20, 5),
            MaxPool2d(),
            ReLU(),
            Flatten(),
            Linear(20 * _after_two_convolutions(side) ** 2, 50),
            ReLU(),
            Linear(50, n_outputs),
        )
    )


def cnn_small(shape: Shape, n_outputs: int, kernel: int = 3, channels: Sequence[int] = (10, 20)) -> Network:
    """Two convolutions and one dense layer: 6,930 parameters on 28x28x1 with 10 classes, the 28 kB of DDC (section 5), which does
    not say what network they are: the layers are ours.

    `kernel` is the side of both convolutions, `channels` their widths: 5 and (9, 18) has 7,192 parameters on 28x28x1, 3 and
    (8, 16) has 7,162 on 32x32x3.
    """
    least = 3 * kernel + 1  # one value is left of each channel
    depth, side = _image(shape, "cnn-small", least)
    first, second = channels
    return Network(
        (
            _conv(depth, first, kernel),
            ReLU(),
            MaxPool2d(),
            _conv(first, second, kernel),
            ReLU(),
            MaxPool2d(),
            Flatten(),
            Linear(second * _after_two_convolutions(side, kernel) ** 2, n_outputs),
        )
    )


def cnn_bn(shape: Shape, n_outputs: int, conv_relu: bool = False, bn_var: str = "mean") -> Network:
    """The network of CAMU (section V-A), its channels ours: BatchNorm before the dense layers, one ReLU; 21,880 parameters on
    28x28x1. conv_relu: one after each convolution too, where the printed network has only pooling. bn_var: what averaging
    models makes of running variances, their "mean" or that of the "pooled" samples; the paper is silent on it."""
    _check.one_of("bn_var", bn_var, ("mean", "pooled"))
    channels, side = _image(shape, "cnn-bn", least=16)
    relu = [ReLU()] if conv_relu else []
    return Network(
        (
            _conv(channels, 10, 5),
            *relu,
            MaxPool2d(),
            _conv(10, 20, 5),
            *relu,
            MaxPool2d(),
            BatchNorm2d(20) if bn_var == "mean" else PooledBatchNorm2d(20),
            Flatten(),
            Linear(20 * _after_two_convolutions(side) ** 2, 50),
            ReLU(),
            Linear(50, n_outputs),
        )
    )


def vgg(shape: Shape, n_outputs: int, width: float = 1.0) -> Network:
    """The VGG-11-style network of HHFL (section V-C): GroupNorm and dropout; 5,167,882 parameters on 32x32x3. Convolutions of a
    block, groups and the rate of dropout are ours.

    `width` (above 0) multiplies the channels, 64, 128 and 256, and the 1024 hidden units; 0.25 is 16, 32, 64 and 256,
    325,834 parameters. There are min(32, channels) groups, so more than 32 channels are rounded to a multiple of 32.
    """
    if not 0 < width < math.inf:
        raise ValueError(f"width of model vgg must be a finite number above 0, got {width}; 1 is the published network")
    channels, side = _image(shape, "vgg", least=8)
    layers: list[Layer] = []
    for block in ((64,), (128,), (256, 256)):
        for wide in block:
            n = _grouped(wide * width)
            layers += [_conv(channels, n, 3, padding=1), GroupNorm(min(32, n), n), ReLU()]
            channels = n
        layers.append(MaxPool2d())
    flat, hidden = channels * (side // 8) ** 2, max(1, round(1024 * width))
    head: list[Layer] = [Dropout(0.5), Linear(flat, hidden), ReLU(), Dropout(0.5), Linear(hidden, n_outputs)]
    return Network((*layers, Flatten(), *head))


def squeezenet(shape: Shape, n_outputs: int) -> Network:
    """SqueezeNet 1.1 for small images (LTC, section 5.1): 773,796 parameters on 32x32x3 with 100 classes.

    As published but for the stem: 3x3 with stride 1 and padding, and no first pooling, so that 32x32 images are 8x8 at the
    end. Stride and pooling do not change the number of parameters. Weights start as in He et al. (uniform), those of the
    last convolution from N(0, 0.01^2), biases from 0.
    """
    channels, _ = _image(shape, "squeezenet", least=8)
    pool = MaxPool2d(3, 2, ceil=True)
    return Network(
        (
            _conv(channels, 64, 3, padding=1),
            ReLU(),
            Fire(64, 16, 64),
            Fire(128, 16, 64),
            pool,
            Fire(128, 32, 128),
            Fire(256, 32, 128),
            pool,
            Fire(256, 48, 192),
            Fire(384, 48, 192),
            Fire(384, 64, 256),
            Fire(512, 64, 256),
            Dropout(0.5),
            _conv(512, n_outputs, 1),
            ReLU(),
            GlobalAvgPool2d(),
            Flatten(),
        ),
        first="squeezenet",
    )


def resnet18(shape: Shape, n_outputs: int) -> Network:
    """ResNet-18 for small images (LTC, section 5.1): 11,220,132 parameters on 32x32x3 with 100 classes.

    The stem is 3x3 with stride 1 without pooling, instead of 7x7 with stride 2 and pooling. Convolutions have no bias and
    start as in He et al. (normal, fan out).
    """
    channels, _ = _image(shape, "resnet18", least=8)
    layers: list[Layer] = [Conv2d(channels, 64, (3, 3), (1, 1), bias=False), BatchNorm2d(64), ReLU()]
    here = 64
    for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(here, wide, stride), Residual(wide, wide, 1)]
        here = wide
    return Network((*layers, GlobalAvgPool2d(), Flatten(), Linear(here, n_outputs)), first="resnet18")


def resnet20(shape: Shape, n_outputs: int) -> Network:
    """ResNet-20 for small images with GroupNorm (8 groups) where the published one has BatchNorm, whose statistics suffer from
    averaging: 272,474 parameters on 32x32x3 with 10 classes. Where the shape changes, the input goes through a 1x1
    convolution."""
    channels, _ = _image(shape, "resnet20", least=8)
    layers: list[Layer] = [Conv2d(channels, 16, (3, 3), (1, 1), bias=False), GroupNorm(8, 16), ReLU()]
    here = 16
    for wide, stride in ((16, 1), (32, 2), (64, 2)):
        layers += [Residual(here, wide, stride, 8), Residual(wide, wide, 1, 8), Residual(wide, wide, 1, 8)]
        here = wide
    return Network((*layers, GlobalAvgPool2d(), Flatten(), Linear(here, n_outputs)), first="resnet18")


def lstm(
    shape: Shape, n_outputs: int, n_tokens: int, per_token: bool, units: int = 64, depth: int = 1, embedding: int = 16
) -> Network:
    """Tokens as vectors of `embedding` values, `depth` layers of `units` LSTM cells, and outputs from the state at each place, or
    at the last one if there is one target for the sequence."""
    _sequence(shape, "lstm")
    last = [] if per_token else [LastPlace()]
    head: list[Layer] = [*last, Linear(units, n_outputs)]
    return Network((Embedding(n_tokens, embedding), LSTM(embedding, units, depth), *head), first="torch")


def transformer(
    shape: Shape, n_outputs: int, n_tokens: int, per_token: bool, units: int = 64, depth: int = 2, heads: int = 4
) -> Network:
    """A small causal transformer: vectors of `units` values with trained positions, `depth` blocks of `heads` heads with the
    normalisation before attention and before the dense layers, which are four times as wide. Outputs as of lstm."""
    length = _sequence(shape, "transformer")
    if units % heads:
        raise ValueError(f"units of model transformer must be a multiple of heads, got {units} and {heads}")
    last = [] if per_token else [LastPlace()]
    blocks = [Attention(units, heads) for _ in range(depth)]
    layers: list[Layer] = [Embedding(n_tokens, units), Positions(length, units), *blocks, LayerNorm(units), *last]
    return Network((*layers, Linear(units, n_outputs)), first="torch")


NETWORKS: dict[str, Callable[..., Network]] = {
    "softmax": softmax,
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn": cnn,
    "cnn-small": cnn_small,
    "cnn-bn": cnn_bn,
    "vgg": vgg,
    "squeezenet": squeezenet,
    "resnet18": resnet18,
    "resnet20": resnet20,
}
SEQUENCES: dict[str, Callable[..., Network]] = {"lstm": lstm, "transformer": transformer}
"""Those whose inputs are tokens."""


def network(
    name: str,
    shape: Shape,
    n_outputs: int,
    seed: int,
    n_tokens: int = 0,
    per_token: bool = False,
    **options: object,
) -> Network:
    """The named network, whose first values are drawn from `seed` when they are asked for.

    n_tokens: inputs are tokens 0..n_tokens-1, not numbers; per_token: there is a target for each.
    """
    if name not in (*NETWORKS, *SEQUENCES):
        raise ValueError(f"model must be one of {', '.join((*NETWORKS, *SEQUENCES))}; got {name!r}")
    if bool(n_tokens) != (name in SEQUENCES):
        takes, there = ("tokens", "numbers") if name in SEQUENCES else ("numbers", "tokens")
        others = NETWORKS if name in SEQUENCES else SEQUENCES
        raise ValueError(
            f"model {name} takes {takes}, and the inputs of the data are {there}; use {' or '.join(others)}"
        )
    made = SEQUENCES[name](shape, n_outputs, n_tokens, per_token, **options) if n_tokens else None
    return replace(made or NETWORKS[name](shape, n_outputs, **options), seed=seed)


def _sequence(shape: Shape, name: str) -> int:
    """Length of the sequences."""
    if len(shape) != 1:
        raise ValueError(f"model {name} needs sequences of tokens, shape (length,); got inputs of shape {shape}")
    return shape[0]


def _conv(inputs: int, outputs: int, kernel: int, padding: int = 0) -> Conv2d:
    return Conv2d(inputs, outputs, (kernel, kernel), (padding, padding))


def _image(shape: Shape, name: str, least: int) -> tuple[int, int]:
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < least:
        raise ValueError(
            f"model {name} needs square images of at least {least}x{least}, as (channels, height, width); "
            f"got inputs of shape {shape}: choose softmax or mlp, or another dataset"
        )
    return shape[0], shape[1]


def _after_two_convolutions(side: int, kernel: int = 5) -> int:
    """Side of the image after a convolution with a square of side `kernel` and pooling by 2, twice."""
    return ((side - kernel + 1) // 2 - kernel + 1) // 2


def _grouped(channels: float) -> int:
    """A number of channels near `channels`, at least 1, that min(32, channels) groups divide."""
    return max(1, round(channels)) if channels <= 32 else 32 * math.floor(channels / 32 + 0.5)
