"""Against a real SuperLink with SuperNodes, on loopback: the simulator's bits, a user's own app, and nodes that are killed."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from deployment.federation import simulated
from flower.superlink import superlink
from small import for_method

ROOT = Path(__file__).parents[2]
APP, OWN = ROOT / "tests" / "flower" / "app", ROOT / "examples" / "flower_app"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def link(tmp_path_factory):
    folder = tmp_path_factory.mktemp("superlink")
    with superlink(folder, 3, FEDLOOM_FOLDER=str(folder)) as started:
        yield started


def case(method, timeout_s=400.0, stop=False, **training):
    """Three devices in two cells that overlap. timeout_s: None: as long as the case before took, twice."""
    scenario, method = for_method(method, **training)
    scenario["fleet"]["n_devices"] = 3
    return {"scenario": scenario, "method": method, "timeout_s": timeout_s, "stop": stop}


def run(link, cases, do=None):
    """Run cases; `do` something to the nodes after the first cloud round of the one that stops."""
    (link.folder / "cases.json").write_text(json.dumps(cases))
    for name in ("stopped", "go-on", "updates"):
        (link.folder / name).unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(link.run, APP)
        while do is not None and not running.done():
            if (link.folder / "stopped").exists():
                do()
                (link.folder / "go-on").touch()
                break
            time.sleep(0.05)
        said = running.result()
    assert (link.folder / "updates").exists(), (said, link.logs())


def check_bits(link, cases):
    for one in cases:
        found = np.load(link.folder / f"{one['method']}.npy")
        assert np.array_equal(found, simulated(one["scenario"], one["method"])), one["method"]


def test_lockstep_methods_give_the_simulators_bits(link):
    cases = [case(method, cloud_rounds=1) for method in ("hierfedavg", "hhfl", "ddc")]
    cases.append(case("fedavg", cloud_rounds=2, edge_rounds=1))
    run(link, cases)
    check_bits(link, cases)


def test_a_users_own_app_runs_and_is_short(link):
    assert len((OWN / "own_app.py").read_text().splitlines()) < 40
    assert "found: [ 2. -1.]" in link.run(OWN)


def test_a_node_that_is_killed_and_started_again_changes_no_bit(link):
    def again():
        link.kill("node-2")
        link.start_node(2)

    cases = [case("hierfedavg", stop=True, cloud_rounds=2, edge_rounds=1)]
    run(link, cases, again)
    check_bits(link, cases)


def test_a_node_that_is_killed_and_stays_away_is_given_up_and_the_run_comes_to_its_end(link):
    """Three updates in the first of three cloud rounds and two in the others; fewer where the machine is busy, but some."""
    cases = [case("fedavg", cloud_rounds=1, edge_rounds=1)]
    cases.append(case("fedavg", timeout_s=None, stop=True, cloud_rounds=3, edge_rounds=1))
    run(link, cases, lambda: link.kill("node-1"))
    assert 1 + 1 + 1 <= int((link.folder / "updates").read_text()) <= 3 + 2 + 2
