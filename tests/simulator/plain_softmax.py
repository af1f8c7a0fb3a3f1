"""Softmax regression in plain numpy, on the mini-batches of a run: what published algorithms are written down with in tests."""

import numpy as np

from fedloom.training.batches import batches

N_CLASSES = 4


def gradient(x, y, row):
    """Of the mean cross-entropy, (P,)."""
    w, b = row[:-N_CLASSES].reshape(N_CLASSES, -1), row[-N_CLASSES:]
    z = x @ w.T + b
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    error = (p - np.eye(N_CLASSES)[y]) / len(y)
    return np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])


def gradients(task, seed, client, first_step, n_steps):
    """A gradient as a function of the model, for each mini-batch of a client."""
    part = task.parts[client]
    for positions in batches(seed, client, len(part), task.batch_size, first_step, n_steps):
        x, y = task.x_train[part[positions]].astype(np.float64), task.y_train[part[positions]]
        yield lambda row, x=x, y=y: gradient(x, y, row)
