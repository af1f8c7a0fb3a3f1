"""Where flwr cannot be imported the tests of the adapter are left out, and say so."""

import importlib.util

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header():
    return None if importlib.util.find_spec("flwr") else "tests/flower is left out: flwr is not installed"
