"""CSAHFL and the methods it is compared with, on the clock: golden timelines, invariants, equalities of whole runs."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import adding, fixed_topology, quadratic, snapshot, world

from fedloom.grouping import Need, Topology
from fedloom.methods import METHODS, Grouping, Method
from fedloom.methods.csahfl import method as csahfl
from fedloom.methods.csahfl import weigh_clusters
from fedloom.methods.fedavg import method as fedavg
from fedloom.methods.feduc_r import swapped_groups
from fedloom.methods.hierfedavg import method as hierfedavg
from fedloom.methods.macfl_r import method as macfl_r
from fedloom.mixing import CloudLinear, Linear, Reports, by_reported, discounted, kl_divergence, polynomial_cloud
from fedloom.pacing import StalenessBound, lockstep, median_iqr, time_sharing
from fedloom.protocol import Async, Barrier, Immediate, Rounds
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.simulator.book import Model, settle, settle_all
from fedloom.simulator.driver import Driver
from fedloom.simulator.evaluation import Evaluation
from fedloom.simulator.timeline import table
from small import SMALL

GOLDEN = {"delta": [1.5, 3.25, 4.25], "renorm": [1.5, 10 / 3, None], "literal": [1.5, 2.5, None]}


def play(method, world_, engine, n_rounds, first=0.0):
    """(time, model) after every cloud round, and the federation."""
    federation = Driver(method, world_, Model(np.array([first], dtype=np.float32)))
    seen = [(s.time_s, float(settle(s.model, engine)[0])) for s in federation.cloud_rounds(n_rounds)]
    return seen, federation


def one_edge():
    """Three clients with 100 samples and sessions of 10, 20 and 30 s."""
    return world(snapshot([1.0, 2.0, 3.0], [[1, 1, 1]]), local_epochs=1)


@pytest.mark.parametrize("mode", GOLDEN)
def test_golden_timeline_with_late_updates(mode):
    # rounds close at 25, 42.5, 67.5; training adds 1, 2, 5; one epoch is ten steps
    method = csahfl(alpha=0.5, clusters="none", stale_mode=mode, cloud_weights="quantity")
    seen, federation = play(method, one_edge(), adding(0.1, 0.2, 0.5), 3)
    assert [t for t, _ in seen] == [25.0, 42.5, 67.5]
    for (_, model), expected in zip(seen, GOLDEN[mode]):
        assert expected is None or model == pytest.approx(expected, abs=1e-6)
    late = [(s.edge_round, s.client[s.late].tolist()) for s in federation.timeline]
    assert late == [(1, [2]), (2, [1]), (3, [2])]


def test_synchronous_rounds_of_the_golden_case_end_at_90():
    method = csahfl(clusters="none", wait="all", cloud_weights="quantity")
    assert [t for t, _ in play(method, one_edge(), adding(0.1, 0.2, 0.5), 3)[0]] == [30.0, 60.0, 90.0]


def spanning():
    """Two edges with two clusters each: aggregators (edge 0, a), (0, b), (1, a), (1, b) over clients 0..3."""
    cover = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    topology = Topology(
        cover=np.array(cover, bool),
        kind="edge",
        host=np.array([0, 0, 1, 1]),
        cluster=np.array([0, 1, 0, 1]),
        follow=True,
    )
    return lambda view, rng: topology


def test_clusters_that_span_edges_share_a_round_in_an_edge_and_meet_at_the_cloud():
    place = snapshot([1.0, 3.0, 2.0, 2.0], [[1, 1, 0, 0], [0, 0, 1, 1]], backhaul_up_s=1.0, backhaul_down_s=0.25)
    w = world(place, n_samples=[100, 100, 300, 100])
    method = Method(name="m", summary="", group=Grouping(spanning()), merge_cloud=CloudLinear(by_reported))
    federation = Driver(method, w, Model(np.zeros(1, np.float32)))
    (state,) = federation.cloud_rounds(1)
    settle_all([state.model, *state.cluster_models], adding(4, 8, 8, 0))
    # edge 0 waits for client 1 (3 s); the global model comes down once (0.25 s), two models go up one after the other (2 s)
    assert state.time_s == 0.25 + 3 + 2
    assert [float(m.row[0]) for m in state.cluster_models] == pytest.approx([7.0, 4.0, 7.0, 4.0])  # (4 + 3 * 8) / 4
    assert float(state.model.row[0]) == pytest.approx((4 + 8 + 3 * 8 + 0) / 6)
    table = {(r["hop"], r["direction"]): r["bytes"] for r in federation.ledger.table()}
    assert table[("edge_cloud", "down")] == 2 * 10 and table[("edge_cloud", "up")] == 4 * 10


@pytest.mark.parametrize(("share", "second"), [(0.0, (7 + 4) / 2), (1.0, None), (0.5, None)])
def test_what_goes_back_down(share, second):
    place = snapshot([1.0] * 4, [[1, 1, 0, 0], [0, 0, 1, 1]])
    method = Method(
        name="m",
        summary="",
        group=Grouping(spanning()),
        cloud=Barrier(cluster_share=share),
        merge_cloud=CloudLinear(by_reported),
    )
    federation = Driver(method, world(place), Model(np.zeros(1, np.float32)))
    engine = adding(4, 8, 10, 0)
    rounds = federation.cloud_rounds(2)
    first = next(rounds)
    settle_all([first.model, *first.cluster_models], engine)
    assert [float(m.row[0]) for m in first.cluster_models] == pytest.approx([7.0, 4.0, 7.0, 4.0])
    last = next(rounds)
    settle_all([last.model, *last.cluster_models], engine)
    mean = 5.5
    expected = [7 + share * 7 + (1 - share) * mean, 4 + share * 4 + (1 - share) * mean]
    assert [float(m.row[0]) for m in last.cluster_models[:2]] == pytest.approx(expected)


def test_cloud_weights_of_clusters_and_without_d():
    # the third cluster on two edges
    counts = np.array([[100, 100, 0, 0], [50, 50, 50, 50], [0, 0, 150, 450]])
    n = np.array([200.0, 200.0, 200.0, 400.0])
    reports = Reports(
        total=n,
        reported=n,
        staleness=np.zeros(4, np.int64),
        fresh=np.ones(4, bool),
        reported_last=n * [1, 0, 1, 0],
        cluster=np.array([0, 1, 2, 2]),
        label_counts=counts,
    )
    weights = weigh_clusters("kl")(reports).edge
    assert [*weights[:2], weights[2:].sum()] == pytest.approx([0.1282220, 0.2483477, 0.6234303], abs=1e-6)
    assert weights[3] == pytest.approx(2 * weights[2])
    models = np.array([[1, 0], [0, 1], [1, 1], [1, 1]])
    assert weights @ models == pytest.approx([0.7516523, 0.8717780], abs=1e-6)
    assert weigh_clusters("equal")(reports).edge @ models == pytest.approx([2 / 3, 2 / 3])
    assert weigh_clusters("quantity")(reports).edge == pytest.approx([0.2, 0.2, 0.2, 0.4])
    assert weigh_clusters("quantity", "last")(reports).edge == pytest.approx([0.5, 0, 0.5, 0])


def small(**training):
    made = copy.deepcopy(SMALL)
    made["task"]["partition"] |= {"samples_per_class": 10}  # leaves samples for validation
    made["training"] |= training
    return made


def same_runs(a, b):
    return np.array_equal(a.row, b.row) and [m["time_s"] for m in a.measures] == [m["time_s"] for m in b.measures]


def one_cluster(**options):
    """CSAHFL with one cluster, waiting for all: what is left are its weights."""
    return csahfl(beta=90, wait="all", **options)


def test_one_cluster_and_no_deadline_is_hierfedavg():
    # bit for bit with renorm; the signatures' seconds come on top
    plain = simulate(scenario(small()), "hierfedavg", seed=3)
    renorm = simulate(scenario(small()), one_cluster(stale_mode="renorm", cloud_weights="quantity"), seed=3)
    delta = simulate(scenario(small()), one_cluster(cloud_weights="quantity"), seed=3)
    assert np.array_equal(plain.row, renorm.row)
    assert np.abs(plain.row - delta.row).max() < 1e-5
    assert renorm.measures[-1]["clusters"] == 1


def test_one_cluster_by_labels_is_hierfedavg_too():
    # with K = 1 the closeness of labels is one factor for all
    plain, kl = (simulate(scenario(small()), m, seed=3) for m in ("hierfedavg", one_cluster(stale_mode="renorm")))
    assert np.abs(plain.row - kl.row).max() < 1e-6


def test_one_edge_and_one_round_is_fedavg():
    made = small(edge_rounds=1)
    made["fleet"] = {"n_devices": 6}
    flat, clustered = (
        simulate(scenario(made), m, seed=3)
        for m in ("fedavg", one_cluster(stale_mode="renorm", cloud_weights="quantity"))
    )
    assert np.array_equal(flat.row, clustered.row)


def test_with_sampling_only_the_cloud_weights_differ_from_hierfedavg():
    made = small(clients_per_round=2)
    runs = [
        simulate(scenario(made), m, seed=3)
        for m in ("hierfedavg:cloud_weights=reported", one_cluster(stale_mode="renorm", cloud_weights="quantity"))
    ]
    assert np.array_equal(runs[0].row, runs[1].row)


@pytest.mark.parametrize("mode", ["delta", "renorm", "literal"])
def test_a_deadline_that_everybody_meets_is_the_synchronous_run_bit_for_bit(mode):
    made = small(local_steps=None, local_epochs=1)
    adaptive, waiting = (
        simulate(scenario(made), csahfl(alpha=50, stale_mode=mode, wait=w), seed=2) for w in ("deadline", "all")
    )
    assert same_runs(adaptive, waiting) and adaptive.measures == waiting.measures
    assert adaptive.measures[-1]["late"] == 0


def test_a_busy_client_is_never_sent_and_late_means_older():
    made = small(cloud_rounds=8)
    made["fleet"]["compute"] |= {"jitter_sigma": 1.0}
    made["fleet"]["mobility"] = {"p_stay": 0.5, "neighbours": "path", "every": "edge-round"}
    ages = []
    weigh = discounted("delta")

    def watched(arrivals):
        ages.extend(arrivals.staleness.tolist())
        return weigh(arrivals)

    method = csahfl(alpha=0.0).with_(merge_edge=Linear(watched))
    simulation = Simulation(scenario(made), method, seed=1, dry_run=True, timeline=True)
    times = [simulation.federation.clock.now_s for _ in simulation.rounds()]
    assert times == sorted(times)
    free_s = np.zeros(6)
    late = 0
    for sent in sorted(simulation.federation.timeline, key=lambda s: s.start_s):
        assert (free_s[sent.client] <= sent.start_s + 1e-9).all()
        free_s[sent.client] = sent.arrival_s
        late += int(np.count_nonzero(sent.late & np.isfinite(sent.merged_s)))
    assert late > 0 and ages.count(0) == len(ages) - late and min(ages) >= 0


def test_signatures_are_paid_for_and_no_model_is_fetched():
    made = small(cloud_rounds=1)
    with_clusters, without = (
        simulate(scenario(made), csahfl(clusters=c), seed=1, dry_run=True) for c in ("angles", "none")
    )
    ledgers = [{(r["hop"], r["direction"]): r["bytes"] for r in x.ledger.table()} for x in (with_clusters, without)]
    features, p, n = 8, 3, 6
    assert ledgers[0]["device_edge", "up"] - ledgers[1]["device_edge", "up"] == n * p * features * 4
    assert ledgers[0]["device_edge", "down"] == ledgers[1]["device_edge", "down"]


def test_random_clusters_have_the_sizes_of_the_others():
    made = small(cloud_rounds=1)
    covers = []
    for kind in ("angles", "random"):
        simulation = Simulation(scenario(made), csahfl(beta=10, clusters=kind), seed=1, dry_run=True)
        list(simulation.rounds())
        topology = simulation.places[0].topology
        covers.append([int(topology.cover[topology.cluster == c].sum()) for c in np.unique(topology.cluster)])
    assert covers[0] == covers[1] and len(covers[0]) > 1


def test_local_accuracies_by_each_model():
    result = simulate(scenario(small()), csahfl(beta=10), seed=1)
    for measures in result.measures:
        # every client has two of four classes, all classes are equally frequent and equally often held
        assert measures["local_by_global"] == pytest.approx(measures["accuracy"], abs=0.1)
    assert result.measures[0]["local_by_edge"] == result.measures[0]["local_by_global"]
    flat = simulate(scenario(small()), "fedavg", seed=1).measures[-1]
    assert flat["local_by_edge"] == flat["local_by_cluster"] == flat["local_by_global"]
    off = simulate(scenario(small(), ["evaluation.models=global"]), csahfl(beta=10), seed=1).measures[-1]
    assert "local_by_edge" not in off and off["local_by_global"] == result.measures[-1]["local_by_global"]


def test_local_accuracies_match_a_loop_over_clients():
    simulation = Simulation(scenario(small()), csahfl(beta=10), seed=1)
    for state in simulation.federation.cloud_rounds(2):
        settle_all([state.model, *state.reported_models, *state.cluster_models], simulation.engine)
    found = simulation._measure(state)
    topology, y = state.topology, simulation.dataset.y_test
    for name, models in (
        ("global", [state.model] * topology.n_aggregators),
        ("cluster", state.cluster_models),
        ("edge", state.reported_models),
    ):
        own = []
        for k in range(6):
            correct = simulation.engine.evaluate(models[int(topology.cover[:, k].argmax())].row[None]).correct[0]
            own.append(correct[np.isin(y, np.flatnonzero(simulation.label_counts[k]))].mean())
        assert found[f"local_by_{name}"] == pytest.approx(np.mean(own), abs=1e-12)
    simulation.engine.close()


def test_local_accuracy_of_one_model_weighs_classes_by_how_many_clients_hold_them():
    # with equally many test samples of each class, L_glob = sum_c D_c acc_c / sum_c D_c
    made = copy.deepcopy(SMALL)
    made["task"] = {"dataset": "fashion-mini", "partition": {"kind": "dirichlet"}, "model": {"kind": "softmax"}}
    simulation = Simulation(scenario(made), hierfedavg(), seed=1, dry_run=True)
    y, held = simulation.dataset.y_test, simulation.label_counts > 0

    def local(simulation):
        settings = simulation.scenario.evaluation
        evaluation = Evaluation(None, simulation.dataset, simulation.label_counts, settings, seed=1)
        return evaluation._local_by(right, {})["local_by_global"]

    correct = np.random.default_rng(0).uniform(size=len(y)) < 0.3 + 0.05 * y
    accuracy = np.array([correct[y == c].mean() for c in range(10)])
    per_client = np.mean([accuracy[row].mean() for row in held])
    right = SimpleNamespace(right=np.bincount(y[correct], minlength=10).astype(float))
    assert local(simulation) == pytest.approx(per_client, abs=1e-12)
    made["task"]["partition"] = {"kind": "classes", "classes_per_client": 2}
    simulation = Simulation(scenario(made), hierfedavg(), seed=1, dry_run=True)
    holders = (simulation.label_counts > 0).sum(axis=0)
    expected = holders @ accuracy / holders.sum()
    assert local(simulation) == pytest.approx(expected, abs=1e-12)


def test_macfl_without_its_terms_is_hierfedavg():
    runs = [simulate(scenario(small()), m, seed=2) for m in ("hierfedavg", "macfl_r:kappa=0:least=1", "macfl_r")]
    assert np.abs(runs[0].row - runs[1].row).max() < 1e-6
    assert np.abs(runs[0].row - runs[2].row).max() > 1e-4


def test_weights_and_starts_that_depend_on_models_by_hand():
    # one edge, two rounds; kappa 1; scalars have cosine 1 or -1
    place = snapshot([1.0, 1.0, 1.0], [[1, 1, 1]])
    (first,), _ = play(macfl_r(), world(place, n_samples=[100, 100, 200]), adding(2, 4, -1), 1)
    n = np.array([100 * np.e, 100 * np.e, 200 / np.e])  # mean update (2 + 4 - 2) / 4 > 0
    w = n @ [2, 4, -1] / n.sum()
    assert first[1] == pytest.approx(w, rel=1e-6)
    (second,), _ = play(macfl_r(), world(place, n_samples=[100, 100, 200], edge_rounds=2), adding(2, 4, -1), 1)
    # clients 0 and 1 agree with the edge in sign and start from it, client 2 starts half from its own -1
    starts = np.array([w, w, (w - 1) / 2])
    assert second[1] == pytest.approx(w + n @ [2, 4, -1] / n.sum(), rel=1e-6)
    assert starts[2] < w


def test_tiers_merge_at_once_by_reversed_counts():
    # tiers of one client, 1 s and 3 s a round: reports at 1, 2, 3 (fast), 3 (slow)
    place = snapshot([1.0, 3.0], [[1, 1]], cloud_s=1e-12)
    method = make_method("fedat:n_tiers=2:lam=0")
    seen, federation = play(method, world(place), adding(1, 10), 2)
    # fast at 1: w = 1; at 2: w = 2 -> two reports; at 3: fast w = 3, then slow (from 0): counts (3, 1): 3/4 to the slow one
    assert [round(t, 6) for t, _ in seen] == [2.0, 3.0]
    assert [w for _, w in seen] == pytest.approx([2.0, 0.25 * 3 + 0.75 * 10])
    assert federation.machines.cloud.n_reports.tolist() == [3, 1]


def test_a_cloud_round_of_tiers_has_the_scenarios_edge_rounds():
    runs = [simulate(scenario(small(edge_rounds=r)), "fedat:n_tiers=2", seed=1, dry_run=True) for r in (1, 3)]
    assert runs[1].measures[-1]["updates"] == pytest.approx(3 * runs[0].measures[-1]["updates"], rel=0.2)


def test_the_bound_on_staleness_makes_fast_edges_wait():
    # edge 0 pushes every second, edge 1 every 10 s; S_max 2: edge 0 may be two versions ahead of edge 1's
    place = snapshot([1.0, 10.0], [[1, 0], [0, 1]])
    free = hierfedavg().with_(cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud(0.5, 0.0)))
    seen, _ = play(free, world(place), adding(1, 1), 3)
    assert [t for t, _ in seen] == [2.0, 4.0, 6.0]
    bounded = free.with_(cloud=Immediate(bound=StalenessBound(s_max=2)))
    seen, federation = play(bounded, world(place), adding(1, 1), 3)
    # pushes of edge 0 at 1, 2, 3; then version 3 - 0 > 2: it waits until edge 1 pushes at 10; both go on; 11, 12
    assert [t for t, _ in seen] == [2.0, 10.0, 12.0]
    assert federation.machines.cloud.n_reports.tolist() == [5, 1]


def test_the_bound_is_adapted_by_accuracy_and_replayed_from_a_checkpoint():
    chosen = scenario(small(cloud_rounds=8))
    method = make_method("hiflash_r:every=3")
    whole = simulate(chosen, method, seed=5)
    assert len({m["staleness_bound"] for m in whole.measures[1:]}) > 1
    first = Simulation(chosen, method, seed=5)
    for _ in first.rounds():
        if first.cloud_rounds_done == 4:
            break
    saved = first.checkpoint()
    assert len(saved.scores) > 1
    second = Simulation(chosen, method, seed=5)
    for _ in second.rounds(saved):
        pass
    assert second.measures == whole.measures and np.array_equal(second.result().row, whole.row)


def test_a_bound_that_cannot_be_adapted_says_so():
    made = copy.deepcopy(SMALL)
    made["task"]["partition"] = {"kind": "iid"}  # all samples have an owner
    with pytest.raises(ValueError, match=r"no client has.*adapt=false"):
        simulate(scenario(made), "hiflash_r", seed=1)
    assert simulate(scenario(made), "hiflash_r:adapt=false", seed=1).measures[-1]["staleness_bound"] == 2


def test_squads_work_together_and_upload_in_turn():
    # two squads of two: computing 1, 2 | 7, 8 s, uploads of 1.5 s one after the other
    place = snapshot([1.0, 2.0, 7.0, 8.0], [[1, 1, 1, 1]], up_s=1.5)
    method = make_method("feduc_r:n_groups=2:power=1")
    seen, federation = play(method, world(place), adding(4, 8, 20, 0), 1)
    # squad 0: 2.5, 4 -> merged at 4: r = 1/2: w = 3, sent again, back at 8 -> two merges end the round
    assert seen[0][0] == 8.0
    # second time from 3: mean 9, nobody else merged: s = 0: (3 + 9) / 2
    assert seen[0][1] == pytest.approx((3 + 9) / 2)
    assert federation.errands.n_updates == 4
    assert time_sharing([4, 1, 6, 6.5], 1.5).tolist() == [5.5, 2.5, 7.5, 9.0]  # by hand


def test_stale_squads_move_the_edge_less():
    place = snapshot([1.0, 1.0, 1.5, 1.5], [[1, 1, 1, 1]])
    method = make_method("feduc_r:n_groups=2:power=1")
    seen, _ = play(method, world(place), adding(4, 4, 10, 10), 1)
    # squad 0 at 1: w = 2; squad 1 at 1.5 from 0, one merge since: r = 1/4: w = 0.75 * 2 + 0.25 * 10
    assert seen == [(1.5, pytest.approx(4.0))]


def test_clusters_at_the_cloud_keep_their_own_models():
    result = simulate(scenario(small(cloud_rounds=6)), "pacfl:beta=30", seed=1)
    last = result.measures[-1]
    assert last["local_by_cluster"] == last["local_by_edge"] > last["local_by_global"]


@pytest.mark.parametrize("name", [n for n in METHODS if n.startswith(("csahfl", "fedat", "pacfl")) or n.endswith("_r")])
@pytest.mark.parametrize("moves", [False, True])
def test_runs_go_on_from_a_checkpoint_to_the_same_bits(name, moves):
    made = small(clients_per_round=2)
    made["fleet"]["compute"]["jitter_sigma"] = 0.5
    if moves:
        made["fleet"]["mobility"] = {"p_stay": 0.5, "neighbours": "path", "every": "edge-round"}
    text = {"fedat": "fedat:n_tiers=3", "feduc_r": "feduc_r:n_groups=2"}.get(name, name)
    whole = simulate(scenario(made), text, seed=5)
    dry = simulate(scenario(made), text, seed=5, dry_run=True)
    assert name == "hiflash_r" or [m["time_s"] for m in dry.measures] == [m["time_s"] for m in whole.measures]
    first = Simulation(scenario(made), make_method(text), seed=5)
    for _ in first.rounds():
        if first.cloud_rounds_done == 2:
            break
    second = Simulation(scenario(made), make_method(text), seed=5)
    for _ in second.rounds(first.checkpoint()):
        pass
    assert second.measures == whole.measures and np.array_equal(second.result().row, whole.row)


def test_asynchronous_jobs_are_trained_in_batches():
    simulation = Simulation(scenario(small()), make_method("feduc_r:n_groups=2"), seed=1)
    for _ in simulation.rounds():
        pass
    assert np.mean(simulation.batches) > 2


def test_sampled_numbers():
    place = snapshot([1.0] * 12, np.repeat(np.eye(3), 4, axis=1))
    for method, expected in ((hierfedavg(), 3 * 2), (fedavg(), 3 * 2), (make_method("fedat:n_tiers=3"), 3 * 2)):
        w = world(place, clients_per_round=2)
        federation = Driver(method, w, Model(np.zeros(1, np.float32)))
        (state,) = federation.cloud_rounds(1)
        assert state.n_updates == expected, method.name
    with pytest.raises(ValueError, match="participation or clients_per_round, not both"):
        scenario(small(clients_per_round=2, participation=0.5))


def test_the_synchronous_parts_have_no_hidden_order():
    place = snapshot([1.0, 2.0, 3.0], [[1, 1, 1]])
    engine = quadratic([1, 2, 3], [1, -1, 2])
    a, b = (
        play(
            hierfedavg().with_(edge=Rounds(pace=p), merge_edge=Linear(discounted("renorm"))),
            world(place, edge_rounds=3),
            engine,
            2,
        )[0]
        for p in (lockstep, median_iqr(50.0))
    )
    assert a == b


def test_follow_needs_the_same_aggregators_everywhere():
    with pytest.raises(ValueError, match="same number of aggregators"):
        Topology(cover=np.eye(3, dtype=bool), kind="edge", host=np.array([0, 0, 1]), follow=True)
    with pytest.raises(ValueError, match=r"cluster must have shape \(1,\)"):
        Topology(cover=np.ones((1, 2), bool), kind="edge", host=np.zeros(1, int), cluster=np.zeros(2, int))
    assert fixed_topology([[1, 1]])(None, None).clusters.tolist() == [0]


def test_squads_that_part_do_not_close_the_rounds_of_others(monkeypatch):
    """An edge whose members still train is not deserted, though the squad's first client has gone."""
    deserted, checks, close = [], [], Async._unless_deserted

    def watch(self, edge, at_s):
        flights, group_of = edge.roster.working.values(), edge.roster.group_of
        at_work = any((group_of[flight.client] == edge.group).any() for flight in flights)
        checks.append(at_work)
        actions = close(self, edge, at_s)
        if not edge.merges_left:
            deserted.append(at_work)
        return actions

    monkeypatch.setattr(Async, "_unless_deserted", watch)
    for _ in Simulation(scenario("edge-mobility"), make_method("feduc_r"), seed=0, dry_run=True).rounds():
        pass
    assert any(checks) and not any(deserted)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["csahfl:alpha=0.1", "feduc_r"])
