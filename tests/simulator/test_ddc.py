"""DDC and the clusterings it is compared with, in the loop: golden training, limits, capacity, what is noted and paid for."""

import itertools

import numpy as np
import pytest
from worlds import fixed_topology, quadratic, snapshot, world

import fedloom as fl
from fedloom.bounds import ddc_energy, upload_j
from fedloom.grouping import (
    Need,
    geographic_clusters,
    gradient_likeness,
    head_problem,
    one_cloud,
    random_headed_clusters,
)
from fedloom.methods.ddc import heads_for
from fedloom.methods.ddc import method as ddc
from fedloom.methods.fedavg import method as fedavg
from fedloom.radio import distances
from fedloom.record.folder import record
from fedloom.simulator import Simulation
from fedloom.simulator.book import Model, settle
from fedloom.simulator.driver import Driver

RADIO = {"kind": "radio"}


@pytest.fixture
def disc(small):
    """Twenty devices in a disc, the server a kilometre away, skewed labels."""
    small["fleet"] = {
        "n_devices": 20,
        "server_m": [1000.0, 0.0],
        "device_device": RADIO,
        "head_broadcast": "free",
        "device_cloud": {"via": "direct", "up": RADIO, "down": {"kind": "free"}},
    }
    small["model_bits"] = 224_000
    small["task"]["partition"] = {"kind": "dirichlet", "concentration": 0.3, "min_samples": 4}
    return small


def run(mapping, method, seed=0, **options):
    return fl.simulate(fl.scenario(mapping), method, seed, n_workers=1, **options)


def clusters_of(result):
    [place] = result.places  # made once
    return {int(h): np.flatnonzero(row).tolist() for h, row in zip(place.topology.host, place.topology.cover)}


def seen_by(mapping, method):
    """The view that a grouping with the method's needs gets."""
    caught = []

    def group(view, rng):
        caught.append(view)
        return one_cloud(view, rng)

    fl.simulate(fl.scenario(mapping), method.with_(group=group), dry_run=True)
    return caught[0]


# Training, by hand: F_u = h_u (w - theta_u)^2 / 2, one exact step a round

CURVATURE, CENTRE = (1.0, 2.0, 1.0, 0.5), (0.0, 2.0, 4.0, 10.0)
HALVES = [[1, 1, 0, 0], [0, 0, 1, 1]]
CROSSED = [[1, 0, 0, 1], [0, 1, 1, 0]]


def play(method, n_rounds, curvature=CURVATURE, **settings):
    """Global models and aggregators' models after every cloud round."""
    engine = quadratic(curvature, CENTRE, lr=0.5)
    place = snapshot([1.0] * 4, [[1, 1, 1, 1]])
    w = world(place, n_samples=[1, 1, 2, 1], **settings)
    federation = Driver(method, w, Model(np.zeros(1, dtype=np.float32)))
    found = []
    for state in federation.cloud_rounds(n_rounds):
        model = float(settle(state.model, engine)[0])
        found.append((model, [float(settle(m, engine)[0]) for m, _ in state.edges]))
    return found


def around(cover):
    return ddc().with_(group=fixed_topology(cover, "head", [int(np.argmax(row)) for row in cover]))


def test_two_clusters_by_hand():
    (first, edges_1), (second, edges_2) = play(around(HALVES), 2, edge_rounds=2)
    assert edges_1 == pytest.approx([1.25, 3.430555556], rel=1e-6)
    assert first == pytest.approx(2.558333333, rel=1e-6)
    assert edges_2 == pytest.approx([1.409895833, 4.301099537], rel=1e-6)
    assert second == pytest.approx(3.144618056, rel=1e-6)


def test_other_clusters_learn_something_else():
    found = [model for model, _ in play(around(CROSSED), 2, edge_rounds=2)]
    assert found == pytest.approx([2.4125, 2.950286458], rel=1e-6)


def test_fedavg_of_both_periods():
    every = [model for model, _ in play(fedavg(), 4)]
    assert every == pytest.approx([1.7, 2.465, 2.80925, 2.9641625], rel=1e-6)
    second = [model for model, _ in play(fedavg(), 2, local_steps=2)]
    assert second == pytest.approx([2.475, 3.1246875], rel=1e-6)


