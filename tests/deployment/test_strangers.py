"""Handshakes that TLS refuses, read from gRPC's own log. That a stranger comes into the log of an edge server that is a process
is in test_processes.py."""

import os
import threading

import pytest

from fedloom.deployment import strangers
from fedloom.deployment.logs import Log
from fedloom.deployment.strangers import Refusals, reason, refusals

ARGS = "grpc.internal.endpoint_local_address=ipv4:127.0.0.1:7431, grpc.internal.endpoint_peer_address={peer}, "
OURS = "grpc.internal.server_credentials=0x55d710742450, grpc.so_reuseport=0"
NO_CERTIFICATE = "SSL_ERROR_SSL: error:100000c0:SSL routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE"


def failed(peer="ipv4:10.0.0.9:4711", error=NO_CERTIFICATE, args=OURS):
    """As gRPC 1.85 writes it."""
    return (
        f"I1117 17:15:17.373546    2969 ssl_transport_security.cc:2563] Handshake failed with error {error}\n"
        f"I1117 17:15:17.373608    2969 handshaker.cc:155] CallNextHandshakerLocked: error=UNKNOWN: Ssl failed: {error}: OK\n"
        "=== Source Location Trace: ===\nsrc/core/util/status_helper.cc:68\n"
        f" shutdown=false index=2, args={{endpoint=0x7fdda8002440, args={{{ARGS.format(peer=peer)}{args}}}, read_buffer=0}}\n"
        "I1117 17:15:17.373646    2969 channel_trace.h:396] handshake manager 0x7fdda80020c0: Failed with error: UNKNOWN: ...\n"
        "=== Source Location Trace: ===\nsrc/core/util/status_helper.cc:68\n\n"
    )


BEGUN = (
    "I1117 17:15:17.347722    2970 handshaker.cc:155] CallNextHandshakerLocked: error=OK shutdown=false index=1, "
    f"args={{endpoint=0x7fdda8002440, args={{{ARGS.format(peer='ipv4:10.0.0.1:1')}{OURS}}}}}\n"
)


def test_a_failed_handshake_is_told_with_address_and_reason():
    assert refusals(BEGUN + failed() + BEGUN) == ([("ipv4:10.0.0.9:4711", "TLS: it shows no certificate")], "")
    assert refusals(failed(peer="ipv6:%5Bfd00::7%5D:99"))[0][0][0] == "ipv6:[fd00::7]:99"


def test_a_call_of_our_own_that_fails_is_no_stranger():
    assert refusals(failed(args="grpc.ssl_target_name_override=cloud")) == ([], "")


def test_errors_and_what_others_write_is_still_seen():
    error = "E1117 17:15:17.373608    2969 server.cc:1] no more files\nand why\n"
    text = "libgomp: no threads\n" + BEGUN + "terminate called\n" + failed() + error
    assert refusals(text) == (
        [("ipv4:10.0.0.9:4711", "TLS: it shows no certificate")],
        f"libgomp: no threads\nterminate called\n{error}",
    )


def test_a_reason_that_is_not_known_is_told_as_it_is():
    assert reason("UNKNOWN: something new") == "TLS: UNKNOWN: something new"


def test_many_of_one_address_are_told_together_and_all_are_counted():
    log = Log("edge-0")
    said = Refusals(log)
    for port in range(100):
        said.note(f"ipv4:10.0.0.9:{port}", "TLS: it speaks no TLS")
    said.note("ipv4:10.0.0.8:1", "TLS: it speaks no TLS")
    said.tell()
    assert [line["who"] for line in log.kept] == ["ipv4:10.0.0.9:0", "ipv4:10.0.0.8:1"]
    said.tell(0.0)
    assert log.kept[2] | {"time": 0} == {
        "time": 0, "node": "edge-0", "event": "refused", "who": "ipv4:10.0.0.9:99", "why": "TLS: it speaks no TLS", "times": 99,
    }  # fmt: skip
    assert log.counts == {"refused": 101}


def test_many_addresses_do_not_fill_the_memory():
    log = Log("edge-0")
    said = Refusals(log)
    for i in range(3 * strangers.MOST_SEEN):
        said.note(f"ipv4:10.0.{i // 250}.{i % 250}:1", "TLS: it speaks no TLS")
    assert len(said._seen) <= strangers.MOST_SEEN and log.counts == {"refused": 3 * strangers.MOST_SEEN}


@pytest.mark.parametrize("n", [1, 3000])
def test_a_file_is_read_whole_and_emptied_before_it_fills_the_disk(n, tmp_path, monkeypatch):
    """Records come in halves; 3,000 are more than a megabyte."""
    monkeypatch.setattr(strangers, "LOOK_S", 0.01)
    log, over = Log("edge-0"), threading.Event()
    file = os.open(tmp_path / "grpc.log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    shown = os.open(tmp_path / "stderr", os.O_WRONLY | os.O_CREAT)
    reading = threading.Thread(target=strangers._read, args=(file, shown, Refusals(log), over))
    text = (failed() * n).encode()
    os.write(file, text[: len(text) // 2])
    os.write(file, text[len(text) // 2 :])
    reading.start()
    while n > 1 and os.fstat(file).st_size:
        over.wait(0.01)
    over.set()
    reading.join()
    assert log.counts == {"refused": n}
    assert os.fstat(file).st_size == (0 if n > 1 else len(text)) and not (tmp_path / "stderr").read_bytes()
    os.close(file)
    os.close(shown)
