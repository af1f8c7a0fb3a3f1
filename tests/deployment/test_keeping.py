"""What a role keeps through a kill: the store of values, and the journal of what happened."""

import os
import threading
from dataclasses import replace

import numpy as np
import pytest

from fedloom.deployment.clock import WallClock
from fedloom.deployment.doing import lasting
from fedloom.deployment.journal import Journal, Spent
from fedloom.deployment.ordering import keeps_updates
from fedloom.deployment.orders import Outbox
from fedloom.deployment.roles import check_state
from fedloom.deployment.store import MOST_SPARE, NotThisRun, Store
from fedloom.gate import Refused
from fedloom.methods import Start
from fedloom.record.checkpoints import save_checkpoint
from fedloom.simulator import Checkpoint, make_method
from fedloom.simulator.clock import Delivered, Left, Opening, Reporting, Waking

HAPPENED = [
    (0.0, Opening(0)),
    (0.5, Delivered((3,), (1,))),
    (0.6, Spent()),
    (0.75, Waking(1, 4)),
    (1.0, Left((2, 5))),
    (2.0, Reporting(1)),
]


def filled(path):
    journal = Journal(path, "run")
    for at_s, what in HAPPENED:
        journal.happens(at_s, what)
    journal.confirms("merge-m-3")
    journal.close()
    return path


def test_a_record_that_is_ahead_of_an_empty_journal_is_refused(tmp_path):
    """With nothing done yet, and with a journal that tells of it, it goes on."""
    checkpoint = Checkpoint(cloud_round=0, measures=[], models=np.zeros((1, 3), np.float32))
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "run.json").write_text('{"identity": "run"}')
    empty = Journal(tmp_path / "empty", "run")
    save_checkpoint(tmp_path / "record", checkpoint, "run")
    check_state(tmp_path, empty)
    save_checkpoint(tmp_path / "record", replace(checkpoint, cloud_round=2), "run")
    full = Journal(filled(tmp_path / "full"), "run")
    check_state(tmp_path, full)
    full.close()
    with pytest.raises(ValueError, match="record has 2 cloud rounds: without its journal"):
        check_state(tmp_path, empty)


def test_a_journal_tells_what_was_written(tmp_path):
    journal = Journal(filled(tmp_path / "journal"), "run")
    journal.close()
    assert journal.happened == HAPPENED
    assert journal.confirmed == {"merge-m-3"}


@pytest.mark.parametrize("n_bytes", range(1, 60, 3))
def test_a_line_that_was_cut_short_was_not_written_and_the_next_follows_the_whole_ones(n_bytes, tmp_path):
    path = filled(tmp_path / "journal")
    data = path.read_bytes()
    path.write_bytes(data[:-n_bytes])
    journal = Journal(path, "run")
    whole = len(journal.happened)
    journal.happens(9.0, Opening(7))
    journal.close()
    again = Journal(path, "run")
    again.close()
    assert again.happened == [*HAPPENED[:whole], (9.0, Opening(7))]
    assert whole >= len(HAPPENED) - 2


def test_a_damaged_line_with_whole_ones_behind_it_is_refused_and_nothing_is_cut_off(tmp_path):
    path = filled(tmp_path / "journal")
    lines = path.read_bytes().split(b"\n")
    lines[3] = lines[3].replace(b"0.6", b"0.7")
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(Refused, match="line 4 is damaged, and there are whole ones behind it; take the file back"):
        Journal(path, "run")
    assert path.read_bytes() == b"\n".join(lines)


def test_a_journal_of_another_run_is_refused(tmp_path):
    with pytest.raises(NotThisRun, match="use another folder"):
        Journal(filled(tmp_path / "journal"), "other")


def test_a_store_gives_back_what_was_put_and_keeps_the_first(tmp_path):
    store = Store(tmp_path, "run")
    row = np.arange(4, dtype=np.float32)
    store.put("m-1", row)
    store.put("m-1", row + 1)
    row[:] = 9
    for found in (store, Store(tmp_path, "run")):
        assert found["m-1"].tolist() == [0, 1, 2, 3]
        assert not found["m-1"].flags.writeable


def test_what_is_dropped_is_gone(tmp_path):
    store = Store(tmp_path, "run")
    store.put("u-1-0", np.zeros(2, dtype=np.float32))
    store.drop(["u-1-0", "u-9-9"])
    assert "u-1-0" not in store
    assert Store(tmp_path, "run").names == []


def test_a_damaged_value_is_not_believed(tmp_path):
    Store(tmp_path, "run").put("m-1", np.arange(4, dtype=np.float32))
    path = tmp_path / "m-1.value"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    store = Store(tmp_path, "run")
    assert store.names == [] and store.damaged == ["m-1.value"] and not path.exists()


