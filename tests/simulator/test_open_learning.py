"""Language models, losses, optimisers and inputs of one's own in whole runs, against plain torch loops."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedloom import data
from fedloom.data import Dataset, TextSettings
from fedloom.record.folder import FolderError, record
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.training import models, rows
from fedloom.training.batches import batches

ROUNDS, STEPS, BATCH, LR = 20, 3, 4, 0.5
TEXT = TextSettings(n_authors=4, n_train=10, n_test=3, length=8, n_words=12)


def settings(**task):
    cells = {"kind": "explicit", "centres_m": [[0.0, 0.0]], "radius_m": 500.0}
    return scenario(
        {
            "name": "open",
            "fleet": {"n_devices": 4, "cells": cells, "placement": {"kind": "cells"}},
            "task": {"partition": {"kind": "user"}} | task,
            "training": {"cloud_rounds": ROUNDS, "edge_rounds": 1, "local_steps": STEPS, "batch_size": BATCH, "lr": LR},
        }
    )


def text_of(model):
    return settings(dataset="text", text=TEXT.model_dump(), model=model)


def final(chosen, **options):
    simulation = Simulation(chosen, make_method("fedavg"), 0, **({"n_workers": 1} | options))
    list(simulation.rounds())
    return simulation


def by_hand(module, x, y, parts, loss, step):
    """FedAvg as plain loops: every client from the mean of all, batches by the same counter, a mean by samples."""
    row = rows.to_row(module)
    for g in range(ROUNDS):
        trained = []
        for k, part in enumerate(parts):
            rows.load_row(module, row)
            optimiser = step(module.parameters())
            for positions in batches(0, k, len(part), BATCH, g * STEPS, STEPS, False):
                optimiser.zero_grad()
                index = part[positions]
                loss(module(torch.from_numpy(x[index])), torch.from_numpy(y[index])).backward()
                optimiser.step()
            trained.append(rows.to_row(module).astype(np.float64))
        weight = np.array([len(part) for part in parts]) / sum(len(part) for part in parts)
        row = (weight @ np.array(trained)).astype(np.float32)
    return row


@pytest.mark.parametrize(
    "model", [{"kind": "lstm", "units": 12}, {"kind": "transformer", "units": 8, "heads": 2, "depth": 1}]
)
def test_a_language_model_is_trained_as_by_plain_loops(model):
    run = final(text_of(model))
    text = data.load("text", text=TEXT)
    options = {key: value for key, value in model.items() if key != "kind"}
    module = models.build(model["kind"], (8,), 28, 0, n_tokens=28, per_token=True, **options)

    def loss(output, target):
        return functional.cross_entropy(output.reshape(-1, 28), target.reshape(-1))

    parts = [np.flatnonzero(text.user == k) for k in range(4)]
    wanted = by_hand(module, text.x_train, text.y_train, parts, loss, lambda p: torch.optim.SGD(p, lr=LR))
    np.testing.assert_allclose(run.result().row, wanted, atol=1e-5)
    assert run.measures[-1]["loss"] < run.measures[0]["loss"] - 0.2
    assert run.engine_name.startswith("torch")


def test_any_number_of_workers_and_a_resume_give_the_same_bits():
    chosen = text_of({"kind": "lstm", "units": 6})
    alone = final(chosen)
    np.testing.assert_array_equal(final(chosen, n_workers=2).result().row, alone.result().row)
    begun = Simulation(chosen, make_method("fedavg"), 0, n_workers=1)
    rounds = begun.rounds()
    for _ in range(8):
        next(rounds)
    saved = begun.checkpoint()
    rounds.close()
    again = Simulation(chosen, make_method("fedavg"), 0, n_workers=1)
    list(again.rounds(saved))
    np.testing.assert_array_equal(again.result().row, alone.result().row)
    assert again.measures == alone.measures


def test_a_loss_of_ones_own_is_minimised():
    """The same loss as a function gives the same bits; another one, as plain loops do."""
    chosen = settings(
        dataset="gaussian", gaussian={"n_train": 80, "n_test": 20}, model={"kind": "mlp"}, partition={"kind": "iid"}
    )
    plain, same = final(chosen, engine="torch"), final(chosen, loss=functional.cross_entropy)
    np.testing.assert_array_equal(plain.result().row, same.result().row)
    assert "no loss of your own (cross_entropy)" in same.engine_name

    def smooth(output, target):
        return functional.cross_entropy(output, target, label_smoothing=0.2)

    run = final(chosen, loss=smooth)
    task = run.setting.task
    module = models.as_module(run.setting.model)
    wanted = by_hand(module, task.x_train, task.y_train, run.parts, smooth, lambda p: torch.optim.SGD(p, lr=LR))
    np.testing.assert_allclose(run.result().row, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("optimiser", "step"),
    [
        ({"kind": "SGD"}, lambda p: torch.optim.SGD(p, lr=0.01)),
        (  # with an eps that rounding errors of gradients near 0 are not divided by
            {"kind": "Adam", "options": {"betas": [0.8, 0.9], "eps": 1e-4}},
            lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.9), eps=1e-4),
        ),
        ({"kind": "AdamW", "options": {"amsgrad": True}}, lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True)),
    ],
)
def test_optimisers_of_torch_train_as_by_plain_loops(optimiser, step):
    task = {"dataset": "gaussian", "gaussian": {"n_train": 80, "n_test": 20}, "model": {"kind": "mlp"}}
    chosen = settings(**task, partition={"kind": "iid"})
    training = chosen.training.model_dump() | {"optimiser": optimiser, "lr": 0.01}
    chosen = scenario(chosen.model_dump() | {"training": training})
    run = final(chosen)
    module = models.as_module(run.setting.model)
    made = run.setting.task
    wanted = by_hand(module, made.x_train, made.y_train, run.parts, functional.cross_entropy, step)
    np.testing.assert_allclose(run.result().row, wanted, atol=1e-5)
    assert run.engine_name.startswith("native") == ("amsgrad" not in optimiser.get("options", {}))


class Both(nn.Module):
    """An image and words, to labels."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(5, 3), nn.Linear(4 + 3, 3)

    def forward(self, image, words):
        return self.head(torch.cat([image.flatten(1), self.words(words)], dim=1))


