"""Whole federations as processes on loopback, and kill -9 of any of them."""

import random
import time

import numpy as np
from safetensors.numpy import load_file

from fedloom.deployment.bundles import make_bundles
from fedloom.deployment.local import free_ports, started
from fedloom.deployment.naming import CLOUD
from fedloom.deployment.roster import roster_of
from fedloom.simulator import Scenario, make_method
from fedloom.simulator.setting import make_setting
from fedloom.training import rows

WITHIN_S = 120.0


def bundles(folder, scenario, method, **options):
    chosen = Scenario.model_validate(scenario)
    roster, serving = roster_of(chosen, make_method(method), 0)
    serves = {name: f"127.0.0.1:{port}" for name, port in zip(serving, free_ports(len(serving)))}
    dumped = chosen.model_dump(mode="json")
    return make_bundles(folder, scenario=dumped, method=method, seed=0, roster=roster, serves=serves, **options)


def ended(processes, folder):
    """Wait for the end; what the nodes logged if it does not come."""
    end_s = time.monotonic() + WITHIN_S
    while not processes.over:
        assert time.monotonic() < end_s, _last_lines(folder)
        assert not processes.failed(), (processes.failed(), _last_lines(folder))
        time.sleep(0.05)


def _last_lines(folder):
    return {log.parent.name: log.read_text().splitlines()[-2:] for log in folder.glob("*/log.jsonl")}


def final_row(folder, scenario, method):
    model = make_setting(Scenario.model_validate(scenario), make_method(method), 0).model
    tensors = load_file(folder / CLOUD / "record" / "model.safetensors")
    return np.concatenate([tensors[part.name].reshape(-1) for part in rows.layout(model)])


def kill_processes(scenario, method, folder, seed, kills, within_s=WITHIN_S):
    """Run a federation, and kill so many of its processes at random moments, each started again at once: a role is drawn, and one
    of those who have it. Who was killed; fewer than asked for if it was over before."""
    bundle = bundles(folder, scenario, method)
    roles = {}
    for name in (CLOUD, *bundle.roster):
        roles.setdefault(name.split("-")[0], []).append(name)
    draw, killed = random.Random(seed), []
    with started(folder, bundle.roster) as processes:
        end_s = time.monotonic() + within_s
        while not processes.over:
            assert time.monotonic() < end_s, (killed, _last_lines(folder))
            time.sleep(draw.uniform(0.1, 0.5))
            if len(killed) < kills and (folder / CLOUD / "state" / "journal").exists() and not processes.over:
                name = draw.choice(roles[draw.choice(sorted(roles))])
                processes.restart(name)
                killed.append(name)
    return killed
