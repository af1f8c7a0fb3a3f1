"""How far gradient inversion gets: pictures of clients, made again from what an observer sees of their training.

    python tools/inversion_study.py             makes docs/inversion.json, a picture, and a table of docs/privacy.md
    python tools/inversion_study.py --quick     few steps, one draw: whether it runs

Observed is what clients changed in an edge round, of one client (its aggregator sees that), of a cluster's mean, or of an edge
server's mean (the cloud sees those): the mean over clients of their updates. Every client trains on one picture of
Fashion-MNIST, one step, which is the easiest case for the attack, or five. The attack (L. Zhu, Z. Liu, S. Han: Deep Leakage from
Gradients, 2019) knows model, learning rate, number of clients and all labels, and looks for pictures that give the same gradient:

    x* = argmin_x ||g(x) - g||^2            by L-BFGS from noise; the best of its steps

on the LeNet of that paper, which has sigmoids and strides and weights drawn in -0.5..0.5; and on our lenet5, which has ReLU and
pooling. Pictures are matched to the true ones so that the errors are least, and told in PSNR [dB], 10 log10(1 / mean squared
error). Beside stands what somebody gets who knows the labels and sees no update: the mean picture of each label. With noise: the
same attack on an update with the noise of `private=client`, clipped to its own length.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn import functional as F

from fedloom import data
from fedloom._random import key_of, normals_of
from fedloom.record.files import write_whole
from fedloom.record.statistics import interval
from fedloom.training import models

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS, PAGE = DOCS / "inversion.json", DOCS / "privacy.md"
BEGIN, END = "<!-- made by tools/inversion_study.py -->", "<!-- end -->"
LR = 0.1
SEEN = {
    "one client": (1, 1, 0.0),
    "one client, our lenet5": (1, 1, 0.0),
    "one client, 5 steps": (1, 5, 0.0),
    "one client, noise 0.01": (1, 1, 0.01),
    "cluster of 4": (4, 1, 0.0),
    "cluster of 8": (8, 1, 0.0),
    "edge of 24": (24, 1, 0.0),
}
"""By name: clients in the mean, local steps, noise z of each client's message."""


def lenet(seed: int) -> nn.Module:
    """The network of the attack's paper, for one channel."""
    torch.manual_seed(seed)
    convolutions = [nn.Conv2d(1, 12, 5, 2, 2), nn.Conv2d(12, 12, 5, 2, 2), nn.Conv2d(12, 12, 5, 1, 2)]
    layers = [layer for conv in convolutions for layer in (conv, nn.Sigmoid())]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(588, 10))
    for values in model.parameters():
        nn.init.uniform_(values, -0.5, 0.5)
    return model


def update(model: nn.Module, x: torch.Tensor, y: torch.Tensor, n_steps: int) -> list[torch.Tensor]:
    """What one client with the pictures x changed, over the learning rate and the steps."""
    start = [p.detach().clone() for p in model.parameters()]
    for _ in range(n_steps):
        grads = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads):
                p -= LR * g
    change = [(s - p.detach()) / (LR * n_steps) for p, s in zip(model.parameters(), start)]
    with torch.no_grad():
        for p, s in zip(model.parameters(), start):
            p.copy_(s)
    return change


def noisy(change: list[torch.Tensor], z: float, key: int) -> list[torch.Tensor]:
    """With the noise of the Gaussian mechanism, of z times the length of the change."""
    length = float(torch.sqrt(sum(((c * c).sum() for c in change), torch.zeros(()))))
    noise = torch.from_numpy(normals_of(key, sum(c.numel() for c in change)).astype(np.float32))
    parts = torch.split(noise, [c.numel() for c in change])
    return [c + z * length * part.reshape(c.shape) for c, part in zip(change, parts)]


