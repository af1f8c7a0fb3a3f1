"""States of a client rule in real federations: what clients keep is on their disks, what is shared travels with models."""

from fedloom.grouping import Need
from fedloom.methods import Method


def check_states(method: Method) -> None:
    """Refuse a client rule with state where clients train for a feature, too."""
    if method.local.rule is not None and Need.UPDATES in method.needs:
        raise ValueError(
            f"{method.name} lets clients train for a grouping, and has a client rule with state "
            f"({type(method.local.rule).__name__}): real devices keep no states of such training; leave rule out, or group by "
            "something else than updates"
        )
