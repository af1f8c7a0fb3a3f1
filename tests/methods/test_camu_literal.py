"""P1 of CAMU as printed: the joules of an update count parameters, not samples (eq. 23b)."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.methods import camu_powers
from fedloom.simulator import Simulation


@pytest.fixture
def problems(monkeypatch):
    """The problems that were solved."""
    solved = []

    def allocate(problem, **options):
        solved.append(problem)
        return real(problem, **options)

    real = camu_powers.allocate
    monkeypatch.setattr(camu_powers, "allocate", allocate)
    return solved


def test_an_update_costs_what_is_printed_or_what_it_takes(small, problems):
    small["fleet"] |= {
        "device_cloud": {"via": "direct", "up": {"kind": "radio"}},
        "compute": {"law": {"kind": "uniform", "low": 1e3, "high": 3e3}, "unit": "cycles-per-second", "cycles_per_sample": 7.0,
                    "power_w": 0.05},
    }  # fmt: skip
    small["training"] = {"batch_size": 8, "local_epochs": 1, "edge_rounds": 2, "cloud_rounds": 1, "lr": 0.1}
    simulations = [
        Simulation(fl.scenario(small), fl.make_method(f"camu:reading={reading}"), 0, dry_run=True)
        for reading in ("default", "literal")
    ]
    states = [next(iter(simulation.federation.cloud_rounds(1))) for simulation in simulations]
    simulation, cover = simulations[0], states[0].topology.cover
    cpu_hz, n_params = states[0].snapshot.compute, simulation.n_params
    for problem, work in zip(problems, (simulation.world.n_samples, np.full(6, n_params))):
        by_hand = 0.05 * cover @ (7.0 * work / cpu_hz)  # p_cmp l_k |D_k| / f_k, and l_k q / f_k as printed
        np.testing.assert_allclose(problem.update_j, by_hand, rtol=1e-12)
    assert problems[0].n_params == problems[1].n_params == n_params