def test_a_value_of_another_run_is_refused(tmp_path):
    Store(tmp_path, "run").put("m-1", np.zeros(1, dtype=np.float32))
    with pytest.raises(NotThisRun, match="folders of its own"):
        Store(tmp_path, "other")


def test_what_a_kill_left_half_written_is_swept(tmp_path):
    (tmp_path / "m-1.value.77-0.part").write_bytes(b"half")
    assert Store(tmp_path, "run").names == []
    assert not list(tmp_path.iterdir())


def test_files_that_nobody_needs_are_written_over_and_hold_what_is_new(tmp_path):
    store = Store(tmp_path, "run")
    for i in range(20):
        store.put(f"m-{i}", np.full(3 + i % 4, i, np.float32))  # longer and shorter than what was there
        store.drop([f"m-{i - 2}"])
    assert len(list(tmp_path.iterdir())) == 3  # two that are kept, one that is spare
    again = Store(tmp_path, "run")
    assert again.names == ["m-18", "m-19"] and not again.damaged
    assert again["m-18"].tolist() == [18.0] * 5 and again["m-19"].tolist() == [19.0] * 6


def test_at_most_a_few_files_are_kept_to_be_written_over(tmp_path):
    store = Store(tmp_path, "run")
    names = [f"m-{i}" for i in range(30)]
    for name in names:
        store.put(name, np.zeros(2, np.float32))
    store.drop(names)
    assert len(list(tmp_path.iterdir())) == MOST_SPARE


@pytest.mark.parametrize("name", ["m-2.value.77-0.part", "m-2.value"])
def test_what_was_flushed_and_not_called_by_its_name_yet_is_found(name, tmp_path):
    """The power has failed after the content was on disk, and before the name was, or before it was a spare file."""
    Store(tmp_path, "run").put("m-7", np.arange(3, dtype=np.float32))
    (tmp_path / "m-7.value").rename(tmp_path / name)
    again = Store(tmp_path, "run")
    assert again.names == ["m-7"] and again["m-7"].tolist() == [0, 1, 2] and not again.damaged
    assert [path.name for path in tmp_path.iterdir()] == ["m-7.value"]


def test_files_that_have_the_names_of_others_are_called_by_what_they_hold_and_none_is_lost(tmp_path):
    """As after the power has failed: files were written over and their new names are not on disk."""
    store = Store(tmp_path, "run")
    for i in range(4):
        store.put(f"m-{i}", np.full(3, i, np.float32))
    files = [tmp_path / f"m-{i}.value" for i in range(4)]
    held = [path.read_bytes() for path in files]
    for i, path in enumerate(files):
        path.write_bytes(held[(i + 1) % 4])
    (tmp_path / "m-9.value.77-0.part").write_bytes(held[2])  # a second time
    again = Store(tmp_path, "run")
    assert again.names == ["m-0", "m-1", "m-2", "m-3"] and not again.damaged
    assert sorted(tmp_path.iterdir()) == files and [path.read_bytes() for path in files] == held


@pytest.mark.parametrize("n_bytes", [0, 3, 40, 50, 60, 100, 150, 200, -1])
def test_a_kill_while_a_file_is_written_over_leaves_nothing_that_is_wrong(n_bytes, tmp_path):
    """Neither half of what was to come, nor what was there by the new name; by its own name it may be back, and does no harm."""
    store = Store(tmp_path, "run")
    store.put("m-1", np.zeros(40, np.float32))
    store.put("m-2", np.ones(40, np.float32))
    content = (tmp_path / "m-2.value").read_bytes()
    store.drop(["m-1"])
    (spare,) = tmp_path.glob("*.part")
    with spare.open("r+b") as file:
        file.write(content.replace(b"m-2", b"m-3")[:n_bytes])
    again = Store(tmp_path, "run")
    assert set(again.names) - {"m-1"} == {"m-2"} and not again.damaged and not list(tmp_path.glob("*.part"))
    assert all((again[name] == float(name == "m-2")).all() for name in again.names)


def test_a_spare_file_that_is_gone_is_not_needed(tmp_path):
    store = Store(tmp_path, "run")
    store.put("m-1", np.zeros(2, np.float32))
    store.drop(["m-1"])
    for path in tmp_path.glob("*.part"):
        path.unlink()
    store.put("m-2", np.zeros(2, np.float32))
    assert Store(tmp_path, "run").names == ["m-2"]


