"""Hostile clients, heads and edge servers in every method: the same for all, on clock and ledger, resumed to the bit."""

import numpy as np
import pytest

from fedloom.attacks import a_little, inner_product, min_max, supporters_z
from fedloom.methods import METHODS
from fedloom.mixing import robust
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

CLIENTS = {"devices": [1, 4]}


def small(name, hostile, changes=None, **training):
    made, text = for_method(name, **training)
    return scenario(made | {"hostile": hostile} | (changes or {})), text


def ran(chosen, method, resume=None, **options):
    simulation = Simulation(chosen, make_method(method) if isinstance(method, str) else method, 0, **options)
    for _ in simulation.rounds(resume):
        pass
    return simulation


ATTACKS = [
    {"kind": "sign-flip"},
    {"kind": "scale", "factor": 3.0},
    {"kind": "noise", "std": 0.1},
    {"kind": "alie"},
    {"kind": "alie", "knows": "hostile", "z": 0.5},
    {"kind": "ipm"},
    {"kind": "min-max"},
    {"kind": "min-max", "direction": "unit"},
    {"kind": "replay", "lag": 1},
    {"kind": "free-rider"},
    {"kind": "free-rider", "std": 0.1, "pretends": False},
    {"kind": "not-finite"},
]


def trained(simulation, start, client, edge_round):
    """What a client learns from a model in an edge round, by itself."""
    from fedloom.training.engine import Jobs

    steps = simulation.world.local_steps
    one = {
        "start": 0,
        "client": client,
        "n_steps": steps,
        "first_step": edge_round * steps,
        "lr_step": edge_round * steps,
    }
    jobs = Jobs(**{name: np.array([value]) for name, value in one.items()})
    return simulation.engine.train(start[None], jobs)[0]


def plain_loop(simulation, attack, hostile, n_rounds):
    """Flat averaging with an attack, written out: every client by itself, every value as it is published."""
    row, weights = simulation.setting.first_row, simulation.world.n_samples.astype(np.float64)
    past = {k: [] for k in hostile}
    for edge_round in range(n_rounds):
        rows = [trained(simulation, row, k, edge_round) for k in range(6)]
        changes = [(r.astype(np.float64) - row) for r in rows]
        known = changes if attack.get("knows", "all") == "all" else [changes[k] for k in hostile]
        sent, kept = list(rows), list(range(6))
        for k in hostile:
            change = changes[k]
            match attack["kind"]:
                case "sign-flip":
                    sent[k] = row - change
                case "scale":
                    sent[k] = row + attack["factor"] * change
                case "alie":
                    mean = sum(known) / len(known)
                    std = np.sqrt(sum((c - mean) ** 2 for c in known) / len(known))
                    z = attack.get("z", supporters_z(6, len(hostile)))
                    sent[k] = row + (mean - z * std)
                case "ipm":
                    sent[k] = row - 0.5 * sum(known) / len(known)
                case "min-max":
                    sent[k] = row + halved(np.stack(known), attack.get("direction", "std"))
                case "replay":
                    past[k].append(rows[k])
                    sent[k] = past[k][max(0, edge_round - attack["lag"])]
                case "free-rider":
                    sent[k] = row
                case "not-finite":
                    kept.remove(k)
        total = sum(weights[k] for k in kept)
        row = sum(weights[k] / total * np.float64(np.float32(sent[k])) for k in kept).astype(np.float32)
    return row


def halved(changes, direction):
    """Min-max as published: gamma by trying, halving the step."""
    mean = changes.mean(axis=0)
    p = {"unit": -mean / np.linalg.norm(mean), "std": -changes.std(axis=0), "sign": -np.sign(mean)}[direction]
    most = max(np.linalg.norm(a - b) for a in changes for b in changes)
    low, high = 0.0, 1e6
    for _ in range(200):
        gamma = (low + high) / 2
        fits = max(np.linalg.norm(mean + gamma * p - c) for c in changes) <= most
        low, high = (gamma, high) if fits else (low, gamma)
    return mean + low * p


@pytest.mark.parametrize("attack", [a for a in ATTACKS if "std" not in a], ids=str)
def test_an_attack_in_a_run_is_the_plain_loop(attack):
    chosen, _ = small("fedavg", {"clients": CLIENTS | {"attack": attack}}, cloud_rounds=2)
    run = ran(chosen, "fedavg")
    wanted = plain_loop(run, attack, CLIENTS["devices"], 4)
    assert np.allclose(run.result().row, wanted, rtol=0, atol=1e-6)
    honest = ran(scenario(for_method("fedavg", cloud_rounds=2)[0]), "fedavg")
    assert not np.allclose(run.result().row, honest.result().row, rtol=0, atol=1e-4)
    assert run.measures[-1].get("rejected", 0) == (8 if attack["kind"] == "not-finite" else 0)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("attack", [{"kind": "sign-flip"}, {"kind": "not-finite"}], ids=lambda a: a["kind"])
def test_hostile_clients_go_with_every_method(name, attack):
    chosen, text = small(name, {"clients": CLIENTS | {"attack": attack}}, cloud_rounds=2)
    run = ran(chosen, text)
    assert np.isfinite(run.result().row).all()
    rejected = run.federation.held.sick
    assert {k for _, k, *_ in rejected.table} <= set(CLIENTS["devices"])
    assert (run.measures[-1].get("rejected", 0) > 0) == (attack["kind"] == "not-finite")
