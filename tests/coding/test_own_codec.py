"""The codec of the gallery keeps the laws of those that are shipped."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from fedloom.coding import Codec, Coding
from fedloom.gate import Refused

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "own_codec.py"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["own_codec.py", str(tmp_path_factory.mktemp("own") / "picture.png")])
        return runpy.run_path(str(SCRIPT))["Int8"]()


def test_it_goes_through_bytes_and_into_a_coding(own):
    assert isinstance(own, Codec) and Coding(up=own, down=own).up is own
    for row in (np.random.default_rng(2).normal(size=99), np.zeros(3), np.array([2.0**126, -(2.0**126)])):
        row = row.astype(np.float32)
        message = own.encode(row, 0)
        assert 8 * len(message) == own.n_bits(len(row))
        found = own.decode(message, len(row), 0)
        assert found.dtype == np.float32 and np.abs(found - row).max() <= np.abs(row).max() / 253


def test_it_refuses_what_is_no_message_and_no_row(own):
    for wrong in (b"", bytes(6), np.float32(np.nan).tobytes() + bytes(3)):
        with pytest.raises(Refused):
            own.decode(wrong, 3, 0)
    with pytest.raises(Refused, match="must be finite"):
        own.encode(np.array([1, np.inf], dtype=np.float32), 0)
