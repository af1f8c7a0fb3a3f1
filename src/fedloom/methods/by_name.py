"""A method by its name, with options as text: "ltc:solution=1.2:z=inf" (fedloom.gate.options)."""

from fedloom.gate import options
from fedloom.methods import METHODS, Method


def make_method(text: str) -> Method:
    """A method by name, with options after colons: "fedprox:mu=0.1:flat=true"."""
    return options.make(text, METHODS, "method")
