"""As real processes over mutual TLS on loopback: the simulator's bits, through kill -9 of anybody."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from deployment import bits
from deployment.federation import simulated
from deployment.processes import WITHIN_S, bundles, ended, final_row, kill_processes
from fedloom.deployment.bundles import read_bundle
from fedloom.deployment.certificates import Authority
from fedloom.deployment.local import started
from fedloom.deployment.naming import CLOUD
from fedloom.deployment.strangers import ANOTHER
from fedloom.record.measured import bytes_by_device, hop_amounts, jobs_of
from fedloom.record.report import write_report
from fedloom.record.runs import read_run
from fedloom.record.timeline import does_not_add_up
from fedloom.record.verify import verify
from small import for_method


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hhfl", "ddc"])
def test_processes_give_the_simulators_bits(name, tmp_path):
    scenario, method = for_method(name, cloud_rounds=2)
    bundle = bundles(tmp_path / "all", scenario, method)
    with started(tmp_path / "all", bundle.roster) as processes:
        ended(processes, tmp_path / "all")
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))
    summary = json.loads((tmp_path / "all" / CLOUD / "record" / "summary.json").read_text())
    assert summary["final"]["cloud_round"] == 2


@pytest.mark.slow
def test_a_shipped_scenario_gives_the_simulators_bits(tmp_path):
    """One method of those that `python -m deployment.bits` compares."""
    assert bits.compared("hierfedavg", tmp_path / "all") == ("cells-overlap", 12, True)


@pytest.mark.slow
def test_coded_models_as_processes(tmp_path):
    """The simulator's bits; and what is booked is what went over the wire. Up go the 11 largest of 108 values, 44 bytes, and
    which they are, 11 bytes; down go 108 values of a byte, and a scale of 4. Six clients of one edge server each, two rounds
    of two."""
    scenario, method = for_method("hierfedavg:up=topk:up.share=0.1:down=qsgd:down.bits=8", cloud_rounds=2)
    bundle = bundles(tmp_path / "all", scenario, method)
    with started(tmp_path / "all", bundle.roster) as processes:
        ended(processes, tmp_path / "all")
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))
    folder = tmp_path / "all" / CLOUD / "record"
    run = read_run(folder)
    hops = hop_amounts(run.measured)
    for hop, n in (("device_edge", 6 * 2 * 2), ("edge_cloud", 2 * 2)):
        up, down = (hops[hop, way]["bytes"] for way in ("up", "down"))
        assert (up.predicted, up.measured, down.predicted, down.measured) == (n * 55, n * 55, n * 112, n * 112)
    calls = run.measured["carried"]  # of every node that calls, to whom
    of_devices = [line for line in calls if line["node"].startswith("device-")]
    assert sum(line["values_sent"] for line in of_devices) == 6 * 4 * 55
    assert sum(line["values_got"] for line in of_devices) == 6 * 4 * 112
    of_edges = [line for line in calls if line["node"].startswith("edge-")]
    assert sum(line["values_sent"] for line in of_edges) == 4 * 55
    assert sum(line["values_got"] for line in of_edges) == 4 * 112
    assert does_not_add_up(run) == [] and verify(folder).sound
    page = write_report([run], folder / "report.html").read_text()
    assert "What goes up of it is coded, counted as 55 bytes and carried as 55." in page


@pytest.mark.full
@pytest.mark.parametrize("given", bits.CODED)
def test_coded_models_of_a_shipped_scenario_give_the_simulators_bits(given, tmp_path):
    assert bits.compared(given, tmp_path / "all")[2]


@pytest.mark.full
def test_kills_of_processes_change_nothing_of_coded_models(tmp_path):
    scenario, method = for_method("hhfl:up=topk:up.share=0.1:down=qsgd:down.bits=8", cloud_rounds=40)
    killed = kill_processes(scenario, method, tmp_path / "all", seed=7, kills=12)
    assert {name.split("-")[0] for name in killed} == {"cloud", "edge", "device"}
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))


def session(leader):
    """Processes that a command has started, and itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_it_goes_on_with_resume(tmp_path):
    scenario, method = for_method("hierfedavg", cloud_rounds=12)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(scenario))
    command = [
        sys.executable,
        "-m",
        "fedloom",
        "deploy",
        "local",
        "small.yaml",
        "-m",
        method,
        "--quiet",
        "--out",
        "all",
    ]
    log = tmp_path / "all" / CLOUD / "log.jsonl"
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may have told us to ignore it
    ) as running:
        while not log.exists() or '"done": 2' not in log.read_text():
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        said = running.communicate(timeout=WITHIN_S)[1]
    assert running.returncode == 130 and said.endswith("fedloom: stopped\n")
    assert ".py" not in said.replace(
        ".pyx.pxi", ""
    )  # no traceback of ours; gRPC shows one when it is ended at some moments
    end_s = time.monotonic() + 10
    while session(running.pid):
        assert time.monotonic() < end_s, session(running.pid)
        time.sleep(0.05)
    twice = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert twice.returncode == 2 and "all holds a federation; go on with it by --resume" in twice.stderr
    again = subprocess.run(
        [*command, "--resume"], cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert again.returncode == 0, again.stderr
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))


@pytest.mark.slow
def test_a_dozen_kills_of_processes_change_nothing(tmp_path):
    scenario, method = for_method("hierfedavg", cloud_rounds=40)
    killed = kill_processes(scenario, method, tmp_path / "all", seed=5, kills=12)
    assert {name.split("-")[0] for name in killed} == {"cloud", "edge", "device"}
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))