def test_several_inputs_and_labels():
    rng = np.random.default_rng(0)
    x = np.zeros(60, np.dtype([("image", "f4", (1, 2, 2)), ("words", "i4", (3,))]))
    x["image"], x["words"] = rng.standard_normal((60, 1, 2, 2)), rng.integers(5, size=(60, 3))
    y = np.stack([x["image"][:, 0, 0, 0] > 0, (x["words"] == 2).any(axis=1), x["image"][:, 0, 1, 1] > 0], axis=1)
    mine = Dataset(name="both", x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:], n_classes=3)
    torch.manual_seed(0)
    run = final(settings(partition={"kind": "iid"}), dataset=mine, model=Both(), n_workers=2)
    assert run.measures[-1]["accuracy"] > 0.8 > run.measures[0]["accuracy"]
    assert "local_by_global" not in run.measures[-1]


def test_a_run_with_another_loss_is_another_run(tmp_path):
    task = {"dataset": "gaussian", "gaussian": {"n_train": 80, "n_test": 20}, "model": {"kind": "softmax"}}
    chosen = settings(**task, partition={"kind": "iid"})

    def one(loss):
        simulation = Simulation(chosen, make_method("fedavg"), 0, n_workers=1, loss=loss)
        return record(simulation, "fedavg", tmp_path / "run", resume=True)

    first = one(lambda a, b: functional.cross_entropy(a, b, label_smoothing=0.1))
    with pytest.raises(FolderError, match=r"holds another run .*loss is"):
        one(lambda a, b: functional.cross_entropy(a, b, label_smoothing=0.2))
    assert one(lambda a, b: functional.cross_entropy(a, b, label_smoothing=0.1)) == first
