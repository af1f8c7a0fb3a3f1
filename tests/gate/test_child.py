"""The child process: its crash, its silence and its appetite are one line here."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from fedloom.gate import Refused, mat
from fedloom.gate.child import Child


def a_file(n=2):
    out = io.BytesIO()
    savemat(out, {"X": np.zeros((32, 32, 3, n), np.uint8), "y": np.ones((n, 1), np.uint8), "other": np.zeros(3)})
    return out.getvalue()


def stand_in(tmp_path, monkeypatch, body):
    """A reader that does something else; yields its module's name."""
    (tmp_path / "strange_reader.py").write_text(
        "import os, time, numpy as np\nfrom fedloom.gate.child import serve\n"
        f"def parse(data):\n    {body}\nserve(parse)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "strange_reader"


def test_arrays_come_back_as_they_are():
    with Child(mat.__name__) as child:
        x, y = mat.arrays(a_file(), "mine.mat", child)
        assert x.shape == (32, 32, 3, 2) and x.dtype == np.uint8 and y.tolist() == [[1], [1]]
        with pytest.raises(
            Refused, match=r"mine.mat: cannot be read as a Matlab file of 500 bytes \(.*\); get it again"
        ):
            mat.arrays(b"nonsense!!" * 50, "mine.mat", child)
        assert mat.arrays(a_file(3), "mine.mat", child)[0].shape[3] == 3  # the same child goes on


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os.kill(os.getpid(), 11)", r"it made its reader crash \(SIGSEGV\); the file is damaged"),
        ("os.abort()", r"it made its reader crash \(SIGABRT\)"),
        ("os._exit(7)", "it made its reader end with code 7"),
        ("time.sleep(60)", "it took more than 1.5 s"),
        ("return {'x': np.ones(10**10)}", r"\(Unable to allocate"),
        ("raise RecursionError", r"\(RecursionError\)"),
        ("return {'x': np.array([None])}", "expected arrays of real numbers"),
        ("os.write(1, b'\\0' * 7 + b'\\2[]')", "answer made no sense"),
    ],
)
def test_what_a_reader_does_is_one_line(tmp_path, monkeypatch, body, message):
    module = stand_in(tmp_path, monkeypatch, body)
    begun = time.monotonic()
    with (
        Child(module, seconds=1.5 if "sleep" in body else 60) as child,
        pytest.raises(Refused, match=message) as caught,
    ):
        child.arrays(b"data", "mine.mat", "a Matlab file")
    assert "\n" not in str(caught.value) and str(caught.value).startswith("mine.mat: ")
    assert time.monotonic() - begun < 30


def test_a_child_that_has_crashed_is_started_anew(tmp_path, monkeypatch):
    module = stand_in(
        tmp_path, monkeypatch, "os.kill(os.getpid(), 11) if data == b'bad' else None; return {'x': np.ones(2)}"
    )
    with Child(module) as child:
        for _ in range(2):
            with pytest.raises(Refused, match="SIGSEGV"):
                child.arrays(b"bad", "bad.mat", "a file")
            assert child.arrays(b"good", "good.mat", "a file")["x"].tolist() == [1, 1]


def test_no_child_is_left_behind():
    with Child(mat.__name__) as child:
        mat.arrays(a_file(), "mine.mat", child)
        number = child._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_child_ends_with_its_parent(tmp_path, monkeypatch):
    module = stand_in(
        tmp_path, monkeypatch, f"open({str(tmp_path / 'number')!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    )
    code = f"from fedloom.gate.child import Child; Child({module!r}).arrays(b'x', 'f', 'f')"
    parent = subprocess.Popen([sys.executable, "-c", code])
    number = _soon(lambda: int((tmp_path / "number").read_text()))
    parent.kill()
    parent.wait()

    def gone():
        stat = Path(f"/proc/{number}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"

    _soon(gone)


def _soon(look):
    """What `look` gives as soon as it does not fail, within 30 s."""
    for _ in range(300):
        try:
            return look()
        except (AssertionError, OSError, ValueError):
            time.sleep(0.1)
    return look()
