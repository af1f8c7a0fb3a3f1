"""A method by its name, with options as text: "ltc:solution=1.2:z=inf" (fedloom.gate.options)."""

from dataclasses import fields

from fedloom.gate import options
from fedloom.methods import METHODS, Method, Waiting

OF_ALL = tuple(field.name for field in fields(Waiting))
"""Options that every method has beside its own."""


def make_method(text: str) -> Method:
    """A method by name, with options after colons: "fedprox:mu=0.1:flat=true". Those of fl.Waiting go with every method:
    "hhfl:quorum=0.5"."""
    name, *given = text.split(":")
    waiting = [option for option in given if option.partition("=")[0] in OF_ALL]
    own = [option for option in given if option not in waiting]
    method = options.make(":".join([name, *own]), METHODS, "method")
    if not waiting:
        return method
    return method.with_(waiting=options.make(":".join([name, *waiting]), {name: Waiting}, "method"))
