"""What masks cost: by hand, on clock and ledger, with drop-outs; and runs without the option are what they were."""

import math

import numpy as np
import pytest

from fedloom.privacy.secure_aggregation import Pairwise
from fedloom.simulator import Simulation, make_method, scenario
from small import for_method

RATE = {"up": {"kind": "rate", "bit_s": 1e5, "power_w": 0.5}, "down": {"kind": "rate", "bit_s": 1e6}}


def ran(name, secure=None, fleet=None, method=None, **training):
    made, text = for_method(name, cloud_rounds=1, edge_rounds=1, **training)
    made["fleet"]["device_edge"] = RATE
    made["fleet"] |= fleet or {}
    if secure is not None:
        made["secure_aggregation"] = secure
    run = Simulation(scenario(made), method or make_method(text), 0, n_workers=1)
    for _ in run.rounds():
        pass
    return run


def test_by_hand_two_cells_of_three():
    """m = 3, V = 108. Up 64, 2 (64 + 28) = 184, ceil(108 * 2 / 8) = 27 and 3 * 32 = 96: 371 bytes of each client. Down 128, 184
    and 1: 313. Waits: 8 (64 + 184 + 27) bits at 1e5 bit/s up, 8 * 313 at 1e6 down; masks: 3 * 4 * 108 bytes at 1e4 byte/s."""
    secure = {"expand_bytes_s": 1e4}
    plain, masked = ran("hierfedavg"), ran("hierfedavg", secure)
    assert plain.n_params == 108
    assert (plain.federation.machines.topology.cover.sum(axis=1) == 3).all()
    ledger, before = masked.result().ledger, plain.result().ledger
    np.testing.assert_array_equal(ledger.bytes - before.bytes, [[6 * 371, 6 * 313], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose((ledger.airtime_s - before.airtime_s)[0], [6 * 8 * 371 / 1e5, 6 * 8 * 313 / 1e6])
    np.testing.assert_allclose((ledger.energy_j - before.energy_j)[0, 0], 0.5 * 6 * 8 * 371 / 1e5)
    client_s = 3 * 4 * 108 / 1e4
    assert ledger.compute_s - before.compute_s == pytest.approx(6 * client_s)
    took_s = masked.measures[-1]["time_s"] - plain.measures[-1]["time_s"]
    assert took_s == pytest.approx(8 * (64 + 184 + 27) / 1e5 + 8 * 313 / 1e6 + client_s)
    found = masked.measures[-1]
    assert (found["mask_rounds"], found["mask_dropouts"], found["mask_closed"]) == (8, 0, 0)
    assert found["mask_bytes"] == ledger.total_bytes - before.total_bytes
    assert found["mask_j"] == pytest.approx(ledger.total_j - before.total_j)
    assert found["mask_server_s"] == pytest.approx(2 * 3 * 4 * 108 / 1e4)  # own masks of three clients, in two cells
    np.testing.assert_array_equal(masked.result().row, plain.result().row)
    for name in ("models_unicast", "models_once", "updates"):
        assert masked.measures[-1][name] == plain.measures[-1][name]


def test_drop_outs_cost_the_server_and_send_no_shares():
    """With all of them up, and then some that break off: those are left out of unmasking, and of each the masks with all others
    are taken out."""
    fleet = {"dropout": {"per_round": 0.5}}
    whole, masked = ran("fedavg", {}), ran("fedavg", {}, fleet, local_steps=3)
    found = masked.measures[-1]
    gone = found["lost"]
    assert 0 < gone < 6 and found["mask_dropouts"] == gone and found["mask_rounds"] == 4
    there, values = 6 - gone, 108
    assert found["mask_server_s"] == pytest.approx((there + gone * there) * 4 * values / 1e9)
    assert whole.measures[-1]["mask_bytes"] - found["mask_bytes"] == gone * 6 * 32
    assert found["mask_closed"] == (there < math.ceil(0.6 * 6))


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl", "ltc", "ddc", "csahfl"])
def test_what_is_booked_belongs_to_somebody_and_adds_up(name):
    run = ran(name, {})
    assert run.measures[-1]["mask_bytes"] > 0
    ledger = run.result().ledger
    ((_, costs),) = run.costs
    assert sum(costs["bytes"]) == ledger.total_bytes
    assert sum(costs["energy_j"]) == pytest.approx(ledger.total_j)
    assert (np.asarray(costs["bytes"]) >= 0).all()
    np.testing.assert_array_equal(run.result().row, ran(name).result().row)


def test_one_client_alone_has_nobody_to_hide_behind_and_pays_nothing():
    run = ran("fedavg", {}, clients_per_round=1, method=make_method("hierfedavg"))
    assert run.measures[-1]["mask_bytes"] == run.measures[-1]["mask_rounds"] == 0


def test_sizes_grow_with_the_cluster():
    secure = Pairwise()
    sizes = [sum(map(sum, secure.before(m, 10_000))) + secure.unmasking(m) for m in (2, 10, 100)]
    assert sizes == sorted(sizes)
    assert secure.opens(3, 5) and not secure.opens(2, 5) and secure.opens(60, 100)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "hhfl:merge_edge=coordinate_median",
            "hides every single update, and hhfl merges by a rule that looks at them",
        ),
        ("hhfl:up=qsgd:up.bits=8", "hhfl sends them coded"),
        ("feduc_r:n_groups=2", "feduc_r merges clients one by one"),
    ],
)
def test_what_masks_do_not_go_with_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        ran(text.split(":")[0], {}, method=make_method(text))


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="threshold must be above 0 and at most 1, got"):
        Pairwise(threshold=1.5)
    with pytest.raises(ValueError, match=r"secure_aggregation\.threshold"):
        ran("fedavg", {"threshold": 0})
