"""Runs in which noise protects clients: any method, to the same bits, with what was given away."""

import numpy as np
import pytest

from fedloom.methods import METHODS
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

CLIENT, EDGE = ":private=client:private.clip=0.5:private.noise=0.2", ":private=edge:private.clip=0.5:private.noise=0.2"


def run(text, resume=None, made=None, **training):
    made = made or for_method(text.partition(":")[0], **training)[0]
    simulation = Simulation(scenario(made), make_method(text), seed=2, n_workers=1)
    saved = [simulation.checkpoint() for _ in simulation.rounds(resume)]
    return simulation, saved


@pytest.mark.parametrize("name", [n for n in METHODS if n != "scaffold"])
def test_every_method_runs_with_noise_at_clients(name):
    made, text = for_method(name, cloud_rounds=2)
    simulation, _ = run(text + CLIENT, made=made)
    last = simulation.measures[-1]
    assert np.isfinite(last["loss"]) and 0 < last["epsilon"] <= last["epsilon_edge"] < np.inf


@pytest.mark.parametrize("text", [f"hhfl{CLIENT}", f"hhfl{EDGE}", f"csahfl{EDGE}", f"fedat:n_tiers=3{CLIENT}"])
def test_a_run_goes_on_from_every_round_to_the_same_bits(text):
    whole, saved = run(text)
    for checkpoint in saved[1:]:
        again, _ = run(text, checkpoint)
        assert np.array_equal(again.result().row, whole.result().row) and again.measures == whole.measures


def test_costs_of_a_flat_federation_by_hand():
    """Six clients of 40 samples, 4 cloud rounds of 2 edge rounds: each is in 8 merges, with weight 1/6.
    Noise 0.2 at clients: uploads cost 8 / 0.04 = 200, merges a sixth of it; at the server: 200."""
    at_clients, _ = run(f"fedavg{CLIENT}")
    n = at_clients.world.n_samples / at_clients.world.n_samples.sum()
    spending = at_clients.federation.held.spending
    assert spending.to_edge == pytest.approx(np.full(6, 200.0))
    assert spending.to_others == pytest.approx(200 * n**2 / (n**2).sum())
    at_server, _ = run(f"fedavg{EDGE}")
    assert at_server.federation.held.spending.to_others == pytest.approx(200 * (n / n.max()) ** 2)
    assert "epsilon_edge" not in at_server.measures[-1]


def test_a_dry_run_knows_what_will_be_given_away():
    made, _ = for_method("hhfl")
    real, _ = run(f"hhfl{CLIENT}", made=made)
    dry = Simulation(scenario(made), make_method(f"hhfl{CLIENT}"), seed=2, dry_run=True)
    for _ in dry.rounds():
        pass
    assert dry.measures[-1]["epsilon"] == real.measures[-1]["epsilon"]


def test_a_head_protects_its_own_update_too():
    """It sends its cluster's model, in which its own update is: with itself as its only member nothing else would be."""
    made, text = for_method("ddc", cloud_rounds=1)
    plain, _ = run(f"{text}:private=client:private.clip=1e6:private.noise=0", made=made)
    noisy, _ = run(f"{text}:private=client:private.clip=1e6:private.noise=1e-9", made=made)
    heads = {int(h) for place in noisy.places for h in place.topology.host}
    spent = noisy.federation.held.spending.to_edge
    assert heads and all(spent[h] > 0 for h in heads)
    assert not np.array_equal(plain.result().row, noisy.result().row)


def test_what_noise_would_not_cover_is_refused():
    with pytest.raises(ValueError, match="sends states beside it"):
        run(f"scaffold{CLIENT}")
    made, _ = for_method("hhfl")
    made["task"] = {"dataset": "fashion-mini", "data_limit": 200, "model": {"kind": "cnn-bn"}}
    with pytest.raises(ValueError, match="of the model's values are not"):
        run(f"hhfl{EDGE}", made=made)
    with pytest.raises(ValueError, match="level of privacy that is not named; write private=client before"):
        make_method("hhfl:private.clip=1")
    with pytest.raises(ValueError, match="level of privacy"):
        make_method("hhfl:private=cloud")


def test_without_noise_nothing_is_promised():
    simulation, _ = run("hhfl:private=client:private.clip=0.5:private.noise=0")
    assert "epsilon" not in simulation.measures[-1]
