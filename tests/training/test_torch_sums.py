"""Sums that workers share out by columns are those of one process that adds whole rows, to the bit."""

import itertools

import numpy as np
import pytest
import torch

from fedloom.training.sums import Tree
from fedloom.training.torch_sums import ALIGNED, PIECE, RangeSums, ranges


def whole(rows, entries, size, n_targets):
    """Row after row in one piece."""
    tree, block = Tree(), {}
    for j, row in enumerate(rows):
        for target, weight in entries[j]:
            block.setdefault(target, torch.zeros(rows.shape[1], dtype=torch.float64)).add_(row, alpha=weight)
        if (j + 1) % size == 0 or j + 1 == len(rows):
            tree.push({target: sums.numpy() for target, sums in block.items()})
            block = {}
    return tree.total(n_targets, rows.shape[1])


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
@pytest.mark.parametrize("n_columns", [5, 1000, 2 * PIECE + 77])
def test_ranges_of_columns_add_up_to_the_bits_of_whole_rows(n_columns, n_workers):
    rng = np.random.default_rng(n_columns + n_workers)
    rows = torch.from_numpy(rng.normal(size=(11, n_columns)).astype(np.float32))
    entries = [[(t, float(w)) for t, w in enumerate(rng.normal(size=3)) if rng.random() < 0.6 and t != 1] for _ in rows]
    out = torch.full((3, n_columns), np.nan, dtype=torch.float64)
    for low, high in ranges(n_columns, n_workers):
        sums = RangeSums(low, high, 4, len(rows))
        done = 0
        for n in (1, 3, 2, 5):  # at a time: within blocks of 4, and across them
            sums.add(list(zip(rows, entries))[done : done + n])
            done += n
        sums.write(out)
    np.testing.assert_array_equal(out.numpy(), whole(rows, entries, 4, 3))
    assert not out[1].any()  # an average that nobody counts in


def test_ranges_cover_all_columns_once_and_begin_aligned():
    for n_columns in (1, 63, 64, 65, 1000, 123_457):
        for n in (1, 2, 3, 8):
            found = ranges(n_columns, n)
            assert len(found) == n and found[0][0] == 0 and found[-1][1] == n_columns
            assert all(
                a[1] == b[0] and b[0] % ALIGNED in (0, n_columns % ALIGNED) for a, b in itertools.pairwise(found)
            )