@pytest.mark.slow
def test_a_program_without_a_guard_is_not_run_again_in_every_process(tmp_path):
    """Where processes are started from a script that has no `if __name__ == "__main__"`."""
    scenario, _ = for_method("hierfedavg", cloud_rounds=1)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(scenario))
    (tmp_path / "program.py").write_text(
        "import sys\nfrom fedloom.cli import main\n"
        "sys.argv = ['fedloom', 'deploy', 'local', 'small.yaml', '--quiet', '--out', 'all']\nmain()\n"
    )
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("report:") == 1


def knock(folder, port):
    """Try to get in without TLS, without a certificate, and with one of another authority: addresses, and why each is refused."""
    other = Authority.new("cd" * 16).issue("device-3", serves=False)
    (folder / "other.pem").write_bytes(other.certificate + other.key)
    found = {}
    for certificate, why in ((None, "it shows no certificate"), (folder / "other.pem", ANOTHER)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        if certificate is not None:
            context.load_cert_chain(certificate)
        with socket.create_connection(("127.0.0.1", port)) as raw:
            found[f"ipv4:127.0.0.1:{raw.getsockname()[1]}"] = f"TLS: {why}"
            with contextlib.suppress(OSError), context.wrap_socket(raw) as made:
                made.recv(1)
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
        raw.recv(100)
        found[f"ipv4:127.0.0.1:{raw.getsockname()[1]}"] = "TLS: it speaks no TLS"
    return found


@pytest.mark.slow
def test_a_cloud_that_is_stopped_is_not_over_and_goes_on_and_strangers_are_in_the_log(tmp_path):
    scenario, method = for_method("hierfedavg", cloud_rounds=12)
    bundle = bundles(tmp_path / "all", scenario, method)
    log = tmp_path / "all" / CLOUD / "log.jsonl"
    with started(tmp_path / "all", bundle.roster) as processes:
        while not log.exists() or '"done": 2' not in log.read_text():
            time.sleep(0.02)
        knocks = knock(tmp_path, int(bundle.addresses["edge-0"].rpartition(":")[2]))
        processes.running[CLOUD].terminate()
        processes.running[CLOUD].join(20)
        assert processes.running[CLOUD].exitcode == 143 and not processes.over
        processes.start(CLOUD)
        ended(processes, tmp_path / "all")
    lines = [json.loads(line) for line in (tmp_path / "all" / "edge-0" / "log.jsonl").read_text().splitlines()]
    assert knocks.items() <= {line["who"]: line["why"] for line in lines if line["event"] == "refused"}.items()
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))


def test_a_bundle_holds_no_key_but_its_own(tmp_path):
    scenario, method = for_method("hierfedavg")
    bundle = bundles(tmp_path / "all", scenario, method)
    authority = (tmp_path / "all" / "ca" / "ca-key.pem").read_bytes()
    for name in (CLOUD, *bundle.roster):
        found = {path.name for path in (tmp_path / "all" / name).iterdir()}
        assert found == {"bundle.json", "node.pem", "key.pem", "ca.pem"}
        assert all(authority not in path.read_bytes() for path in (tmp_path / "all" / name).iterdir())
        assert (tmp_path / "all" / name / "key.pem").stat().st_mode & 0o077 == 0
        assert read_bundle(tmp_path / "all" / name)[0].name == name


def test_addresses_are_on_loopback_and_devices_without_clusters_do_not_listen(tmp_path):
    scenario, method = for_method("hierfedavg")
    bundle = bundles(tmp_path / "all", scenario, method)
    assert set(bundle.addresses) == {"cloud", "edge-0", "edge-1"}
    assert all(address.startswith("127.0.0.1:") for address in bundle.addresses.values())
    assert read_bundle(tmp_path / "all" / "device-0")[0].listen is None


@pytest.mark.slow
def test_predicted_stands_beside_measured(tmp_path, monkeypatch):
    (tmp_path / "my_meter.py").write_text(
        "import time\ndef joules(node):\n    return 1000.0 * time.monotonic()\n"  # a kilowatt
    )
    monkeypatch.chdir(tmp_path)
    scenario, method = for_method("hierfedavg", cloud_rounds=2)
    scenario["model_bits"] = 8 * 1000
    bundle = bundles(tmp_path / "all", scenario, method, meter="my_meter:joules")
    with started(tmp_path / "all", bundle.roster) as processes:
        ended(processes, tmp_path / "all")
    folder = tmp_path / "all" / CLOUD / "record"
    run = read_run(folder)
    jobs = jobs_of(run.measured)
    assert len(jobs) == 6 * 4 and {job["client"] for job in jobs} == set(range(6))
    for job in jobs:
        assert 0.2 <= job["predicted_train_s"] <= 0.8  # two steps of 0.1 to 0.4 s
        assert 0 < job["train_s"] < job["all_s"]
        assert 0 < job["joules"] <= 1000 * job["all_s"]
    assert (run.timeline["arrival_s"] > run.timeline["start_s"]).all()
    assert (run.timeline["merged_s"] >= run.timeline["arrival_s"]).all()
    hops = hop_amounts(run.measured)
    up = hops["device_edge", "up"]["bytes"]
    assert (up.predicted, up.measured) == (24 * 1000, 24 * 4 * 108)  # counted by the scenario, and the values that went
    trained_j = sum(job["joules"] for job in jobs)
    assert hops["computing", ""]["energy_j"].measured == pytest.approx(trained_j)
    assert sum(sent for sent, _ in bytes_by_device(run.measured).values()) == 24 * 4 * 108
    assert does_not_add_up(run) == [] and verify(folder).sound
    page = write_report([run], folder / "report.html").read_text()
    assert "Predicted beside measured" in page and "Does not add up" not in page
    assert "A model is counted as 1,000 bytes and carried as 432." in page
