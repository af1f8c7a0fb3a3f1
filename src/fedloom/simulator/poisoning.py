"""Data that hostile clients poison: their samples are replaced by copies with other labels, or with a trigger.

The copies stand behind all training samples, so that nobody else's data are touched, also where two clients share samples.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.attacks import flipped, stamped
from fedloom.attacks.settings import Backdoor, LabelFlip
from fedloom.simulator.hostility import Hostility
from fedloom.training.engine import Task

Ints = NDArray[np.int64]


def poisoned(task: Task, hostility: Hostility | None, n_classes: int, seed: int) -> Task:
    """The task as clients train it; n_classes: 0 if samples have no class each."""
    attack = None if hostility is None or hostility.settings.clients is None else hostility.settings.clients.attack
    if hostility is None or not isinstance(attack, LabelFlip | Backdoor):
        return task
    _check_classes(attack, n_classes)
    xs, parts, n = [task.x_train], list(task.parts), len(task.y_train)
    ys: list[Ints] = [task.y_train.astype(np.int64)]
    for k in np.flatnonzero(hostility.clients).tolist():
        x, y = task.x_train[parts[k]], task.y_train[parts[k]].astype(np.int64)
        if isinstance(attack, LabelFlip):
            y = flipped(y, n_classes, attack.to)
        else:
            chosen = stream(seed, "backdoor", k).permutation(len(y))[: max(1, round(attack.share * len(y)))]
            x, y = x.copy(), y.copy()
            x[chosen], y[chosen] = stamped(x[chosen], attack.size, _brightest(task)), attack.target
        xs.append(x)
        ys.append(y)
        parts[k] = np.arange(n, n + len(y))
        n += len(y)
    return replace(task, x_train=np.concatenate(xs), y_train=np.concatenate(ys), parts=tuple(parts))


def backdoor_task(task: Task, hostility: Hostility | None) -> Task | None:
    """Test samples of all other classes with the trigger, labelled with the target: who is right about them was taken in. None if
    there is no backdoor. task: as it was before it was poisoned."""
    attack = None if hostility is None or hostility.settings.clients is None else hostility.settings.clients.attack
    if not isinstance(attack, Backdoor):
        return None
    others = np.flatnonzero(task.y_test != attack.target)
    x = stamped(task.x_test[others], attack.size, _brightest(task))
    y = np.full(len(others), attack.target, dtype=np.int64)
    return replace(task, x_train=x[:1], y_train=y[:1], x_test=x, y_test=y, parts=(np.zeros(1, dtype=np.int64),))


def _brightest(task: Task) -> float:
    return float(task.x_train.max())


def _check_classes(attack: LabelFlip | Backdoor, n_classes: int) -> None:
    if not n_classes:
        raise ValueError(
            f"{attack.kind} needs samples with one class each, and this dataset has none; take another attack"
        )
    wanted = attack.target if isinstance(attack, Backdoor) else attack.to
    if isinstance(wanted, int) and wanted >= n_classes:
        raise ValueError(f"{attack.kind} to class {wanted}: the dataset has classes 0..{n_classes - 1}")