def test_updates_of_clients_that_moved_are_lost_if_so_asked(method):
    def moves(options=""):
        simulation = Simulation(
            scenario("edge-mobility"), make_method(method + options), seed=0, dry_run=True, timeline=True
        )
        for _ in simulation.rounds():
            pass
        sent = table(simulation.federation.timeline)
        return simulation.measures[-1]["updates"], np.count_nonzero(sent["moved"]), sent

    kept, lost = moves(), moves(":lost_on_move=true")
    assert kept[1] > 0 == lost[1]
    assert lost[0] / len(lost[2]["moved"]) < kept[0] / len(kept[2]["moved"])  # of those sent out, fewer are merged
    assert lost[0] == np.count_nonzero(np.isfinite(lost[2]["merged_s"]))


@pytest.mark.slow
def test_late_updates_are_dropped_at_the_cloud_if_so_asked():
    ends = {}

    def merged_after_their_round(options=""):
        simulation = Simulation(
            scenario("edge-mobility"),
            make_method(f"csahfl:alpha=0.1{options}"),
            seed=0,
            dry_run=True,
            timeline=True,
        )
        for measures in simulation.rounds():
            ends[simulation.cloud_rounds_done] = measures["time_s"]
        sent = table(simulation.federation.timeline)
        end = np.array([ends[g] for g in sent["cloud_round"].tolist()])
        return np.count_nonzero(sent["merged_s"] > end + 1e-9), np.count_nonzero(sent["late"])

    kept, dropped = merged_after_their_round(), merged_after_their_round(":drop_at_cloud=true")
    assert kept[0] > 0 == dropped[0] and dropped[1] > 0


