from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen pydantic model that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
