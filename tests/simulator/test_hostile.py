"""Hostile clients, heads and edge servers in every method: the same for all, on clock and ledger, resumed to the bit."""

import numpy as np
import pytest

from fedloom.attacks import a_little, inner_product, min_max, stamped, supporters_z
from fedloom.coding import codec
from fedloom.methods import METHODS
from fedloom.mixing import robust
from fedloom.record.folder import record
from fedloom.record.report import write_report
from fedloom.record.runs import read_run
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.sending import Message
from fedloom.training.engine import Jobs
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


def test_two_methods_and_two_shares_face_the_same_attackers():
    made, _ = for_method("hhfl")
    found = {}
    for name in ("hhfl", "camu", "fedavg"):
        for share in (0.34, 0.5):
            hostile = {"clients": {"share": share, "attack": {"kind": "sign-flip"}}}
            run = Simulation(scenario(made | {"hostile": hostile}), make_method(name), 3, dry_run=True)
            found[name, share] = set(np.flatnonzero(run.world.hostility.clients).tolist())
    assert len({frozenset(v) for (_, share), v in found.items() if share == 0.34}) == 1
    assert len(found["hhfl", 0.34]) == 2 and len(found["hhfl", 0.5]) == 3
    assert found["hhfl", 0.34] < found["hhfl", 0.5]  # a larger share holds the smaller


def test_hostile_clients_of_one_cell_and_bridging_ones():
    made, _ = for_method("hhfl")
    for where in ("one-cell", "bridging"):
        hostile = {"clients": {"share": 0.17, "where": where, "attack": {"kind": "sign-flip"}}}
        chosen = made | {"hostile": hostile, "fleet": made["fleet"] | {"n_devices": 12}}
        for seed in range(5):
            run = Simulation(scenario(chosen), make_method("hhfl"), seed, dry_run=True)
            now, mine = run.world.fleet.snapshot(0), run.world.hostility.clients
            assert mine.sum() == 2
            if where == "one-cell":
                assert len(set(now.home[mine].tolist())) == 1
            else:
                assert (now.in_reach[:, mine].sum(axis=0) > 1).all()


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attack_on_a_defended_coded_run_goes_on_to_the_same_bits(attack):
    chosen, _ = small("hhfl", {"clients": CLIENTS | {"attack": attack}}, {"screen": {}}, cloud_rounds=3)
    method = make_method("hhfl:up=qsgd:up.bits=4").with_(merge_edge=robust.at_edge(robust.coordinate_median()))
    whole, inside = Simulation(chosen, method, 0), []
    whole.call_s = 0.0
    whole.on_wave = lambda: inside.append(whole.checkpoint())
    after = [whole.checkpoint() for _ in whole.rounds() if whole.cloud_rounds_done]
    for checkpoint in [after[0], inside[2], inside[-1]]:
        again = ran(chosen, method, checkpoint)
        assert again.measures == whole.measures
        assert np.array_equal(again.result().row, whole.result().row)


def test_an_attack_begins_when_it_is_told_to():
    made, _ = for_method("hierfedavg")
    honest = ran(scenario(made), "hierfedavg")
    late = {"clients": CLIENTS | {"attack": {"kind": "sign-flip"}, "from_round": 3}}
    run = ran(scenario(made | {"hostile": late}), "hierfedavg")
    same = [a["loss"] == b["loss"] for a, b in zip(honest.measures, run.measures)]
    assert same == [True, True, True, False, False]


def test_a_free_rider_spends_nothing_and_pretends_to():
    """Who pretends is back when it would be, who does not is early; neither has computed."""
    made, _ = for_method("hierfedavg", edge_rounds=1, cloud_rounds=1)
    runs = {}
    for pretends in (True, False):
        attack = {"kind": "free-rider", "pretends": pretends}
        hostile = {"clients": {"devices": list(range(6)), "attack": attack}}
        runs[pretends] = ran(scenario(made | {"hostile": hostile}), "hierfedavg", dry_run=True)
    honest = ran(scenario(made), "hierfedavg", dry_run=True)

    assert honest.federation.ledger.compute_j > 0
    assert runs[True].federation.ledger.compute_j == runs[False].federation.ledger.compute_j == 0
    assert runs[True].measures[-1]["time_s"] == honest.measures[-1]["time_s"]
    assert runs[False].measures[-1]["time_s"] < honest.measures[-1]["time_s"]