def test_swaps_between_groups_bring_their_labels_nearer_to_the_edges():
    labels = np.array([[10, 0], [10, 0], [0, 10], [0, 10]])
    group = swapped_groups(np.array([0, 0, 1, 1]), labels)
    assert [labels[group == g].sum(axis=0).tolist() for g in (0, 1)] == [[10, 10], [10, 10]]
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels, before = rng.integers(0, 9, (12, 4)), np.repeat([0, 1, 2], 4)
        after = swapped_groups(before, labels)
        assert np.bincount(after).tolist() == [4, 4, 4]
        pooled = labels.sum(axis=0) / labels.sum()
        apart = [
            sum(kl_divergence(labels[g == i].sum(axis=0) / labels[g == i].sum(), pooled) for i in range(3))
            for g in (before, after)
        ]
        assert apart[1] <= apart[0] + 1e-12
    names = make_method("feduc_r:swaps=true").needs - make_method("feduc_r").needs
    assert names == {Need.LABELS}
    result = simulate(scenario("edge-mobility", ["training.cloud_rounds=1"]), "feduc_r:swaps=true", dry_run=True)
    assert result.measures[-1]["updates"] > 0


def test_clients_change_edges_where_labels_come_nearer_and_both_reach(small):
    small["fleet"] |= {
        "n_devices": 8,
        "cells": {"kind": "grid", "shape": "line", "n": 2, "spacing_m": 1, "radius_m": 300},
    }
    small["fleet"]["compute"] = {"law": {"kind": "fixed", "value": 0.1}}
    small["task"]["partition"] = {"kind": "dirichlet", "concentration": 0.2, "min_samples": 2}
    plain, swapped = (
        simulate(scenario(small), f"hiflash_r:associate={on}", dry_run=True).places[0].topology
        for on in ("false", "true")
    )
    simulation = Simulation(scenario(small), make_method("hiflash_r"), dry_run=True)
    pooled = simulation.label_counts.sum(axis=0) / simulation.label_counts.sum()

    def apart(topology):
        held = topology.cover @ simulation.label_counts
        return float(kl_divergence(held / held.sum(axis=1, keepdims=True), pooled).sum())

    assert apart(swapped) < apart(plain)
    assert swapped.notes["label_distance"] == pytest.approx(apart(swapped))
    assert swapped.cover.sum(axis=1).tolist() == plain.cover.sum(axis=1).tolist()
    small["fleet"]["cells"] |= {"spacing_m": 1000, "radius_m": 300}  # nobody reaches both
    apart_cells = [
        simulate(scenario(small), f"hiflash_r:associate={on}", dry_run=True).places[0].topology.cover
        for on in ("false", "true")
    ]
    assert np.array_equal(*apart_cells)
