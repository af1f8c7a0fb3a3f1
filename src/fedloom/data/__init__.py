"""Datasets and how they are shared out among clients."""

from fedloom.data.dataset import Dataset, Split
from fedloom.data.drawn import drawn, drawn_by_classes
from fedloom.data.dual_layer import dual_layer_sets, missing_classes
from fedloom.data.edge_cases import edge_case_sets
from fedloom.data.files import FileCheck, check, fetch
from fedloom.data.loaders import DATASETS, Description, GaussianSettings, gaussian_mixture, load
from fedloom.data.looking import Found, find, places
from fedloom.data.magnet import MagnetSettings, magnet_tracking
from fedloom.data.partition import (
    Indices,
    by_classes,
    by_label_sets,
    by_user,
    deal_classes,
    dirichlet,
    iid,
    label_counts,
    largest_remainder,
    local_tests,
    wheel,
)
from fedloom.data.settings import (
    ClassesPartition,
    DirichletPartition,
    DrawnPartition,
    DualLayerPartition,
    EdgeCasePartition,
    IidPartition,
    PartitionSettings,
    SizesPartition,
    UserPartition,
    make_partition,
)
from fedloom.data.sizes import by_sizes, by_sizes_and_classes, target_sizes
from fedloom.data.text import TextSettings, as_text, written

__all__ = [
    "Dataset",
    "Split",
    "DATASETS",
    "Description",
    "load",
    "gaussian_mixture",
    "GaussianSettings",
    "magnet_tracking",
    "MagnetSettings",
    "written",
    "as_text",
    "TextSettings",
    "find",
    "fetch",
    "check",
    "places",
    "Found",
    "FileCheck",
    "Indices",
    "iid",
    "by_classes",
    "by_label_sets",
    "deal_classes",
    "wheel",
    "edge_case_sets",
    "dual_layer_sets",
    "missing_classes",
    "drawn",
    "drawn_by_classes",
    "dirichlet",
    "by_sizes",
    "by_sizes_and_classes",
    "target_sizes",
    "by_user",
    "label_counts",
    "local_tests",
    "largest_remainder",
    "PartitionSettings",
    "IidPartition",
    "ClassesPartition",
    "DirichletPartition",
    "SizesPartition",
    "UserPartition",
    "EdgeCasePartition",
    "DualLayerPartition",
    "DrawnPartition",
    "make_partition",
]