@pytest.mark.parametrize(
    "kind, name", [("edges", "hierfedavg"), ("edges", "hhfl"), ("edges", "csahfl"), ("heads", "ddc")]
)
@pytest.mark.parametrize(
    "attack",
    [
        {"kind": "sign-flip"},
        {"kind": "noise"},
        {"kind": "replay", "lag": 1},
        {"kind": "withhold"},
        {"kind": "not-finite"},
    ],
    ids=lambda a: a["kind"],
)
def test_a_hostile_aggregator_alters_what_it_sends_and_the_run_goes_on_to_the_same_bits(kind, name, attack):
    who = {"cells": [1]} if kind == "edges" else {"share": 1.0}
    chosen, text = small(name, {kind: who | {"attack": attack}}, cloud_rounds=3)
    whole = Simulation(chosen, make_method(text), 0)
    saved = [whole.checkpoint() for _ in whole.rounds() if whole.cloud_rounds_done]
    honest = ran(small(name, {}, cloud_rounds=3)[0], text)
    assert np.isfinite(whole.result().row).all()
    assert not np.array_equal(whole.result().row, honest.result().row)
    again = ran(chosen, text, saved[0])
    assert again.measures == whole.measures and np.array_equal(again.result().row, whole.result().row)
    if attack["kind"] == "not-finite":
        assert {who for who, *_ in whole.federation.held.sick.table} == {kind[:-1], f"{kind[:-1]} to members"}


def test_an_edge_that_flips_its_report_by_hand():
    """One cloud round, one edge round: the cloud gets 2 w - v_1 in place of v_1, and weighs it as before."""
    made, _ = for_method("hierfedavg", edge_rounds=1, cloud_rounds=1)
    hostile = {"edges": {"cells": [1], "attack": {"kind": "sign-flip"}, "to": "cloud"}}
    honest, run = ran(scenario(made), "hierfedavg"), ran(scenario(made | {"hostile": hostile}), "hierfedavg")
    first = honest.setting.first_row.astype(np.float64)
    (v0, a0), (v1, a1) = ((m.row.astype(np.float64), w) for m, w in honest.federation.held.merged)
    assert np.allclose(run.result().row, a0 * v0 + a1 * (2 * first - v1), atol=1e-6)


def test_what_members_are_sent_has_nothing_to_do_with_what_the_cloud_is_told():
    made, _ = for_method("hierfedavg", cloud_rounds=3)
    hostile = {"edges": {"cells": [1], "attack": {"kind": "not-finite"}, "to": "members"}}
    run = ran(scenario(made | {"hostile": hostile}), "hierfedavg")
    assert {who for who, *_ in run.federation.held.sick.table} == {"edge to members"}
    (_, a0), (_, a1) = run.federation.held.merged
    assert a0 > 0 and a1 > 0 and np.isfinite(run.result().row).all()


def test_a_withheld_report_is_what_was_handed_down():
    made, _ = for_method("hierfedavg", edge_rounds=1, cloud_rounds=1)
    hostile = {"edges": {"share": 1.0, "attack": {"kind": "withhold"}, "to": "cloud"}}
    run = ran(scenario(made | {"hostile": hostile}), "hierfedavg")
    assert np.allclose(run.result().row, run.setting.first_row, atol=1e-7)


