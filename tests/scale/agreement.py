"""What the tests of this folder compare."""

import numpy as np


def same_run(one, other):
    """Whether two finished simulations agree to the last bit."""
    assert one.measures == other.measures
    np.testing.assert_array_equal(one.row, other.row)
