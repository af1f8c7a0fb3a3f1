"""Examples in docstrings of what needs Flower are run where Flower is; see Makefile."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("flwr") else ["src/fedloom/flower/*"]
