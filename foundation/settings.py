"""Settings and records that refuse what they do not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A model without unknown fields, which is not changed once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True)