def test_warm_up_is_fedavg_and_gradients_are_taken_after_it(disc):
    flat, warm = run(disc, "fedavg"), run(disc, "ddc:warmup_rounds=2:search=fast")
    loss, energy_j = ([[m[key] for m in r.measures] for r in (flat, warm)] for key in ("loss", "energy_j"))
    assert loss[0][:3] == loss[1][:3] and loss[0][4] != loss[1][4]
    assert energy_j[0][:3] == energy_j[1][:3] and energy_j[0][4] != energy_j[1][4]
    assert [(p.cloud_round, p.topology.kind) for p in warm.places] == [(1, "cloud"), (3, "head")]
    [cold] = run(disc, "ddc:search=fast").places
    assert not np.array_equal(cold.topology.cover, warm.places[1].topology.cover)


@pytest.mark.parametrize("method", [around(HALVES), around(CROSSED), fedavg()])
def test_with_equal_curvature_clusters_do_not_matter(method):
    found = [model for model, _ in play(method, 2, curvature=(1.0,) * 4, edge_rounds=2)]
    assert found == pytest.approx([3.0, 3.75], rel=1e-6)


# Limits


def test_a_cluster_for_every_device_is_fedavg_with_the_period_of_the_heads(disc):
    alone = run(disc, "ddc:capacity=1")
    assert clusters_of(alone) == {u: [u] for u in range(20)}
    disc["training"] |= {"local_steps": 4, "edge_rounds": 1}  # two rounds of two steps, no average between
    np.testing.assert_allclose(alone.row, run(disc, "fedavg").row, rtol=1e-5, atol=1e-6)


def test_one_cluster_with_equal_periods_is_fedavg(disc):
    disc["training"] |= {"edge_rounds": 1}
    one = run(disc, "ddc:capacity=20:n_candidates=1")
    assert len(clusters_of(one)) == 1
    np.testing.assert_allclose(one.row, run(disc, "fedavg").row, rtol=1e-5, atol=1e-6)


def test_only_distance_and_no_limit_is_the_nearest_head(disc):
    result = run(disc, "ddc:alpha=0:capacity=20:candidate_share=1.0")
    position = result.places[0].position_m
    for head, members in clusters_of(result).items():
        heads = sorted(clusters_of(result))
        nearest = distances(position[members], position[heads]).argmin(axis=1)
        assert [heads[i] for i in nearest] == [head] * len(members)


def test_only_gradients_do_not_look_where_devices_are(disc):
    here = run(disc, "ddc:alpha=1")
    disc["fleet"]["placement"] = {"kind": "square", "side_m": 400.0}
    there = run(disc, "ddc:alpha=1")
    assert clusters_of(here) == clusters_of(there)
    assert not np.array_equal(here.places[0].position_m, there.places[0].position_m)


def test_a_rigid_motion_of_the_map_changes_nothing(disc):
    here = run(disc, "ddc:search=fast")
    x, y = here.places[0].position_m.T
    turned = np.stack([500 - y, 70 + x], axis=1)
    disc["fleet"] |= {"placement": {"kind": "coordinates", "positions_m": turned.tolist()}, "server_m": [500.0, 1070.0]}
    assert clusters_of(run(disc, "ddc:search=fast")) == clusters_of(here)


# Clusters


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", ["", ":normalise=literal", ":normalise=literal_eq18", ":normalise=energy"])
def test_clusters_are_made_once_within_capacity_around_members(disc, options, seed):
    result = run(disc, f"ddc:search=fast:capacity=6{options}", seed)
    clusters = clusters_of(result)
    assert sorted(u for members in clusters.values() for u in members) == list(range(20))
    assert all(head in members and len(members) <= 6 for head, members in clusters.items())
    assert result.measures[-1]["accuracy"] > result.measures[0]["accuracy"]


def test_what_is_noted_is_what_the_clusters_are_worth(disc):
    for weighting in ("cluster", "size"):
        result = run(disc, f"ddc:weighting={weighting}:alpha=0.7:search=fast")
        simulation = Simulation(fl.scenario(disc), fl.make_method("ddc"), n_workers=1)
        gradients = simulation._features.values("gradient", None, simulation.federation.model, {})
        simulation.engine.close()
        clusters = clusters_of(result)
        cosine, by_size = gradient_likeness(gradients, [np.array(c) for c in clusters.values()])
        notes = result.measures[-1]
        assert (notes["cosine"], notes["cosine_by_size"]) == pytest.approx((cosine, by_size), rel=1e-6)
        position, heads = result.places[0].position_m, list(clusters)
        to_server = distances(position, [[1000.0, 0.0]])[:, 0]
        member_m = sum(distances(position[c], position[[h]]).sum() for h, c in clusters.items())
        assert notes["member_m"] == pytest.approx(member_m / (20 - len(heads)))
        distance = (member_m + to_server[heads].sum()) / to_server.sum()
        likeness = cosine if weighting == "cluster" else by_size
        assert notes["objective"] == pytest.approx(0.3 * distance + 0.7 * likeness, rel=1e-6)


