"""Layers as plain records: what a network is made of, named as torch names them, before anything computes with it.

The torch module, the native engine's description, the layout of a model's row and its first values are all made from these
records, so that a run that the native engine trains never loads torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

TRAINED, BUFFER, COUNTER = "trained", "buffer", "counter"


@dataclass(frozen=True)
class Tensor:
    """Name and shape of one tensor. kind: trained, buffer (averaged like a parameter) or counter (not part of a row)."""

    name: str
    shape: tuple[int, ...]
    kind: str = TRAINED

    @property
    def n_values(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n


@dataclass(frozen=True)
class Conv2d:
    """Filters over images; stride and padding are the same for height and width in `stride`."""

    inputs: int
    outputs: int
    kernel: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    stride: int = 1
    bias: bool = True

    @property
    def fan_in(self) -> int:
        """Values that one output is made of."""
        return self.inputs * self.kernel[0] * self.kernel[1]

    def tensors(self) -> list[Tensor]:
        weight = Tensor("weight", (self.outputs, self.inputs, *self.kernel))
        return [weight, *([Tensor("bias", (self.outputs,))] if self.bias else [])]


@dataclass(frozen=True)
class Linear:
    """A dense layer. zero: it starts from zeros, not from drawn values."""

    inputs: int
    outputs: int
    bias: bool = True
    zero: bool = False

    @property
    def fan_in(self) -> int:
        """Values that one output is made of."""
        return self.inputs

    def tensors(self) -> list[Tensor]:
        weight = Tensor("weight", (self.outputs, self.inputs))
        return [weight, *([Tensor("bias", (self.outputs,))] if self.bias else [])]


@dataclass(frozen=True)
class ReLU:
    """max(x, 0)."""


@dataclass(frozen=True)
class MaxPool2d:
    """The largest value of squares. ceil: an incomplete last square counts too."""

    kernel: int = 2
    stride: int = 2
    ceil: bool = False


@dataclass(frozen=True)
class AvgPool2d:
    """The mean of squares that lie side by side; what is left at the border is left out."""

    kernel: int = 2


@dataclass(frozen=True)
class GlobalAvgPool2d:
    """The mean of each channel: an image of one pixel."""


@dataclass(frozen=True)
class BatchNorm2d:
    """Normalisation over the samples of a batch. affine: with a weight and a bias."""

    channels: int
    eps: float = 1e-5
    momentum: float = 0.1
    affine: bool = True

    def tensors(self) -> list[Tensor]:
        return _batch_norm(self.channels, "running_var", self.affine)


@dataclass(frozen=True)
class BatchNorm1d:
    """The same for vectors."""

    channels: int
    eps: float = 1e-5
    momentum: float = 0.1
    affine: bool = True

    def tensors(self) -> list[Tensor]:
        return _batch_norm(self.channels, "running_var", self.affine)


@dataclass(frozen=True)
class PooledBatchNorm2d:
    """BatchNorm2d whose running variance is kept as a second moment; see fedloom.training.models."""

    channels: int

    def tensors(self) -> list[Tensor]:
        return _batch_norm(self.channels, "running_square", affine=True)[:4]


@dataclass(frozen=True)
class GroupNorm:
    """Normalisation over groups of the channels of one sample. affine: with a weight and a bias."""

    groups: int
    channels: int
    eps: float = 1e-5
    affine: bool = True

    def tensors(self) -> list[Tensor]:
        return [Tensor("weight", (self.channels,)), Tensor("bias", (self.channels,))] if self.affine else []


@dataclass(frozen=True)
class Dropout:
    """Values that are left out in training, with probability p."""

    p: float


@dataclass(frozen=True)
class Flatten:
    """Images as vectors."""


@dataclass(frozen=True)
class Embedding:
    """A vector of `width` values for each token."""

    n_tokens: int
    width: int

    def tensors(self) -> list[Tensor]:
        return [Tensor("weight", (self.n_tokens, self.width))]


@dataclass(frozen=True)
class Positions:
    """A trained vector for each place of a sequence, added to what stands there."""

    length: int
    width: int

    def tensors(self) -> list[Tensor]:
        return [Tensor("weight", (self.length, self.width))]


@dataclass(frozen=True)
class LSTM:
    """Long short-term memory over sequences: for each place its state, of `width` values, in the last of `depth` layers."""

    inputs: int
    width: int
    depth: int = 1

    def tensors(self) -> list[Tensor]:
        found, gates = [], 4 * self.width
        for i in range(self.depth):
            shapes = ((gates, self.width if i else self.inputs), (gates, self.width), (gates,), (gates,))
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            found += [Tensor(f"lstm.{name}_l{i}", shape) for name, shape in zip(names, shapes)]
        return found


@dataclass(frozen=True)
class LayerNorm:
    """Normalisation of each vector."""

    width: int

    def tensors(self) -> list[Tensor]:
        return [Tensor("weight", (self.width,)), Tensor("bias", (self.width,))]


@dataclass(frozen=True)
class LastPlace:
    """Of a sequence of vectors the last."""


@dataclass(frozen=True)
class Other:
    """A layer of which nothing is known but its name: nothing but torch can train it."""

    name: str


@dataclass(frozen=True)
class Fire:
    """SqueezeNet's block; see fedloom.training.models."""

    inputs: int
    squeezed: int
    expanded: int

    def inside(self) -> list[tuple[str, "Plain"]]:
        return [
            ("squeeze", Conv2d(self.inputs, self.squeezed, (1, 1))),
            ("expand1", Conv2d(self.squeezed, self.expanded, (1, 1))),
            ("expand3", Conv2d(self.squeezed, self.expanded, (3, 3), (1, 1))),
        ]


