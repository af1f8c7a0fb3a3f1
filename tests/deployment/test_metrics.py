"""What is seen from outside: /metrics, and logs of JSON."""

import json
import socket
import threading
import urllib.request

import pytest

from fedloom.deployment.logs import Log
from fedloom.deployment.metrics import shown


def test_metrics_tell_what_a_role_does_and_leave_no_thread():
    before = set(threading.enumerate())
    log = Log("edge-0")
    log("refused", who="device-1", why="NaN")
    log("refused", who="device-1", why="NaN")
    with shown(log, lambda: {"values_held": 3.0, "orders_at_work": 1.0}, "127.0.0.1:0") as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    assert 'fedloom_events_total{event="refused",node="edge-0"} 2.0' in text
    assert 'fedloom_values_held{node="edge-0"} 3.0' in text
    assert set(threading.enumerate()) == before


def test_without_an_address_nothing_listens():
    with shown(Log("edge-0"), dict, None) as port:
        assert port is None


def test_an_address_without_a_port_is_refused():
    with pytest.raises(ValueError, match="HOST:PORT"), shown(Log("edge-0"), dict, "localhost"):
        pass


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        why = f"cannot be shown at {address}: .* is another process there"
        with pytest.raises(OSError, match=why), shown(Log("edge-0"), dict, address):
            pass
    with (
        pytest.raises(OSError, match=r"cannot be shown at 127\.0\.0\.1:99999"),
        shown(Log("e"), dict, "127.0.0.1:99999"),
    ):
        pass


def test_a_log_is_a_line_of_json_for_every_event():
    lines = []
    log = Log("device-3", lines.append)
    log("failed", order="train-u-3-0", why='a "quoted" reason')
    found = json.loads(lines[0])
    assert (found["node"], found["event"], found["why"]) == ("device-3", "failed", 'a "quoted" reason')


def test_a_log_keeps_only_the_last_lines():
    log = Log("device-3", most_kept=10)
    for i in range(100):
        log("round", n=i)
    assert [line["n"] for line in log.kept] == list(range(90, 100))
    assert log.counts == {"round": 100}