def test_flipped_labels_are_learnt_and_nobody_elses_data_change():
    made, _ = for_method("hierfedavg")
    hostile = {"clients": CLIENTS | {"attack": {"kind": "label-flip"}}}
    run, honest = ran(scenario(made | {"hostile": hostile}), "hierfedavg"), ran(scenario(made), "hierfedavg")
    task, true = run.setting.task, honest.setting.task
    for k in range(6):
        wanted = true.y_train[true.parts[k]]
        wanted = [3 - y for y in wanted] if k in CLIENTS["devices"] else wanted  # four classes
        assert np.array_equal(task.y_train[task.parts[k]], wanted)
        assert np.array_equal(task.x_train[task.parts[k]], true.x_train[true.parts[k]])
    assert np.array_equal(run.world.label_counts, honest.world.label_counts)
    assert run.measures[-1]["accuracy"] < honest.measures[-1]["accuracy"]


def test_a_backdoor_takes_the_global_model_in_and_its_success_is_measured():
    made, _ = for_method("hierfedavg", lr=0.3, cloud_rounds=6)
    made["task"]["partition"] = {"kind": "iid"}
    attack = {"kind": "backdoor", "target": 1, "size": 2, "factor": 3.0}
    hostile = {"clients": CLIENTS | {"attack": attack}}
    run = ran(scenario(made | {"hostile": hostile}), "hierfedavg")
    task, clean = run.setting.task, run.setting.clean_task
    part = task.parts[1]
    marked = (task.x_train[part][:, -2:] == clean.x_train.max()).all(axis=1)
    assert marked.sum() == round(0.5 * len(part)) and (task.y_train[part][marked] == 1).all()
    others = clean.y_test != 1
    x = stamped(clean.x_test[others], 2, float(clean.x_train.max()))
    w = run.result().row
    layers = [w[:64].reshape(8, 8), w[64:72], w[72:104].reshape(4, 8), w[104:108]]
    outputs = np.maximum(x @ layers[0].T + layers[1], 0) @ layers[2].T + layers[3]
    success = float((outputs.argmax(axis=1) == 1).mean())
    assert run.measures[-1]["backdoor_success"] == pytest.approx(success)
    assert success > run.measures[0]["backdoor_success"]


def test_lies_reach_weights_and_groupings_and_nothing_else():
    made, _ = for_method("hierfedavg")
    lies = {"samples": 10.0, "labels": "even", "speed": 4.0, "position": "centre", "features": "flip"}
    hostile = {"clients": CLIENTS | {"lies": lies}}
    run = Simulation(scenario(made | {"hostile": hostile}), make_method("hierfedavg"), 0)
    world, hostility = run.world, run.world.hostility
    assert world.terms.n_samples[1] == 10 * world.n_samples[1] and world.terms.n_samples[0] == world.n_samples[0]
    even = world.terms.label_counts[4]
    assert even.sum() == world.label_counts[4].sum() and np.ptp(even) <= 1
    now = world.fleet.snapshot(0)
    assert hostility.step_s(world.step_s(now))[4] == world.step_s(now)[4] / 4
    assert np.allclose(hostility.snapshot(now).position_m[1], now.position_m.mean(axis=0))
    values = np.arange(12.0).reshape(6, 2)
    assert np.array_equal(hostility.features(values, "update")[[0, 1]], [[0, 1], [-2, -3]])
    assert np.array_equal(run.setting.task.y_train[run.parts[1]], run.dataset.y_train[run.parts[1]])
    honest = ran(scenario(made), "hierfedavg")
    assert not np.array_equal(
        ran(scenario(made | {"hostile": hostile}), "hierfedavg").result().row, honest.result().row
    )


def test_lies_about_links_are_seen_as_false_reports():
    made, text = for_method("ltc")
    hostile = {"clients": {"devices": [2], "lies": {"links": 3.0}}}
    run = Simulation(scenario(made | {"hostile": hostile}), make_method(text), 0)
    now = run.world.fleet.snapshot(0)
    told = run.world.hostility.snapshot(now)
    assert np.allclose(told.d2d_reports[2], 3 * now.d2d_reports[2])
    assert np.array_equal(told.d2d_reports[0], now.d2d_reports[0])


