"""The networks of the published experiments, as plain `nn.Sequential`s.

Every builder takes the shape of one input, (channels, height, width) or (features,), and the number of outputs, and
raises if the shape does not suit it. Numbers of parameters are those of the papers; the tests count them.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

Shape = tuple[int, ...]


def softmax(shape: Shape, n_outputs: int) -> nn.Sequential:
    """Softmax (or linear) regression with bias, from zeros: 7,850 parameters on 28x28x1 with 10 classes."""
    linear = nn.Linear(_size(shape), n_outputs)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.Flatten(), linear)


def mlp(shape: Shape, n_outputs: int, hidden: Sequence[int] = (64,)) -> nn.Sequential:
    """Fully connected layers with ReLU between them; `hidden` holds the widths."""
    layers: list[nn.Module] = [nn.Flatten()]
    width = _size(shape)
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
    """The small MNIST network of HHFL (section 7): pooling before ReLU, 21,840 parameters on 28x28x1."""
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


def cnn_bn(shape: Shape, n_outputs: int) -> nn.Sequential:
    """The network of CAMU (section 6): BatchNorm before the dense layers, one ReLU; 21,880 parameters on 28x28x1."""
    channels, side = _image(shape, "cnn-bn", least=16)
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(20),
        nn.Flatten(),
        nn.Linear(20 * _after_two_convolutions(side) ** 2, 50),
        nn.ReLU(),
        nn.Linear(50, n_outputs),
    )


def vgg(shape: Shape, n_outputs: int, width: float = 1.0) -> nn.Sequential:
    """The VGG-11-style network of HHFL (section 7): GroupNorm and dropout; 5,167,882 parameters on 32x32x3.

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


MODELS: dict[str, Callable[..., nn.Module]] = {
    "softmax": softmax,
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn": cnn,
    "cnn-bn": cnn_bn,
    "vgg": vgg,
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


def _after_two_convolutions(side: int) -> int:
    """Side of the image after 5x5 convolution and pooling by 2, twice."""
    return ((side - 4) // 2 - 4) // 2


def _grouped(channels: float) -> int:
    """A number of channels near `channels`, at least 1, that min(32, channels) groups divide."""
    return max(1, round(channels)) if channels <= 32 else 32 * math.floor(channels / 32 + 0.5)
