"""Uneven edge rounds, serial and noisy uplinks, chosen powers, and CAMU's schemes as compositions of them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from worlds import adding, fixed_topology, snapshot, world

from fedloom._random import stream
from fedloom.allocation import PpoSettings, Problem, learn_allocation
from fedloom.fleet import ComputeSettings, Fleet, FleetSettings, RadioLink
from fedloom.fleet.hops import hop
from fedloom.grouping import Need, Topology
from fedloom.methods import METHODS, Grouping, Method
from fedloom.methods.camu import by_contribution, in_turn
from fedloom.methods.method import Allotment, Allotting
from fedloom.mixing import Reports
from fedloom.planning import Devices, Work, make_plan
from fedloom.planning.costs import SERVER_W
from fedloom.protocol import Barrier
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.simulator.book import Model, settle
from fedloom.simulator.driver import Driver

SCHEMES = [name for name in METHODS if name.startswith("camu")]
UPLINK = RadioLink.model_validate(
    {"power_w": 0.5, "noise_dbm_hz": -170, "antennas": 15, "path_loss": {"kind": "free-space"}}
)


def two_clusters(allotment=None, **parts):
    """Clients 0 and 1 around 0, client 2 by itself."""
    return Method(
        name="test",
        summary="",
        group=Grouping(fixed_topology([[1, 1, 0], [0, 0, 1]], "head", [0, 2])),
        allot=None if allotment is None else Allotting(lambda view, topology, rng: allotment),
        **parts,
    )


def rounds(*numbers):
    return Allotment(edge_rounds=np.array(numbers))


def run(method, place, n_rounds=1, amounts=(1, 3, 10), **settings):
    federation = Driver(method, world(place, **settings), Model(np.zeros(1, np.float32)))
    engine = adding(*amounts)
    found = [(s.time_s, float(settle(s.model, engine)[0])) for s in federation.cloud_rounds(n_rounds)]
    return found, federation


def test_clusters_run_their_own_numbers_of_edge_rounds():
    place = snapshot([1, 1, 2], np.ones((1, 3)), cloud_s=0.0)
    found, federation = run(two_clusters(rounds(3, 1)), place, 2)
    # cluster 0 goes up by the mean of 1 and 3 three times, cluster 1 by 10 once; 200 and 100 samples
    assert found == [(3.0, pytest.approx((2 * 6 + 10) / 3)), (6.0, pytest.approx(2 * (2 * 6 + 10) / 3))]
    assert federation.ledger.compute_s == 2 * (3 * 2 * 1 + 2)


def test_an_allotment_of_the_scenarios_rounds_changes_nothing():
    place = snapshot([1, 1, 2], np.ones((1, 3)), cloud_s=0.25)
    plain, same = (run(two_clusters(a), place, 3, edge_rounds=2) for a in (None, rounds(2, 2)))
    assert plain[0] == same[0]
    assert plain[1].ledger.table() == same[1].ledger.table()


def test_leaders_send_one_after_the_other_when_all_are_ready():
    place = snapshot([1, 1, 2], np.ones((1, 3)), cloud_s=0.5)
    at_once, _ = run(two_clusters(rounds(3, 1)), place)
    serial, _ = run(two_clusters(rounds(3, 1), cloud=Barrier(uplink=in_turn)), place, 2)
    assert at_once[0][0] == 3.5
    assert [t for t, _ in serial] == [4.0, 8.0]
    assert serial[0][1] == at_once[0][1]


def radio_place(distance_m, cpu_hz, power_w=0.05):
    """Devices around a base station at given metres, with free links among each other."""
    compute = ComputeSettings.model_validate(
        {
            "law": {"kind": "fixed", "value": 1e9},
            "unit": "cycles-per-second",
            "cycles_per_sample": 1e5,
            "power_w": power_w,
        }
    )
    place = snapshot(cpu_hz, np.ones((1, len(cpu_hz))), cloud_s=1.0)
    uplink = hop(UPLINK, np.asarray(distance_m, float), np.random.default_rng(0))
    return replace(place, cloud_up=uplink, compute_settings=compute)


def one_cluster(allotment):
    return Method(
        name="test",
        summary="",
        group=Grouping(fixed_topology([[1, 1, 1]], "head", [0])),
        allot=Allotting(lambda view, topology, rng: allotment),
    )


def test_seconds_and_joules_of_the_golden_round():
    place = radio_place([50, 45, 47], [1e9, 2e9, 0.8e9])
    settings = {"n_samples": [2000, 1500, 2500], "batch_size": 400, "local_epochs": 1, "model_bits": 700160}
    [(time_s, _)], federation = run(one_cluster(rounds(4)), place, **settings)
    assert time_s == pytest.approx(4 * 0.3125 + 0.0695100595, rel=1e-8)
    assert federation.ledger.total_j == pytest.approx(0.1522550298, rel=1e-8)
    assert federation.ledger.compute_j == pytest.approx(4 * 0.029375, rel=1e-9)
    assert federation.ledger.energy_j.sum() == pytest.approx(0.0347550298, rel=1e-8)


def test_chosen_powers_decide_rates_and_joules_of_uplinks():
    place = radio_place([42, 50, 66], [1e9] * 3)
    power_w = np.array([1.0950298, 0.8694613, 0.9213682])
    method = Method(
        name="test",
        summary="",
        group=Grouping(fixed_topology(np.eye(3), "head", [0, 1, 2])),
        allot=Allotting(lambda view, topology, rng: Allotment(power_w=power_w), edge_rounds=False),
    )
    _, federation = run(method, place, model_bits=700160)
    problem = Problem(
        weight=[0.5, 0.3, 0.2],
        delta_c=1.2,
        concentration=1.0,
        gain=place.cloud_up.snr_per_w,
        noise_w=1.0,
        update_j=0.0,
        cap=0.0,
        energy_budget_j=1.0,
        power_budget_w=9.0,
        n_params=21880,
        lr=0.05,
    )
    assert place.cloud_up.snr_per_w == pytest.approx([4145.2179275, 2151.9762964, 757.6689713], rel=1e-8)
    assert federation.ledger.energy_j.sum() == pytest.approx(problem.upload_j(power_w).sum(), rel=1e-12)
    assert federation.ledger.airtime_s.sum() == pytest.approx(problem.upload_s(power_w).sum(), rel=1e-12)


def test_what_does_not_fit_is_refused():
    place = snapshot([1, 1, 2], np.ones((1, 3)), cloud_s=0.0)
    with pytest.raises(ValueError, match="edge_rounds must have one number for each of 2 aggregators, got"):
        run(two_clusters(rounds(1, 2, 3)), place)
    with pytest.raises(ValueError, match="at least one edge round, got \\[0, 1\\]"):
        run(two_clusters(rounds(0, 1)), place)
    shared = two_clusters(rounds(1, 2)).with_(group=fixed_topology([[1, 1, 0], [0, 1, 1]], "head", [0, 2]))
    with pytest.raises(ValueError, match="aggregators \\[0, 1\\] share clients or a host"):
        run(shared, place)
    unannounced = two_clusters().with_(allot=Allotting(lambda view, topology, rng: rounds(1, 2), edge_rounds=False))
    with pytest.raises(ValueError, match=r"edge rounds \[1, 2\] were allotted by a rule with edge_rounds=False"):
        run(unannounced, place)
    powers = Allotment(power_w=np.ones(2))
    with pytest.raises(ValueError, match="powers can be chosen for radio links only"):
        run(two_clusters(powers), place)
    with pytest.raises(ValueError, match="device_cloud via edge"):
        run(two_clusters(powers), snapshot([1, 1, 2], np.ones((1, 3))))
    with pytest.raises(ValueError, match="decided without features"):
        curious = two_clusters().with_(
            needs=frozenset({Need.UPDATES}), allot=Allotting(lambda view, topology, rng: view.features("update"))
        )
        run(curious, place)


def test_golden_weights_of_clusters():
    counts = np.array([[60, 30, 10, 0], [0, 20, 30, 50], [10, 40, 60, 90]])
    reports = Reports(
        total=counts.sum(axis=1).astype(float),
        reported=np.zeros(3),
        staleness=np.zeros(3, int),
        fresh=np.ones(3, bool),
        cluster=np.arange(3),
        label_counts=counts,
    )
    assert by_contribution()(reports).edge == pytest.approx([0.0581256315, 0.1782264454, 0.7636479231], rel=1e-8)
    discrete = by_contribution(floor=0.15, metric="discrete")(reports).edge
    assert discrete == pytest.approx([0.0042776926, 0.0859197530, 0.9098025544], rel=1e-7)


def test_a_cluster_whose_head_is_silent_counts_nothing():
    counts = np.array([[60, 30, 10, 0], [0, 0, 0, 0], [0, 20, 30, 50]])
    both = np.array([0, 2])

    def reports(rows):
        some = counts[rows]
        return Reports(
            total=some.sum(axis=1).astype(float),
            reported=np.zeros(len(some)),
            staleness=np.zeros(len(some), int),
            fresh=np.ones(len(some), bool),
            cluster=np.arange(len(some)),
            label_counts=some,
        )

    found = by_contribution()(reports(np.arange(3))).edge
    assert found[1] == 0.0
    assert found[both].tolist() == by_contribution()(reports(both)).edge.tolist()


def small(*changes):
    """Two regions with forty samples a device."""
    limits = ["task.data_limit=1200", "training.batch_size=8", "training.cloud_rounds=2"]
    return scenario("two-regions", [*limits, *changes])


QUIET = "fleet.device_cloud.noisy=false"


@pytest.mark.parametrize(("option", "same"), [("0", "camu_ungated"), (".inf", "camu_single")])
def test_thresholds_have_limits(option, same):
    by_threshold, by_name = (simulate(small(), m, seed=1) for m in (f"camu_gated:threshold={option}", same))
    assert np.array_equal(by_threshold.row, by_name.row)
    assert [m["time_s"] for m in by_threshold.measures] == [m["time_s"] for m in by_name.measures]


def test_noise_is_what_the_links_say_and_spares_statistics():
    method = make_method("camu_single")
    noisy, quiet = (Simulation(small("training.cloud_rounds=1", c), method, seed=2) for c in ("name=x", QUIET))
    for simulation in (noisy, quiet):
        list(simulation.rounds())
    error = noisy.result().row - quiet.result().row
    trainable = noisy.world.trainable
    assert trainable.sum() == 21880 and not error[~trainable].any()
    weight = np.array([w for _, w in noisy.federation.held.merged])
    std = np.sqrt((weight**2 * noisy.federation.scenes.now.noise_std**2).sum())
    assert error[trainable].std() == pytest.approx(std, rel=0.03)
    assert abs(error[trainable].mean()) < 4 * std / np.sqrt(21880)


def test_noise_that_is_too_weak_to_matter_changes_no_bit():
    weak = simulate(small("fleet.device_cloud.up.noise_dbm_hz=-400"), "camu_gated", seed=1)
    quiet = simulate(small("fleet.device_cloud.up.noise_dbm_hz=-400", QUIET), "camu_gated", seed=1)
    assert np.array_equal(weak.row, quiet.row)


def test_noise_of_all_devices_adds_up_when_the_cloud_averages():
    noisy, quiet = (
        Simulation(small("training.cloud_rounds=1", c), make_method("fedavg"), seed=2) for c in ("name=x", QUIET)
    )
    for simulation in (noisy, quiet):
        list(simulation.rounds())
    error = (noisy.result().row - quiet.result().row)[noisy.world.trainable]
    std = np.sqrt((noisy.federation.scenes.now.noise_std**2).sum()) / 30
    assert error.std() == pytest.approx(std, rel=0.03)


@pytest.mark.slow
def test_a_noisy_run_goes_on_with_the_same_bits():
    whole = Simulation(small("training.cloud_rounds=3"), make_method("camu"), seed=3)
    list(whole.rounds())
    first = Simulation(small("training.cloud_rounds=3"), make_method("camu"), seed=3)
    going = first.rounds()
    next(going), next(going)
    checkpoint = first.checkpoint()
    going.close()
    second = Simulation(small("training.cloud_rounds=3"), make_method("camu"), seed=3)
    list(second.rounds(checkpoint))
    assert np.array_equal(second.result().row, whole.result().row)
    assert second.result().measures == whole.result().measures


def test_without_clusters_and_by_size_it_is_fedavg():
    ours, flat = (simulate(small(QUIET), m, seed=1) for m in ("camu_no_clusters_by_size", "fedavg"))
    assert ours.row == pytest.approx(flat.row, abs=1e-5)
    assert ours.measures[-1]["energy_j"] == pytest.approx(flat.measures[-1]["energy_j"], rel=1e-12)


def test_schemes_under_one_budget_spend_the_same():
    energy = {
        name: simulate(small(), name, dry_run=True).measures[-1]["energy_j"]
        for name in ("camu", "camu_ungated", "camu_updates_only")
    }
    assert energy["camu"] == pytest.approx(energy["camu_ungated"], rel=1e-6)
    assert energy["camu_updates_only"] <= energy["camu_ungated"] * (1 + 1e-9)
    assert energy["camu_updates_only"] >= 0.98 * energy["camu_ungated"]  # whole updates only


def test_the_gate_is_a_cap_of_the_problem():
    simulation = Simulation(small("training.cloud_rounds=1"), make_method("camu"), dry_run=True)
    list(simulation.rounds())
    topology, allotment = simulation.federation.machines.topology, simulation.federation.regrouping.allotment
    shut = topology.notes["contribution"] < 5000 * simulation.world.n_samples.sum() / 60000
    assert shut.any() and not shut.all()
    assert (allotment.edge_rounds[shut] == 1).all() and (allotment.edge_rounds[~shut] > 1).any()
    waiting = make_method("camu:limit=waiting:threshold=0")
    simulation = Simulation(small("training.cloud_rounds=1"), waiting, dry_run=True)
    list(simulation.rounds())
    most = simulate(small("training.cloud_rounds=1"), "camu_ungated", dry_run=True).measures[-1]["rounds_max"]
    assert simulation.federation.regrouping.allotment.edge_rounds.max() <= most


def test_clusters_stay_in_their_region():
    for seed in range(3):
        place = simulate(small("training.cloud_rounds=1"), "camu_single", seed=seed, dry_run=True).places[0]
        right = place.position_m[:, 0] > 5
        assert 5 <= place.topology.n_aggregators <= 16
        assert all(len(set(right[members])) == 1 for members in place.topology.cover)


@pytest.mark.parametrize("name", [n for n in SCHEMES if n not in ("camu", "camu_updates_only")])
def test_schemes_without_powers_need_no_radio(name):
    cells = scenario("cells-overlap", ["training.cloud_rounds=1"])
    direct = "fleet.device_cloud={via: direct}"
    assert simulate(scenario(cells, [direct]), name, dry_run=True).measures[-1]["time_s"] > 0


def test_powers_need_a_radio_link():
    with pytest.raises(ValueError, match=r"set fleet\.device_cloud"):
        simulate(scenario("cells-overlap", ["training.cloud_rounds=1"]), "camu", dry_run=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("camu:solver=magic", "solver must be one of"),
        ("camu:limit=none", "limit must be one of"),
        ("camu:power_factor=0", "power_factor must be"),
        ("camu_gated:threshold=-1", "threshold must be"),
        ("camu_gated:cap=-1", "cap must be"),
    ],
)
def test_options_are_checked(text, message):
    with pytest.raises(ValueError, match=message):
        make_method(text)


def test_topologies_keep_their_own_notes():
    noted = Topology(cover=np.ones((1, 3), bool), kind="head", host=np.zeros(1, int), notes={"theta": 2.0})
    method = one_cluster(Allotment(notes={"gap": 1.0})).with_(group=lambda view, rng: noted)
    _, federation = run(method, snapshot([1, 1, 2], np.ones((1, 3)), cloud_s=0.0))
    assert dict(federation.machines.topology.notes) == {"theta": 2.0, "gap": 1.0}


def some_devices(n=24):
    """Two groups of devices far from each other, with labels of three kinds and speeds of two."""
    rng = np.random.default_rng(5)
    position_m = rng.uniform(0, 20, (n, 2)) + np.where(np.arange(n) < n // 2, 0, 300)[:, None]
    counts = np.zeros((n, 6), int)
    counts[np.arange(n), np.arange(n) % 3] = counts[np.arange(n), np.arange(n) % 3 + 2] = 50
    return Devices(
        position_m=position_m,
        server_m=np.array([150.0, 0.0]),
        power_w=np.full(n, 0.01),
        step_s=np.where(np.arange(n) % 3 == 0, 0.04, 0.01),
        n_samples=counts.sum(axis=1),
        label_counts=counts,
        capacity=np.full(n, n),
        candidate=np.ones(n, bool),
        battery_j=np.ones(n),
    )


def test_a_plan_has_powers_and_updates():
    devices, work = some_devices(), Work(model_bytes=100_000)
    plan = make_plan(devices, make_method("camu"), work, np.random.default_rng(0))
    equal = make_plan(devices, make_method("camu_ungated"), work, np.random.default_rng(0))
    hosts = plan.topology.host
    assert np.array_equal(plan.topology.cover, equal.topology.cover)
    assert (equal.power_w == 0.01).all() and len(set(equal.edge_rounds.tolist())) > 1
    assert len(np.unique(plan.power_w[hosts])) > 1 and (np.delete(plan.power_w, hosts) == 0.01).all()
    assert plan.power_w[hosts].sum() <= 2 * 0.01 * len(hosts) * (1 + 1e-9)
    up = [leg for leg in plan.ledger.table() if leg["hop"] == "device_cloud" and leg["direction"] == "up"]
    before = [leg for leg in equal.ledger.table() if leg["hop"] == "device_cloud" and leg["direction"] == "up"]
    assert up[0]["energy_j"] == pytest.approx(before[0]["energy_j"], rel=1e-6)  # computing is free in a plan
    ready_s = plan.edge_rounds * plan.edge_round_s
    down_s = 8e5 / devices.rates(devices.to_server_m[hosts], np.full(len(hosts), SERVER_W))
    assert plan.time_s == pytest.approx((down_s + ready_s).max() + up[0]["airtime_s"], rel=1e-12)


def test_noise_needs_the_snr_of_a_radio_link():
    for link in ("{via: direct, noisy: true}", "{noisy: true}"):
        with pytest.raises(ValueError, match="noisy needs via: direct and up of kind radio"):
            scenario("two-regions", [f"fleet.device_cloud={link}"])


def test_the_base_station_hears_with_all_its_antennas():
    one, many = (
        hop(UPLINK.model_copy(update={"antennas": n}), np.array([50.0]), np.random.default_rng(0)) for n in (1, 15)
    )
    assert many.snr_per_w / one.snr_per_w == pytest.approx([15.0])
    assert 0.5 * many.snr_per_w[0] == pytest.approx(1075.9881482, rel=1e-8)
    assert many.rate_bit_s[0] == pytest.approx(10.0727867e6, rel=1e-8)
    assert np.array_equal(many.sent_at(np.array([0.5])).rate_bit_s, many.rate_bit_s)


def test_fading_keeps_the_mean_gain_and_evens_out_over_antennas():
    plain, one, many = (
        hop(UPLINK.model_copy(update=changes), np.full(20_000, 50.0), np.random.default_rng(1))
        for changes in ({}, {"antennas": 1, "fading": "rayleigh"}, {"fading": "rayleigh"})
    )
    fade, of_many = 15 * one.snr_per_w / plain.snr_per_w, many.snr_per_w / plain.snr_per_w
    assert fade.mean() == pytest.approx(1, abs=0.02) and fade.var() == pytest.approx(1, abs=0.05)  # exponential
    assert np.mean(fade > 1) == pytest.approx(np.exp(-1), abs=0.01)
    assert of_many.mean() == pytest.approx(1, abs=0.01) and of_many.var() == pytest.approx(1 / 15, rel=0.05)
    assert np.array_equal(many.sent_at(np.full(20_000, 0.5)).rate_bit_s, many.rate_bit_s)


def test_faded_links_between_devices_are_the_same_both_ways_and_the_same_in_every_round():
    fade = {"kind": "radio", "fading": "rayleigh"}
    fleet = Fleet.from_settings(FleetSettings(n_devices=6, device_device=fade), seed=3)
    rate = fleet.snapshot(0).d2d.rate_bit_s
    assert np.array_equal(rate, rate.T) and np.isinf(np.diag(rate)).all()
    assert np.array_equal(fleet.snapshot(5).d2d.rate_bit_s, rate)
    plain = Fleet.from_settings(FleetSettings(n_devices=6, device_device={"kind": "radio"}), seed=3)
    off = ~np.eye(6, dtype=bool)
    assert (plain.snapshot(0).d2d.rate_bit_s[off] != rate[off]).all()


def test_noise_is_drawn_by_seed_head_and_round():
    place = replace(radio_place([50, 50, 66], [1e9] * 3), cloud_noisy=True)
    method = two_clusters(rounds(1, 1))
    found, federation = run(method, place, 2, seed=7)
    std = federation.scenes.now.noise_std
    assert std == pytest.approx([0.0304857059, 1 / np.sqrt(0.5 * 757.6689713)], rel=1e-8)
    total = 0.0
    for cloud_round, (_, value) in enumerate(found):
        heads = federation.machines.topology.host.tolist()
        z = [stream(7, "uplink noise", head, cloud_round, 0).standard_normal(1)[0] for head in heads]
        total += (2 * (2 + std[0] * z[0]) + (10 + std[1] * z[1])) / 3
        assert value == pytest.approx(total, abs=1e-5)


@pytest.mark.slow
def test_a_learner_may_choose_powers_and_updates(monkeypatch):
    brief = partial(learn_allocation, settings=PpoSettings(n_episodes=4, episode=16))
    monkeypatch.setattr("fedloom.methods.camu_powers.learn_allocation", brief)
    learnt, exact = (
        simulate(small("training.cloud_rounds=1"), f"camu:solver={s}", dry_run=True).measures[-1]
        for s in ("ppo", "direct")
    )
    assert learnt["gap"] >= exact["gap"] * (1 - 1e-9)
    assert learnt["energy_j"] <= exact["budget_j"] * (1 + 1e-6)


@pytest.mark.parametrize("options", [":reading=literal", ":bound=corrected", ":reading=literal:solver=updates"])
def test_other_readings_of_the_problem_give_allotments_too(options):
    scene = scenario("two-regions", ["training.cloud_rounds=1", "task.model={kind: softmax}"])
    result = simulate(scene, f"camu{options}", seed=1, dry_run=True)
    plain = simulate(scene, "camu", seed=1, dry_run=True)
    power, own = (r.places[0].topology.notes["head_power_w"] for r in (result, plain))
    assert (power > 0).all()
    assert np.allclose(power, own) == (options == ":bound=corrected")  # for ever, the factor changes no optimum
    if "updates" in options:
        assert power == pytest.approx(0.5)


def test_the_wait_may_count_the_upload():
    """Over a narrow band uploads take longer than updates, so near clusters have time for many more."""
    narrow = ["training.cloud_rounds=1", "task.model={kind: softmax}", "fleet.device_cloud.up.bandwidth_hz=1e4"]
    with_it, without = (
        simulate(scenario("two-regions", narrow), f"camu_ungated{option}", seed=1, dry_run=True).measures[-1]
        for option in (":upload_time=true", "")
    )
    assert with_it["rounds_mean"] > 1.5 * without["rounds_mean"] and with_it["rounds_max"] == 10
    assert Need.LINKS in make_method("camu_ungated:upload_time=true").needs
