"""The base of everything that can stand in a scenario file: frozen, and an unknown key is an error."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Keyword-only, immutable, strict about names; numbers must be finite unless a field says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
