"""Joules of DDC's uploads: values by hand, and the simulator's ledger against the formula."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.bounds import ddc_energy, upload_j
from fedloom.radio import distances

POSITIONS = [[0.0, 0.0], [30.0, 40.0], [60.0, 0.0], [60.0, 80.0], [0.0, 80.0], [30.0, 0.0]]
SERVER = [30.0, 1000.0]
ASSIGN = np.array([3, 4, 4, 3, 4, 4])


def instance_a(**options):
    between = distances(POSITIONS, POSITIONS)
    to_server = distances(POSITIONS, [SERVER])[:, 0]
    members = np.flatnonzero(np.arange(6) != ASSIGN)
    settings = {"rounds": 4, "tau1": 1, "tau2": 2, "n_devices": 6} | options
    return ddc_energy(between[members, ASSIGN[members]], to_server[[3, 4]], **settings)


@pytest.mark.parametrize(
    ("distance_m", "bandwidth_hz", "millijoules"),
    [
        (1.0, 1e6, "0.062610"),
        (20.0, 1e6, "0.114714619"),
        (50.0, 1e6, "0.153885"),
        (100.0, 1e6, "0.20746355"),
        (900.0, 1e6, "4.108388"),
        (1000.0, 1e6, "5.76580053"),
        (1100.0, 1e6, "7.940729"),
        (1.0, 1e4, "5.2804"),
        (20.0, 1e4, "8.5592"),
        (50.0, 1e4, "10.5660"),
        (100.0, 1e4, "12.8439405"),
        (1000.0, 1e4, "44.8392961"),
    ],
)
def test_one_upload_has_the_published_constants(distance_m, bandwidth_hz, millijoules):
    decimals = len(millijoules.partition(".")[2])
    assert f"{1000 * upload_j(distance_m, bandwidth_hz=bandwidth_hz):.{decimals}f}" == millijoules


def test_below_a_metre_nothing_gets_cheaper():
    assert upload_j(0.0) == upload_j(1.0) > 0


def test_instance_a_as_printed():
    found = instance_a()
    assert found.members_j == pytest.approx(0.000761081897, rel=1e-8)
    assert found.heads_j == pytest.approx(0.008820644686, rel=1e-8)
    assert found.total_j == pytest.approx(0.020685616961, rel=1e-8)  # 4 members_j + 2 heads_j


def test_instance_a_with_a_shared_band():
    found = instance_a(reading="shared")
    assert found.members_j == pytest.approx(0.003736997339, rel=1e-8)
    assert found.heads_j == pytest.approx(0.014765725919, rel=1e-8)
    assert found.total_j == pytest.approx(0.044479441195, rel=1e-8)


def test_instance_a_with_members_once_per_global_step():
    found = instance_a(reading="per_global", rounds=200)
    assert found.total_j == pytest.approx(1.850272325839, rel=1e-8)


def test_fedavg_is_everybody_at_the_server():
    to_server = distances(POSITIONS, [SERVER])[:, 0]
    every, second = (ddc_energy([], to_server, rounds=4, tau1=p, tau2=p, n_devices=6) for p in (1, 2))
    assert every.total_j == pytest.approx(0.124724392135, rel=1e-8)
    assert second.total_j == pytest.approx(every.total_j / 2)
    assert every.members_j == 0.0


def test_rounds_that_end_between_uploads_do_not_count():
    odd = instance_a(rounds=5)
    assert odd.total_j == pytest.approx(5 * odd.members_j + 2 * odd.heads_j)
    assert instance_a(rounds=0).total_j == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reading": "guess"}, "reading must be one of literal, shared, per_global; got 'guess'"),
        ({"tau2": 0}, "tau2 must be a whole number of at least 1, got 0"),
        ({"n_devices": 5}, "4 members and 2 heads are more than n_devices, 5; leave the heads out of member_m"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        instance_a(**options)


RADIO = {"kind": "radio"}  # 10 mW, 1 MHz, -173 dBm/Hz, 128.1 + 37.6 log10(km), at least 1 m
FLEET = {
    "n_devices": 6,
    "placement": {"kind": "coordinates", "positions_m": POSITIONS},
    "server_m": SERVER,
    "device_device": RADIO,
    "head_broadcast": "free",
    "device_cloud": {"via": "direct", "up": RADIO, "down": {"kind": "free"}},
}


def books(method, small, **training):
    small |= {"fleet": FLEET, "model_bits": 224_000}
    small["training"] |= {"local_steps": 1, "edge_rounds": 2, "cloud_rounds": 2} | training
    return fl.simulate(fl.scenario(small), method, dry_run=True).ledger


def instance_a_clusters(view, rng):
    return fl.grouping.Topology.of_heads([np.array([0, 3]), np.array([1, 2, 4, 5])], np.array([3, 4]), 6)


def test_the_ledger_books_instance_a_to_the_joule(small):
    method = fl.make_method("ddc").with_(group=instance_a_clusters)
    ledger = books(method, small)  # two cloud rounds of two edge rounds: T = 4, tau = (1, 2)
    assert ledger.total_j == pytest.approx(0.020685616961, rel=1e-8)
    assert ledger.feature_j == 0.0


def test_the_ledger_books_fedavg_to_the_joule(small):
    assert books("fedavg", small).total_j == pytest.approx(0.124724392135, rel=1e-8)


def test_the_ledger_keeps_the_setup_apart(small):
    ledger = books("ddc:capacity=4:n_candidates=6", small)
    gradients = ddc_energy([], distances(POSITIONS, [SERVER])[:, 0], rounds=1, tau1=1, tau2=1, n_devices=6)
    assert ledger.feature_j == pytest.approx(gradients.total_j, rel=1e-12)  # one upload of a model's size each
    training = books("ddc:alpha=0:capacity=4:n_candidates=6", small)
    assert training.feature_j == 0.0
    assert 0 < ledger.total_j - ledger.feature_j < gradients.total_j
