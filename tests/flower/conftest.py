"""Where flwr cannot be imported the tests of the adapter are left out, and say so."""

import importlib.util

THERE = importlib.util.find_spec("flwr") is not None
collect_ignore = ["app"]  # which Flower runs
collect_ignore_glob = [] if THERE else ["*.py"]


def pytest_report_header():
    return None if THERE else "tests/flower is left out: flwr is not installed"