def test_who_was_found_to_lie_about_links_stays_found_if_that_is_remembered():
    """Device 2 lies in the first cloud round only: then all trust it again, or nobody does, also after a run was gone on with."""
    made, text = for_method("ltc", cloud_rounds=3)
    chosen = scenario(made | {"hostile": {"clients": {"devices": [2], "lies": {"links": 3.0, "links_until": 1}}}})

    def groupings(method, resume=None):
        run, seen, saved = Simulation(chosen, make_method(method), 0), [], []
        for _ in run.rounds(resume):
            if run.cloud_rounds_done:
                seen.append(run.federation.machines.topology.cover.any(axis=0).tolist())
                saved.append(run.checkpoint())
        return run, seen, saved

    everybody, but_one = [True] * 6, [k != 2 for k in range(6)]
    assert groupings(text)[1] == [but_one, everybody, everybody]
    whole, seen, saved = groupings(f"{text}:remember_liars=true")
    assert seen == [but_one] * 3 and whole.federation.regrouping.liars == {2}
    again, later, _ = groupings(f"{text}:remember_liars=true", saved[0])
    assert later == [but_one] * 2
    np.testing.assert_array_equal(again.result().row, whole.result().row)


@pytest.mark.parametrize("name", ["hierfedavg", "hhfl", "fedat"])
def test_a_trusted_reference_withstands_flips_and_takes_samples_of_nobody(name):
    made, text = for_method(name, cloud_rounds=6)
    made["task"]["partition"] = {"kind": "iid"}
    hostile = {"clients": CLIENTS | {"attack": {"kind": "sign-flip", "factor": 5.0}}}
    chosen = scenario(made | {"hostile": hostile})
    root = robust.Root(samples=20)
    trusting = make_method(text).with_(
        merge_edge=robust.at_edge(robust.trust(), root=root), merge_cloud=robust.at_cloud(robust.trust(), root=root)
    )
    plain, run = ran(chosen, text), ran(chosen, trusting)
    assert run.measures[-1]["loss"] < plain.measures[-1]["loss"]
    assert not np.isin(np.concatenate(run.parts), run.setting.root).any() and len(run.setting.root) == 20
    saved = []
    again = Simulation(chosen, trusting, 0)
    saved = [again.checkpoint() for _ in again.rounds() if again.cloud_rounds_done]
    assert np.array_equal(ran(chosen, trusting, saved[1]).result().row, run.result().row)


def test_trust_in_a_run_is_the_published_rule():
    made, _ = for_method("fedavg", edge_rounds=1, cloud_rounds=1)
    method = make_method("fedavg").with_(merge_edge=robust.at_edge(robust.trust(), root=robust.Root(samples=10)))
    run = ran(scenario(made), method)
    old = run.setting.first_row.astype(np.float64)
    g0 = trained(run, run.setting.first_row, 6, 0) - old  # the servers are one more client
    total, scores = 0.0, 0.0
    for k in range(6):
        g = trained(run, run.setting.first_row, k, 0) - old
        score = run.world.n_samples[k] * max(0.0, g @ g0 / np.linalg.norm(g) / np.linalg.norm(g0))
        total, scores = total + score * np.linalg.norm(g0) / np.linalg.norm(g) * g, scores + score
    assert np.allclose(run.result().row, old + total / scores, atol=1e-6)


