"""Own model and own data on real devices: `fedloom deploy local SCENARIO --task own_task:task`.

Called on every node with its name. Here all make the same blobs; on a real device, read only what it has: samples of other
clients may be anything of the right shape there.
"""

import numpy as np
import torch
from torch import nn

from fedloom.data import Dataset


def task(node: str, n_clients: int = 6, n_each: int = 40) -> dict:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_clients * n_each + 150)
    x = (rng.normal(size=(len(y), 2)) + 3 * np.eye(3)[y][:, :2]).astype(np.float32)
    mine = n_clients * n_each
    data = Dataset(name="blobs", x_train=x[:mine], y_train=y[:mine], x_test=x[mine:], y_test=y[mine:], n_classes=3)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    return {"dataset": data, "model": model, "parts": np.split(np.arange(mine), n_clients)}
