"""Reputation over rounds: the plain loops give the same, neutral settings are the mean, and scores are in checkpoints."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from merges_to_try import arrivals, models, reports
from plain_rules import distance, mean

import fedloom as fl
from fedloom.mixing import robust
from fedloom.mixing.robust.reputation import agreement
from fedloom.mixing.robust.votes import _plain_sum
from fedloom.record.checkpoints import choose_checkpoint, save_checkpoint
from fedloom.simulator import Simulation
from small import for_method


def middle(rows):
    """Weiszfeld's steps, to the end."""
    z = mean(rows)
    for _ in range(200):
        b = [1 / max(1e-6, distance(row, z)) for row in rows]
        z = [math.fsum(w * x for w, x in zip(b, column)) / sum(b) for column in zip(*rows)]
    return z


def plain(rows, old, scores, decay, power):
    """New model and scores, one model and one value at a time; all weights are equal."""
    changes = [[x - y for x, y in zip(row, old)] for row in rows]
    zero, centre = [0.0] * len(old), middle(changes)
    usual = statistics.median(distance(d, zero) for d in changes)
    after = []
    for i, d in enumerate(changes):
        fellows = [c for j, c in enumerate(changes) if j != i]
        weights = [1 / max(1e-6, distance(c, centre)) for c in fellows]
        aim = [sum(w * c[p] for w, c in zip(weights, fellows)) for p in range(len(old))]
        cosine = sum(x * y for x, y in zip(d, aim)) / (distance(d, zero) * distance(aim, zero))
        q = max(0.0, cosine) * min(1.0, usual / distance(d, zero))
        after.append(decay * scores[i] + (1 - decay) * q)
    total = sum(s**power for s in after)
    return [sum(s**power * row[p] for s, row in zip(after, rows)) / total for p in range(len(old))], after


def merged(part, old, rows, scores, **facts):
    """One merge at an aggregator, with what it remembers."""
    came, starts = arrivals(len(rows), **facts), np.repeat(old[None], len(rows), axis=0)
    after = part.remember(came, old, rows, starts, scores)
    return part.rule(replace(came, scores=after), old, rows, starts), after


@pytest.mark.parametrize(("decay", "power"), [(0.8, 2.0), (0.3, 1.0), (0.0, 0.5)])
def test_reputation_is_the_plain_loop_over_twenty_rounds(decay, power):
    part = robust.at_edge(robust.reputation(decay, power))
    old, _ = models(9, n_params=12)
    old_plain, scores, scores_plain = old.tolist(), np.ones(9), [1.0] * 9
    for number in range(20):
        begun, changed = models(9, n_params=12, seed=number, spread=0.3)
        changes = changed - begun
        changes[1] *= -1
        changes[2] *= 5
        new, scores = merged(part, old, (old + changes).astype(np.float32), scores)
        rows = [[float(x) for x in row] for row in np.array(old_plain) + changes]
        old_plain, scores_plain = plain(rows, old_plain, scores_plain, decay, power)
        old = new.astype(np.float32)
    np.testing.assert_allclose(
        scores, scores_plain, rtol=0, atol=2e-3
    )  # Weiszfeld's steps end when they gain a millionth
    np.testing.assert_allclose(old, old_plain, rtol=0, atol=2e-3)
    assert scores[1] < 0.05 and scores[2] < 0.5 * np.median(scores)


def test_a_sender_is_judged_by_its_fellows_and_not_by_itself():
    """Three of them: two agree, and the third is at right angles to both."""
    rows = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    found = agreement(rows, np.zeros(2, dtype=np.float32))
    assert found[2] == 0.0 and found[0] == found[1] > 0.9


def test_by_hand_one_that_goes_against_the_others_counts_less_and_less():
    """Its score is 1, 0.5, 0.25, 0.125: less by decay in every merge that it is of no use in. Power 1."""
    part = robust.at_edge(robust.reputation(decay=0.5, power=1.0))
    old = np.zeros(1, dtype=np.float32)
    rows, scores = np.array([[1], [1], [1], [-1]], dtype=np.float32), np.ones(4)
    for number in range(1, 4):
        new, scores = merged(part, old, rows, scores)
        bad = 0.5**number
        assert scores.tolist() == [1, 1, 1, bad]
        assert new[0] == pytest.approx((3 - bad) / (3 + bad))


