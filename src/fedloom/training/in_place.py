"""ReLU that writes over its input, where nobody else reads that: the same values, with less memory to take, fill and read."""

import itertools
from collections import Counter

from torch import nn

# Layers whose gradient needs their input, not their output, so that the output may be written over.
OVERWRITABLE = frozenset(
    {nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.MaxPool2d, nn.AvgPool2d}
)


def relu_in_place(model: nn.Module) -> None:
    """Have every nn.ReLU that stands right after such a layer in an nn.Sequential, and nowhere else, work in place.

    Layers with hooks, which may keep an output, are left alone; types are compared by themselves, as a subclass may do more.
    """
    uses = Counter(id(child) for parent in model.modules() for child in parent._modules.values())
    for parent in model.modules():
        if type(parent) is nn.Sequential:
            for before, layer in itertools.pairwise(parent):
                hooked = before._forward_hooks or layer._forward_pre_hooks or layer._forward_hooks
                if type(layer) is nn.ReLU and type(before) in OVERWRITABLE and not hooked and uses[id(layer)] == 1:
                    layer.inplace = True
