"""Lets torchvision be imported beside a torch without CUDA: its wheel is built for another, so its operators are not there.

FedLab and FLGo import it for datasets that nobody asks for here.
"""

import torch

_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
