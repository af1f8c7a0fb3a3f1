"""Files: regular ones, bounded, and nothing is unpacked beyond what can be there."""

import gzip
import os
import socket
import tracemalloc

import numpy as np
import pytest

from fedloom.gate import Refused, arrays, files, finite, table_text


def test_special_files_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "socket"))
        for path, kind in (
            ("/dev/zero", "a device"),
            (tmp_path / "pipe", "a pipe"),
            (tmp_path / "socket", "a socket"),
            (tmp_path, "a directory"),
        ):
            with pytest.raises(Refused, match=f"is {kind}; give the path of a table"):
                files.read_bytes(path, "a table")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "\udcff\ud800"])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises((Refused, FileNotFoundError)) as caught:
        files.read_bytes(path, "a table")
    assert len(str(caught.value)) < 400


def test_links_to_files_are_followed_and_loops_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert files.read_bytes(tmp_path / "link") == b"x"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Refused, match="cannot be opened"):
        files.read_bytes(tmp_path / "loop")


def test_a_file_that_is_too_long_is_not_read(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert files.read_bytes(tmp_path / "file", most=11) == b"x" * 11
    with pytest.raises(Refused, match="has 11 bytes; at most 10 are read"):
        files.read_bytes(tmp_path / "file", most=10)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Refused, match="has 1,099,511,627,776 bytes"):
        files.read_bytes(tmp_path / "sparse")


def test_a_gzip_bomb_is_not_unpacked():
    bomb = gzip.compress(bytes(200_000_000), 9)  # 0.2 MB
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="unpacks to more than 1,000 bytes"):
            files.gunzip(bomb, "bomb", 1000)
        with pytest.raises(Refused, match="unpacks to more than 3,000,000 bytes"):
            files.gunzip(bomb, "bomb", lambda head: 3_000_000)
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 5000])
def test_a_gzip_file_gives_all_that_it_may_hold(n):
    data = bytes(i % 251 for i in range(n))
    half = n // 2
    assert files.gunzip(gzip.compress(data[:half]) + gzip.compress(data[half:]), "two members", n) == data
    assert files.gunzip(gzip.compress(data), "by head", lambda head: n) == data
    with pytest.raises(Refused):
        files.gunzip(gzip.compress(data + b"xyz"), "too much", lambda head: n) if n >= 16 else files.gunzip(
            gzip.compress(data + b"xyz"), "too much", n
        )


def test_headers_that_declare_terabytes_cost_nothing():
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 4), }".ljust(117)
        + b"\n"
    )
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match=r"expected 32,000,000,000,000 bytes for \(1000000000000, 4\) float64, got 8"):
            arrays.npy(header + bytes(8), "large.npy")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_arrays_are_those_that_numpy_stored(tmp_path):
    values = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "c": np.float32(3),
        "d": np.zeros((0, 4)),
        "e": np.array(["word"]),
    }
    np.savez_compressed(tmp_path / "file.npz", **values)
    data = (tmp_path / "file.npz").read_bytes()
    assert arrays.npz_names(data, "file.npz") == list(values)
    for found, value in zip(arrays.npz(data, "file.npz", tuple(values)), values.values()):
        assert np.array_equal(found, value) and found.dtype == np.asarray(value).dtype
    with pytest.raises(Refused, match=r"expected arrays z, lacks z, has \['a', 'b', 'c', 'd', 'e'\]"):
        arrays.npz(data, "file.npz", ("z",))


def test_numbers_in_tables_are_written_as_such(tmp_path):
    for text in ("1_000", "0x10", "nan", "inf", "１", "1e", "", "1 2", "1,5"):
        assert np.isnan(table_text.number(text))
    assert [table_text.number(t) for t in ("1", "+.5", "-2.", "1e3")] == [1, 0.5, -2, 1000]
    (tmp_path / "wide.csv").write_text("," * 5000)
    with pytest.raises(Refused, match="5,001 columns; at most 4,096 are read"):
        list(table_text.lines(tmp_path / "wide.csv", "a table"))


def test_the_first_number_that_is_wrong_is_named():
    with pytest.raises(Refused, match=r"x of mine must be finite, got nan at index \[1, 0\], and 1 more"):
        finite.finite("x of mine", np.array([[1.0, 2.0], [np.nan, np.inf]]))
    with pytest.raises(Refused, match=r"y must lie in 0\.\.9, got 10 at index 2"):
        finite.in_range("y", np.array([0, 9, 10]), 0, 9)
    with pytest.raises(Refused, match="y must hold whole numbers, got float64"):
        finite.whole_numbers("y", np.array([0.5]))
    with pytest.raises(Refused, match=r"x must lie in -3.40282e\+38..3.40282e\+38, got 1e\+300 at index 0"):
        finite.as_float32("x", np.array([1e300]))
    finite.finite("x", np.array([1.7e308, 1.7e308]))  # though their sum is not
    with pytest.raises(Refused, match=r"summary.json: hops.0.joules must be finite, got inf"):
        finite.results("summary.json", {"seconds": 3.0, "hops": [{"joules": float("inf")}]})
    finite.results("summary.json", {"seconds": 3.0, "n": 10**400, "of": [None, "nan", True]})
