"""Which files make a dataset, what is known of the published ones, and where to get them: the table of sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedloom.gate import Refused, shown

OWN = ":own"  # after the name of a dataset: its files need not be the published ones


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file at a dataset's public home; `md5` is of the file as downloaded."""

    url: str
    md5: str

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is known of a published file, uncompressed."""

    md5: str | None = None
    n_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Which files make a dataset. Several alternatives: any one is enough, the first found is taken.

    folders    subfolders to look in, besides the dataset's own name and the folder itself
    system     absolute folders where a system package puts the files
    archives   names of archives that hold the files of the last alternative
    downloads  where to get it; empty if there is no file whose hash is known
    home       the page to get it from by hand
    """

    alternatives: tuple[Mapping[str, Published], ...]
    folders: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    home: str


def _idx(home: str, md5: Mapping[str, tuple[str, str, int]]) -> dict[str, Any]:
    """Four idx files; md5 gives for each the hash as downloaded, and hash and size of the contents."""
    return {
        "alternatives": ({f: Published(md5=m, n_bytes=n) for f, (_, m, n) in md5.items()},),
        "downloads": tuple(Download(url=f"{home}{f}.gz", md5=m) for f, (m, _, _) in md5.items()),
    }


SOURCES: dict[str, Source] = {
    "mnist": Source(
        **_idx(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            {
                "train-images-idx3-ubyte": (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "6bbc9ace898e44ae57da46a324031adb",
                    47_040_016,
                ),
                "train-labels-idx1-ubyte": (
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "a25bea736e30d166cdddb491f175f624",
                    60_008,
                ),
                "t10k-images-idx3-ubyte": (
                    "9fb629c4189551a2d022fa330f9573f3",
                    "2646ac647ad5339dbf082846283269ea",
                    7_840_016,
                ),
                "t10k-labels-idx1-ubyte": (
                    "ec29112dd5afa0611ce80d1b7f02629c",
                    "27ae3e4e09519cfbb04c329615203637",
                    10_008,
                ),
            },
        ),
        folders=("MNIST/raw",),
        home="http://yann.lecun.com/exdb/mnist/",
    ),
    "fashion-mnist": Source(
        **_idx(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            {
                "train-images-idx3-ubyte": (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    47_040_016,
                ),
                "train-labels-idx1-ubyte": (
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "9018921c3c673c538a1fc5bad174d6f9",
                    60_008,
                ),
                "t10k-images-idx3-ubyte": (
                    "bef4ecab320f06d8554ea6380940ec79",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    7_840_016,
                ),
                "t10k-labels-idx1-ubyte": (
                    "bb300cfdad3c16e7a12a480ee83cd310",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                    10_008,
                ),
            },
        ),
        folders=("FashionMNIST/raw",),
        system=("/usr/share/datasets/fashion-mnist",),
        home="https://github.com/zalandoresearch/fashion-mnist",
    ),
    "cifar10": Source(
        alternatives=(
            {
                f"cifar-10-batches-bin/{file}": Published(md5=md5, n_bytes=30_730_000)
                for file, md5 in {
                    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
                }.items()
            },
        ),
        archives=("cifar-10-binary.tar.gz", "cifar-10-binary.tar"),
        downloads=(
            Download(
                url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                md5="c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "cifar100": Source(
        alternatives=(
            {
                "cifar-100-binary/train.bin": Published(n_bytes=50_000 * 3074),
                "cifar-100-binary/test.bin": Published(n_bytes=10_000 * 3074),
            },
        ),
        archives=("cifar-100-binary.tar.gz", "cifar-100-binary.tar"),
        downloads=(
            Download(
                url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                md5="03b5dce01913d631647c71ecec9e9cb8",
            ),
        ),
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "svhn": Source(
        alternatives=(
            {
                "train_32x32.mat": Published(md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
                "test_32x32.mat": Published(md5="eb5a983be6a315427106f1b164d9cef3"),
            },
        ),
        downloads=(
            Download(
                url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
            Download(
                url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                md5="eb5a983be6a315427106f1b164d9cef3",
            ),
        ),
        home="http://ufldl.stanford.edu/housenumbers/",
    ),
    "hapt": Source(
        alternatives=({"hapt_windows.npz": Published()}, {"RawData/labels.txt": Published()}),
        archives=(
            "HAPT Data Set.zip",
            "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip",
        ),
        home="https://archive.ics.uci.edu/dataset/341",
    ),
}

# Contents that can be recognised: md5 -> dataset, file.
RECOGNISED = {
    published.md5: (name, file)
    for name, source in SOURCES.items()
    for files in source.alternatives
    for file, published in files.items()
    if published.md5 is not None
}


def plain(name: str) -> str:
    """The name of a dataset without ":own".

    >>> plain("mnist:own"), plain("mnist")
    ('mnist', 'mnist')
    """
    return name.removesuffix(OWN)


def source_of(name: str) -> Source:
    """Of a dataset; Refused if it has no files."""
    if plain(name) not in SOURCES:
        raise Refused(f"dataset {shown(name)} has no files; those that have: {', '.join(SOURCES)}")
    return SOURCES[plain(name)]


def published_files(name: str) -> dict[str, Published]:
    """What is known of every file of a dataset, whatever the alternative."""
    return {file: published for alternative in source_of(name).alternatives for file, published in alternative.items()}
