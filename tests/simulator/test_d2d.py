"""Clusters around devices: LTC and the methods it is compared with, on a small mesh."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.record.folder import load_checkpoint, record
from fedloom.simulator import Simulation

D2D = ("ltc", "fedmds", "fedmds_plus", "dcliques", "random_clusters")


@pytest.fixture
def mesh(small):
    """Ten devices on a mesh whose links and speeds change in every cloud round."""
    small["fleet"] = {
        "n_devices": 10,
        "device_device": {"kind": "drawn", "low": 1, "high": 5},
        "head_broadcast": "free",
        "device_edge": {"up": {"kind": "free"}, "down": {"kind": "free"}},
        "compute": {"law": {"kind": "uniform", "low": 1, "high": 3, "integer": True}, "unit": "steps-per-second"},
        "redraw": {"links": "cloud-round", "compute": "cloud-round"},
    }
    small["model_bits"] = 15
    small["task"]["partition"] = {"kind": "sizes", "relative_std": 0.3, "classes_per_client": 2}
    small["training"] = {"batch_size": 8, "local_epochs": 1, "cloud_rounds": 4, "lr": 0.1}
    return small


@pytest.mark.parametrize("name", [*D2D, "ltc:feature=skew", "ltc:feature=prediction", "ltc:start=complementary"])
def test_every_method_learns_and_its_clusters_are_partitions_around_members(mesh, name):
    result = fl.simulate(fl.scenario(mesh), name, n_workers=1)
    assert result.measures[-1]["accuracy"] > result.measures[0]["accuracy"]
    assert len(result.places) == 4  # anew in every cloud round
    for place in result.places:
        assert (place.topology.cover.sum(axis=0) == 1).all() and place.topology.kind == "head"
        assert all(place.topology.cover[n, head] for n, head in enumerate(place.topology.host))
    times = np.diff([m["time_s"] for m in result.measures])
    if name in ("random_clusters", "dcliques", "ltc:feature=skew"):
        assert times == pytest.approx(
            [120.0] * 4
        )  # label counts take no computing, and links to the cloud are free here
    else:
        assert (times > 120).all()  # features take their time on top of the box
    rounds = [m["rounds_mean"] for m in result.measures[1:]]
    assert min(rounds) >= 1


def test_times_may_be_fixed(mesh):
    result = fl.simulate(fl.scenario(mesh), "ltc:box_s=60:feature_s=40", n_workers=1, dry_run=True)
    assert [m["time_s"] for m in result.measures] == pytest.approx([0, 100, 200, 300, 400])


def test_with_one_round_and_progress_discarded_clusters_do_not_matter(mesh):
    mesh["training"]["local_epochs"] = 1
    # a box so short that exactly one round fits: all links alike, all speeds alike, nearly equal sizes
    mesh["fleet"] |= {"device_device": {"kind": "drawn", "low": 3, "high": 3}}
    mesh["fleet"]["compute"] = {"law": {"kind": "fixed", "value": 1.0}, "unit": "steps-per-second"}
    mesh["task"]["partition"] = {"kind": "iid"}
    one_round = "box_s=10"  # three steps of a second and five for the link: 8 s
    rows = [
        fl.simulate(fl.scenario(mesh), m, n_workers=1).row
        for m in (f"random_clusters:{one_round}", f"random_clusters:{one_round}:n_clusters=5", "fedavg")
    ]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-5, atol=1e-7)
    mesh["training"] |= {"edge_rounds": 1}
    flat = fl.simulate(fl.scenario(mesh), "fedavg", n_workers=1).row
    np.testing.assert_allclose(rows[0], flat, rtol=1e-5, atol=1e-7)


def test_an_interrupted_run_goes_on_with_the_same_clusters(mesh, tmp_path):
    def simulation():
        return Simulation(fl.scenario(mesh), fl.make_method("ltc"), 3, n_workers=1)

    record(simulation(), "ltc", tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(done, measures):
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        record(simulation(), "ltc", tmp_path / "a", on_round=stop)
    decisions = load_checkpoint(tmp_path / "a").decisions
    assert sorted(decisions) == [0, 1] and decisions[0].asked == (("update", None),)
    record(simulation(), "ltc", tmp_path / "a", resume=True)
    for file in ("metrics.parquet", "topology.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_links_that_are_down_are_planned_around(mesh):
    mesh["fleet"]["device_device"] = {"kind": "drawn", "low": 0, "high": 2}
    result = fl.simulate(fl.scenario(mesh), "ltc", n_workers=1)
    assert np.isfinite(result.measures[-1]["accuracy"])
    blind = fl.simulate(fl.scenario(mesh), "dcliques", n_workers=1)
    assert blind.measures[-1]["rounds_mean"] < result.measures[-1]["rounds_mean"]


def test_devices_with_false_reports_are_left_out(mesh):
    honest = fl.simulate(fl.scenario(mesh), "ltc", n_workers=1)
    assert honest.places[0].topology.cover.any(axis=0).all()
    mesh["fleet"]["false_reports"] = {"devices": [4], "factor": 3.0}
    result = fl.simulate(fl.scenario(mesh), "ltc", n_workers=1)
    assert [np.flatnonzero(~p.topology.cover.any(axis=0)).tolist() for p in result.places] == [[4]] * 4
    with pytest.raises(ValueError, match="must be below n_devices, 10, got 12"):
        fl.scenario(mesh, ["fleet.false_reports.devices=[12]"])


def test_what_bounds_are_made_of_adds_up(mesh):
    """With whole batches there is no noise, and what is between clusters and inside them is all that gradients differ by."""
    mesh["evaluation"] = {"theory": True}
    mesh["training"] |= {"batch_size": 10_000, "momentum": 0.0}
    for measures in fl.simulate(fl.scenario(mesh), "ltc", n_workers=1).measures[1:]:
        apart = measures["mismatch2_cluster"] + measures["mismatch2_client"]
        assert measures["noise2"] < 1e-5 * measures["gradient2"] and measures["smoothness"] > 0
        assert measures["gradient2"] == pytest.approx(measures["gradient_norm"] ** 2 + apart, rel=1e-3)
        assert measures["mismatch_cluster_max"] ** 2 >= measures["mismatch2_cluster"]


def test_theory_is_logged_on_request(mesh):
    mesh["evaluation"] = {"theory": True}
    result = fl.simulate(fl.scenario(mesh), "ltc", n_workers=1)
    first, *rest = result.measures
    assert "step_mass" not in first
    assert all(m["step_mass"] > 0 and m["mismatch_cluster"] > 0 and m["mismatch_client"] > 0 for m in rest)
    assert rest[-1]["train_loss"] < first["train_loss"]
    flat = fl.simulate(fl.scenario(mesh), "fedavg", n_workers=1).measures[-1]
    assert flat["mismatch_cluster"] == pytest.approx(0.0, abs=1e-6)  # one cluster of all
    with pytest.raises(ValueError, match="needs every: 1"):
        fl.scenario(mesh, ["evaluation.every=2"])


def test_theory_is_of_those_who_take_part(mesh):
    mesh["evaluation"] = {"theory": True}
    mesh["fleet"]["false_reports"] = {"devices": [4], "factor": 3.0}
    simulation = Simulation(fl.scenario(mesh), fl.make_method("ltc"), 0, n_workers=1)
    start = simulation.federation.model.row.copy()
    rounds = simulation.rounds()
    next(rounds)
    measures = next(rounds)
    cover = simulation.places[0].topology.cover
    inside = np.delete(np.arange(10), 4)
    assert not cover[:, 4].any() and (cover[:, inside].sum(axis=0) == 1).all()
    n = simulation.world.n_samples
    gradients = simulation.engine.gradient(start[None], [(0, k) for k in inside.tolist()]).astype(np.float64)
    whole = n[inside] @ gradients / n[inside].sum()
    means = [n[inside[row]] @ gradients[row] / n[inside[row]].sum() for row in cover[:, inside]]
    assert measures["mismatch_cluster"] == pytest.approx(
        np.mean([np.linalg.norm(mean - whole) for mean in means]), rel=1e-5
    )
    assert measures["step_mass"] > 0
    rounds.close()


def test_options_are_checked():
    for text, message in [
        ("ltc:feature=smell", "feature must be"),
        ("ltc:start=warm", "start must be"),
        ("ltc:box_s=-1", "box_s"),
        ("fedmds:feature_s=-1", "feature_s"),
    ]:
        with pytest.raises(ValueError, match=message):
            fl.make_method(text)


def test_a_feature_that_the_model_does_not_have_is_explained(mesh):
    with pytest.raises(ValueError, match="the model has no convolutions"):
        fl.simulate(fl.scenario(mesh), "ltc:feature=crop", n_workers=1)
