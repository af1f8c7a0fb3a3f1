"""Options of a method that are given as settings: --set method.up=float16 is :up=float16 behind its name."""

from collections.abc import Sequence

PREFIX = "method."


def with_settings(method: str, changes: Sequence[str]) -> tuple[str, list[str]]:
    """The method with what the changes say of it, and the other changes.

    >>> with_settings("hhfl:max_links=2", ["method.up=topk", "training.lr=0.1", "method.up.share=0.01"])
    ('hhfl:max_links=2:up=topk:up.share=0.01', ['training.lr=0.1'])
    """
    mine = [change.removeprefix(PREFIX) for change in changes if change.startswith(PREFIX)]
    return ":".join([method, *mine]), [change for change in changes if not change.startswith(PREFIX)]
