"""Auditing heads and edge servers: liars are found in that round, honest ones never, on clock and ledger, resumed to the bit."""

import numpy as np
import pytest

from fedloom.mixing import audit, robust
from fedloom.mixing.private_mean import PrivateMean
from fedloom.record.checkpoints import choose_checkpoint, save_checkpoint
from fedloom.record.folder import record
from fedloom.record.report import write_report
from fedloom.record.runs import read_run
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

WHO = {"hierfedavg": "edges", "hhfl": "edges", "csahfl": "edges", "ltc": "heads", "ddc": "heads", "hiflash_r": "edges"}
ALL = {"share": 1.0}


def ran(name, hostile=None, resume=None, changes=None, options=None, **parts):
    made, text = for_method(name, cloud_rounds=3)
    chosen = scenario(made | ({"hostile": hostile} if hostile else {}) | (changes or {}))
    simulation = Simulation(chosen, make_method(text).with_(**parts), 0, **(options or {}))
    for _ in simulation.rounds(resume):
        pass
    return simulation


def verdicts(simulation):
    return [one for some in simulation.federation.auditing.verdicts.values() for one in some]


def test_a_sketch_by_hand():
    """The signs are those of the bits of the key; sums of 3 values with them."""
    row = np.array([1.0, 10.0, 100.0], dtype=np.float32)
    found = audit.sketched(row, key=7, numbers=2)
    bits = np.unpackbits(audit.bits_of(7, 1).view(np.uint8), count=6).reshape(2, 3)
    assert found.tolist() == [sum(v if b else -v for v, b in zip(row.tolist(), line)) for line in bits.tolist()]


@pytest.mark.parametrize("seed", range(3))
def test_sketches_of_a_sum_are_the_sum_of_sketches_and_a_small_lie_is_seen(seed):
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(7, 5000)).astype(np.float32), rng.dirichlet(np.ones(7))
    merged = (weights @ rows.astype(np.float64)).astype(np.float32)
    expected = sum(w * audit.sketched(row, seed, 4) for w, row in zip(weights, rows))
    allowed = audit.Sketch().tolerance * np.linalg.norm(merged)
    assert audit.fits(audit.sketched(merged, seed, 4), expected, allowed)
    lie = merged + (1e-4 * rng.normal(size=5000)).astype(np.float32)  # a ten-thousandth of it
    assert not audit.fits(audit.sketched(lie, seed, 4), expected, allowed)


def test_noise_of_a_link_is_no_lie_and_a_lie_of_its_size_is_seen():
    rng = np.random.default_rng(0)
    true = rng.normal(size=4000).astype(np.float32)
    sent = (true + 0.1 * rng.normal(size=4000)).astype(np.float32)
    assert not audit.differs(sent, true, 0.1) and audit.differs(sent, true, 0.0)
    assert audit.differs((sent + 0.1 * rng.normal(size=4000)).astype(np.float32), true, 0.1)


@pytest.mark.parametrize("name", WHO)
@pytest.mark.parametrize("how", ["sketch", "recompute:share=1"])
def test_who_is_honest_is_never_accused_and_the_model_is_the_same(name, how):
    plain, audited = ran(name), ran(name, audit=how)
    assert np.array_equal(plain.result().row, audited.result().row)
    assert verdicts(audited) and not any(one.found for one in verdicts(audited))
    if how == "sketch":
        assert not any(one.opened for one in verdicts(audited))  # nor suspected
    assert audited.measures[-1]["found"] == 0 and "rejected" not in audited.measures[-1]
    before, after = plain.measures[-1], audited.measures[-1]
    assert after["bytes"] > before["bytes"] and after["energy_j"] > before["energy_j"]
    assert after["time_s"] > before["time_s"]


@pytest.mark.parametrize("how", ["sketch", "recompute:share=1"])
@pytest.mark.parametrize("to", ["cloud", "members", "both"])
@pytest.mark.parametrize("attack", ["sign-flip", "noise", "withhold", "replay"])
def test_a_liar_is_found_in_the_round_in_which_it_lies(attack, to, how):
    hostile = {
        "edges": {"cells": [1], "attack": {"kind": attack} | ({"lag": 1} if attack == "replay" else {}), "to": to}
    }
    run = ran("hierfedavg", hostile, audit=how)
    assert run.federation.auditing.found == [("edge", 1)]
    by_round = [measured["found"] for measured in run.measures[1:]]
    first = 2 if (attack, to) == ("replay", "cloud") else 1  # what it sends first it has not sent before
    assert by_round == [int(g >= first) for g in (1, 2, 3)]
    assert run.federation.held.sick.counts["audit"] == run.measures[-1]["rejected"]


