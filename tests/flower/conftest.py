"""Run by `make test-flower` in an environment of Flower's own, and left out of all others."""

import importlib.util

THERE = importlib.util.find_spec("flwr") is not None
collect_ignore = ["app"]  # which Flower runs
collect_ignore_glob = [] if THERE else ["*.py"]


def pytest_report_header():
    return None if THERE else "tests/flower runs in an environment of its own: make test-flower"
