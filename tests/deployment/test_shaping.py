"""Networks of their own for nodes on one machine, with the rates of the fleet. Left out where they cannot be made."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import yaml

from deployment.federation import simulated
from deployment.test_commands import said
from deployment.test_processes import final_row
from fedloom.deployment import shaping
from fedloom.deployment.rates import FREE_BIT_S, link_rates
from fedloom.deployment.shaping import CannotShape, Shaper, network, remove_leftovers, why_not
from fedloom.record.measured import hop_amounts, read_measured
from fedloom.simulator import Scenario, Simulation, make_method
from small import for_method

BITS = 32.0 * (8 * 8 + 8 + 8 * 4 + 4)  # of the model of the small scenario
REASON = why_not()
shaped = pytest.mark.skipif(REASON is not None, reason=f"networks cannot be made here: {REASON}")


def scene_of(scenario, method):
    simulation = Simulation(Scenario.model_validate(scenario), make_method(method), dry_run=True)
    next(simulation.rounds())
    next(simulation.federation.cloud_rounds(1))
    return simulation.federation.scenes.now


def out_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_link_is_as_fast_as_its_seconds_say_whatever_a_model_has_on_the_wire():
    scene = scene_of(*for_method("hierfedavg"))
    as_counted = link_rates(scene, BITS, wire_bits=BITS)
    assert as_counted["edge-0", "device-0"] == pytest.approx(1e6)  # as the scenario says
    larger = link_rates(scene, BITS, wire_bits=2 * BITS)
    for client, home in enumerate(scene.snapshot.home.tolist()):
        up_s = scene.exchange.client_up.seconds[client]
        assert larger[f"device-{client}", f"edge-{home}"] == pytest.approx(2 * BITS / up_s)
        assert larger[f"edge-{home}", f"device-{client}"] == pytest.approx(2e6)


def test_what_goes_to_the_cloud_by_way_of_an_edge_takes_both_hops():
    scenario, method = for_method("fedavg")
    scenario["fleet"]["device_cloud"] = {"via": "edge"}
    scenario["fleet"]["edge_cloud"] = {"up": {"kind": "rate", "bit_s": 5e5}, "down": {"kind": "rate", "bit_s": 1e6}}
    scene = scene_of(scenario, method)
    rates = link_rates(scene, BITS, BITS)
    assert rates["cloud", "device-0"] == pytest.approx(1e6 / (1 + 1))  # twice as long, over two links of 1 Mbit/s


def test_free_links_and_those_of_free_broadcasts_are_not_slowed():
    scenario, method = for_method("ddc")
    scenario["fleet"]["head_broadcast"] = "free"
    scene = scene_of(scenario, method)
    assert scene.topology.kind == "head"
    rates = link_rates(scene, BITS, BITS)
    heads = {f"device-{host}" for host in scene.topology.host.tolist()}
    assert not [pair for pair in rates if pair[0] in heads and pair[1].startswith("device-")]
    members = [pair for pair in rates if pair[1] in heads and pair[0].startswith("device-")]
    assert len(members) == 6 - len(heads)
    assert all(0 < rate < FREE_BIT_S for rate in rates.values())


@shaped
def test_nodes_reach_each_other_over_links_of_their_rates_and_nobody_else():
    with network(("cloud", "device-0", "device-1")) as made:
        shaper = Shaper(made)
        shaper.shape({("device-0", "cloud"): 2e6, ("cloud", "device-1"): 8e6})
        assert "rate 2Mbit" in out_of("tc", "-n", made.namespace("device-0"), "class", "show", "dev", "net")
        shaper.shape({("device-0", "cloud"): 3e6})
        assert "rate 3Mbit" in out_of("tc", "-n", made.namespace("device-0"), "class", "show", "dev", "net")
        assert "rate 100Gbit" in out_of("tc", "-n", made.namespace("cloud"), "class", "show", "dev", "net")
        routes = out_of("ip", "-n", made.namespace("device-0"), "route")
        assert "default" not in routes and len(routes.splitlines()) == 1
        program = "import socket, sys; s = socket.create_server((sys.argv[1], 9)); s.accept()[0].sendall(b'here')"
        command = ["ip", "netns", "exec", made.namespace("cloud"), sys.executable, "-c", program, made.address("cloud")]
        with subprocess.Popen(command) as server:
            ask = (
                "import socket, sys, time\nwhile True:\n    try:\n        there = socket.create_connection((sys.argv[1], 9))\n"
                "        break\n    except ConnectionRefusedError:\n        time.sleep(0.02)\nprint(there.recv(9))"
            )
            inside = (
                "ip",
                "netns",
                "exec",
                made.namespace("device-0"),
                sys.executable,
                "-c",
                ask,
                made.address("cloud"),
            )
            assert out_of(*inside).strip() == "b'here'"
            server.wait(10)
        assert shaper.carried()["device-0"] > 0
        assert out_of("ip", "link", "show", made.outside)
    assert not [p for p in shaping.NAMED.iterdir() if p.name.startswith(made.tag)]
    assert made.outside not in out_of("ip", "link")


@shaped
def test_what_a_killed_process_has_left_is_removed_at_the_next_start_and_nothing_else(tmp_path):
    program = textwrap.dedent("""
        import time
        from fedloom.deployment.shaping import network
        with network(("cloud", "device-0")) as made:
            print(made.tag, flush=True)
            time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as killed:
        tag = killed.stdout.readline().strip()
        os.kill(killed.pid, signal.SIGKILL)
    assert [p.name for p in shaping.NAMED.iterdir() if p.name.startswith(tag)]
    with network(("a",)) as mine:
        assert not [p.name for p in shaping.NAMED.iterdir() if p.name.startswith(tag)]
        assert remove_leftovers() == []
        assert (shaping.NAMED / mine.namespace("a")).exists()


