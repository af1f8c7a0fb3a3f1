"""The timeline: any number of lines in little memory, the same lines as in memory."""

import errno
import os
from functools import partial
from pathlib import Path

import numpy as np
import polars
import pytest

from fedloom.record.files import write_whole
from fedloom.record.folder import record
from fedloom.record.streaming import write_tables
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.timeline import COLUMNS, Sent, Timeline, table


def sent(i, m=3):
    rng = np.random.default_rng(i)
    return Sent(
        cloud_round=1 + i // 4,
        edge_round=i,
        client=np.arange(m),
        aggregator=np.full(m, i % 2),
        start_s=float(i),
        fetch_s=rng.random(m),
        compute_s=rng.random(m),
        upload_s=rng.random(m),
        arrival_s=rng.random(m),
        merged_s=np.full(m, np.nan),
        merged_at=np.full(m, -1),
        late=rng.random(m) < 0.5,
        moved=np.zeros(m, dtype=np.bool_),
        times=np.full(m, i % 3),
    )


def same(a, b):
    assert list(a) == list(b) == list(COLUMNS)
    for name in COLUMNS:
        np.testing.assert_array_equal(a[name], b[name])


def test_lines_are_the_same_in_one_piece_and_in_many():
    sizes = [3, 1, 5, 2, 40, 1, 1, 7]  # one is larger than a piece
    pieces, whole = Timeline(chunk=8), Timeline()
    for i, m in enumerate(sizes):
        pieces.append(sent(i, m))
        whole.append(sent(i, m))
    same(table(pieces), table(whole))
    assert len(pieces) == len(sizes) and [len(s.client) for s in pieces] == sizes
    again = [(s.cloud_round, s.edge_round, s.start_s, s.times.tolist()) for s in pieces]
    assert again == [(1 + i // 4, i, float(i), [i % 3] * m) for i, m in enumerate(sizes)]
    assert len(list(pieces.tables())) > 3 and not Timeline() and list(Timeline()) == []


def test_what_is_merged_much_later_is_written_where_it_belongs():
    timeline = Timeline(chunk=8)
    early = [sent(i) for i in range(6)]
    for one in early:
        timeline.append(one)
    for i in range(6, 60):
        timeline.append(sent(i))
    for one in early:
        one.merged_s[1], one.merged_at[1], one.moved[1] = 7.0, 9, True
    lines = table(timeline)
    merged = np.flatnonzero(lines["merged_at"] == 9)
    np.testing.assert_array_equal(merged, 3 * np.arange(6) + 1)
    assert (lines["merged_s"][merged] == 7.0).all() and lines["moved"].sum() == 6
    assert np.isnan(np.delete(lines["merged_s"], merged)).all()


def test_the_lines_of_a_round():
    timeline = Timeline(chunk=8)
    for i in range(20):
        timeline.append(sent(i))
    for cloud_round in (1, 3, 5):
        np.testing.assert_array_equal(
            timeline.of_round(cloud_round)["edge_round"], np.repeat(np.arange(4) + 4 * (cloud_round - 1), 3)
        )
    assert timeline.of_round(6) is None and Timeline().of_round(1) is None


def own_memory():
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("RssAnon:")[2].split()[0])


def test_memory_does_not_grow_with_rounds():
    timeline = Timeline(chunk=10_000)
    for i in range(20):
        timeline.append(sent(i, 5000))
    before = own_memory()
    for i in range(20, 220):
        timeline.append(sent(i, 5000))
    assert own_memory() - before < 15e6  # a million lines: 106 MB


def test_a_full_disk_for_temporary_files_is_explained(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    timeline = Timeline(chunk=4)
    timeline.append(sent(0))
    with pytest.raises(OSError, match=r"No space left on device: the timeline has no room.*set TMPDIR") as error:
        timeline.append(sent(1))
        list(timeline)
    assert error.value.errno == errno.ENOSPC


def test_a_table_in_pieces_is_written_as_one_file(tmp_path):
    pieces = [{"a": np.arange(i, i + 3), "b": np.array([1.0, np.nan, i])} for i in range(0, 9, 3)]
    write_tables(tmp_path / "t.parquet", iter(pieces), empty=("b",))
    found = polars.read_parquet(tmp_path / "t.parquet")
    assert found["a"].to_list() == list(range(9)) and found["b"].to_list() == [1, None, 0, 1, None, 3, 1, None, 6]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_an_interrupted_write_leaves_what_was_there(tmp_path):
    write_whole(tmp_path / "t.parquet", lambda path: write_tables(path, iter([{"a": np.arange(3)}])))

    def breaks():
        yield {"a": np.arange(3)}
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Exception, match="No space left"):
        write_whole(tmp_path / "t.parquet", lambda path: write_tables(path, breaks()))
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert polars.read_parquet(tmp_path / "t.parquet").height == 3


@pytest.mark.parametrize("method", ["hierfedavg", "csahfl", "fedat:n_tiers=3"])
def test_a_record_does_not_depend_on_where_the_lines_were(small, tmp_path, method, monkeypatch):
    for name, chunk in (("memory", 10**6), ("disk", 4)):
        monkeypatch.setattr("fedloom.simulator.errands.Timeline", partial(Timeline, chunk))
        record(Simulation(scenario(small), make_method(method)), method, tmp_path / name)
    found = [polars.read_parquet(tmp_path / name / "timeline.parquet") for name in ("memory", "disk")]
    assert found[0].height > 8 and found[0].equals(found[1])