@pytest.mark.parametrize(
    "hostile, words",
    [
        ({"clients": {"share": 0.2}}, "hostile clients need an attack, or lies, or both"),
        ({"clients": {"attack": {"kind": "sign-flip"}}}, "give share or devices, one of them"),
        ({"clients": {"devices": [1], "share": 0.1, "attack": {"kind": "ipm"}}}, "give share or devices, one of them"),
        (
            {"clients": {"share": 0.2, "attack": {"kind": "sing-flip"}}},
            "hostile.clients.attack must have a kind out of",
        ),
        ({"clients": {"devices": [1], "where": "one-cell", "attack": {"kind": "ipm"}}}, "one-cell is for a share"),
        ({"clients": {"share": 0.2, "from_round": 2, "attack": {"kind": "label-flip"}}}, "from the beginning"),
        ({"edges": {"attack": {"kind": "withhold"}}}, "give share or cells, one of them"),
        ({"heads": {"share": 0.1, "attack": {"kind": "alie"}}}, "hostile.heads.attack must have a kind out of"),
        ({"clients": {"devices": [6], "attack": {"kind": "ipm"}}}, r"hostile.clients.devices must be in 0..5, got 6"),
        ({"edges": {"cells": [2], "attack": {"kind": "withhold"}}}, r"hostile.edges.cells must be in 0..1, got 2"),
        ({"clients": {"share": 1.0, "where": "bridging", "attack": {"kind": "ipm"}}}, "6 bridging devices are wanted"),
        ({"clients": {"share": 0.2, "attack": {"kind": "label-flip", "to": 9}}}, r"classes 0..3"),
        ({"clients": {"share": 0.2, "attack": {"kind": "backdoor", "target": 4}}}, r"classes 0..3"),
    ],
)
def test_what_cannot_be_is_refused_in_words(hostile, words):
    with pytest.raises(ValueError, match=words):
        Simulation(scenario(for_method("hhfl")[0] | {"hostile": hostile}), make_method("hhfl"), 0)


def test_an_update_that_is_not_finite_ends_a_run_that_says_so():
    hostile = {"clients": CLIENTS | {"attack": {"kind": "not-finite"}}}
    chosen, _ = small("hhfl", hostile, {"on_sick": "stop"})
    with pytest.raises(ValueError, match=r"client [14] has sent an update that is not finite.*on_sick: drop"):
        ran(chosen, "hhfl")


def test_trusted_data_that_would_leave_a_client_bare_are_refused():
    method = make_method("fedavg").with_(merge_edge=robust.at_edge(robust.trust(), root=robust.Root(samples=239)))
    with pytest.raises(ValueError, match="trusted samples would leave clients"):
        Simulation(scenario(for_method("fedavg")[0]), method, 0)
    with pytest.raises(ValueError, match="trust needs a reference"):
        ran(scenario(for_method("fedavg")[0]), make_method("fedavg").with_(merge_edge=robust.at_edge(robust.trust())))


def test_the_summary_and_the_report_tell_what_was_rejected(tmp_path):
    hostile = {"clients": CLIENTS | {"attack": {"kind": "not-finite"}}}
    chosen, _ = small("hhfl", hostile, cloud_rounds=2)
    summary = record(Simulation(chosen, make_method("hhfl"), 0), "hhfl", tmp_path / "run")
    n = summary["final"]["rejected"]
    assert summary["rejected"] == {"not finite": n} and n == 8
    page = write_report([read_run(tmp_path / "run")], tmp_path / "report.html").read_text()
    assert "8 updates were left out (8 not finite), sent by client 1 (4), client 4 (4)" in page


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_crafted_changes_are_finite_and_of_one_their_own(rows):
    changes = np.random.default_rng(rows).normal(size=(rows, 7))
    for found in (
        a_little(changes, 1.0),
        inner_product(changes, 1.0),
        *(min_max(changes, d) for d in ("unit", "std", "sign")),
    ):
        assert np.isfinite(found).all()
    if rows == 1:
        assert np.allclose(a_little(changes, 2.0), changes[0]) and np.allclose(min_max(changes, "std"), changes[0])
    most = max(np.linalg.norm(a - b) for a in changes for b in changes)
    for direction in ("unit", "std", "sign"):
        found = min_max(changes, direction)
        assert max(np.linalg.norm(found - c) for c in changes) <= most * (1 + 1e-9) + 1e-12
        assert np.allclose(found, halved(changes, direction), atol=1e-6) or rows == 1


def test_an_update_that_is_too_large_to_be_coded_is_noted_and_nothing_arrives_of_it():
    noted = []
    message = Message(codec("topk:share=0.5"), 1, None, lambda: noted.append(1))
    far, start = np.full(4, 3e38, dtype=np.float32), np.full(4, -3e38, dtype=np.float32)
    assert np.array_equal(message.made([far, start], left=False), start) and noted == [1]
    with pytest.raises(ValueError, match="finite"):
        Message(codec("topk:share=0.5"), 1, None).made([far, start], left=False)
