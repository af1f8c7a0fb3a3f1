"""Flower's devices keep no states of client rules."""

from fedloom.methods import Method


def check_stateless(method: Method) -> None:
    """Refuse a method whose clients remember something."""
    if method.local.rule is not None:
        states = ", ".join(state.name for state in method.local.rule.states)
        raise ValueError(
            f"{method.name} has a client rule with state ({type(method.local.rule).__name__}: {states}), and clients of Flower "
            "keep none; leave rule out, or deploy it with `fedloom deploy`"
        )
