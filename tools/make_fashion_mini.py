"""Make the embedded subset of Fashion-MNIST from the published files.

    python tools/make_fashion_mini.py DIR        DIR: a folder with the four Fashion-MNIST files

The first 800 training and the first 200 test images of each class, from the official training and test
files, in their original order. Prints the size and the sha256 that `fedloom.data.loaders` checks.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np

from fedloom.data import check, load

OUT = Path(__file__).resolve().parents[1] / "src" / "fedloom" / "data" / "embedded" / "fashion-mini.npz"


def first_of_each_class(labels: np.ndarray, n: int) -> np.ndarray:
    return np.sort(np.concatenate([np.flatnonzero(labels == c)[:n] for c in range(10)]))


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for file in check("fashion-mnist", sys.argv[1]):
        if not file.published:
            raise SystemExit(f"{file.found} is not the published file (md5 of the contents {file.md5})")
    whole = load("fashion-mnist", sys.argv[1])
    train, test = first_of_each_class(whole.y_train, 800), first_of_each_class(whole.y_test, 200)
    np.savez_compressed(
        OUT,
        x_train=whole.x_train[train, 0],
        y_train=whole.y_train[train].astype(np.uint8),
        x_test=whole.x_test[test, 0],
        y_test=whole.y_test[test].astype(np.uint8),
    )
    data = OUT.read_bytes()
    print(f"{OUT}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
