"""Client rules with state in whole runs, with every kind of method: resumed, shared out and counted; and rules of one's own."""

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from fedloom.methods.method import Local
from fedloom.mixing import robust
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training.state import ClientRule, Layout, State
from small import for_method


@dataclass(frozen=True)
class Own:
    """A rule with states of all kinds: a client's jobs are counted, its last model is remembered, and all see everybody's
    count."""

    states: ClassVar = (
        State("n_jobs", size=1),
        State("last", begins="model"),
        State("mean_jobs", size=2, shared=True),
    )
    trainings: ClassVar = 1

    def gradient(self, gradient, job):
        return gradient + 0.1 * (job.model - job.state["last"]) / (1 + job.state["n_jobs"])

    def after(self, job):
        n = job.state["n_jobs"] + 1
        return {"n_jobs": n, "last": job.model, "mean_jobs": torch.cat([n, n])}


def trimmed(text):
    return make_method(text).with_(merge_edge=robust.at_edge(robust.trimmed_mean(0.2)))


VARIANTS = {
    "several cells": lambda: make_method("hhfl:rule=scaffold"),
    "coded and robust": lambda: trimmed("hhfl:rule=scaffold:up=topk:up.share=0.1:down=float16"),
    "late": lambda: make_method("csahfl:alpha=0:rule=scaffold:by_steps=true"),
    "personal": lambda: make_method("csahfl_no_clusters:rule=ditto"),
    "features": lambda: make_method("ltc:n_clusters=2:box_s=6:rule=scaffold"),
    "async": lambda: make_method("fedat:n_tiers=3:rule=scaffold"),
    "immediate": lambda: make_method("hiflash_r:adapt=false:rule=ditto"),
    "own starts": lambda: make_method("macfl_r:rule=scaffold"),
    "no cloud": lambda: make_method("fedmes:rule=scaffold"),
    "optimiser": lambda: make_method("fedadam:rule=scaffold"),
    "own rule": lambda: make_method("hhfl").with_(rule=Own()),
}


def new(name, moving=False, **options):
    method = VARIANTS[name]()
    made, _ = for_method(method.name)
    if moving:
        made["fleet"]["mobility"] = {"p_stay": 0.3, "neighbours": "path", "every": "edge-round"}
    if name == "own rule":
        made["training"]["participation"] = 0.5
    return Simulation(scenario(made), method, seed=2, engine="torch", **{"n_workers": 1, **options})


def ended(simulation, checkpoint=None):
    for _ in simulation.rounds(checkpoint):
        pass
    return simulation


def everything(simulation):
    """What a run comes to: the model with shared states, and what every client keeps."""
    held = simulation.federation.held
    return [held.model.row, *(m.row for m in held.states.kept.values())]


def same(one, other):
    a, b = everything(one), everything(other)
    return len(a) == len(b) and all(map(np.array_equal, a, b)) and one.measures == other.measures


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_goes_on_from_every_round_to_the_same_bits(name):
    first = new(name)
    saved = [first.checkpoint() for _ in first.rounds()]
    assert len(saved) == 5 and len(everything(first)) == 7
    for checkpoint in (saved[1], saved[3]):
        assert same(ended(new(name), checkpoint), first)


