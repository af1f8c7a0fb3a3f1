"""Options of CSAHFL and of the methods it is compared with."""

import numpy as np
import pytest

from fedloom.grouping import Need
from fedloom.methods import METHODS
from fedloom.pacing import lockstep
from fedloom.simulator import make_method


@pytest.mark.parametrize("name", [n for n in METHODS if n.endswith("_r")])
def test_a_reconstruction_says_so_wherever_it_is_shown(name):
    assert METHODS[name]().summary.startswith("reconstruction of")
    assert "a reconstruction" in METHODS[name].__globals__["__doc__"].splitlines()[0]


def test_ablations_are_options_of_the_method():
    for name, option in (
        ("csahfl_no_clusters", "clusters=none"),
        ("csahfl_no_deadline", "wait=all"),
        ("csahfl_no_kl", "cloud_weights=equal"),
    ):
        one, other = make_method(name), make_method(f"csahfl:{option}")
        assert (one.needs, one.group.when, one.cloud) == (other.needs, other.group.when, other.cloud)
        assert one.name == name
    assert make_method("csahfl_no_deadline").edge.pace is lockstep


def test_what_clients_reveal_depends_on_the_parts():
    everything = {Need.SIZES, Need.SPEEDS, Need.LABELS, Need.SIGNATURES}
    assert make_method("csahfl").needs == everything
    assert make_method("csahfl_no_clusters").needs == everything - {Need.SIGNATURES}
    assert make_method("csahfl_no_kl").needs == everything - {Need.LABELS}


@pytest.mark.parametrize(("text", "share"), [("global", 0.0), ("cluster", 1.0), ("mix", 0.5), ("0.25", 0.25)])
def test_what_goes_down_after_the_cloud(text, share):
    assert make_method(f"csahfl:after_cloud={text}").cloud.cluster_share == share


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csahfl:linkage=ward", "linkage must be one of complete, average, single"),
        ("csahfl:signature=some", "signature must be one of whole, per_class"),
        ("csahfl:metric=cosine", "metric must be one of principal, pairwise, pairwise_abs"),
        ("csahfl:clusters=many", "clusters must be one of angles, none, random"),
        ("csahfl:wait=never", "wait must be one of deadline, all"),
        ("csahfl:stale_mode=forget", "mode must be one of delta, renorm, literal"),
        ("csahfl:after_cloud=none", "after_cloud must be one of global, cluster, mix"),
        ("csahfl:after_cloud=1.5", "cluster_share must be between 0 and 1, got 1.5"),
        ("csahfl:cloud_weights=size", "cloud_weights must be one of kl, quantity, equal"),
        ("csahfl:alpha=-1", "alpha must"),
        ("csahfl:p=0", "p must"),
        ("fedat:lam=-1", "lam must be a number of at least 0, got -1"),
        ("fedat:start=zero", "start must be one of active, one"),
        ("hiflash_r:s_max=11", "s_max must be between 1 and 10, got 11"),
        ("macfl_r:least=2", "least must be between 0 and 1, got 2"),
        ("feduc_r:n_groups=0", "n_groups must"),
        ("pacfl:beta=-1", "beta must"),
    ],
)
def test_bad_options_are_explained(text, message):
    with pytest.raises(ValueError, match=message):
        make_method(text)


def test_speed_groups_are_equal_in_size_and_sorted():
    from dataclasses import dataclass

    @dataclass
    class Seen:
        active: np.ndarray
        home: np.ndarray
        in_reach: np.ndarray
        work_s: np.ndarray

    rng = np.random.default_rng(0)
    view = Seen(np.ones(16, bool), np.repeat([0, 1], 8), np.ones((2, 16), bool), rng.uniform(1, 9, 16))
    tiers = make_method("fedat:n_tiers=4").group.rule(view, rng)
    assert tiers.cover.sum(axis=1).tolist() == [4] * 4 and len(tiers.pace_groups()) == 4
    ends = [view.work_s[row].max() for row in tiers.cover]
    assert ends == sorted(ends)
    squads = make_method("feduc_r").group.rule(view, rng).squad
    for cell in (0, 1):
        here = view.home == cell
        assert np.bincount(squads[here]).tolist() == [2] * 4
        assert (np.diff(squads[here][np.argsort(view.work_s[here])]) >= 0).all()
    with pytest.raises(ValueError, match="n_tiers must be at most the number of clients, 16, got 17"):
        make_method("fedat:n_tiers=17").group.rule(view, rng)