@dataclass(frozen=True)
class Residual:
    """ResNet's basic block; see fedloom.training.models. groups: of GroupNorm, which it has instead of BatchNorm."""

    inputs: int
    wide: int
    stride: int
    groups: int | None = None

    @property
    def norm(self) -> "BatchNorm2d | GroupNorm":
        return BatchNorm2d(self.wide) if self.groups is None else GroupNorm(self.groups, self.wide)

    def inside(self) -> list[tuple[str, "Plain"]]:
        found: list[tuple[str, Plain]] = [
            ("body.0", Conv2d(self.inputs, self.wide, (3, 3), (1, 1), self.stride, bias=False)),
            ("body.1", self.norm),
            ("body.2", ReLU()),
            ("body.3", Conv2d(self.wide, self.wide, (3, 3), (1, 1), bias=False)),
            ("body.4", self.norm),
        ]
        if self.stride != 1 or self.inputs != self.wide:
            found += [
                ("shortcut.0", Conv2d(self.inputs, self.wide, (1, 1), stride=self.stride, bias=False)),
                ("shortcut.1", self.norm),
            ]
        return found


@dataclass(frozen=True)
class Attention:
    """A transformer's block, in which each place sees those before it; see fedloom.training.sequences."""

    width: int
    heads: int

    def inside(self) -> list[tuple[str, "Plain"]]:
        return [
            ("before", LayerNorm(self.width)),
            ("asks", Linear(self.width, 3 * self.width)),
            ("answers", Linear(self.width, self.width)),
            ("between", LayerNorm(self.width)),
            ("wide", Linear(self.width, 4 * self.width)),
            ("narrow", Linear(4 * self.width, self.width)),
        ]


Sequential = Embedding | Positions | LSTM | LayerNorm
WithTensors = Conv2d | Linear | BatchNorm2d | BatchNorm1d | PooledBatchNorm2d | GroupNorm | Sequential
Plain = WithTensors | ReLU | MaxPool2d | AvgPool2d | GlobalAvgPool2d | Dropout | Flatten | LastPlace | Other
Block = Fire | Residual | Attention
Layer = Plain | Block


@dataclass(frozen=True)
class Leaf:
    """A layer as it is applied: the prefix of its tensors' names, "0." or "", and of a Dropout its number, from 1."""

    name: str
    layer: Plain
    dropout: int


@dataclass(frozen=True)
class Network:
    """A network, its layers in the order they are applied, with the seed of its first values.

    first: how they are drawn: "layers", as torch's layers draw theirs; "squeezenet" and "resnet18", as these networks do, and
    "torch", as torch's modules for sequences do, which takes torch.
    """

    layers: tuple[Layer, ...]
    seed: int = 0
    first: str = "layers"

    def leaves(self) -> Iterator[tuple[str, Plain]]:
        """Layers that have no layers inside, with their names: "0", or "3.squeeze" in a block."""
        for i, layer in enumerate(self.layers):
            if isinstance(layer, Block):
                yield from ((f"{i}.{name}", inner) for name, inner in layer.inside())
            else:
                yield str(i), layer

    def tensors(self) -> list[Tensor]:
        """All tensors by the names of the module's `state_dict()`, in its order."""
        return [
            Tensor(f"{name}.{t.name}", t.shape, t.kind)
            for name, layer in self.leaves()
            if isinstance(layer, WithTensors)
            for t in layer.tensors()
        ]


def _batch_norm(channels: int, second: str, affine: bool) -> list[Tensor]:
    trained = [Tensor("weight", (channels,)), Tensor("bias", (channels,))] if affine else []
    running = [Tensor("running_mean", (channels,), BUFFER), Tensor(second, (channels,), BUFFER)]
    return [*trained, *running, Tensor("num_batches_tracked", (), COUNTER)]