def test_psi_never_rises_along_the_search():
    rng = np.random.default_rng(5)
    problem = head_problem(rng.uniform(-100, 100, (32, 2)), [1000.0, 0.0], rng.normal(size=(32, 6)), capacity=16)
    for search in ("full", "fast"):
        found = fl.grouping.select_heads(
            problem, search=search, effort=fl.grouping.Effort(n_starts=1, n_kicks=0), rng=np.random.default_rng(0)
        )
        psi = [change.objective for change in found.history]
        assert len(psi) > 1 and all(b < a for a, b in itertools.pairwise(psi))


def test_more_candidates_than_the_share_are_drawn_if_capacity_needs_them(disc):
    clusters = clusters_of(run(disc, "ddc:capacity=2:candidate_share=0.05"))
    assert sorted(map(len, clusters.values())) == [2] * 10


@pytest.mark.slow
@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_an_interrupted_run_goes_on_with_the_same_clusters(disc, warmup, tmp_path):
    def simulation():
        return Simulation(fl.scenario(disc), fl.make_method(f"ddc:warmup_rounds={warmup}"), 3, n_workers=1)

    whole = record(simulation(), "ddc", tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(done, measures):
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        record(simulation(), "ddc", tmp_path / "a", on_round=stop)
    again = record(simulation(), "ddc", tmp_path / "a", resume=True)
    assert again["setup_energy_j"] == whole["setup_energy_j"] > 0
    for file in ("metrics.parquet", "topology.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


# What is asked for, and its price


def test_gradients_are_only_asked_for_if_they_count():
    assert Need.GRADIENTS not in ddc(alpha=0).needs and Need.GRADIENTS in ddc(alpha=0, score=True).needs
    assert ddc().needs == {Need.SIZES, Need.POSITIONS, Need.GRADIENTS}
    assert ddc(normalise="energy").needs == ddc().needs | {Need.LINKS}
    assert fl.make_method("geographic").needs == {Need.SIZES, Need.POSITIONS}
    assert fl.make_method("similarity").needs == {Need.SIZES, Need.LABELS}  # blind to where devices are


def test_the_view_knows_the_server_and_the_joules_of_links(disc):
    method = fl.make_method("ddc:normalise=energy")
    view = seen_by(disc, method)
    assert view.server_m.tolist() == [1000.0, 0.0] and view.edge_rounds == 2
    between = distances(view.position_m, view.position_m)
    np.testing.assert_allclose(view.link_j, np.where(np.eye(20), 0.0, upload_j(between)), rtol=1e-12)
    to_server = distances(view.position_m, [view.server_m])[:, 0]
    np.testing.assert_allclose(view.cloud_j, upload_j(to_server), rtol=1e-12)
    disc["fleet"]["device_cloud"] = {"via": "edge"}
    disc["fleet"]["device_edge"] = {"up": RADIO}
    disc["fleet"]["edge_cloud"] = {"up": {"kind": "fixed", "seconds": 2.0, "power_w": 3.0}}
    relayed = seen_by(disc, method).cloud_j
    np.testing.assert_allclose(relayed, upload_j(np.hypot(*view.position_m.T)) + 6.0, rtol=1e-12)  # cell at the origin
    with pytest.raises(ValueError, match="positions without declaring it"):
        _ = seen_by(disc, fl.make_method("similarity")).server_m


def test_joules_may_be_given_as_they_are():
    rng = np.random.default_rng(2)
    position, server, gradients = rng.uniform(0, 100, (8, 2)), [500.0, 0.0], rng.normal(size=(8, 3))
    given = (upload_j(distances(position, position)), upload_j(distances(position, [server])[:, 0]))
    settings = {"normalise": "energy", "tau2": 3, "candidates": [1, 4, 6]}
    a, b = (head_problem(position, server, gradients, energy_j=e, **settings) for e in (upload_j, given))
    np.testing.assert_array_equal(a.cost, b.cost)
    np.testing.assert_array_equal(a.server_cost, b.server_cost)
    with pytest.raises(ValueError, match=r"energy_j of members must have shape \(8, 8\), got \(8, 3\)"):
        head_problem(position, server, gradients, energy_j=(given[0][:, :3], given[1]), **settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ddc:alpha=1.5", "alpha must be between 0 and 1, got 1.5"),
        ("ddc:candidate_share=0", "candidate_share must be above 0 and at most 1, got 0"),
        ("ddc:capacity=0", "capacity must be a whole number of at least 1, got 0"),
        ("ddc:normalise=miles", "normalise must be one of fedavg, literal"),
        ("ddc:weighting=none", "weighting must be one of cluster, size"),
        ("ddc:search=wide", "search must be one of auto, full, fast"),
        ("similarity:how=magic", "how must be one of k_means, linkage"),
    ],
)
def test_options_are_checked(text, message):
    with pytest.raises(ValueError, match=message):
        fl.make_method(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ddc:capacity=3:n_candidates=6",
            "6 candidates with a capacity of 3 devices have room for 18 of 20; take n_candidates of at least 7",
        ),
        ("ddc:n_candidates=21", "n_candidates must be at most the number of devices, 20, got 21"),
        ("geographic:n_clusters=3:capacity=4", "3 clusters of at most 4 devices have no room for 20"),
        ("similarity:n_clusters=21", "n_clusters"),
    ],
)
def test_too_little_room_is_explained(disc, text, message):
    with pytest.raises(ValueError, match=message):
        run(disc, text, dry_run=True)