@pytest.mark.parametrize("options", [{"decay": 1.0}, {"power": 0.0}], ids=str)
@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl"])
def test_a_neutral_reputation_is_the_method_itself_to_the_bit(name, options):
    made, text = for_method(name, cloud_rounds=2)
    method = fl.make_method(text)
    rule = robust.reputation(**options)
    changed = method.with_(
        merge_edge=robust.at_edge(rule, method.merge_edge.weigh),
        merge_cloud=robust.at_cloud(rule, method.merge_cloud.weigh),
    )
    wanted, found = (fl.simulate(fl.scenario(made), m, seed=3) for m in (method, changed))
    np.testing.assert_array_equal(found.row, wanted.row)
    assert found.measures == wanted.measures


def test_two_models_cannot_judge_each_other_and_the_sick_keep_their_scores():
    part, (old, rows) = robust.at_edge(robust.reputation()), models(4)
    scores = np.array([0.5, 0.25, 1.0, 0.75])
    assert merged(part, old, rows[:2], scores[:2])[1].tolist() == [0.5, 0.25]
    rows[1] = np.nan
    after = merged(part, old, rows, scores)[1]
    assert after[1] == 0.25 and (after != scores).sum() == 3


def test_the_cloud_judges_aggregators_that_have_news():
    part, (old, rows) = robust.at_cloud(robust.reputation(decay=0.5)), models(4)
    told = reports([10, 10, 10, 10], fresh=[True, True, True, False])
    after = part.remember(told, old, rows, np.ones(4))
    wanted = 0.5 + 0.5 * agreement(rows[:3], old, _plain_sum)  # as the cloud adds
    np.testing.assert_array_equal(after, [*wanted, 1.0])
    new = part.rule(replace(told, scores=after), old, rows)
    parts = wanted**2 / (wanted**2).sum()
    np.testing.assert_allclose(new, parts @ rows[:3].astype(np.float64), rtol=1e-6)


BOTH = "merge_edge=reputation:merge_edge.decay=0.5:merge_cloud=reputation"


def hostile(name, **training):
    made, text = for_method(name, cloud_rounds=3, **training)
    made["hostile"] = {"clients": {"devices": [1, 4], "attack": {"kind": "sign-flip"}}}
    return fl.scenario(made), text


@pytest.mark.parametrize("text", [f"hhfl:{BOTH}", f"hhfl:{BOTH}:rule=scaffold", "ltc:merge_edge=reputation"])
def test_scores_are_in_checkpoints_and_runs_go_on_to_the_same_bits(text, tmp_path):
    chosen, usual = hostile(text.split(":", 1)[0])
    method = fl.make_method(usual + ":" + text.split(":", 1)[1])
    whole, saved = Simulation(chosen, method, 3), []
    whole.on_wave = lambda: saved.append(whole.checkpoint())
    whole.call_s = 0.0
    saved += [whole.checkpoint() for _ in whole.rounds()]
    scores = whole.federation.held.standing.live
    assert scores and any((model.row < 1).any() for model in scores)
    for i in (len(saved) // 3, 2 * len(saved) // 3, len(saved) - 2):
        save_checkpoint(tmp_path, saved[i], "a run")
        again = choose_checkpoint(tmp_path, "a run").checkpoint
        second = Simulation(chosen, method, 3)
        for _ in second.rounds(again):
            pass
        np.testing.assert_array_equal(second.result().row, whole.result().row)
        for a, b in zip(second.federation.held.standing.live, scores, strict=True):
            np.testing.assert_array_equal(a.row, b.row)


def test_in_a_run_every_aggregator_remembers_those_that_it_has_met():
    """Cells of three devices each: the flippers lose in their own cells, and are not known in the other."""
    chosen, text = hostile("hierfedavg")
    run = Simulation(chosen, fl.make_method(f"{text}:merge_edge=reputation"), 3)
    for _ in run.rounds():
        pass
    cover = run.federation.machines.topology.cover
    for cell, model in enumerate(run.federation.held.standing.live):
        assert ((model.row < 1) == cover[cell]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"decay": 1.5}, "decay must be from 0 to 1, got 1.5"), ({"power": -1.0}, "power must be from 0 to 100, got -1")],
)
def test_a_wrong_option_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        robust.reputation(**options)
