"""How a scenario file says who holds which samples: `partition: {kind: classes, classes_per_client: 2}`."""

from typing import Annotated, Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from fedloom import _check
from fedloom._settings import Settings
from fedloom.data import partition, sizes
from fedloom.data.dataset import Dataset
from fedloom.data.drawn import drawn, drawn_by_classes
from fedloom.data.dual_layer import dual_layer_sets
from fedloom.data.edge_cases import edge_case_sets

MOST_SAMPLES = 10**15  # what does not fit the machine, the estimate refuses
MOST_CLASSES = 1_000_000


class IidPartition(Settings):
    """Random and equal."""

    kind: Literal["iid"] = "iid"


class ClassesPartition(Settings):
    """A few classes for each client."""

    kind: Literal["classes"] = "classes"
    classes_per_client: int = Field(2, ge=1, le=MOST_CLASSES)
    samples_per_class: int | None = Field(
        None, ge=1, le=MOST_SAMPLES, description="of each of a client's classes; by default as many as possible"
    )
    volume: Literal["equal", "all"] = Field(
        "equal", description="equal: all clients alike, the rest unused; all: every sample used"
    )


class DirichletPartition(Settings):
    """Each class split by random proportions."""

    kind: Literal["dirichlet"] = "dirichlet"
    concentration: float = Field(
        0.5, ge=1e-6, le=1e9, description="small: few classes for each client; large: nearly iid"
    )
    min_samples: int = Field(1, ge=1, le=MOST_SAMPLES, description="for every client")


class SizesPartition(Settings):
    """Clients of different sizes, optionally with a few classes each."""

    kind: Literal["sizes"] = "sizes"
    relative_std: float = Field(0.3, ge=0, le=1e3, description="standard deviation of the sizes / their mean")
    relative_least: float = Field(0.1, ge=0, le=1, description="smallest size / mean size")
    classes_per_client: int | None = Field(
        None, ge=1, le=MOST_CLASSES, description="by default labels come as they fall"
    )
    min_share: float = Field(0.2, ge=0, le=1, description="least part of an even share of each of a client's classes")


class UserPartition(Settings):
    """The data's own users; with fewer clients than users, a random choice of them."""

    kind: Literal["user"] = "user"


class EdgeCasePartition(Settings):
    """Cells alike or each without some classes: the six data cases of HHFL (sections V-B1 to V-B3)."""

    kind: Literal["edge-case"] = "edge-case"
    case: int = Field(ge=1, le=6, description="1 to 3: cells alike; 4: each misses three classes; 5, 6: four")
    overlap_data: Literal["home", "shared"] = Field(
        "home", description="clients in overlaps hold classes of their home cell, or only classes all cells have"
    )
    volume: Literal["equal", "all"] = Field(
        "equal", description="equal: all clients alike, the rest unused; all: every sample used"
    )


class DualLayerPartition(Settings):
    """A share of the classes for each edge, a few of these for each of its clients (CSAHFL, section 4.1)."""

    kind: Literal["dual-layer"] = "dual-layer"
    edge_share: float = Field(0.5, gt=0, le=1, description="of the classes, at each edge; 1: the edges are alike")
    classes_per_client: int = Field(2, ge=1, le=MOST_CLASSES)
    samples_per_class: int | None = Field(
        None, ge=1, le=MOST_SAMPLES, description="of each of a client's classes; by default as many as possible"
    )
    volume: Literal["equal", "all"] = Field(
        "equal", description="equal: all clients alike, the rest unused; all: every sample used"
    )
    dealing: Literal["deck", "random"] = Field(
        "deck",
        description="deck: each class at equally many edges; random: drawn for each edge, some classes may be nowhere",
    )


class DrawnPartition(Settings):
    """Drawn with replacement: for fleets with more clients than the data has samples for."""

    kind: Literal["drawn"] = "drawn"
    samples_per_client: int = Field(40, ge=1, le=MOST_SAMPLES)
    classes_per_client: int | None = Field(
        None, ge=1, le=MOST_CLASSES, description="by default labels come as they fall"
    )


class MixedPartition(Settings):
    """A share of the clients, drawn by chance, with a few classes each; the others are a fair draw of all labels.

    CAMU (section V-B) varies that share; how many classes, and how samples are dealt, are ours.
    """

    kind: Literal["mixed"] = "mixed"
    skewed_share: float = Field(1.0, ge=0, le=1, description="of the clients that have a few classes only")
    classes_per_client: int = Field(2, ge=1, le=MOST_CLASSES)


PartitionSettings = Annotated[
    IidPartition
    | ClassesPartition
    | DirichletPartition
    | SizesPartition
    | UserPartition
    | EdgeCasePartition
    | DualLayerPartition
    | DrawnPartition
    | MixedPartition,
    Field(discriminator="kind"),
]


