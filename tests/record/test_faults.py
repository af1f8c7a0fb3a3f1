"""A run stopped by a kill or by the disk at any of its writes leaves a sound folder, which goes on to the same bits."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from threading import Lock

import pytest

from fedloom.record.files import FolderError, NotWritten, write_page, write_whole
from fedloom.record.folder import record
from fedloom.record.verify import find_records, verify
from fedloom.simulator import Simulation, make_method, scenario

RESULTS = ("metrics.parquet", "topology.parquet", "timeline.parquet", "costs.parquet", "model.safetensors")


class Killed(BaseException):
    """The process ends here: nothing is cleaned up."""


class Disk:
    """Counts the steps of writes, half a write, a flush, before and after a rename, and stops at one of them."""

    def __init__(self, monkeypatch, fault, at=None):
        self.steps, self.at, self.fault = 0, at, fault
        self.lock = Lock()  # files are flushed at the same time
        real_open, real_fsync, real_replace = Path.open, os.fsync, Path.replace

        def opened(path, mode="r", *args, **options):
            file = real_open(path, mode, *args, **options)
            if mode == "wb":
                real_write = file.write

                class Half:
                    """A file that may take half of what is written only."""

                    def __enter__(self):
                        return self

                    def __exit__(self, *error):
                        file.close()

                    def write(_, content):
                        self.step(lambda: (real_write(content[: len(content) // 2]), file.flush()))
                        return real_write(content)

                    flush, fileno = file.flush, file.fileno

                return Half()
            return file

        def fsync(descriptor):
            self.step()
            real_fsync(descriptor)

        def replace(path, target):
            self.step()
            real_replace(path, target)
            self.step()

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", replace)

    def step(self, before=lambda: None):
        with self.lock:
            self.steps += 1
            if self.steps != self.at:
                return
        before()
        raise self.fault


def run(small, folder, **options):
    small["training"]["cloud_rounds"] = 1  # two batches, each with a checkpoint: all kinds of writes
    return record(
        Simulation(scenario(small), make_method("hierfedavg"), 0, n_workers=1), "hierfedavg", folder, **options
    )


def results(folder):
    return {name: (folder / name).read_bytes() for name in RESULTS}


def n_steps(small, folder, monkeypatch):
    with monkeypatch.context() as patch:
        disk = Disk(patch, Killed())
        run(small, folder, checkpoint_every_s=0)
    return disk.steps


def test_a_kill_at_any_step_of_any_write_loses_nothing(small, tmp_path, monkeypatch):
    total = n_steps(small, tmp_path / "whole", monkeypatch)
    assert total > 60
    for at in range(1, total + 1):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            Disk(patch, Killed(), at)
            run(small, folder, checkpoint_every_s=0)
        if any((folder / name).exists() for name in ("run.json", "manifest.json")):
            assert [str(m) for m in verify(folder).misfits] == [], at
        run(small, folder, resume=True)
        assert results(folder) == results(tmp_path / "whole"), at
        assert verify(folder).sound and verify(folder).finished
        assert not list(folder.rglob("*.tmp")) and not list(folder.rglob("*.refused"))


def test_a_full_disk_at_any_step_of_any_write_is_told_and_the_run_goes_on_when_there_is_room(
    small, tmp_path, monkeypatch
):
    total = n_steps(small, tmp_path / "whole", monkeypatch)
    for at in range(1, total + 1, 3):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch, pytest.raises(NotWritten, match=r"No space left on device.*make room in"):
            Disk(patch, OSError(28, "No space left on device"), at)
            run(small, folder, checkpoint_every_s=0)
        assert not list(folder.rglob("*.tmp"))
        for found in find_records([folder]) if list(folder.rglob("*.json")) else []:
            assert verify(found).sound, at
        run(small, folder, resume=True)
        assert results(folder) == results(tmp_path / "whole"), at


def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(small, tmp_path, monkeypatch):
    for at in count(1, 7):
        with monkeypatch.context() as patch:
            disk = Disk(patch, PermissionError(13, "Permission denied"), at)
            if at > 30:
                break
            with pytest.raises(FolderError, match=r"cannot be written \(Permission denied\); choose another --out"):
                run(small, tmp_path / str(at))
            assert disk.steps >= at  # files are flushed at the same time
        run(small, tmp_path / str(at), resume=True)
        assert verify(tmp_path / str(at)).sound


def test_a_finished_run_in_a_folder_that_cannot_be_written_is_read(small, tmp_path, monkeypatch):
    first = run(small, tmp_path / "a")
    with monkeypatch.context() as patch:
        Disk(patch, PermissionError(13, "Permission denied"), 1)
        assert run(small, tmp_path / "a", resume=True) == first


def test_a_kill_at_any_step_of_writing_the_report_leaves_a_sound_record(small, tmp_path, monkeypatch):
    run(small, tmp_path / "a")
    for page in (b"the first", b"the second"):
        for at in count(1):
            with monkeypatch.context() as patch:
                disk = Disk(patch, Killed(), at)
                try:
                    write_page(tmp_path / "a/report.html", page)
                except Killed:
                    assert verify(tmp_path / "a").sound, (page, at)
            if disk.steps < at:
                break
        assert at > 8 and verify(tmp_path / "a").sound and (tmp_path / "a/report.html").read_bytes() == page


def test_what_a_killed_process_left_beside_a_file_is_taken_away_when_it_is_written_again(small, tmp_path):
    """A process that runs may be writing: its file stays, as do files of other names."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    run(small, tmp_path)
    left = [tmp_path / f"{name}.{gone.pid}.tmp" for name in ("report.html", "page.html", "manifest.json")]
    others = [tmp_path / f"report.html.{os.getppid()}.tmp", tmp_path / f"x.report.html.{gone.pid}.tmp"]
    for path in (*left, *others):
        path.write_bytes(b"half")
    write_page(tmp_path / "report.html", b"whole")
    write_whole(tmp_path / "page.html", b"whole")
    assert not any(path.exists() for path in left) and all(path.exists() for path in others)


def test_a_page_is_the_old_one_or_the_new_one_wherever_its_write_is_cut_off(tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    with monkeypatch.context() as patch:
        disk = Disk(patch, Killed())
        write_page(page, b"old")
    assert disk.steps >= 4
    for at in range(1, disk.steps + 1):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            Disk(patch, Killed(), at)
            write_page(page, b"new")
        assert page.read_bytes() in (b"old", b"new")
