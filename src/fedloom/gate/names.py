"""Names that become folders: they cannot leave the folder they are put into, nor hide in it."""

import hashlib
import re

from fedloom.gate.words import Refused, shown

MOST_CHARACTERS = 100
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_FOLDER = re.compile(r"[A-Za-z0-9._,=+\[\]-]")


def name(text: str, what: str = "name") -> str:
    """A name as it is, if it is one; `what` it is the name of, for the message.

    >>> name("cells-overlap")
    'cells-overlap'
    >>> name("../elsewhere")
    Traceback (most recent call last):
    fedloom.gate.words.Refused: name must be letters, digits, dots, dashes and underscores, the first no dot, at most 100 of them; got '../elsewhere'
    """  # noqa: E501
    if not NAME.fullmatch(text) or len(text) > MOST_CHARACTERS:
        raise Refused(
            f"{what} must be letters, digits, dots, dashes and underscores, the first no dot, at most {MOST_CHARACTERS} of them; "
            f"got {shown(text)}"
        )
    return text


def name_of(text: str) -> str:
    """A name made of any text, such as that of a file: what a name cannot hold becomes a dash.

    >>> name_of("My cells (2)"), name_of("...")
    ('My-cells-2', 'unnamed')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:MOST_CHARACTERS] or "unnamed"


def folder_name(text: str) -> str:
    """The name of a folder for a text such as a method with its options. Different texts have different folders: colons become
    dashes, and where anything else had to be changed, or cut off, eight digits of a hash follow.

    >>> folder_name("ltc:z=inf"), folder_name("hhfl:disable_links=[[18,1]]"), folder_name("../x")
    ('ltc-z=inf', 'hhfl-disable_links=[[18,1]]', '-.-x-d6b96a97')
    """
    plain = text.replace(":", "-")
    safe = "".join(c if _FOLDER.fullmatch(c) else "-" for c in plain[:MOST_CHARACTERS])
    safe = re.sub(r"^\.", "-", safe)
    if safe == plain and safe:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:8]
    return f"{safe[: MOST_CHARACTERS - 9]}-{digest}"