def make_partition(
    settings: PartitionSettings,
    dataset: Dataset,
    n_clients: int,
    rng: np.random.Generator,
    home: ArrayLike | None = None,
) -> list[partition.Indices]:
    """Indices into the training split for each of `n_clients` clients, as the settings say.

    `home` (n_clients,) is the cell each client belongs to, -1 for none; only kinds edge-case and dual-layer need it.
    """
    _check.whole("n_clients", n_clients)
    match settings:
        case IidPartition():
            return partition.iid(dataset.n_train, n_clients, rng)
        case ClassesPartition():
            return partition.by_classes(
                _labels(dataset, settings.kind),
                n_clients,
                settings.classes_per_client,
                rng,
                settings.samples_per_class,
                volume=settings.volume,
            )
        case DirichletPartition():
            return partition.dirichlet(
                _labels(dataset, settings.kind), n_clients, settings.concentration, rng, settings.min_samples
            )
        case SizesPartition():
            return _sized(settings, dataset, n_clients, rng)
        case UserPartition():
            return _users(dataset, n_clients, rng)
        case EdgeCasePartition():
            return _edge_case(settings, dataset, n_clients, rng, home)
        case DualLayerPartition():
            return _dual_layer(settings, dataset, n_clients, rng, home)
        case DrawnPartition():
            return _drawn(settings, dataset, n_clients, rng)
        case MixedPartition():
            labels = _labels(dataset, settings.kind)
            return partition.mixed(labels, n_clients, settings.skewed_share, settings.classes_per_client, rng)
        case _:
            assert_never(settings)


def _sized(
    settings: SizesPartition, dataset: Dataset, n_clients: int, rng: np.random.Generator
) -> list[partition.Indices]:
    mean = dataset.n_train / n_clients
    least = max(1.0, settings.relative_least * mean)
    wanted = sizes.target_sizes(dataset.n_train, n_clients, settings.relative_std * mean, rng=rng, least=least)
    if settings.classes_per_client is None:
        return sizes.by_sizes(dataset.n_train, wanted, rng)
    labels = _labels(dataset, settings.kind)
    return sizes.by_sizes_and_classes(labels, wanted, settings.classes_per_client, rng, min_share=settings.min_share)


def _users(dataset: Dataset, n_clients: int, rng: np.random.Generator) -> list[partition.Indices]:
    if dataset.user is None:
        raise ValueError(f"dataset {dataset.name} does not say which user a sample comes from; use another partition")
    parts = partition.by_user(dataset.user)
    if n_clients > len(parts):
        raise ValueError(f"dataset {dataset.name} has {len(parts)} users, too few for {n_clients} clients")
    return [parts[i] for i in np.sort(rng.choice(len(parts), n_clients, replace=False))]


def _edge_case(
    settings: EdgeCasePartition, dataset: Dataset, n_clients: int, rng: np.random.Generator, home: ArrayLike | None
) -> list[partition.Indices]:
    labels = _labels(dataset, settings.kind)
    sets = edge_case_sets(settings.case, _home(home, n_clients, settings.kind), dataset.n_labels, settings.overlap_data)
    return partition.by_label_sets(labels, sets, rng, volume=settings.volume)


def _dual_layer(
    settings: DualLayerPartition, dataset: Dataset, n_clients: int, rng: np.random.Generator, home: ArrayLike | None
) -> list[partition.Indices]:
    labels = _labels(dataset, settings.kind)
    sets = dual_layer_sets(
        _home(home, n_clients, settings.kind),
        dataset.n_labels,
        max(1, round(settings.edge_share * dataset.n_labels)),
        settings.classes_per_client,
        rng=rng,
        dealing=settings.dealing,
    )
    return partition.by_label_sets(
        labels, sets, rng, volume=settings.volume, samples_per_class=settings.samples_per_class
    )


def _home(home: ArrayLike | None, n_clients: int, kind: str) -> ArrayLike:
    if home is None:
        raise ValueError(
            f"partition kind {kind!r} goes by the cells clients belong to: expected home, one cell per client "
            f"({n_clients}), got none; pass home=..., or use kind 'classes'"
        )
    if np.shape(home) != (n_clients,):
        raise ValueError(f"home must have one cell per client, shape ({n_clients},), got {np.shape(home)}")
    return home


def _drawn(
    settings: DrawnPartition, dataset: Dataset, n_clients: int, rng: np.random.Generator
) -> list[partition.Indices]:
    if settings.classes_per_client is None:
        return drawn(dataset.n_train, n_clients, settings.samples_per_client, rng)
    labels = _labels(dataset, settings.kind)
    return drawn_by_classes(labels, n_clients, settings.samples_per_client, settings.classes_per_client, rng)


def _labels(dataset: Dataset, kind: str) -> NDArray[np.int64]:
    if dataset.labels is None:
        raise ValueError(
            f"dataset {dataset.name} has no classes, which partition kind {kind!r} needs; use iid or sizes"
        )
    return dataset.labels
