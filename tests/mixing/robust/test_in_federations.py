"""Robust merges in whole federations: neutral ones change no bit, all go with every method, and runs go on to the same bits."""

import numpy as np
import pytest
from merges_to_try import NEUTRAL, RULES

import fedloom as fl
from fedloom.methods import METHODS
from fedloom.mixing import robust
from fedloom.mixing.merges import CloudLinear, Linear
from fedloom.simulator import Simulation
from small import for_method


def run(chosen, method, seed=3):
    simulation = Simulation(chosen, method, seed)
    saved = [simulation.checkpoint() for _ in simulation.rounds() if simulation.cloud_rounds_done]
    return simulation, saved


@pytest.mark.parametrize("rule", NEUTRAL)
@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl"])
def test_a_neutral_rule_at_both_levels_is_the_method_itself_to_the_bit(name, rule):
    made, text = for_method(name, cloud_rounds=2)
    method = fl.make_method(text)
    assert isinstance(method.merge_edge, Linear) and isinstance(method.merge_cloud, CloudLinear)
    changed = method.with_(
        merge_edge=robust.at_edge(NEUTRAL[rule], method.merge_edge.weigh),
        merge_cloud=robust.at_cloud(NEUTRAL[rule], method.merge_cloud.weigh),
    )
    usual = method.with_(merge_edge=robust.at_edge(NEUTRAL[rule]), merge_cloud=robust.at_cloud(NEUTRAL[rule]))
    wanted, _ = run(fl.scenario(made), method)
    for other in (changed, usual):
        found, _ = run(fl.scenario(made), other)
        np.testing.assert_array_equal(found.result().row, wanted.result().row)
        assert found.measures == wanted.measures


@pytest.mark.parametrize("name", METHODS)
def test_robust_merges_go_with_every_method(name):
    made, text = for_method(name, cloud_rounds=1)
    method = fl.make_method(text)
    changed = method.with_(
        merge_edge=robust.at_edge(robust.multi_krum(f=1)), merge_cloud=robust.at_cloud(robust.coordinate_median())
    )
    found, _ = run(fl.scenario(made), changed)
    assert np.isfinite(found.result().row).all()
    assert found.result().row.any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["hierfedavg", "csahfl"])  # csahfl: late updates and models of clusters
def test_a_run_goes_on_to_the_same_bits(name, rule):
    made, text = for_method(name, cloud_rounds=3, edge_rounds=2)
    made["fleet"]["compute"]["jitter_sigma"] = 0.5
    method = fl.make_method(text).with_(
        merge_edge=robust.at_edge(RULES[rule]), merge_cloud=robust.at_cloud(RULES[rule])
    )
    whole, saved = run(fl.scenario(made), method)
    second = Simulation(fl.scenario(made), method, 3)
    for _ in second.rounds(saved[1]):
        pass
    np.testing.assert_array_equal(second.result().row, whole.result().row)
    assert second.measures == whole.measures


@pytest.mark.parametrize("value", [np.nan, 1e6])
@pytest.mark.parametrize(
    "rule", ["coordinate_median", "trimmed_mean", "geometric_median", "krum", "multi_krum", "bulyan"]
)
def test_a_federation_learns_in_spite_of_one_client_that_sends_nonsense(rule, value):
    made, _ = for_method("fedavg", cloud_rounds=8)
    made["task"]["partition"] = {"kind": "iid"}

    def hostile(part):
        """Client 2 sends something else than it has trained."""

        def merge(arrivals, old, rows, starts):
            return part.rule(arrivals, old, np.where((arrivals.client == 2)[:, None], np.float32(value), rows), starts)

        return fl.ByRows(merge)

    method = fl.make_method("fedavg")
    plain, _ = run(fl.scenario(made), method)
    chosen = {"trimmed_mean": robust.trimmed_mean(share=0.2), "bulyan": robust.bulyan(f=1)}.get(rule, RULES[rule])
    found, _ = run(fl.scenario(made), method.with_(merge_edge=hostile(robust.at_edge(chosen))))
    assert found.measures[-1]["accuracy"] > plain.measures[-1]["accuracy"] - 0.1
    assert np.abs(found.result().row).max() < 10
