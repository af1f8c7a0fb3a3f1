"""Flower fleets send models as they are: what travels is an ArrayRecord of the user's own ClientApp."""

from fedloom.methods import Method


def check_uncoded(method: Method) -> None:
    """Refuse a method whose models are coded on their way."""
    if not method.coding.plain:
        raise ValueError(
            f"{method.name} codes what is sent (up={method.coding.up}, down={method.coding.down}), and a ClientApp of Flower "
            "gets and answers with the arrays of a model as they are; leave up and down out, or use `fedloom deploy`"
        )
