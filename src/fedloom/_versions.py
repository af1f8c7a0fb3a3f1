"""Versions of installed packages."""

import re
from functools import cache
from importlib import metadata


@cache
def version_of(package: str) -> str:
    """Of an installed package, from its own line of the metadata: reading all of them takes milliseconds a package.

    PackageNotFoundError if it is not installed.
    """
    distribution = metadata.distribution(package)
    line = re.search(r"^Version:\s*(\S+)", distribution.read_text("METADATA") or "", re.MULTILINE)
    return line[1] if line else distribution.version
