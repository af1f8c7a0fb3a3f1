"""docs/hostile_study.md from the results of tools/hostile_study.py."""

MEAN, NOBODY = "plain mean", "nobody"


def page(runs):
    return ""
