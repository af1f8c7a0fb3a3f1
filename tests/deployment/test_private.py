"""Noise on real nodes: from the run's seed the simulator's bits, and by default from secrets that nobody else knows."""

import numpy as np
import pytest

from deployment.federation import simulated
from deployment.test_bits import deployed
from fedloom.deployment.secret import secret_of
from small import for_method

SEEDED = ":private.clip=0.5:private.noise=0.2:private.seeded=true"


@pytest.mark.parametrize(
    "text", [f"hhfl:private=client{SEEDED}", f"hierfedavg:private=edge{SEEDED}", f"ddc:private=client{SEEDED}"]
)
def test_with_noise_from_the_seed_the_model_is_the_simulators(text, tmp_path):
    scenario, _ = for_method(text, cloud_rounds=2)
    assert np.array_equal(deployed(scenario, text, tmp_path), simulated(scenario, text))


@pytest.mark.parametrize("level", ["client", "edge"])
def test_by_default_nobody_can_draw_the_noise_again(level, tmp_path):
    text = f"hierfedavg:private={level}:private.clip=0.5:private.noise=0.2"
    scenario, _ = for_method(text, cloud_rounds=1)
    found = deployed(scenario, text, tmp_path)
    assert np.isfinite(found).all() and not np.allclose(found, simulated(scenario, text), atol=1e-3)


def test_a_secret_stays_the_same_and_is_read_by_nobody_else(tmp_path):
    first = secret_of(tmp_path)
    assert secret_of(tmp_path) == first and secret_of(None) != secret_of(None)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ValueError, match="must hold 8 bytes, got 5; delete it"):
        secret_of(tmp_path)
