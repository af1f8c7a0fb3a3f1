"""What is said of a value from outside: one kind of error, and at most one short line of the value."""

import reprlib
from typing import Any

MOST_SHOWN = 60  # characters of a value in a message


class Refused(ValueError):
    """What came from outside cannot be used. The message says where, what was expected, what came, and what to do."""


def shown(value: Any, most: int = MOST_SHOWN) -> str:
    """A value for a message: its repr on one line, shortened to `most` characters, whatever its size or nesting.

    >>> shown("0.1"), shown([1, 2]), shown("a" * 1000)
    ("'0.1'", '[1, 2]', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaa'")
    """
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 3, most + 2, most + 2, most
    try:
        text = short.repr(value)
    except Exception:  # a whole number of thousands of digits, or an object whose repr fails
        text = f"<{type(value).__name__}>"
    return one_line(text, most + 3)


def one_line(text: str, most: int = 200) -> str:
    """Text from elsewhere (an error of a library, a name) on one line of at most `most` characters.

    >>> one_line("expected this\\n  in line 3"), one_line("abcdefgh", most=6)
    ('expected this in line 3', 'abc...')
    """
    line = " ".join(text[: 4 * most].split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= most else line[: most - 3] + "..."