def test_what_was_found_is_left_out_as_if_it_had_not_come():
    """One edge round: the cloud has the other edge's model alone, as when nobody was heard of the liar."""
    made, _ = for_method("hierfedavg", edge_rounds=1, cloud_rounds=1)
    honest = Simulation(scenario(made), make_method("hierfedavg"), 0)
    for _ in honest.rounds():
        pass
    hostile = {"edges": {"cells": [1], "attack": {"kind": "scale"}}}
    run = Simulation(scenario(made | {"hostile": hostile}), make_method("hierfedavg:audit=sketch"), 0)
    for _ in run.rounds():
        pass
    assert np.array_equal(run.result().row, honest.federation.held.reported[0].row)


@pytest.mark.parametrize("name", ["ltc", "ddc"])
def test_a_head_that_lied_heads_nobody_any_more(name):
    run = ran(name, {"heads": {"devices": [0, 5], "attack": {"kind": "sign-flip"}}}, audit="sketch")
    banned, heads = set(), [set(place.topology.host.tolist()) for place in run.places]
    for g, some in run.federation.auditing.verdicts.items():
        now = [place for place in run.places if place.cloud_round <= g][-1].topology
        assert not banned & set(now.host.tolist()) and not now.cover[:, sorted(banned)].any()
        banned |= {int(now.host[one.aggregator]) for one in some if one.found}
    assert banned == {host for _, host in run.federation.auditing.found} and banned & heads[0]


def test_members_that_lie_to_the_audit_get_no_honest_head_accused():
    liars = {"clients": {"devices": [0, 3], "lies": {"sketches": "flip"}}}
    plain, run = ran("hhfl", audit="sketch"), ran("hhfl", liars, audit="sketch")
    assert any(one.opened for one in verdicts(run)) and not any(one.found for one in verdicts(run))
    assert np.array_equal(run.result().row, plain.result().row)
    assert run.measures[-1]["bytes"] > plain.measures[-1]["bytes"]  # it costs what is handed over


def test_what_it_costs_by_hand():
    """hierfedavg, two edge rounds: each of the six clients is shown two models and sends two, 4 numbers of 4 bytes of each."""
    plain, audited = (ran("hierfedavg", options={"dry_run": True}, **parts) for parts in ({}, {"audit": "sketch"}))
    more = audited.measures[-1]["bytes"] - plain.measures[-1]["bytes"]
    assert more == 3 * 6 * (16 + 4 * 4 * (2 + 2))
    once = ran("hierfedavg", options={"dry_run": True}, audit="recompute:share=1")
    model, base = plain.world.up_bytes, plain.measures[-1]["bytes"]
    handed = (once.measures[-1]["bytes"] - base - 3 * 6 * (16 + 96 * 2)) / model
    assert handed == 3 * 2 * (3 + 3)  # of two edge servers with three clients: the last merge, and the one before


CASES = [
    ("hierfedavg", {"edges": {"cells": [1], "attack": {"kind": "replay", "lag": 1}}}, {"audit": "sketch"}),
    ("ddc", {"heads": ALL | {"attack": {"kind": "sign-flip"}, "from_round": 2}}, {"audit": "sketch"}),
    (
        "hhfl",
        {"edges": {"cells": [0], "attack": {"kind": "noise"}, "to": "members"}},
        {
            "audit": "recompute:share=0.5",
            "merge_edge": robust.at_edge(robust.coordinate_median()),
            "up": "topk:share=0.2",
        },
    ),
    ("hiflash_r", {"edges": {"cells": [0], "attack": {"kind": "withhold"}}}, {"audit": "sketch"}),
]