def invert(model: nn.Module, seen: list[torch.Tensor], y: torch.Tensor, steps: int, seed: int) -> torch.Tensor:
    """Pictures (n, 1, 28, 28) with labels y (n,) whose mean gradient is the observed one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((len(y), 1, 28, 28), generator=generator).requires_grad_()
    optimiser = torch.optim.LBFGS([x], lr=1, max_iter=20, history_size=100)
    least, best = float("inf"), x.detach().clone()

    def closure() -> torch.Tensor:
        grads = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()), create_graph=True)
        apart = sum((((g - s) ** 2).sum() for g, s in zip(grads, seen)), torch.zeros(()))
        (x.grad,) = torch.autograd.grad(apart, [x])
        return apart.detach()

    for _ in range(steps):
        apart = float(optimiser.step(closure))
        if apart < least:
            least, best = apart, x.detach().clone()
    return best.clamp(0, 1)


def matched(found: torch.Tensor, true: torch.Tensor) -> tuple[torch.Tensor, float]:
    """The found pictures in the order of the true ones, and the mean of their PSNR [dB]."""
    errors = ((found[:, None] - true[None]) ** 2).mean(dim=(2, 3, 4))
    _, order = linear_sum_assignment(errors.T.numpy())
    error = errors.T[range(len(true)), order]
    return found[order], float((-10 * torch.log10(error.clamp_min(1e-10))).mean())


def study(steps: int, draws: int) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """A row for every kind of observer, over draws of clients; and the first pictures of the first draw."""
    samples = data.load("fashion-mini")
    pictures = torch.from_numpy(samples.inputs("train").astype(np.float32)).reshape(-1, 1, 28, 28)
    low, high = pictures.min(), pictures.max()
    pictures, labels = (pictures - low) / (high - low), torch.from_numpy(samples.y_train.astype(np.int64))
    means = torch.stack([pictures[labels == c].mean(dim=0) for c in range(10)])
    rows, shown = [], {}
    for name, (n, n_steps, z) in SEEN.items():
        psnr, guessed = [], []
        for draw in range(draws):
            model = models.build("lenet5", (1, 28, 28), 10, seed=draw) if "lenet5" in name else lenet(draw)
            who = np.random.default_rng(draw).choice(len(labels), max(n for n, _, _ in SEEN.values()), replace=False)[
                :n
            ]
            x, y = pictures[who], labels[who]
            changes = [update(model, x[i : i + 1], y[i : i + 1], n_steps) for i in range(n)]
            if z:
                changes = [noisy(c, z, key_of(draw, "study", i)) for i, c in enumerate(changes)]
            seen = [torch.stack(parts).mean(dim=0) for parts in zip(*changes)]
            found, reached = matched(invert(model, seen, y, steps, draw), x)
            psnr.append(reached)
            guessed.append(matched(means[y], x)[1])
            if draw == 0:
                shown[name], shown[f"{name}, true"] = found[:4], x[:4]
        rows.append(
            {"seen": name, "clients": n, "steps": n_steps, "noise": z, "psnr_db": psnr, "by_labels_db": guessed}
        )
        print(f"{name:24} {np.mean(psnr):5.1f} dB, by labels alone {np.mean(guessed):5.1f} dB", flush=True)
    return rows, shown


def table(content: dict[str, Any]) -> str:
    """The results, for the page."""
    lines = ["| seen | clients | PSNR of the attack, dB | by labels alone, dB |", "|---|---|---|---|"]
    for row in content["rows"]:
        cells = [f"{i.mean:.1f} ± {i.half:.1f}" for i in (interval(row["psnr_db"]), interval(row["by_labels_db"]))]
        lines.append(f"| {row['seen']} | {row['clients']} | {cells[0]} | {cells[1]} |")
    return "\n".join(
        [*lines, "", f"{content['draws']} draws, {content['attack_steps']:,} iterations of L-BFGS, of 20 steps each."]
    )


def page(text: str, content: dict[str, Any]) -> str:
    """The page with these results between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(content)}\n{END}{rest.split(END)[1]}"


def draw_picture(shown: dict[str, torch.Tensor], path: Path) -> None:
    """True pictures above, what the attack made below, for every kind of observer."""
    figure, axes = plt.subplots(2, 1 + 1 + 1 + 1 + 4 + 4 + 4, figsize=(13, 2.4))
    at = 0
    for name in SEEN:
        for i in range(len(shown[name])):
            for line, kind in enumerate((f"{name}, true", name)):
                axes[line, at].imshow(shown[kind][i, 0].numpy(), cmap="gray", vmin=0, vmax=1)
            if i == 0:
                axes[0, at].set_title(name.replace(", ", ",\n"), fontsize=7, loc="left")
            at += 1
    for axis in axes.flat:
        axis.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    steps, draws = (2, 1) if quick else (100, 3)
    rows, shown = study(steps, draws)
    if quick:
        return
    content = {"attack_steps": steps, "draws": draws, "rows": rows}
    write_whole(RESULTS, (json.dumps(content, indent=1) + "\n").encode())
    write_whole(PAGE, page(PAGE.read_text(), content).encode())
    draw_picture(shown, DOCS / "pictures" / "inversion.png")


if __name__ == "__main__":
    main()
