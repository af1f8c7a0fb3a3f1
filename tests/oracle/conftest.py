"""Run by `make test-oracle` in an environment that has Sionna, and left out of all others."""

import importlib.util

THERE = importlib.util.find_spec("sionna") is not None
collect_ignore_glob = [] if THERE else ["*.py"]


def pytest_report_header():
    return None if THERE else "tests/oracle runs in an environment of its own: make test-oracle"