@pytest.mark.parametrize("name, hostile, parts", CASES, ids=[case[0] for case in CASES])
def test_an_audited_run_goes_on_to_the_same_bits_from_everywhere(name, hostile, parts, tmp_path):
    made, text = for_method(name, cloud_rounds=3)
    whole = Simulation(scenario(made | {"hostile": hostile}), make_method(text).with_(**parts), 0, n_workers=1)
    whole.call_s, saved = 0.0, []
    whole.on_wave = lambda: saved.append(whole.checkpoint())
    saved.extend(whole.checkpoint() for _ in whole.rounds())
    assert whole.federation.auditing.found
    for i, checkpoint in enumerate(saved[1:-1]):
        save_checkpoint(tmp_path, checkpoint, "x")
        read = choose_checkpoint(tmp_path, "x").checkpoint if i % 2 else checkpoint
        again = ran(name, hostile, read, options={"n_workers": 1 + i % 2}, **parts)
        assert again.measures == whole.measures
        assert np.array_equal(again.result().row, whole.result().row)
        assert again.federation.auditing.found == whole.federation.auditing.found


@pytest.mark.parametrize(
    "text, parts, words",
    [
        ("fedmes:audit=sketch", {}, "there is none"),
        ("hhfl:audit=sketch:up=qsgd", {}, "take audit=recompute"),
        ("hhfl:audit=sketch:down=float16", {}, "take audit=recompute"),
        ("hhfl:audit=sketch:rule=scaffold", {}, "shared states"),
        ("hhfl:audit=sketch", {"merge_edge": "coordinate_median"}, "take audit=recompute"),
        ("hhfl", {"audit": "recompute", "private": PrivateMean()}, "protects clients"),
        ("hhfl:audit=recompute:audit.share=2", {}, "at most 1"),
        ("hhfl:audit=sketch:audit.numbers=0", {}, "at least 1"),
        ("hhfl:audit=polygraph", {}, "recompute"),
        ("hhfl:audit.share=0.5", {}, "audit=sketch"),
    ],
)
def test_what_an_audit_cannot_see_is_refused_in_words(text, parts, words):
    with pytest.raises(ValueError, match=words):
        make_method(text).with_(**parts)


def test_a_run_that_says_so_ends_with_the_first_liar():
    with pytest.raises(ValueError, match="edge 1 was found"):
        ran("hhfl", {"edges": {"cells": [1], "attack": {"kind": "scale"}}}, changes={"on_sick": "stop"}, audit="sketch")


def test_the_last_one_left_stays_and_is_left_out_every_time():
    run = ran("hierfedavg", {"edges": ALL | {"attack": {"kind": "scale"}, "to": "cloud"}}, audit="sketch")
    assert sorted(run.federation.auditing.found) == [("edge", 0), ("edge", 1)]
    assert run.federation.held.sick.counts == {"audit": 2 + 1 + 1}
    assert np.array_equal(run.result().row, run.setting.first_row)  # nobody's average has counted


@pytest.mark.parametrize("name", ["ddc", "ltc"])
def test_a_run_goes_on_when_all_heads_lie(name):
    made, text = for_method(name, cloud_rounds=7)
    made["hostile"] = {"heads": ALL | {"attack": {"kind": "scale"}}}
    run = Simulation(scenario(made), make_method(text).with_(audit="sketch"), 0)
    for _ in run.rounds():
        pass
    assert run.cloud_rounds_done == 7 and len(run.federation.auditing.found) == run.measures[-1]["found"] >= 5
    assert np.array_equal(run.result().row, run.setting.first_row)  # nobody's average has counted


def test_the_summary_and_the_report_name_who_was_found(tmp_path):
    made, _ = for_method("hhfl", cloud_rounds=2)
    hostile = {"edges": {"cells": [1], "attack": {"kind": "sign-flip"}}}
    simulation = Simulation(scenario(made | {"hostile": hostile}), make_method("hhfl:audit=sketch"), 0)
    record(simulation, "hhfl:audit=sketch", tmp_path)
    run = read_run(tmp_path)
    assert run.summary["found"] == ["edge 1"] and run.summary["rejected"] == {"audit": 1}
    total = sum(line["bytes"] for line in run.summary["ledger"])
    assert total == simulation.measures[-1]["bytes"] == sum(int(c["bytes"].sum()) for _, c in simulation.costs)
    page = write_report([run], tmp_path / "report.html").read_text()
    assert "edge 1" in page and "had not merged" in page
