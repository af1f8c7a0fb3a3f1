"""Layers of sequences as torch modules: what `nn.Sequential` cannot be made of alone."""

import torch
from torch import nn
from torch.nn import functional


class Positions(nn.Module):
    """Adds a trained vector for each place: (batch, length, width) -> the same."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, width).normal_(std=0.02))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight[: x.shape[1]]


class States(nn.Module):
    """LSTM layers: (batch, length, inputs) -> the state at each place, (batch, length, width)."""

    def __init__(self, inputs: int, width: int, depth: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, depth, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.lstm(x)[0]
        return states


class LastPlace(nn.Module):
    """(batch, length, width) -> (batch, width), what stands at the last place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, -1]


class Attention(nn.Module):
    """A causal transformer block with normalisation first.

    x <- x + answers(attention(asks(before(x))))
    x <- x + narrow(gelu(wide(between(x))))
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.asks, self.answers = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.between, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) -> the same."""
        batch, length, width = x.shape
        asked = self.asks(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = asked.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.answers(seen.transpose(1, 2).reshape(batch, length, width))
        out: torch.Tensor = x + self.narrow(functional.gelu(self.wide(self.between(x))))
        return out
