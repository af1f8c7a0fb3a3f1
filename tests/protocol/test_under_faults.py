"""The machines under faults: 200,000 events in thousands of federations; `python -m tests.protocol.faults --events 5000000` tries
more, and `--seed N` replays one."""

import numpy as np
import pytest
from faults.driver import Run, Stuck
from faults.laws import Broken
from faults.plan import plan_of
from faults.trial import tried

from fedloom.protocol import Barrier, Cloud, Rounds
from fedloom.protocol.roster import Roster

BLOCKS, SEEDS = 8, 260


@pytest.mark.parametrize("block", range(BLOCKS))
def test_laws_hold_and_the_model_is_that_of_plain_loops(block):
    outcomes = [tried(seed) for seed in range(block * SEEDS, (block + 1) * SEEDS)]
    assert sum(outcome.events for outcome in outcomes) > 200_000 / BLOCKS
    assert sum(outcome.merges for outcome in outcomes) > 500


def test_a_seed_replays_exactly():
    runs = [Run(plan_of(11)) for _ in range(2)]
    for run in runs:
        run.run()
    assert runs[0].n_events == runs[1].n_events and repr(runs[0].log) == repr(runs[1].log)


def patient(seed=3):
    """A plan in lockstep without faults, of which nothing is lost on the way."""
    plan = plan_of(seed)
    plan.edge, plan.cloud, plan.wander, plan.squad = Rounds(), Barrier(), False, None
    plan.lost = plan.doubled = 0.0
    plan.faults, plan.cloud_rule, plan.edge_rule, plan.patience = [], "total", "size", 2_000
    return plan


def test_a_federation_that_cannot_end_says_what_it_waits_for():
    run = Run(patient())
    run.net.processes["device", 1].up = False  # for ever, and nobody says that it has left
    run.net.processes["device", 1].up_at_s = 1e9
    with pytest.raises(Stuck, match=r"\('device', 1\) is down.*waits for clients \[1\]"):
        run.run()


def test_the_laws_notice_an_update_that_is_merged_twice(monkeypatch):
    """The roster forgets to forget: what was late is late for ever."""
    whole = Roster.take_late

    def forgetful(self, *where):
        before = list(self.late)
        taken = whole(self, *where)
        self.late = before
        return taken

    monkeypatch.setattr(Roster, "take_late", forgetful)
    with pytest.raises(AssertionError, match="merged twice"):
        for seed in range(300):
            tried(seed)


def test_the_laws_notice_an_update_that_is_lost(monkeypatch):
    monkeypatch.setattr(Roster, "take_late", lambda self, *where: self.drop_late() or [])
    with pytest.raises(AssertionError, match="arrived and were lost"):
        for seed in range(300):
            tried(seed)


def test_the_laws_notice_a_report_that_is_merged_twice(monkeypatch):
    """A cloud that has lost its state is not told which reports are in the model."""
    memo = Cloud.memo
    monkeypatch.setattr(Cloud, "memo", lambda self, group: memo(self, group)._replace(settled={}))
    with pytest.raises(AssertionError, match="is taken twice"):
        for seed in range(1500):
            tried(seed)


def test_the_laws_notice_weights_that_do_not_sum_to_one():
    run = Run(patient())
    weigh = run.federation._merge_edge.weigh
    object.__setattr__(run.federation._merge_edge, "weigh", lambda a: _shrunk(weigh(a)))
    with pytest.raises(Broken, match=r"sum to 0\.5"):
        run.run()


def _shrunk(weights):
    return type(weights)(own=weights.own, model=np.asarray(weights.model) / 2)


def test_the_reference_notices_an_age_that_is_wrong(monkeypatch):
    monkeypatch.setattr(Roster, "keep_age", lambda self, others, shift: None)
    with pytest.raises(AssertionError, match=r"ages of|ages \["):
        for seed in range(300):
            tried(seed)