def test_a_journal_is_written_to_while_it_is_flushed_and_all_of_it_is_on_disk_after_the_next(tmp_path, monkeypatch):
    journal, fsync, flushed = Journal(tmp_path / "journal", "run"), os.fsync, []

    def slow(descriptor):
        if not flushed:
            journal.happens(1.0, Opening(1))  # would wait for ever if a flush kept others from writing
        flushed.append(journal.unflushed)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    journal.happens(0.0, Opening(0))
    journal.flush()
    assert journal.unflushed, "the line that came meanwhile may not be on disk"
    journal.flush()
    assert not journal.unflushed and len(flushed) == 2
    journal.flush()
    assert len(flushed) == 2
    journal.close()
    again = Journal(tmp_path / "journal", "run")
    assert again.happened == [(0.0, Opening(0)), (1.0, Opening(1))]
    again.close()


def test_a_name_that_is_none_is_not_kept(tmp_path):
    with pytest.raises(ValueError, match="no name of a value"):
        Store(tmp_path, "run").put("../m-1", np.zeros(1))


def test_what_is_put_is_found_only_when_it_is_on_disk_and_what_is_held_before(tmp_path, monkeypatch):
    from fedloom.deployment import store as module

    store, seen = Store(tmp_path, "run"), []
    write = module.write_new

    def watched(path, content):
        seen.append("m-1" in store)
        write(path, content)

    monkeypatch.setattr(module, "write_new", watched)
    store.put("m-1", np.ones(3, np.float32))
    assert seen == [False] and "m-1" in store
    store.hold("m-2", np.ones(3, np.float32))
    assert "m-2" in store and Store(tmp_path, "run").names == ["m-1"]
    store.put("m-2", np.zeros(3, np.float32))  # a name stands for one content: it is saved as it was held
    store.save("m-2")
    assert len(seen) == 2
    assert Store(tmp_path, "run")["m-2"].tolist() == [1.0, 1.0, 1.0]
    store.hold("m-3", np.ones(3, np.float32))
    store.drop(["m-3"])
    store.save("m-3")
    assert Store(tmp_path, "run").names == ["m-1", "m-2"]


def test_after_a_restart_what_happened_is_not_foreseen_any_more_and_nothing_else_is_forgotten(tmp_path):
    """Opening(1) and Reporting(1) are equal as tuples."""
    journal = Journal(tmp_path / "journal", "run")
    journal.happens(1.0, Reporting(1))
    journal.close()
    again = Journal(tmp_path / "journal", "run")
    clock = WallClock(again, threading.Condition(), lambda: None, lambda at_s, what: None)
    clock.foresee(0.5, Opening(1))
    clock.foresee(1.0, Reporting(1))
    assert clock.next() == Reporting(1)
    assert clock.foresees(Opening(1)) and not clock.foresees(Reporting(1))
    assert isinstance(clock.next(), Opening)
    again.close()


@pytest.mark.parametrize(
    ("kept", "to", "expected"),
    [
        (False, ["edge-0"], ["o-1-0", "r-1-0"]),
        (True, ["edge-0"], ["u-1-0", "s-1-0", "o-1-0", "c-1-0", "r-1-0"]),
        (False, ["edge-0", "device-1"], ["u-1-0", "s-1-0", "o-1-0", "c-1-0", "r-1-0"]),  # a head is its own station
    ],
)
def test_what_nobody_else_has_or_may_be_asked_for_is_on_disk_before_the_cloud_is_told(kept, to, expected):
    order = {
        "name": "u-1-0",
        "begun": True,
        "own": {"to": "o-1-0"},
        "code": {"keep": "r-1-0"},
        "lasting": kept,
        "to": to,
    }
    assert lasting(order, "device-1") == expected


def test_devices_keep_updates_where_they_may_be_late_or_begun_with():
    lockstep = make_method("hierfedavg")
    assert not keeps_updates(lockstep)
    assert keeps_updates(make_method("fedat")) and keeps_updates(make_method("csahfl"))
    assert keeps_updates(make_method("hhfl:audit=sketch"))
    assert keeps_updates(lockstep.with_(start=Start(share=lambda edge, last: 0.5)))


def test_orders_that_are_given_together_are_told_once_when_all_are_there():
    outbox, told = Outbox(), []
    outbox.told = lambda nodes: told.append((sorted(nodes), sorted(outbox.waiting())))
    outbox.add("edge-0", {"id": "a"})
    with outbox.together():
        outbox.add("device-0", {"id": "b"})
        outbox.add("device-1", {"id": "c"})
    assert told == [(["edge-0"], ["edge-0"]), (["device-0", "device-1"], ["device-0", "device-1", "edge-0"])]
