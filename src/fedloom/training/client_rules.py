"""A client rule with state by its name, with options as text: "scaffold", "ditto:pull=0.5" (fedloom.gate.options)."""

from collections.abc import Callable

from fedloom.gate import options
from fedloom.training.ditto import Ditto
from fedloom.training.scaffold import Scaffold
from fedloom.training.state import ClientRule

CLIENT_RULES: dict[str, Callable[..., ClientRule]] = {"scaffold": Scaffold, "ditto": Ditto}


def client_rule(text: str) -> ClientRule:
    """A client rule by name, with options after colons.

    >>> client_rule("ditto:pull=0.5"), client_rule("scaffold")
    (Ditto(pull=0.5), Scaffold(correction=1.0))
    """
    return options.make(text, CLIENT_RULES, "client rule")
