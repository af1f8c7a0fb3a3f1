"""Real federations send models as they are."""

from fedloom.methods import Method


def check_uncoded(method: Method) -> None:
    """Refuse a method whose models are coded on their way."""
    if not method.coding.plain:
        raise ValueError(
            f"{method.name} codes what is sent (up={method.coding.up}, down={method.coding.down}), and that is simulated only: "
            "real federations send models as they are; leave up and down out"
        )