@shaped
def test_two_networks_at_a_time_have_addresses_of_their_own():
    with network(("a",)) as one, network(("a",)) as other:
        assert one.tag != other.tag and one.address("a") != other.address("a")


def test_without_root_it_is_refused(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotShape, match="only root may make network namespaces; run it with sudo"):
        shaping.check_means()
    assert "only root" in why_not()


def test_without_ip_and_tc_it_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShape, match="ip and tc missing here; as root: apt-get install iproute2"):
        shaping.check_means()


@shaped
def test_a_kernel_that_cannot_is_told_with_its_own_words():
    with network(("a", "b")) as made, pytest.raises(CannotShape, match=r"(?s)tc could not: .*unknown.*sch_htb"):
        shaping._batch("tc", made.namespace("a"), ["qdisc add dev net root nothing-like-it"])


@shaped
@pytest.mark.slow
def test_a_shaped_run_computes_what_the_simulator_does_and_counts_its_bytes(tmp_path):
    scenario, method = for_method("hhfl", cloud_rounds=1)
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(scenario))
    said("deploy", "local", path, "-m", method, "--quiet", "--shape", "--out", tmp_path / "all")
    assert np.array_equal(final_row(tmp_path / "all", scenario, method), simulated(scenario, method))
    measured = read_measured(tmp_path / "all" / "cloud" / "record")
    for hop, amounts in hop_amounts(measured).items():
        assert amounts["bytes"].measured == amounts["bytes"].predicted, hop
    assert {line["node"] for line in measured["wire"]} == {
        "cloud",
        "edge-0",
        "edge-1",
        *(f"device-{k}" for k in range(6)),
    }
    assert all(
        took >= predicted for took, predicted in zip(measured["jobs"]["train_s"], measured["jobs"]["predicted_train_s"])
    )
    assert not [p for p in shaping.NAMED.iterdir() if p.name.startswith(f"fedloom-{os.getpid()}-")]
