"""Settings shared by all tests."""

import copy

import pytest
from hypothesis import HealthCheck, settings

from small import SMALL

settings.register_profile("fedloom", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("fedloom")


@pytest.fixture
def small():
    """A scenario as a mapping that runs in a fraction of a second; each test gets its own copy."""
    return copy.deepcopy(SMALL)
