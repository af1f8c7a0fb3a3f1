"""TR 38.901 as Sionna has it: path loss, probability of a line of sight, shadowing, walls.

Sionna takes 299,792,458 m/s for the speed of light in breakpoint distances, the specification and we 3e8 m/s: beyond them
that makes 40 log10(1.0007) = 0.012 dB for rma, and less for the others.
"""

import numpy as np
import pytest
import torch
from sionna.phy.channel.tr38901 import InHScenario, PanelArray, RMaScenario, UMaScenario, UMiScenario
from sionna.phy.channel.tr38901.lsp import LSPGenerator

from fedloom.radio import penetration, tr38901

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]

LIGHT_DB = 0.0125
VERSION = "16.1"
CARRIERS_HZ = (0.7e9, 3.5e9, 28e9)
SCENARIOS = ("uma", "umi", "rma", "inh-open", "inh-mixed")


def theirs(scenario, carrier_hz, penetration="low"):
    antenna = {"num_rows_per_panel": 1, "num_cols_per_panel": 1, "polarization": "single", "polarization_type": "V"}
    arrays = [PanelArray(**antenna, antenna_pattern="omni", carrier_frequency=carrier_hz) for _ in range(2)]
    if scenario.startswith("inh"):
        return InHScenario(carrier_hz, scenario[4:], *arrays, "uplink", precision="double", spec_version=VERSION)
    if scenario == "rma":
        return RMaScenario(carrier_hz, *arrays, "uplink", precision="double", spec_version=VERSION)
    made = UMaScenario if scenario == "uma" else UMiScenario
    return made(carrier_hz, penetration, *arrays, "uplink", precision="double", spec_version=VERSION)


def ground_of(scenario):
    """From what the tables begin with to what they end with."""
    return np.geomspace(1.0, 150.0, 60) if scenario.startswith("inh") else np.geomspace(10.0, 5000.0, 60)


def place(scenario, model, ground_m, site_m, device_m, sees, indoor=None):
    """Devices `ground_m` from a site, in Sionna's model."""
    k, zero = len(ground_m), torch.zeros(1, len(ground_m), 3, dtype=torch.float64)
    devices = torch.tensor(np.stack([ground_m, 0 * ground_m, 0 * ground_m + device_m], axis=1)[None])
    site = torch.tensor([[[0.0, 0.0, site_m]]], dtype=torch.float64)
    inside = torch.full((1, k), scenario.startswith("inh") if indoor is None else indoor)
    model.set_topology(devices, site, zero, zero[:, :1], zero, inside, los=sees)
    return model


def ours(scenario, ground_m, site_m, device_m, carrier_hz):
    return tr38901.Ways(
        scenario=scenario,
        ground_m=ground_m,
        site_height_m=site_m,
        device_height_m=device_m,
        carrier_hz=carrier_hz,
    )


@pytest.mark.parametrize("carrier_hz", CARRIERS_HZ)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("sees", [True, False])
def test_path_loss_is_sionnas(scenario, carrier_hz, sees):
    model, ground = theirs(scenario, carrier_hz), ground_of(scenario)
    usual = tr38901.SCENARIOS[scenario]
    higher = {"uma": 12.0, "umi": 20.0, "rma": 8.0}.get(scenario, 1.5)  # of uma the rest is drawn above 13 m
    for device_m in (usual.device_height_m, higher):
        place(scenario, model, ground, usual.site_height_m, device_m, sees)
        expected = model.basic_pathloss.numpy()[0, 0]
        ways = ours(scenario, ground, usual.site_height_m, device_m, carrier_hz)
        found = tr38901.loss_db(ways, sees)
        np.testing.assert_allclose(found, expected, rtol=0, atol=LIGHT_DB)
        near = ground < 0.99 * ways.breakpoint_m
        np.testing.assert_allclose(found[near], expected[near], rtol=0, atol=1e-9)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("device_m", [1.5, 12.0, 13.0, 20.0])
def test_the_probability_of_a_line_of_sight_is_sionnas(scenario, device_m):
    ground = ground_of(scenario)
    model = place(scenario, theirs(scenario, 3.5e9), ground, 25.0, device_m, True)
    found = tr38901.line_of_sight_probability(scenario, ground, device_m)
    np.testing.assert_allclose(found, model.los_probability.numpy()[0, 0], rtol=1e-12)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("state", ["los", "nlos", "indoor"])
def test_shadowing_and_its_correlation_are_sionnas(scenario, state):
    if state == "indoor" and scenario.startswith("inh"):
        assert tr38901.SCENARIOS[scenario].inside_m == 0.0  # no walls there
        return
    usual, ground = tr38901.SCENARIOS[scenario], ground_of(scenario)
    model = theirs(scenario, 3.5e9)
    indoor = state == "indoor" or scenario.startswith("inh")
    place(scenario, model, ground, usual.site_height_m, usual.device_height_m, state == "los", indoor)
    ways = ours(scenario, ground, usual.site_height_m, usual.device_height_m, 3.5e9)
    std = tr38901.shadow_std_db(ways, state == "los", state == "indoor")
    expected = 10 * model.lsp_log_std[0, 0, :, 3].numpy()
    away = np.abs(ground / ways.breakpoint_m - 1) > 0.001  # where the speeds of light do not matter
    np.testing.assert_allclose(np.broadcast_to(std, ground.shape)[away], expected[away], rtol=1e-9)
    assert (model.get_param("corrDistSF") == getattr(usual, f"{state}_correlation_m")).all()


@pytest.mark.parametrize("carrier_hz", [7e9, 28e9, 60e9])  # below 6 GHz Sionna takes a fixed 20 dB
@pytest.mark.parametrize("kind", ["low", "high"])
def test_walls_are_sionnas(kind, carrier_hz, monkeypatch):
    model = theirs("umi", carrier_hz, kind)
    ground = np.array([100.0, 200.0])
    place("umi", model, ground, 10.0, 1.5, True, indoor=True)
    loss = LSPGenerator(model)
    monkeypatch.setattr(loss, "_sample_o2i_penetration_random", lambda std: torch.zeros(1, 1, 2, dtype=torch.float64))
    expected = getattr(loss, f"_o2i_{kind}_loss")().numpy()[0, 0]
    inside = model.distance_2d_in.numpy()[0, 0]
    assert (inside >= 0).all() and (inside <= tr38901.SCENARIOS["umi"].inside_m).all()
    np.testing.assert_allclose(penetration.penetration_db(kind, carrier_hz, inside, 0.0), expected, atol=1e-9)