# What it is compared with


@pytest.mark.parametrize("name", ["geographic", "similarity", "similarity:how=linkage"])
def test_baselines_have_as_many_clusters_as_capacity_needs(disc, name):
    result = run(disc, name)
    clusters = clusters_of(result)
    assert len(clusters) == 5 and all(head in members for head, members in clusters.items())
    assert sorted(u for members in clusters.values() for u in members) == list(range(20))
    assert "cosine" not in result.measures[-1] and result.ledger.feature_j == 0.0
    limited = clusters_of(run(disc, f"{name.split(':')[0]}:capacity=3"))
    assert len(limited) == 7 and max(map(len, limited.values())) <= 3
    scored = run(disc, f"{name}:score=true")
    assert clusters_of(scored) == clusters and 0 < scored.measures[-1]["cosine"] <= 1 and scored.ledger.feature_j > 0


def test_similar_clusters_are_alike_and_those_of_ddc_are_not(disc):
    disc["task"]["partition"] = {"kind": "classes", "classes_per_client": 1}
    cosine = {m: run(disc, f"{m}:score=true").measures[-1]["cosine"] for m in ("ddc:alpha=0.9", "similarity")}
    assert cosine["ddc:alpha=0.9"] < 0.5 * cosine["similarity"]


@pytest.mark.parametrize(("n", "clusters"), [(100, 5), (20, 5), (7, 4), (3, 3), (1, 1), (101, 5)])
def test_the_default_number_of_clusters(n, clusters):
    assert heads_for(n, None, None) == clusters  # of at most a fifth of all, rounded up
    assert heads_for(n, 2, None) == 2


def test_energies_of_a_hundred_devices_in_a_disc():
    """Means of 20 layouts, 200 rounds with periods 1 and 2 (DDC, section 5)."""
    found = {"fedavg": [], "neighbours": [], "blind": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        radius, angle = 100 * np.sqrt(rng.uniform(size=100)), rng.uniform(0, 2 * np.pi, 100)
        position = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        to_server = distances(position, [[1000.0, 0.0]])[:, 0]
        found["fedavg"].append(ddc_energy([], to_server, rounds=200, tau1=1, tau2=1, n_devices=100).total_j)
        groups = {
            "neighbours": geographic_clusters(position, n_clusters=5, rng=rng),
            "blind": random_headed_clusters(100, n_clusters=5, rng=rng),
        }
        for name, group in groups.items():
            members = np.flatnonzero(group.assign != np.arange(100))
            member_m = np.linalg.norm(position[members] - position[group.assign[members]], axis=1)
            energy = ddc_energy(member_m, to_server[group.heads], rounds=200, tau1=1, tau2=2, n_devices=100)
            found[name].append(energy.total_j)
    means = {name: np.mean(values) for name, values in found.items()}
    assert means == pytest.approx({"fedavg": 117.2, "neighbours": 5.59, "blind": 6.70}, rel=0.02)
