"""Generator, pipe and calculator of the given samples: client k has the k-th run of them."""

import os

import torch
from flgo.benchmark.toolkits.cv.classification import FromDatasetGenerator, FromDatasetPipe, GeneralCalculator
from given import Given
from torch.utils.data import TensorDataset

GIVEN = Given.read(os.environ["PEERS_FOLDER"])
_x, _y = (torch.from_numpy(values).flatten(0, 1) for values in GIVEN.samples())
TRAIN, TEST = TensorDataset(_x, _y), TensorDataset(_x[:1], _y[:1])
TaskCalculator = GeneralCalculator
# current versions of torch refuse a Subset that has only __getitem__, and say to add this
FromDatasetPipe.TaskDataset.__getitems__ = lambda self, indices: [self[i] for i in indices]


class TaskGenerator(FromDatasetGenerator):
    def __init__(self) -> None:
        super().__init__(benchmark="flgo_samples", train_data=TRAIN, test_data=TEST)


class TaskPipe(FromDatasetPipe):
    def __init__(self, task_path: str) -> None:
        super().__init__(task_path, train_data=TRAIN, test_data=TEST)