@pytest.mark.parametrize("name", ["coded and robust", "late", "own rule"])
def test_a_run_goes_on_from_every_batch_to_the_same_bits(name):
    first, saved = new(name), []
    first.on_wave = lambda: saved.append(first.checkpoint())
    ended(first)
    assert any(checkpoint.waves for checkpoint in saved)
    for checkpoint in saved[:: max(1, len(saved) // 4)]:
        assert same(ended(new(name), checkpoint), first)


@pytest.mark.parametrize("name", ["late", "personal", "several cells"])
def test_clients_that_move_take_their_states_along(name):
    first = new(name, moving=True)
    saved = [first.checkpoint() for _ in first.rounds()]
    assert first.measures[-1]["handovers"] > 0
    assert same(ended(new(name, moving=True), saved[2]), first)
    assert same(ended(new(name, moving=True, n_workers=2)), first)


@pytest.mark.parametrize("name", ["coded and robust", "late", "personal", "own rule"])
def test_the_number_of_workers_does_not_matter(name):
    assert same(*(ended(new(name, n_workers=n)) for n in (1, 2)))


@pytest.mark.parametrize("name", ["several cells", "late", "personal", "async", "own rule"])
def test_a_dry_run_has_the_same_clock_and_ledger(name):
    real, dry = ended(new(name)), ended(new(name, dry_run=True))
    assert real.result().ledger.table() == dry.result().ledger.table()
    assert [m["time_s"] for m in real.measures] == [m["time_s"] for m in dry.measures]


def test_own_states_are_what_the_rule_makes_of_them():
    run = ended(new("own rule"))
    done = np.zeros(6)
    for sent in run.federation.timeline:
        done[sent.client] += 1
    kept, n = run.federation.held.states.kept, run.n_params
    assert {k: m.row[0] for k, m in kept.items()} == {k: done[k] for k in range(6) if done[k]}
    assert all(len(m.row) == 1 + n for m in kept.values())
    row = run.federation.held.model.row
    assert len(row) == n + 2 and row[n] == row[n + 1] and 1 <= row[n] <= done.max()
    assert run.result().row.shape == (n,) and run.world.up_bits == 32 * (n + 2)


def test_without_its_terms_a_rule_of_ones_own_changes_nothing():
    class Idle(Own):
        def gradient(self, gradient, job):
            return gradient

    made, _ = for_method("hhfl", participation=0.5)
    made["model_bits"] = 8
    method = make_method("hhfl")
    a, b = (
        simulate(scenario(copy.deepcopy(made)), m, seed=1, engine="torch", n_workers=1)
        for m in (method, method.with_(rule=Idle()))
    )
    assert np.array_equal(a.row, b.row)


@dataclass(frozen=True)
class Wrong:
    """Gives what it has not declared."""

    found: dict
    states: ClassVar = (State("mine", size=3),)
    trainings: ClassVar = 1

    def gradient(self, gradient, job):
        return gradient

    def after(self, job):
        return self.found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"mine": torch.zeros(4)}, r"state mine of Wrong has shape \(3,\) as declared, got \(4,\)"),
        ({"other": torch.zeros(3)}, "gave states that it has not declared, other; it has mine"),
    ],
)
def test_what_a_rule_gives_must_be_declared(small, found, message):
    with pytest.raises(ValueError, match=message):
        simulate(scenario(small), make_method("fedavg").with_(rule=Wrong(found)), n_workers=1)


def test_a_state_that_is_no_longer_finite_is_noticed(small):
    rule = Wrong({"mine": torch.tensor([0.0, torch.nan, 0.0])})
    with pytest.raises(ValueError, match="no longer finite"):
        simulate(scenario(small), make_method("fedavg").with_(rule=rule), n_workers=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a b"}, "the name of a state must be a word"),
        ({"name": "a", "size": 0}, "size of state a must be a whole number of at least 1"),
        ({"name": "a", "begins": "ones"}, "begins of state a must be one of zeros, model"),
        ({"name": "a", "size": 2, "begins": "model"}, "state a is to be a model, and has a size of its own"),
        ({"name": "a", "by_share": True}, "state a is a client's own, and by_share is for shared ones"),
        ({"name": "a", "shared": True, "measured": True}, "state a is shared, and measured is for what clients keep"),
    ],
)
def test_states_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        State(**options)


def test_two_states_of_one_name_and_what_is_no_rule_are_refused():
    with pytest.raises(ValueError, match="need names of their own, got a, a"):
        Layout(5, (State("a"), State("a", shared=True)))
    with pytest.raises(ValueError, match="rule must be a client rule, with states, trainings, gradient and after"):
        Local(rule="scaffold")
    assert isinstance(Own(), ClientRule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hhfl:rule=scafold", "method hhfl: unknown client rule 'scafold'; did you mean scaffold?"),
        ("hhfl:rule=ditto:rule.pul=1", "option 'pul=1' of client rule ditto is not known; did you mean pull?"),
        ("hhfl:rule.pull=1", "option rule.pull belongs to a client rule that is not named; write rule=ditto before"),
        ("hhfl:rule=ditto:rule=ditto", "option 'rule=ditto' is given twice"),
        ("hhfl:rule=ditto:rule.pull=-1", "pull must be at least 0, got -1"),
        ("hhfl:by_steps=2", "option by_steps of method hhfl must be true or false, got '2'"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:
        make_method(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_compiled_kernels_say_why_they_do_not_train_it(small):
    with pytest.raises(ValueError, match=r"it has no client rules with state \(Scaffold\)"):
        Simulation(scenario(small), make_method("scaffold"), engine="native")
    assert (
        "(not native: it has no client rules with state"
        in Simulation(scenario(small), make_method("scaffold")).engine_name
    )
