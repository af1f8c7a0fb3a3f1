"""Every value as it is: 32 bits each. What arrives is what was sent, to the bit.

n_bits(P) = 32 P
"""

from dataclasses import dataclass

from fedloom.coding.interface import Row, check_count, checked, floats_from, floats_to, opened


@dataclass(frozen=True)
class Float32:
    """Rows as they are."""

    def encode(self, row: Row, key: int) -> bytes:
        """4 bytes a value."""
        return floats_to(checked(row))

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values."""
        return floats_from("a value", opened(self, data, n_values))

    def coded(self, row: Row, key: int) -> Row:
        """The row itself."""
        return checked(row)

    def n_bits(self, n_values: int) -> int:
        """32 a value."""
        check_count(n_values)
        return 32 * n_values
