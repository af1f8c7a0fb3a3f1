"""Datasets by name: `load("fashion-mnist")`."""

import difflib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedloom import _check
from fedloom._random import stream
from fedloom._settings import Settings
from fedloom.data import formats
from fedloom.data.dataset import Dataset
from fedloom.data.files import contents
from fedloom.data.looking import Found
from fedloom.data.magnet import MagnetSettings, magnet_tracking
from fedloom.data.partition import largest_remainder
from fedloom.data.reading import read_files
from fedloom.data.sources import OWN, plain, published_files
from fedloom.data.text import ALPHABET, TextSettings, written
from fedloom.gate import Refused, arrays, finite, mat, shown
from fedloom.gate.child import Child

Directory = str | os.PathLike[str] | None

FASHION_MINI_SHA256 = "84fec304642e2eef5a6564d4bc80b5d3bc038eee73aadf4cd26babbf6a92c778"


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `fedloom list datasets` shows. `needs`: what must be there before the dataset can be loaded. n_tokens: of inputs that
    are tokens; per_token: there is a target for each."""

    title: str
    n_train: int
    n_test: int
    shape: tuple[int, ...]
    n_classes: int
    licence: str
    source: str
    needs: str
    n_tokens: int = 0
    per_token: bool = False


class GaussianSettings(Settings):
    """The generated dataset `gaussian`: each class a mixture of Gaussians, labels balanced."""

    n_classes: int = Field(10, ge=2, le=100_000)
    n_features: int = Field(20, ge=1, le=1_000_000)
    n_train: int = Field(4000, ge=1, le=10**15)
    n_test: int = Field(2000, ge=1, le=10**15)
    modes_per_class: int = Field(2, ge=1, le=10_000)
    spread: float = Field(
        0.75, gt=0, le=1e6, description="standard deviation of the modes' centres, in units of the noise"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="of the data; independent of a run's seed")


DATASETS: dict[str, Description] = {
    "fashion-mini": Description(
        title="Fashion-MNIST, 800 training and 200 test images of each class",
        n_train=8000,
        n_test=2000,
        shape=(1, 28, 28),
        n_classes=10,
        licence="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist",
        needs="nothing: part of the package",
    ),
    "digits": Description(
        title="handwritten digits of scikit-learn (UCI optdigits, test part)",
        n_train=1437,
        n_test=360,
        shape=(1, 8, 8),
        n_classes=10,
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/80",
        needs="nothing: part of scikit-learn",
    ),
    "gaussian": Description(
        title="generated: each class a mixture of two Gaussians",
        n_train=4000,
        n_test=2000,
        shape=(20,),
        n_classes=10,
        licence="none needed",
        source="generated",
        needs="nothing: generated",
    ),
    "magnet": Description(
        title="generated: position and axis of a magnet from 16 three-axis field sensors (regression)",
        n_train=36_000,
        n_test=4_000,
        shape=(48,),
        n_classes=0,
        licence="none needed",
        source="generated",
        needs="nothing: generated",
    ),
    "text": Description(
        title="generated: characters of 40 authors who write in one language with tastes of their own; what comes next",
        n_train=1_600,
        n_test=320,
        shape=(40,),
        n_classes=len(ALPHABET),
        licence="none needed",
        source="generated",
        needs="nothing: generated",
        n_tokens=len(ALPHABET),
        per_token=True,
    ),
    "mnist": Description(
        title="MNIST handwritten digits",
        n_train=60_000,
        n_test=10_000,
        shape=(1, 28, 28),
        n_classes=10,
        licence="none stated",
        source="http://yann.lecun.com/exdb/mnist/",
        needs="download, 12 MB",
    ),
    "fashion-mnist": Description(
        title="Fashion-MNIST articles of clothing",
        n_train=60_000,
        n_test=10_000,
        shape=(1, 28, 28),
        n_classes=10,
        licence="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist",
        needs="download, 31 MB",
    ),
    "cifar10": Description(
        title="CIFAR-10 colour images",
        n_train=50_000,
        n_test=10_000,
        shape=(3, 32, 32),
        n_classes=10,
        licence="none stated; cite Krizhevsky 2009",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        needs="download, 170 MB",
    ),
    "cifar100": Description(
        title="CIFAR-100 colour images, fine labels",
        n_train=50_000,
        n_test=10_000,
        shape=(3, 32, 32),
        n_classes=100,
        licence="none stated; cite Krizhevsky 2009",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        needs="download, 169 MB",
    ),
    "svhn": Description(
        title="SVHN house numbers, cropped digits",
        n_train=73_257,
        n_test=26_032,
        shape=(3, 32, 32),
        n_classes=10,
        licence="non-commercial use",
        source="http://ufldl.stanford.edu/housenumbers/",
        needs="download, 246 MB",
    ),
    "hapt": Description(
        title="smartphone motion signals of 30 people, windows of 2.56 s; six activities, users known",
        n_train=8222,
        n_test=2009,
        shape=(6, 128),
        n_classes=6,
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/341",
        needs="files got by hand (--from DIR)",
    ),
}


def load(
    name: str,
    directory: Directory = None,
    limit: int | None = None,
    *,
    gaussian: GaussianSettings | None = None,
    magnet: MagnetSettings | None = None,
    text: TextSettings | None = None,
) -> Dataset:
    """The dataset of that name. With ":own" after it, as in "mnist:own", its files need not be the published ones.

    directory   where its files are; by default see `fedloom.data.looking`
    limit       at most this many samples of the training split, and of the test split; see `Dataset.limited`
    gaussian    settings of the generated dataset "gaussian"; for no other name
    magnet      settings of the generated dataset "magnet"; for no other name
    text        settings of the generated dataset "text"; for no other name

    FileNotFoundError: files are missing, and the message says how to get them. Refused: a file is damaged, or not the
    published one.
    """
    if plain(name) not in DATASETS:
        close = difflib.get_close_matches(name[:100], DATASETS, n=3, cutoff=0.5)
        nearest = f"; nearest: {', '.join(close)}" if close else ""
        raise Refused(f"unknown dataset {shown(name)}{nearest}; known: {', '.join(DATASETS)}")
    if name.endswith(OWN) and plain(name) not in _FROM_FILES:
        raise Refused(f"dataset {plain(name)} has no files that could be your own; leave out {OWN}")
    for key, settings in (("gaussian", gaussian), ("magnet", magnet), ("text", text)):
        if settings is not None and name != key:
            raise Refused(f'settings `{key}` go with dataset "{key}", not with {shown(name)}')
    if name == "gaussian":
        dataset = _gaussian(gaussian or GaussianSettings())
    elif name == "magnet":
        dataset = _magnet(magnet or MagnetSettings())
    elif name == "text":
        dataset = written(text or TextSettings())
    elif name in _WITHOUT_FILES:
        dataset = _WITHOUT_FILES[name]()
    else:
        dataset = _FROM_FILES[plain(name)](name, directory)
    chosen = dataset if limit is None else dataset.limited(limit)
    return chosen.known_as(f"{name}, limit {limit}") if _is_published(name) else chosen


def _is_published(name: str) -> bool:
    """Whether a dataset that was loaded is known to the bit: every file of it was compared with its published hash."""
    if name in _FROM_FILES:
        return all(file.md5 is not None for file in published_files(name).values())
    return name == "fashion-mini"


def gaussian_mixture(
    n_classes: int = 10,
    n_features: int = 20,
    n_train: int = 4000,
    n_test: int = 2000,
    *,
    modes_per_class: int = 2,
    spread: float = 0.75,
    rng: np.random.Generator,
) -> Dataset:
    """A generated task: class c is `modes_per_class` Gaussians with unit noise in R^n_features.

    The modes' centres are drawn from N(0, spread^2 I). Labels are balanced (numbers of samples of two
    classes differ by at most one in each split) and in random order; each sample takes one of its class's
    modes at random.
    """
    for field, value in (
        ("n_classes", n_classes),
        ("n_features", n_features),
        ("modes_per_class", modes_per_class),
    ):
        _check.whole(field, value)
    _check.positive("spread", spread)
    centres = spread * rng.standard_normal((n_classes, modes_per_class, n_features))

    def draw(n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        label = rng.permutation(np.arange(n, dtype=np.int64) % n_classes)
        centre = centres[label, rng.integers(modes_per_class, size=n)]
        return (centre + rng.standard_normal((n, n_features))).astype(np.float32), label

    _check.whole("n_train", n_train)
    _check.whole("n_test", n_test)
    x_train, y_train = draw(n_train)
    x_test, y_test = draw(n_test)
    return Dataset(name="gaussian", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, n_classes=n_classes)


def _gaussian(settings: GaussianSettings) -> Dataset:
    return gaussian_mixture(**settings.model_dump(exclude={"seed"}), rng=stream(settings.seed, "gaussian"))


def _magnet(settings: MagnetSettings) -> Dataset:
    return magnet_tracking(**settings.model_dump(exclude={"seed"}), rng=stream(settings.seed, "magnet"))


def _idx(name: str, directory: Directory) -> Dataset:
    read = contents(name, directory)

    def split(prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        where, data = read[f"{prefix}-images-idx3-ubyte"]
        images = formats.idx(data, str(where), 3)
        where_labels, data = read[f"{prefix}-labels-idx1-ubyte"]
        labels = formats.idx(data, str(where_labels), 1)
        finite.in_range(f"{where_labels}: labels", labels, 0, 9)
        _same_number(where, len(images), where_labels, len(labels))
        return images[:, None], labels  # (n, 1, height, width)

    return _images(name, split("train"), split("t10k"), 10)


def _cifar10(name: str, directory: Directory) -> Dataset:
    read = contents(name, directory)
    batches = [formats.cifar(data, str(where), 1, 10) for where, data in read.values()]  # five of training, one of test
    train = tuple(np.concatenate(parts) for parts in zip(*batches[:-1]))
    return _images(name, (train[0], train[1]), batches[-1], 10)


def _cifar100(name: str, directory: Directory) -> Dataset:
    train, test = (formats.cifar(data, str(where), 2, 100) for where, data in contents(name, directory).values())
    return _images(name, train, test, 100)


def _svhn(name: str, directory: Directory) -> Dataset:
    with Child(mat.__name__) as child:
        train, test = (formats.svhn(data, str(where), child) for where, data in contents(name, directory).values())
    return _images(name, train, test, 10)


def _hapt(name: str, directory: Directory) -> Dataset:
    """Windows (n, 6, 128): acceleration in g, then angular speed in rad/s.

    Every person is in both splits. Of each person's windows of each activity, in the order of recording, the
    last fifth is for testing. The window before those is left out, as it may share half of its samples with
    the first of them; a random split would leak so at every second window.
    """
    ((_, (where, data)),) = contents(name, directory).items()
    if where.path.suffix == ".npz":
        x, y, user = formats.windows(data, str(where))
    else:
        x, y, user = formats.hapt_signals(
            data,
            str(where),
            lambda names: {
                file: (str(found), signal)
                for file, (found, signal) in read_files({n: where.beside(n) for n in names}).items()
            },
        )
    train, test = [], []
    for person in np.unique(user):
        for activity in np.unique(y):
            index = np.flatnonzero((user == person) & (y == activity))
            n_test = len(index) // 5
            test.append(index[len(index) - n_test :])
            train.append(index[: len(index) - n_test - (n_test > 0)])
    first, last = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    if len(last) == 0:
        raise Refused(f"{where}: no person has five windows of one activity, so there is nothing to test on")
    channels_first = np.ascontiguousarray(x.transpose(0, 2, 1))
    return Dataset(
        name=name,
        x_train=channels_first[first],
        y_train=y[first],
        user=user[first],
        x_test=channels_first[last],
        y_test=y[last],
        user_test=user[last],
        n_classes=6,
    )


def _digits() -> Dataset:
    """Of each class every fifth sample, evenly spaced, is for testing: 360 in all, by largest remainder."""
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    images, labels = data.images.astype(np.uint8)[:, None], data.target.astype(np.int64)
    n_test = largest_remainder(np.bincount(labels), 360)
    is_test = np.zeros(len(labels), dtype=np.bool_)
    for c, n in enumerate(n_test):
        index = np.flatnonzero(labels == c)
        is_test[index[(2 * np.arange(n) + 1) * len(index) // (2 * n)]] = True
    return Dataset(
        name="digits",
        x_train=images[~is_test],
        y_train=labels[~is_test],
        x_test=images[is_test],
        y_test=labels[is_test],
        n_classes=10,
        scale=16.0,
    )


def _fashion_mini() -> Dataset:
    """The first 800 training and 200 test images of each class of Fashion-MNIST, in the original order."""
    file = resources.files("fedloom.data") / "embedded" / "fashion-mini.npz"
    data = file.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != FASHION_MINI_SHA256:
        raise Refused(
            f"{file}: expected sha256 {FASHION_MINI_SHA256}, got {found} ({len(data)} bytes); reinstall fedloom"
        )
    x_train, y_train, x_test, y_test = arrays.npz(data, str(file), ("x_train", "y_train", "x_test", "y_test"))
    return _images("fashion-mini", (x_train[:, None], y_train), (x_test[:, None], y_test), 10)


def _images(name: str, train: tuple[Any, Any], test: tuple[Any, Any], n_classes: int) -> Dataset:
    return Dataset(
        name=name,
        x_train=train[0],
        y_train=train[1],
        x_test=test[0],
        y_test=test[1],
        n_classes=n_classes,
        scale=255.0,
    )


def _same_number(images: Found, n_images: int, labels: Found, n_labels: int) -> None:
    if n_images != n_labels:
        raise Refused(
            f"{images} has {n_images} images but {labels} has {n_labels} labels; they are of different sets, "
            "get both again"
        )


_WITHOUT_FILES: dict[str, Callable[[], Dataset]] = {"fashion-mini": _fashion_mini, "digits": _digits}
_FROM_FILES: dict[str, Callable[[str, Directory], Dataset]] = {
    "mnist": _idx,
    "fashion-mnist": _idx,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "svhn": _svhn,
    "hapt": _hapt,
}
