"""The base of everything that can stand in a scenario file: frozen, and nothing is taken for what it is not."""

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

# YAML has lists only, so one may stand for a tuple; of its items the first that is wrong is enough.
Row = Annotated[tuple[T, ...], Field(strict=False, fail_fast=True)]
Pair = Annotated[tuple[T, T], Field(strict=False, fail_fast=True)]
Triple = Annotated[tuple[T, T, T], Field(strict=False, fail_fast=True)]
FilePath = Annotated[Path, Field(strict=False)]


class Settings(BaseModel):
    """Keyword-only, immutable, strict about names and types: a number is a number, not "0.1" or true (a whole one may stand
    for any), and finite unless a field says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)
